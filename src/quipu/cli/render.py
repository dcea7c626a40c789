"""Operations as commands: options are the request's fields, the table is the answer's columns."""

import asyncio
import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.shell_completion import CompletionItem

from quipu.cli import output, streams
from quipu.cli.errors import HELD
from quipu.cli.options import RenderedCommand
from quipu.cli.session import Session
from quipu.errors import Fault, InvalidError
from quipu.methods import in_reading_order, is_moment
from quipu.model.value import strict_json
from quipu.operation import AnyOperation
from quipu.schemas import Field, fields

if TYPE_CHECKING:
    from quipu.command import HandCommand, Use
    from quipu.command import Session as HandSession
    from quipu.opening import Runner
    from quipu.operation import AnyOperation, Response

#: What is longer is a text, which may come from another program.
_LONGEST_NAME = 2048

# -- operations ---------------------------------------------------------------------------------------------------


def command(operation: "AnyOperation", name: str) -> RenderedCommand:
    """The command of an operation."""
    assert operation.cli is not None
    arguments, hidden = operation.cli.arguments, operation.cli.hidden
    found = in_reading_order(operation.request)
    by_name = {item.name: item for item in found}
    params: list[click.Parameter] = [_argument(by_name[item]) for item in arguments]
    params += [_option(item) for item in found if item.name not in (*arguments, operation.cli.hidden)]
    if "hard_delete" in by_name:
        params.append(click.Option(["--yes", "-y", "is_sure"], is_flag=True, help="Do not ask."))
    if operation.is_stream:
        params.append(
            click.Option(["--count", "-n", "count"], type=click.IntRange(min=1), help="End after so many.")
        )

    def run(is_sure: bool = False, count: int | None = None, **given: Any) -> int:
        session = Session.of(click.get_current_context())
        session.operation = operation
        if hidden is not None:
            given[hidden] = hidden_text(by_name[hidden].description)
        request = request_fields(operation, given)
        parsed = operation.request.parse(request)  # refused before any file is opened or created
        if request.get("hard_delete") and not is_sure and not getattr(parsed, "dry_run", False):
            session.agree("This erases for good: text, vectors and copies. Go on?")
        runner = session.memory(use_of(operation, request))
        with session.logging():
            if operation.is_stream:
                asyncio.run(_follow(session, runner, operation, request, count))
                return 0
            response = asyncio.run(_answer(runner, operation, request))
        show(session, operation, response, is_trial=bool(request.get("dry_run")))
        return HELD if response.is_held else 0

    return RenderedCommand(
        name,
        params=params,
        examples=operation.cli.examples or (_example(operation),),
        callback=run,
        help=_help(operation.description),
        short_help=operation.summary,
    )


def _example(operation: "AnyOperation") -> str:
    """How it is typed, where nobody wrote an example: with its arguments and nothing else."""
    assert operation.cli is not None
    words = (operation.cli.name or operation.name.replace("_", " ")).split()
    return " ".join(("quipu", *words, *(name.upper() for name in operation.cli.arguments)))


def use_of(operation: "AnyOperation", request: Mapping[str, Any]) -> "Use":
    """What the operation does with a memory that is not there yet."""
    if operation.cli is not None and operation.cli.creates:
        return "tries" if request.get("dry_run") else "creates"
    return "reads" if operation.repeat == "safe" else "works"


async def _answer(runner: "Runner", operation: "AnyOperation", request: Mapping[str, Any]) -> "Response":
    try:
        return await runner.call(operation.name, request)
    finally:
        await runner.close()


async def _follow(
    session: Session,
    runner: "Runner",
    operation: "AnyOperation",
    request: Mapping[str, Any],
    count: int | None,
) -> None:
    """Show each answer as it comes, until nobody reads or so many were shown."""
    assert operation.cli is not None
    left = count
    try:
        async with aclosing(runner.stream(operation.name, request)) as items:
            async for item in items:
                body = item.to_dict()
                if session.is_json:
                    output.write_json(body, is_line=True)
                else:
                    columns = operation.cli.columns or tuple(body)
                    cells = (output.cell(name, body.get(name)) or "-" for name in columns)
                    streams.write("  ".join(cells) + "\n")
                streams.flush()
                streams.check_reader()
                left = None if left is None else left - 1
                if left == 0:
                    return
    finally:
        await runner.close()


def show(
    session: Session, operation: "AnyOperation", response: "Response", *, is_trial: bool = False
) -> None:
    """The answer, in JSON or for a person."""
    body = response.to_dict()
    if session.is_json:
        output.write_json(body)
        return
    assert operation.cli is not None
    columns = operation.cli.columns
    items = output.items_of(body, columns) if columns else None
    says = operation.cli.says
    if says and not (response.is_held or session.is_verbose or (is_trial and isinstance(says, str))):
        cells = {name: output.cell(name, value) for name, value in body.items()}
        said = says.format_map(cells) if isinstance(says, str) else says(body)
        output.console().print(said, soft_wrap=True, markup=False)
        body = {name: value for name, value in body.items() if name in ("next_cursor", "warnings", items)}
    rest = body
    if items is not None:
        rows: list[Mapping[str, Any]] = body[items]
        if rows:
            output.console().print(output.Table(columns, rows))
        else:
            output.console().print(f"No {items}.", style="dim")
        rest = {name: value for name, value in body.items() if name in ("next_cursor", "warnings")}
    cursor, warnings = rest.pop("next_cursor", None), rest.pop("warnings", ())
    if items is None and rest:
        defaults = {name: about.default for name, about in fields(operation.response).items()}
        output.console().print(output.facts(rest, defaults), soft_wrap=True)
    for warning in warnings:
        session.warn(str(warning))
    if cursor:
        session.note(f"There is more: repeat it with --cursor {cursor}")
    if response.is_held:
        session.note("Nothing is stored yet: a person decides. `quipu review list` shows what waits.")


def _help(text: str) -> str:
    """Click joins the lines of a paragraph; an empty one ends it."""
    return inspect.cleandoc(text).replace("`", "")


def _argument(about: Field) -> click.Parameter:
    """Never required for click: the model refuses what is missing, in the same words as on every other way in."""
    said = about.description
    if about.kind == "array":
        said += " `-` reads them from standard input, @FILE from a file, one on each line."
    elif about.schema.get("maxLength", 0) > _LONGEST_NAME:
        said += " `-` reads it from standard input."
    nargs = -1 if about.kind == "array" else 1
    return click.Argument([about.name], required=False, nargs=nargs, help=said)


def _option(about: Field) -> click.Parameter:
    """Everything but a flag is text here: the model reads and refuses it."""
    name = about.name.replace("_", "-")
    names = [
        f"--{name}",
        *([f"-{name}"] if len(name) == 1 else []),
        *(["--agent"] if about.name == "agent_id" else []),
        *(["--import"] if about.name == "import_id" else []),
        about.name,
    ]
    if about.kind == "boolean":
        if about.default is True or about.is_nullable:
            names[0] = f"--{name}/--no-{name}"
        return click.Option(names, is_flag=True, default=None, help=about.description)
    return click.Option(
        names,
        multiple=about.kind == "array",
        metavar=_metavar(about),
        help=_described(about),
        shell_complete=_completion(about),
    )


def _choices(about: Field) -> tuple[str, ...]:
    return about.choices or tuple(about.schema.get("items", {}).get("enum", ()))


def _metavar(about: Field) -> str:
    if _choices(about):
        return "WORD"
    if is_moment(about):
        return "TIME"
    if "object" in (about.kind, about.schema.get("items", {"type": "string"}).get("type", "object")):
        return "JSON"
    return {"integer": "N", "number": "N"}.get(about.kind, "TEXT")


def _described(about: Field) -> str:
    """The description, and what it does not say by itself: the words that are taken, the default, repetition."""
    parts = [about.description]
    missing = [word for word in _choices(about) if word not in about.description]
    if missing:
        parts.append(f"One of {', '.join(_choices(about))}.")
    if about.kind == "array":
        parts.append("May be repeated.")
    if about.default not in (None, [], {}) and about.kind != "object":
        default = about.default
        shown = ", ".join(default) if isinstance(default, list) else default  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  words
        parts.append(f"Default: {shown}.")
    return " ".join(parts)


def _completion(about: Field) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(word) for word in _choices(about) if word.startswith(incomplete)]

    return complete


# -- commands written by hand -------------------------------------------------------------------------------------


def hand_command(found: "HandCommand", name: str) -> RenderedCommand:
    """A command that a capability wrote itself: run with the session and the values; what it returns is the exit code."""

    def run(**given: Any) -> int:
        session = Session.of(click.get_current_context())
        hand_session: HandSession = session
        with nullcontext() if found.logs_itself else session.logging():
            result = found.run(hand_session, **given)
            if inspect.iscoroutine(result):
                result = asyncio.run(result)
        return result if isinstance(result, int) else 0

    return RenderedCommand(
        name,
        params=found.parameters,
        examples=found.examples,
        callback=run,
        help=_help(found.help),
    )


# -- from words to fields -----------------------------------------------------------------------------------------


def request_fields(operation: AnyOperation, given: Mapping[str, Any]) -> dict[str, Any]:
    """Click's values as fields: text, texts, or true and false; None and nothing are absent."""
    known = fields(operation.request)
    arguments = operation.cli.arguments if operation.cli else ()
    found: dict[str, Any] = {}
    for name, value in given.items():
        if value is None or value == ():
            continue
        if isinstance(value, bool):
            found[name] = value
        elif isinstance(value, str):
            found[name] = _value(known[name], _typed(value, name) if name in arguments else value)
        elif name in arguments:
            found[name] = [item for text in value for item in _listed(text, name)]
        else:
            found[name] = _values(known[name], value)
    return found


def hidden_text(prompt: str) -> str:
    """What nobody shall see: asked for without an echo, or read from standard input."""
    if sys.stdin.isatty():
        return click.prompt(prompt, hide_input=True, err=True)
    return _standard_input("value")


def _typed(value: str, name: str) -> str:
    """The text of an argument; `-` reads it from standard input."""
    return _standard_input(name) if value == "-" else value


def _listed(value: str, name: str) -> list[str]:
    """One item of a list, or many, each on a line: `-` is standard input, `@file` a file."""
    if value == "-":
        text = _standard_input(name)
    elif value.startswith("@"):
        text = _file(value[1:], name)
    else:
        return [value]
    return [line for line in map(str.strip, text.splitlines()) if line]


def _file(path: str, name: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidError(
            f"The file {path} cannot be read as UTF-8 text.",
            hint="Name a file with one item on each line, or put - and pipe them in.",
            faults=[Fault(f"/{name}", "no_file", "a file with one item on each line")],
        ) from error


def _standard_input(name: str) -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError:
        raise InvalidError(
            "Standard input is not UTF-8 text.",
            hint="Convert it to UTF-8.",
            faults=[Fault(f"/{name}", "bad_value", "UTF-8 text")],
        ) from None


def _value(field: Field, text: str) -> Any:
    kinds = (field.kind, *field.other_kinds)
    if field.name == "store" and "://" in text:
        raise InvalidError(
            "--store names a memory store; where memory is kept is said with --store-url.",
            hint="Repeat it with --store-url instead of --store.",
            faults=[Fault("/store", "bad_value", "a name, as `quipu store list` shows them")],
        )
    if field.kind == "string":
        return text
    if is_moment(field) and (moment := _moment(text)) is not None:
        return moment
    try:
        return strict_json(text)
    except ValueError:
        if "string" not in kinds and field.kind == "object":
            _refuse_json(field)
        return text


def _values(field: Field, texts: Sequence[str]) -> list[Any]:
    """An option that may be repeated. Items that are objects may also come as one JSON list."""
    if field.schema.get("items", {}).get("type", "object") != "object":
        return list(texts)
    found: list[Any] = []
    for text in texts:
        try:
            read = strict_json(text)
        except ValueError:
            _refuse_json(field)
        found += read if isinstance(read, list) else [read]
    return found


def _moment(text: str) -> int | None:
    """A date or time in milliseconds; without a zone it is in the zone of this machine."""
    if text.isdigit():
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int((found if found.tzinfo else found.astimezone()).astimezone(UTC).timestamp() * 1000)


def _refuse_json(field: Field) -> NoReturn:
    option = f"--{field.name.replace('_', '-')}"
    raise InvalidError(
        f"{option} is not JSON that can be read.",
        hint=f"Write JSON between single quotes, such as {option} '{_json_example(field)}'.",
        faults=[Fault(f"/{field.name}", "bad_json", "a JSON object with each name once")],
    ) from None


def _json_example(field: Field) -> str:
    names = list(field.schema.get("properties", {}))
    if names:
        kind = field.schema["properties"][names[0]].get("anyOf", [{}])[0].get("type")
        return json.dumps({names[0]: 90 if kind == "integer" else "…"}, ensure_ascii=False)
    return '[{"to": "mem_…", "rel": "about"}]' if field.kind == "array" else '{"topic": "food"}'
