"""One OpenAPI 3.1 document of all faces, made from the schemas they publish.

Each face describes its own part; here they are put together, with what all of them share: the bearer credential,
problem responses, and headers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from quipu.errors import QuipuError
from quipu.faces.http.problems import MEDIA_TYPE, STATUS, STATUS_BY_REASON, title_of

Node: TypeAlias = dict[str, Any]

VERSION = "3.1.0"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TITLE = "Quipu"
_SUMMARY = "One memory for every agent."
_DESCRIPTION = (
    "What an agent remembers: typed, versioned, searchable, approved by people, provable afterwards. "
    "Errors are RFC 9457 problems with a stable `code` and a finer `reason`. Times are integer milliseconds since the "
    "Unix epoch. No answer may be cached."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What a face says of itself."""

    paths: Mapping[str, Node]
    schemas: Mapping[str, Node] = field(default_factory=dict[str, Node])
    #: Groups of operations: name → what they are about.
    tags: Mapping[str, str] = field(default_factory=dict[str, str])


def document(parts: Sequence[Described], version: str, server_url: str = "/") -> Node:
    """The whole document."""
    paths: Node = {}
    schemas: Node = {}
    tags: dict[str, str] = {}
    for part in parts:
        for path, item in part.paths.items():
            paths[path] = paths.get(path, {}) | dict(item)
        schemas |= part.schemas
        tags |= part.tags
    return {
        "openapi": VERSION,
        "info": {"title": _TITLE, "summary": _SUMMARY, "description": _DESCRIPTION, "version": version},
        "jsonSchemaDialect": DIALECT,
        "servers": [{"url": server_url}],
        "security": [{"bearer": []}],
        "tags": [{"name": name, "description": said} for name, said in tags.items()],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": problem_responses(),
            "headers": dict(_HEADERS),
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token made by `quipu token create`, or a JWT of the identity provider.",
                }
            },
        },
    }


_HEADERS: Mapping[str, Node] = {
    "Quipu-Request-Id": {
        "description": "To find this request in the server's log.",
        "schema": {"type": "string"},
    },
    "Quipu-Seq": {"description": "Journal position of what was done or read.", "schema": {"type": "integer"}},
    "Quipu-Stores-Failed": {
        "description": "Backends that did not do their part.",
        "schema": {"type": "string"},
    },
    "Quipu-Ignored-Fields": {
        "description": "Unknown fields that were passed over for `Prefer: handling=lenient`.",
        "schema": {"type": "string"},
    },
    "Preference-Applied": {
        "description": "Preferences that were heeded (RFC 7240).",
        "schema": {"type": "string"},
    },
    "Idempotency-Replayed": {
        "description": "This is the first answer once more.",
        "schema": {"type": "string", "const": "true"},
    },
    "ETag": {
        "description": "The record's version, for `If-Match`.",
        "schema": {"type": "string", "examples": ['"3"']},
    },
    "Retry-After": {"description": "Seconds after which to try again.", "schema": {"type": "integer"}},
    "Link": {"description": 'The next page, `rel="next"`.', "schema": {"type": "string"}},
}


def header(name: str) -> Node:
    """A reference to a header of answers."""
    return {"$ref": f"#/components/headers/{name}"}


def headers(*names: str) -> Node:
    """References to headers of answers; every answer has its request id."""
    return {name: header(name) for name in ("Quipu-Request-Id", *names)}


def problems(*statuses: int) -> Node:
    """References to the problem responses that an operation may give; some it always may."""
    every = sorted({*statuses, 401, 403, 429, 500, 503, 504})
    return {str(status): {"$ref": f"#/components/responses/problem-{status}"} for status in every}


def problem_responses() -> Node:
    """One response for each status, with the codes that it can mean."""
    codes: dict[int, list[str]] = {}
    for code, status in STATUS.items():
        codes.setdefault(status, []).append(code)
    for (code, _), status in STATUS_BY_REASON.items():
        if code not in codes.setdefault(status, []):
            codes[status].append(code)
    return {f"problem-{status}": _problem(status, sorted(named)) for status, named in sorted(codes.items())}


def _problem(status: int, codes: Sequence[str]) -> Node:
    titles = {kind.code: title_of(kind) for kind in _kinds(QuipuError)}
    told = {"Quipu-Request-Id": header("Quipu-Request-Id")}
    if status in (429, 503):
        told["Retry-After"] = header("Retry-After")
    if status == 401:
        told["WWW-Authenticate"] = {"schema": {"type": "string", "examples": ['Bearer realm="quipu"']}}
    return {
        "description": "; ".join(f"`{code}`: {titles[code]}" for code in codes) + ".",
        "headers": told,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/problem"}}},
    }


def _kinds(kind: type[QuipuError]) -> Sequence[type[QuipuError]]:
    return [found for below in kind.__subclasses__() for found in (below, *_kinds(below))]


__all__ = ["Described", "Node", "document", "header", "headers", "problem_responses", "problems"]
