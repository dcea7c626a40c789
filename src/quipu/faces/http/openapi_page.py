"""The OpenAPI document, and a page made from it for people: plain HTML, no script, nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, cast

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from quipu.faces.http.catalogue import Face
from quipu.faces.http.openapi import Described, Node, document

DOCUMENT, PAGE = "/openapi.json", "/docs"
_CODE = re.compile(r"`([^`]+)`")


def face(parts: Sequence[Described], version: str) -> Face:
    """Both, open to everybody: they tell how to ask, and nothing else."""
    whole = document(parts, version)
    text = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))

    async def machine(_request: Request) -> Response:
        return Response(text, media_type="application/json")

    async def people(_request: Request) -> Response:
        return _page(whole)

    paths = frozenset({DOCUMENT, PAGE})
    return Face(
        name="docs",
        routes=[Route(DOCUMENT, machine, methods=["GET"]), Route(PAGE, people, methods=["GET"])],
        prefix=PAGE,
        public=paths,
        told={"documentation": PAGE},
    )


def _page(whole: Node) -> Response:
    style = _file("docs.css")
    digest = base64.b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii")
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    return Response(rendered(whole), media_type="text/html", headers={"Content-Security-Policy": policy})


def rendered(whole: Node) -> str:
    """The page as HTML."""
    return _template().render(
        info=whole["info"],
        groups=list(_groups(whole)),
        schemas=[_schema(name, node) for name, node in sorted(whole["components"]["schemas"].items())],
        problems=whole["components"]["responses"],
        style=Markup(_file("docs.css")),  # noqa: S704  our own file
        said=said,
    )


@cache
def _template() -> Any:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_file("docs.html"))


@cache
def _file(name: str) -> str:
    return (files("quipu.faces.http") / "templates" / name).read_text("utf-8")


def said(text: str) -> Markup:
    """Prose, with what stands in backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704  escaped before


# -- what the page shows ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Field:
    """One line of a table: a parameter, or a member of a schema."""

    name: str
    kind: Markup
    text: str
    is_required: bool = False
    #: "query", "header", "path" for a parameter.
    place: str = ""
    #: Not memorywire's: Quipu's addition.
    is_ours: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """A schema: its members, or what it may be."""

    name: str
    title: str
    text: str
    fields: Sequence[Field]
    kind: Markup


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of an operation."""

    status: str
    text: str
    kinds: Sequence[tuple[str, Markup]]
    headers: Sequence[str]


@dataclass(frozen=True, slots=True)
class Operation:
    """One address and method."""

    id: str
    method: str
    path: str
    summary: str
    text: str
    parameters: Sequence[Field]
    bodies: Sequence[tuple[str, Markup]]
    answers: Sequence[Answer]
    problems: Sequence[str]
    example: str


def _groups(whole: Node) -> Iterator[tuple[str, str, list[Operation]]]:
    operations = [
        (node["tags"][0], _operation(method.upper(), path, node))
        for path, item in whole["paths"].items()
        for method, node in item.items()
    ]
    for tag in whole["tags"]:
        yield tag["name"], tag["description"], [shown for name, shown in operations if name == tag["name"]]


def _operation(method: str, path: str, node: Node) -> Operation:
    contents = node.get("requestBody", {}).get("content", {})
    answers = {
        status: answer
        for status, answer in node["responses"].items()
        if "/problem-" not in answer.get("$ref", "")
    }
    return Operation(
        id=node["operationId"],
        method=method,
        path=path,
        summary=node["summary"],
        text=node["description"],
        parameters=[_parameter(each) for each in node.get("parameters", ())],
        bodies=[(media, _kind(content["schema"])) for media, content in contents.items()],
        answers=[_answer(status, answer) for status, answer in answers.items()],
        problems=[status for status in node["responses"] if status not in answers],
        example=_curl(method, path, node),
    )


def _parameter(node: Node) -> Field:
    return Field(
        name=node["name"],
        kind=_kind(node["schema"]),
        text=node["description"],
        is_required=bool(node.get("required")),
        place=node["in"],
    )


def _answer(status: str, node: Node) -> Answer:
    contents = node.get("content", {})
    return Answer(
        status=status,
        text=node["description"],
        kinds=[(media, _kind(content["schema"])) for media, content in contents.items()],
        headers=[name for name in node.get("headers", {}) if name != "Quipu-Request-Id"],
    )


def _schema(name: str, node: Node) -> Shape:
    required = cast("list[str]", node.get("required", []))
    fields = [
        Field(
            name=member,
            kind=_kind(inner),
            text=inner.get("description", ""),
            is_required=member in required,
            is_ours=inner.get("x-origin") == "quipu",
        )
        for member, inner in cast("Node", node.get("properties", {})).items()
    ]
    return Shape(
        name=name,
        title=node.get("title", name),
        text=node.get("description", ""),
        fields=fields,
        kind=_kind({key: value for key, value in node.items() if key != "properties"}),
    )


def _kind(node: Node) -> Markup:
    """What a value may be, in a few words; other schemas as links."""
    if "$ref" in node:
        return _link(node["$ref"])
    if "const" in node:
        return Markup("<code>{}</code>").format(json.dumps(node["const"]))
    if "enum" in node:
        return Markup(" ").join(Markup("<code>{}</code>").format(json.dumps(each)) for each in node["enum"])
    for several in ("anyOf", "oneOf"):
        branches = [
            branch for branch in node.get(several, ()) if "required" not in branch or "type" in branch
        ]
        if branches:
            return Markup(" or ").join(_kind(branch) for branch in branches)
    kinds = node.get("type", "anything")
    shown = [_plain_kind(kind, node) for kind in ([kinds] if isinstance(kinds, str) else kinds)]
    return Markup(" or ").join(shown)


def _plain_kind(kind: str, node: Node) -> Markup:
    if kind == "array" and "items" in node:
        return Markup("list of ") + _kind(node["items"])
    words = [kind, *_bounds(kind, node)]
    return escape(" ".join(words))


def _bounds(kind: str, node: Node) -> Iterator[str]:
    """How small and how large, where somebody could come near."""
    if kind not in ("string", "integer", "number"):
        return
    low, high = ("minLength", "maxLength") if kind == "string" else ("minimum", "maximum")
    least, most = (
        bound if (bound := node.get(name)) is not None and abs(bound) <= 10**9 else None
        for name in (low, high)
    )
    of_what = " characters" if kind == "string" else ""
    if least is not None and most is not None:
        yield f"({least}–{most}{of_what})"
    elif least is not None:
        yield f"(at least {least}{of_what})"
    elif most is not None:
        yield f"(at most {most}{of_what})"


def _link(reference: str) -> Markup:
    name = reference.removeprefix("#/components/schemas/")
    top, _, inner = name.partition("/")
    shown = f"{top} · {inner.rpartition('/')[2]}" if inner else top
    return Markup('<a href="#schema-{}">{}</a>').format(top, shown)


def _curl(method: str, path: str, node: Node) -> str:
    """How to ask from a terminal."""
    lines = [
        f'curl {"-N " if "text/event-stream" in str(node["responses"]) else ""}-X {method} "$QUIPU{path}"'
    ]
    if method == "GET":
        lines = [lines[0].replace("-X GET ", "")]
    if {} not in node.get("security", []):
        lines.append('-H "Authorization: Bearer $QUIPU_TOKEN"')
    for media, content in node.get("requestBody", {}).get("content", {}).items():
        if "example" in content:
            example = content["example"]
            text = example if isinstance(example, str) else json.dumps(example, ensure_ascii=False, indent=2)
            flag = "--data-binary" if media.endswith("ndjson") else "-d"
            lines += [f'-H "Content-Type: {media}"', f"{flag} {shlex.quote(text)}"]
    return " \\\n  ".join(lines)
