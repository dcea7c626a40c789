"""The generated pages of docs/reference: each a function that returns its text from the code."""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from typing import Any

import typer
from reasons import FAULTS, REASONS, collected

from quipu import config
from quipu.errors import LASTING, QuipuError
from quipu.model import limits as limits_module
from quipu.model import operations as operations_module
from quipu.model.journal import Op
from quipu.model.limits import Limits
from quipu.rules import filter_trees, filters
from quipu.service.memory import CAPABILITIES

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "quipu"
SCHEMAS = ROOT / "schemas"

Row = tuple[str, ...]


def table(head: Row, rows: Iterator[Row] | list[Row]) -> str:
    """A Markdown table; a bar inside a cell is escaped."""
    lines = [head, ("---",) * len(head), *rows]
    return "".join("| " + " | ".join(_cell(cell) for cell in line) + " |\n" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def code(value: object) -> str:
    return f"`{value}`"


# -- settings -----------------------------------------------------------------------------------------------------


def settings() -> str:
    """docs/reference/settings.md"""
    defaults = {field.name: field.default for field in fields(config.Config)}
    parts = [
        "# Settings\n\n"
        "A setting is read once, when a memory is made. What stands further right wins:\n"
        "default, settings file, environment, argument or option.\n\n"
        "The settings file is `~/.config/quipu/config.toml` (under `XDG_CONFIG_HOME` where that is set), or the one\n"
        'that `QUIPU_CONFIG` names. It is flat TOML: `embedder = "none"`. An unknown name is refused.\n'
        "`quipu config` shows every setting with its value and where it came from.\n"
    ]
    for setting in config.SETTINGS:
        default = defaults[setting.name]
        rows: list[Row] = [
            (
                "in the environment",
                code(setting.environment) + (f", else {code(setting.alias)}" if setting.alias else ""),
            ),
            ("in the file and in `Config`", code(setting.name)),
            ("type", type(default).__name__),
            ("default", _DEFAULTS.get(setting.name) or code(json.dumps(default))),
        ]
        parts.append(f"\n## {setting.name}\n\n{setting.help}\n\n{table(('', ''), rows)}")
    parts.append(
        "\n## Files\n\n"
        "| what | where |\n|---|---|\n"
        "| memory, when no store is named | `~/.local/share/quipu/memory.db` (under `XDG_DATA_HOME` where that is set) |\n"
        "| the key that signs the journal | beside the memory, with `.key` added to its name; only its owner can read it |\n"
        "| the built embedding model | `~/.cache/quipu` (under `XDG_CACHE_HOME` where that is set) |\n"
    )
    return "".join(parts)


#: Where an empty default means something.
_DEFAULTS = {
    "store_url": "empty: `memory.db` in the user's data directory",
    "embedder_url": "empty; needed by `openai`",
    "embedder_model": "empty; needed by `openai`",
    "embedder_key": "empty: no key is sent",
    "extractor_url": "empty: no model is asked",
    "extractor_model": "empty; needed with an address",
    "extractor_key": "empty: no key is sent",
    "weights_dir": "empty: the installed weights package, else a download",
    "cache_dir": "empty: the user's cache directory",
}


# -- errors -------------------------------------------------------------------------------------------------------


def descendants(cls: type[QuipuError], depth: int = 0) -> Iterator[tuple[int, type[QuipuError]]]:
    """An error class and everything under it, parents first."""
    yield depth, cls
    for child in cls.__subclasses__():
        if child.__module__ == QuipuError.__module__:
            yield from descendants(child, depth + 1)


def errors() -> str:
    """docs/reference/errors.md"""
    tree: list[Row] = [
        (
            "&emsp;" * depth + code(cls.__name__),
            code(cls.code),
            "yes" if cls.retryable else "no",
            (cls.__doc__ or "").strip().splitlines()[0],
        )
        for depth, cls in descendants(QuipuError)
    ]
    found, _ = collected(SOURCE)
    reasons: list[Row] = [
        (code(reason), ", ".join(code(error) for error in sorted(found[reason])), REASONS[reason])
        for reason in sorted(found)
    ]
    faults: list[Row] = [(code(kind), meaning) for kind, meaning in sorted(FAULTS.items())]
    return (
        "# Errors\n\n"
        "Every error is a `QuipuError`. `code` says what kind of error it is; `reason` is finer. Both are public and do\n"
        "not change. `hint` says what a person can do; `faults` names each field that is wrong by its JSON Pointer and\n"
        "what would be accepted. No message holds memory text, a query or a secret.\n\n"
        "A write that is held for a person is no error: see [Hold a write for approval](../howto/hold-a-write-for-approval.md).\n\n"
        "## Classes\n\n"
        + table(("class", "code", "retry may help", "default message"), tree)
        + "\n`InvalidError` is also a `ValueError`, and `quipu.ValidationError` is the same class.\n"
        "\nWhere the reason is one of these, a person must mend something first, and `retryable` is false whatever the\n"
        f"class: {', '.join(code(reason) for reason in sorted(LASTING))}.\n"
        "\n## Reasons\n\n"
        + table(("reason", "carried by", "meaning"), reasons)
        + "\n## What a verification finds\n\n"
        "`verify` raises nothing for what it finds: it answers with a `Verification`, whose `faults` stand in the order\n"
        "of the journal. Each has a `kind`:\n\n" + table(("kind", "meaning"), faults)
    )


# -- the command line ---------------------------------------------------------------------------------------------


@cache
def commands() -> dict[str, Any]:
    """Every command by the words that call it: `store create`."""
    from quipu.cli.program import app

    root = typer.main.get_command(app)
    found: dict[str, Any] = {"": root}

    def walk(group: Any, words: tuple[str, ...], context: Any) -> None:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            path = (*words, name)
            found[" ".join(path)] = command
            if hasattr(command, "list_commands"):
                walk(command, path, typer.Context(command, parent=context, info_name=name))

    walk(root, (), typer.Context(root, info_name="quipu"))
    return found


def cli() -> str:
    """docs/reference/cli.md"""
    from quipu.cli.command import PANEL

    everything = commands()
    root = everything[""]
    shared = [param for param in root.params if _panel(param) == PANEL and not param.hidden]
    listed: list[Row] = [
        (f"[`{name}`](#{_anchor('quipu ' + name)})", _first(command))
        for name, command in everything.items()
        if name
    ]
    parts = [
        "# Command line\n\n",
        _help(root),
        "\n## Exit codes\n\n"
        "| code | meaning |\n|---|---|\n"
        "| 0 | done; a recall that finds nothing is also done |\n"
        "| 1 | bad input: the command, the request or the thing it names |\n"
        "| 2 | the memory, a file or a server failed, or a verification found a fault |\n"
        "| 3 | held for a person |\n"
        "| 130 | interrupted |\n"
        "| 143 | terminated (129: hung up) |\n\n"
        "## Options of every command\n\n",
        table(("option", "meaning"), [_option(param) for param in shared]),
        "\n## Commands\n\n",
        table(("command", "what it does"), listed),
    ]
    for name, command in everything.items():
        if name:
            parts.append(_command(name, command, PANEL))
    return "".join(parts)


def _command(name: str, command: Any, panel: str) -> str:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [
        param
        for param in command.params
        if param.param_type_name == "option"
        and _panel(param) != panel
        and not param.hidden
        and "--help" not in param.opts
    ]
    usage = " ".join(["quipu", name, *(_metavar(argument) for argument in arguments)])
    if hasattr(command, "list_commands"):
        usage += " COMMAND"
    text = f"\n## quipu {name}\n\n`{usage}{' [OPTIONS]' if options else ''}`\n\n{_help(command)}"
    rows = [(code(_metavar(argument)), getattr(argument, "help", None) or "") for argument in arguments]
    rows += [_option(option) for option in options]
    return text + (f"\n{table(('argument or option', 'meaning'), rows)}" if rows else "")


def _panel(param: Any) -> str | None:
    return getattr(param, "rich_help_panel", None)


def _metavar(argument: Any) -> str:
    name = str(argument.metavar or argument.name.upper()).removesuffix("...")
    name = f"{name}..." if argument.nargs == -1 else name
    return name if argument.required else f"[{name}]"


def _option(param: Any) -> Row:
    names = ", ".join([*param.opts, *param.secondary_opts])
    choices = getattr(param.type, "choices", None)
    value = (
        ""
        if param.is_flag
        else " "
        + (str(param.metavar) if param.metavar else _VALUES.get(param.type.name, param.type.name.upper()))
    )
    if choices:
        value = " " + "|".join(str(choice) for choice in choices)
    told = str(param.help or "")
    default = param.default
    if isinstance(default, str | int | float) and not isinstance(default, bool) and default != "":
        told += f" Default: `{default}`."
    return f"`{names}{value}`", told


_VALUES = {"str": "TEXT", "int": "NUMBER", "integer": "NUMBER", "float": "NUMBER", "path": "PATH"}


def _first(command: Any) -> str:
    return re.sub(r"\[/?\w+\]", "", str(command.help or "")).strip().split("\n\n")[0].replace("\n", " ")


def _help(command: Any) -> str:
    """The help as Markdown: indented lines are examples."""
    lines = re.sub(r"\[/?bold\]", "**", str(command.help or "").replace("\f", "")).strip().splitlines()
    out: list[str] = []
    in_block = False
    for line in lines:
        is_example = line.startswith("  ")
        if is_example and not in_block:
            out += ["", "```text"]
        if in_block and not is_example:
            out += ["```", ""] if line else ["```"]
        in_block = is_example
        out.append(line[2:] if is_example else line)
    if in_block:
        out.append("```")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)) + "\n"


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


# -- operations and schemas ---------------------------------------------------------------------------------------

_OPERATIONS = ("remember", "recall", "forget", "merge", "expire")


def loaded(name: str) -> dict[str, Any]:
    """A published schema."""
    return json.loads((SCHEMAS / f"{name}.json").read_text("utf-8"))


def operations() -> str:
    """docs/reference/operations.md"""
    comments = _comments(operations_module)
    parts = [
        "# Operations\n\n"
        "The five operations of memorywire and what Quipu adds to them. In Python the fields are keyword arguments of\n"
        '`Memory.remember` and so on; `Memory.submit("recall", {...})` takes the same fields as JSON. `agent_id` is the\n'
        "memory's own where it is left out. Times are milliseconds since 1970, UTC.\n\n"
        "*Origin* is `v0` where memorywire v0 has the field and `quipu` where it is an addition.\n"
    ]
    for name in _OPERATIONS:
        request, reply = loaded(f"operations/{name}"), loaded(f"operations/{name}.response")
        parts.append(f"\n## {name}\n\n{_sentence(request)}\n\n")
        parts.append(f"Schema: [operations/{name}.json](../../schemas/operations/{name}.json)\n\n")
        parts.append(table(("field", "type", "default", "origin", "meaning"), list(_members(request))))
        if only := _python_only(name, request, comments):
            parts.append(
                "\nOnly in the request value `"
                + f"{name.capitalize()}Request"
                + "`, which `Memory."
                + name
                + "` takes too:\n\n"
                + table(("field", "default", "meaning"), only)
            )
        parts.append(f"\n### Answer of {name}\n\n{_sentence(reply)}\n\n")
        parts.append(table(("field", "type", "default", "origin", "meaning"), list(_members(reply))))
    parts.append("\n## Words\n\n")
    for cls in _enums():
        parts.append(f"### {cls.__name__}\n\n{(cls.__doc__ or '').strip()}\n\n")
        parts.append(" · ".join(code(member.value) for member in cls) + "\n\n")
    parts.append("## Capabilities\n\nWhat `Memory.capabilities` promises, in memorywire's words.\n\n")
    parts.append(
        table(("capability", "promise"), [(code(name), _PROMISES[name]) for name in sorted(CAPABILITIES)])
    )
    return "".join(parts)


_PROMISES = {
    "semantic": "Keeps facts.",
    "episodic": "Keeps events, with time, place and participants.",
    "procedural": "Keeps ways to do something, as machines, verbatim.",
    "emotional": "Keeps feelings, with sentiment, valence and arousal.",
    "fts": "Finds by words.",
    "vector": "Finds by meaning, where an embedder is at hand.",
    "graph": "Follows links: `hops` lifts hits that are linked to other hits.",
    "governance": "Holds a write for a person when asked to.",
    "recall_tracking": "Notes when each record was last recalled; `no_recall_in_days` uses it.",
}


def _enums() -> list[Any]:
    from enum import StrEnum

    from quipu.model import record, store

    found = []
    for module in (operations_module, record, store):
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, StrEnum) and value.__module__ == module.__name__:
                found.append(value)
    return found


def _sentence(schema: Mapping[str, Any]) -> str:
    return str(schema["description"]).replace(" `null` for an optional field means that it is absent.", "")


def _members(schema: Mapping[str, Any]) -> Iterator[Row]:
    required = set(schema.get("required", ()))
    whole = schema.get("x-origin")
    for name, member in schema["properties"].items():
        default = (
            "required"
            if name in required
            else code(json.dumps(member["default"]))
            if "default" in member
            else ""
        )
        yield (
            code(name),
            _kind(member),
            default,
            str(member.get("x-origin") or whole or "v0"),
            str(member.get("description", "")),
        )


def _kind(member: Mapping[str, Any]) -> str:
    """A member's type in a few words; null means absent and is left out."""
    if "enum" in member:
        return " ".join(code(word) for word in member["enum"] if word is not None)
    if "const" in member:
        return code(member["const"])
    if "$ref" in member:
        return member["$ref"].rsplit("/", 1)[-1].rsplit(":", 1)[-1]
    if "anyOf" in member or "oneOf" in member:
        kinds = [_kind(part) for part in member.get("anyOf") or member["oneOf"] if part.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    given = member.get("type", "any")
    kinds = [kind for kind in (given if isinstance(given, list) else [given]) if kind != "null"]
    low, high = member.get("minimum"), member.get("maximum")
    span = ""
    if low is not None and high is not None and abs(high) < 1 << 62:
        span = f" {low}…{high}"
    elif low is not None and abs(low) < 1 << 62:
        span = f" ≥ {low}"
    return " or ".join(kinds) + span


@cache
def _comments(module: Any) -> dict[tuple[str, str], str]:
    """(class, field) → the `#:` comment above it."""
    lines = Path(module.__file__).read_text("utf-8").splitlines()
    found: dict[tuple[str, str], str] = {}
    for node in ast.parse("\n".join(lines)).body:
        if not isinstance(node, ast.ClassDef):
            continue
        for item in node.body:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                above = lines[item.lineno - 2].strip()
                if above.startswith("#:"):
                    found[node.name, item.target.id] = above[2:].strip()
    return found


def _python_only(name: str, schema: Mapping[str, Any], comments: Mapping[tuple[str, str], str]) -> list[Row]:
    """Fields of the request value that the wire does not have."""
    cls = getattr(operations_module, f"{name.capitalize()}Request")
    hidden = {"details"}  # the wire has its members one by one
    return [
        (
            code(field.name),
            "" if field.default in (MISSING, None) else code(field.default),
            comments.get((cls.__name__, field.name), ""),
        )
        for field in fields(cls)
        if field.name not in schema["properties"] and field.name not in hidden
    ]


def schemas() -> str:
    """docs/reference/schemas.md"""
    rows: list[Row] = []
    for file in sorted(SCHEMAS.rglob("*.json")):
        name = file.relative_to(SCHEMAS).with_suffix("").as_posix()
        schema = loaded(name)
        origin = "quipu" if schema.get("x-origin") == "quipu" else "v0 and additions"
        if not name.startswith(("operations/", "types/")):
            origin = "quipu"
        rows.append((f"[{name}](../../schemas/{name}.json)", _sentence(schema), origin))
    return (
        "# Schemas\n\n"
        "The wire format as JSON Schema 2020-12, in [schemas/](../../schemas). The files are the source: the models in the\n"
        "code are tested against them in both directions, and they ship inside the package.\n\n"
        'An addition to memorywire v0 is marked `"x-origin": "quipu"`; without the marked parts a file says what v0 says.\n'
        "Some schemas describe what only a server does (`change`, `health`); no server is part of this version.\n\n"
        + table(("schema", "what it describes", "origin"), rows)
    )


# -- journal, filters, tables, limits -----------------------------------------------------------------------------

#: What each kind of entry tells, and what its `detail` holds.
OPS = {
    "genesis": "The chain begins.",
    "remember": "A record was written for the first time.",
    "update": "A record got a new version through `remember` with `id`.",
    "recall": "A recall answered; the entry names the versions it returned, not the query.",
    "read": "Records were read by id or in their history, or by page over a server; `unnoted`: how many left no note, because nothing could be written.",
    "forget": "Records were forgotten; `restore` brings them back.",
    "erase": "Records were erased: content, vectors, terms and salts of all versions.",
    "merge": "Duplicates were collapsed into a canonical record.",
    "expire": "A policy forgot records.",
    "archive": "A policy archived records.",
    "demote": "A policy let records rank lower.",
    "restore": "A record was brought back.",
    "sweep": "Records whose time had passed were closed.",
    "prune": "Retention emptied versions that ended before `horizon`.",
    "hold": "A write was put aside for a person.",
    "decide": "A person approved or rejected a held write.",
    "approve": "One of several people who must agree said yes to a held write.",
    "change_rules": "The rules that decide which writes are held or denied were changed.",
    "create_store": "A memory store was made.",
    "delete_store": "A memory store was taken away with what it held.",
    "import": "Records were brought in by an import.",
    "export": "Records were exported.",
    "reembed": "Vectors were made by another model or were missing, or search terms were renewed.",
    "issue_token": "A token was issued, or rotated.",
    "end_token": "A token was revoked.",
    "suspend": "The tenant was suspended.",
    "resume": "The tenant was opened again.",
    "keep_secret": "A secret was registered; the entry names its label.",
    "drop_secret": "A registered secret was removed.",
    "add_webhook": "Notices of held writes and decisions are sent to an address from now on.",
    "drop_webhook": "Notices are no longer sent there.",
    "dismiss_rule": "A suggested rule is not wanted.",
    "deny": "A rule denied a write or a recall; the entry names the rule and says nothing of what was to be written.",
    "open_run": "A run began; it sees memory as of this entry.",
    "step_run": "Something happened in a run; the detail names its events.",
    "expire_run": "The log and the variables of a run that had ended were dropped.",
    "keep_ref": "A ref of an agent's memory was given out.",
}


_UNWRITTEN = " Known to the format; this version writes none."


def _written() -> set[Op]:
    """The operations that some part of the product writes."""
    files = [file for part in ("service", "ledger") for file in (SOURCE / part).rglob("*.py")]
    named = {name for file in files for name in re.findall(r"\bOp\.([A-Z_]+)\b", file.read_text("utf-8"))}
    return {op for op in Op if op.name in named}


def journal() -> str:
    """docs/reference/journal.md"""
    rows: list[Row] = [
        (code(op.value), OPS[op.value] + ("" if op in _written() else _UNWRITTEN)) for op in Op
    ]
    return (
        "# Journal\n\n"
        "One entry per effect, in the order in which it happened. An entry never holds memory text, a query or a secret.\n"
        "[Trust](../explanation/trust.md) explains what the chain proves.\n\n"
        "## Fields of an entry\n\n"
        + table(
            ("field", "meaning"),
            [
                (code("tenant"), "The isolation boundary; `default` in embedded use."),
                (code("seq"), "The position: 1, 2, 3 and so on, without gaps."),
                (code("at"), "When, in milliseconds since 1970, UTC."),
                (code("actor"), "Who: the principal's name; `local` in embedded use."),
                (code("op"), "What: one of the words below."),
                (code("store"), "The memory store it concerned, where it was one."),
                (code("agent"), "The agent it was done for."),
                (f"{code('run')}, {code('node')}", "The workflow run and node, where they were given."),
                (code("records"), "The versions it speaks of: id, version, digest."),
                (code("detail"), "Counts, names of strategies and the like. No text of a memory."),
                (code("prev"), "The hash of the entry before; 64 zeros for the first."),
                (code("hash"), "SHA-256 over the canonical bytes (RFC 8785) of all the other fields."),
            ],
        )
        + "\n## Operations\n\n"
        + table(("op", "what happened"), rows)
    )


def filter_language() -> str:
    """docs/reference/filters.md"""
    schema = loaded("filter")
    logic: list[Row] = [
        (code(name), str(member["description"])) for name, member in schema["properties"].items()
    ]
    members = schema["$defs"]["operators"]["properties"]
    tests: list[Row] = [(code(name), str(members[name]["description"])) for name in filters.OPERATORS]
    plain = " · ".join(code(name) for name in sorted(filter_trees.RESERVED))
    more = " · ".join(
        code(f"record.{name}") for name in sorted(set(filter_trees.FIELDS) - set(filter_trees.RESERVED))
    )
    times = " · ".join(code(name) for name in sorted(filter_trees.TIMES))
    examples = "\n".join(json.dumps(example) for example in schema["examples"])
    return (
        "# Filters\n\n"
        "One language for recall, list, forget, expire and export. A filter is an object; all its members must hold.\n"
        "It is applied before the best hits are chosen, never after.\n\n"
        f"```json\n{examples}\n```\n\n"
        "## Keys\n\n"
        "A key is a field of the record, or else a path into its metadata.\n\n"
        f"- Fields by their plain name: {plain}\n"
        f"- Other fields: {more}\n"
        "- Metadata: `topic`, `address.city`, `scores.0`. A backslash escapes a dot. `metadata.type` reaches a key that\n"
        "  has a field's name.\n"
        f"- Moments are milliseconds or ISO 8601 text with a zone: {times}\n\n"
        "## Operators\n\n"
        "A bare value means `$eq`. Several operators in one test must all hold.\n\n"
        + table(("operator", "holds when"), tests)
        + "\nA list of tags means all of them; `$in` on tags means one of them. Values are equal as JSON: 1 is 1.0, but\n"
        'neither `"1"` nor `true`. A value that is missing equals null and is never greater or smaller than anything.\n\n'
        "## Logic\n\n"
        + table(("key", "holds when"), logic)
        + f"\n## Limits\n\nAt most {filters.MAX_DEPTH} levels deep, {filters.MAX_NODES} conditions, and "
        f"{filters.MAX_LISTED:,} values in a list. A misspelt operator is refused, with the nearest one named: a\n"
        "condition that was silently dropped would widen what is forgotten.\n"
    )


def database() -> str:
    """docs/reference/database.md"""
    text = (SOURCE / "ledger" / "sqlite" / "schema.sql").read_text("utf-8")
    parts = [
        "# Database\n\n"
        "The tables of the embedded ledger, one SQLite file in WAL mode. They are listed for reading with a tool of your\n"
        "own; write through Quipu only, or `quipu verify` will tell. Source:\n"
        "[schema.sql](../../src/quipu/ledger/sqlite/schema.sql).\n\n"
        "Every key begins with `tenant`. Times are milliseconds since 1970, UTC. `born` and `died` are journal positions.\n"
    ]
    for match in re.finditer(r"((?:^--[^\n]*\n)*)^CREATE TABLE (\w+) \((.*?)^\)([^;]*);", text, re.M | re.S):
        above, name, body, _ = match.groups()
        parts.append(f"\n## {name}\n\n")
        if above and name != "tenant":
            parts.append(" ".join(line[2:].strip() for line in above.splitlines()) + "\n\n")
        parts.append(f"{_TABLES[name]}\n\n")
        parts.append(table(("column", "type", "note"), list(_columns(body))))
    triggers = re.findall(r"CREATE TRIGGER (\w+)", text)
    parts.append("\n## Triggers\n\n" + "".join(f"- `{name}`\n" for name in triggers))
    parts.append("\nThey refuse to change or delete a row of `journal`.\n")
    return "".join(parts)


_TABLES = {
    "token": "Credentials, by the hash of their text.",
    "secret": "Values that must not be remembered, sealed with a key that is not in the file.",
    "run": "Runs of workflows: what each sees of memory, and where it stands.",
    "run_event": "What happened in runs, in order and without gaps.",
    "run_variable": "Results of runs, each time they were set.",
    "run_variable_record": "Which records a result repeats, so that erasing one erases it.",
    "run_note": "Scratchpad and conversation of runs at work; gone when a run ends.",
    "memory_ref": "OpenWOP refs that were given out: an agent's memory in a store.",
    "webhook": "Where notices of held writes and decisions are sent, and how far each has been told.",
    "dismissal": "Suggested rules that a person does not want.",
    "tenant": "The head of each tenant's chain, and how far back it can be read.",
    "space": "A vector space: an embedding model and its dimensions. Recall searches in one.",
    "store": "Memory stores.",
    "record": "One row is one version of one record.",
    "vector": "One vector per version and space, as little-endian float32 numbers.",
    "link": "Typed links between records, with the positions at which they began and ended.",
    "mark": "What is known beside a record and not versioned: when it was recalled, whether it is demoted.",
    "journal": "The chain. Append-only.",
    "reason": "Why something was done, in somebody's words.",
    "checkpoint": "Signed positions.",
    "answer": "The first answer to a write with an idempotency key.",
    "answer_record": "Which records an answer speaks of.",
    "proposal": "Writes that wait for a person, and what became of them.",
    "outbox": "Effects still to be carried to mirrors; empty while there are none.",
    "mirror": "A mirror of the tenant's records, and how it stands.",
    "mirrored": "Which native id a record has in a mirror.",
    "lent_grant": "Grants: signed permissions for somebody outside, and what became of them.",
    "lent_item": "Which records a grant has shown.",
    "item_log": "Two hash-linked logs for each record that was lent: what it was, and who saw it.",
    "receipt": "The chain of receipts. Append-only.",
    "erasure": "Requests to delete, and how far they have come.",
    "cascade_step": "Grantees that hold something that was erased, and whether they have been reached.",
    "held_item": "What other hosts have lent, until it expires.",
    "used_proof": "Proofs that were used, so that each is good once.",
    "task_step": "How long work for somebody outside stood, one line after the other. Append-only.",
}


def _columns(body: str) -> Iterator[Row]:
    note: list[str] = []
    for line in body.splitlines():
        line = line.strip()
        if line.startswith("--"):
            note.append(line[2:].strip())
        elif found := re.match(r"(\w+) (TEXT|INTEGER|REAL|BLOB)\b(.*?),?$", line):
            name, kind, rest = found.groups()
            told = [*note, *(["may be null"] if "NOT NULL" not in rest and "PRIMARY KEY" not in rest else [])]
            yield code(name), kind, "; ".join(told)
            note = []
        elif found := re.match(r"CONSTRAINT (\w+) (.*?),?$", line):
            yield f"*{found[1]}*", "", code(found[2])


def limits() -> str:
    """docs/reference/limits.md"""
    comments = _comments(limits_module)
    rows: list[Row] = []
    for field in fields(Limits):
        unit = comments.get(("Limits", field.name), "")
        if not unit:
            unit = "Bytes of UTF-8." if field.name.endswith("_bytes") else "Count."
        rows.append((code(field.name), f"{field.default:,}", unit))
    return (
        "# Limits\n\n"
        "What is larger is refused with `validation_error`, reason `too_large`; a `k` or a page size out of range with\n"
        "`bad_value`. Nothing is cut silently except a `reason`, which is kept up to its length.\n\n"
        + table(("limit", "default", "unit"), rows)
        + "\nOther bounds:\n\n"
        f"- A filter: {filters.MAX_DEPTH} levels, {filters.MAX_NODES} conditions, {filters.MAX_LISTED:,} values in a list.\n"
        "- `hops`: 0 to 3.\n"
        "- Numbers in metadata: integers of 64 bits, finite floats. Text: no U+0000, no unpaired surrogates.\n"
        "- A text longer than 256 word pieces is embedded in windows that overlap, and all of them count.\n"
    )


PAGES = {
    "reference/settings.md": settings,
    "reference/errors.md": errors,
    "reference/cli.md": cli,
    "reference/operations.md": operations,
    "reference/schemas.md": schemas,
    "reference/journal.md": journal,
    "reference/filters.md": filter_language,
    "reference/database.md": database,
    "reference/limits.md": limits,
}
