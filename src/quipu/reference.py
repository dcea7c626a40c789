"""Operations and errors as pages of the reference, in Markdown."""

import json
from collections.abc import Collection, Mapping

from pydantic import BaseModel

from quipu.errors import ERRORS
from quipu.methods import METHODS, in_reading_order
from quipu.operation import AnyOperation, Request
from quipu.schemas import Field, Operations, fields

_LIMITS = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {}",
    "maxItems": "at most {}",
    "minimum": "from {}",
    "maximum": "to {}",
    "exclusiveMaximum": "below {}",
}
_REACH = {
    "named": "a limited credential reaches its own agents and user",
    "filtered": "a limited credential sees its own part",
    "whole": "only with a credential that has no limits",
    "server": "not about memories",
}


def markdown(operations: Operations) -> str:
    """One section per operation: how it is reached, what it takes, what it answers."""
    head = (
        "# Operations\n\n"
        "Everything Quipu does. Each operation has the same fields in Python, over HTTP, on the command line and\n"
        "in MCP tools. This page is generated from their definitions.\n\n"
    )
    return head + "\n".join(_section(operation) for operation in operations)


def errors_markdown(statuses: Mapping[str, int], failures: Collection[str]) -> str:
    """Every code of an error, with its HTTP status and the exit code of a command."""
    rows = [
        f"| `{code}` | `{error.__name__}` | {statuses[code]} | {2 if code in failures else 1} "
        f"| {'yes' if error.is_retryable else 'no'} | {(error.__doc__ or '').strip()} |"
        for code, error in ERRORS.items()
    ]
    return (
        "# Errors\n\n"
        "The same codes everywhere: an exception of `quipu` in Python, a problem body (RFC 9457) over HTTP, an error\n"
        "result in MCP, a message and an exit code on the command line. Beside the `code` stands a `reason`, a stable\n"
        "word that says more, and for a request that is not valid the `errors`: where, why, and what would be accepted.\n"
        "A write that waits for a person is no error: 202, and exit code 3. This page is generated.\n\n"
        "| code | exception | HTTP | exit code | may be repeated as it is | what happened |\n"
        "|---|---|---|---|---|---|\n" + "\n".join(rows) + "\n"
    )


def _section(operation: AnyOperation) -> str:
    parts = [
        f"## {operation.name}",
        operation.description,
        "  \n".join(_reached(operation)),
        _table(operation.request),
    ]
    if operation.cli and operation.cli.examples:
        parts.append("```text\n" + "\n".join(operation.cli.examples) + "\n```")
    answers = "One by one" if operation.is_stream else "Answers"
    parts.append(f"{answers}: {(operation.response.__doc__ or '').strip()}")
    parts.append(_table(operation.response))
    return "\n\n".join(parts) + "\n"


def _reached(operation: AnyOperation) -> list[str]:
    lines: list[str] = []
    if operation.name in METHODS:
        lines.append(f"**Python** `memory.{operation.name}(…)`")
    else:
        lines.append(f'**Python** `memory.call("{operation.name}", …)`')
    if operation.http:
        versions = [f"`{operation.http.method} {operation.http.path}`"]
        if operation.http.v0:
            versions.append(f"`POST /memorywire/v0/{operation.http.v0}`")
        headers = [f"`{header}` for `{field}`" for header, field in operation.http.headers.items()]
        lines.append("**HTTP** " + " · ".join(versions + headers))
    if operation.cli:
        words = operation.cli.name or operation.name.replace("_", " ")
        arguments = "".join(f" {name.upper()}" for name in operation.cli.arguments)
        lines.append(f"**Command** `quipu {words}{arguments}`")
    if operation.mcp:
        lines.append(f"**MCP** tool `{operation.name}` of the profile {operation.mcp.profile}")
    lines.append(f"**Needs** {_permission(operation)}; {_REACH[operation.limits]}")
    return lines


def _permission(operation: AnyOperation) -> str:
    if operation.permission is None:
        return "any credential"
    if callable(operation.permission):
        return "a permission that depends on the request"
    return f"`{operation.permission}`"


def _table(model: type[BaseModel]) -> str:
    found = in_reading_order(model) if issubclass(model, Request) else list(fields(model).values())
    if not found:
        return "No fields."
    rows = [f"| `{f.name}` | {_kind(f)} | {_default(f, model)} | {_meaning(f)} |" for f in found]
    return "\n".join(["| field | type | default | meaning |", "|---|---|---|---|", *rows])


def _meaning(field: Field) -> str:
    """A field that is a message of its own may be explained by that."""
    text: str = field.description or field.schema.get("description", "")
    return " ".join(text.split()).replace("|", "\\|")


def _kind(field: Field) -> str:
    items = field.schema.get("items", {})
    words = field.choices or tuple(items.get("enum", ()))
    name = f"list of {items.get('type', 'object')}" if field.kind == "array" else field.kind
    if words:
        name = ("list of " if field.kind == "array" else "") + ", ".join(f"`{word}`" for word in words)
    names = " or ".join([name, *field.other_kinds])
    limits = [text.format(field.schema[key]) for key, text in _LIMITS.items() if key in field.schema]
    return ", ".join([names, *limits])


def _default(field: Field, model: type[BaseModel]) -> str:
    if field.is_required and issubclass(model, Request):
        return "required"
    return "" if field.default in (None, [], {}) else f"`{json.dumps(field.default)}`"
