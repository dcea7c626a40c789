"""From words on the command line to the fields of a request. What cannot be read, the model refuses."""

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import click

from quipu.errors import Fault, InvalidError
from quipu.methods import is_moment
from quipu.operation import AnyOperation
from quipu.schemas import Field, fields


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


def strict_json(text: str) -> Any:
    """JSON without doubled names, NaN or endless depth: one of two doubled values would be lost silently."""
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _no_constant(_: str) -> NoReturn:
    raise ValueError


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
        hint=f"Write JSON between single quotes, such as {option} '{_example(field)}'.",
        faults=[Fault(f"/{field.name}", "bad_json", "a JSON object with each name once")],
    ) from None


def _example(field: Field) -> str:
    names = list(field.schema.get("properties", {}))
    if names:
        kind = field.schema["properties"][names[0]].get("anyOf", [{}])[0].get("type")
        return json.dumps({names[0]: 90 if kind == "integer" else "…"}, ensure_ascii=False)
    return '[{"to": "mem_…", "rel": "about"}]' if field.kind == "array" else '{"topic": "food"}'
