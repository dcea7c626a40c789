"""JSON Schema of requests and answers in the form that every MCP host reads.

Closed objects of plain types: no references, no titles, no null, nothing but `anyOf` below a property to say that there
are two ways. What is optional is left out.
"""

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, TypeAlias, cast

from pydantic import BaseModel

from quipu.memory.model import MemoryView
from quipu.schemas import schema

Schema: TypeAlias = dict[str, Any]

#: Left to the server, which refuses in words: a model neither counts characters nor reads ranges, and pays for them.
_UNSAID = frozenset(
    {"title", "default", "minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum"}
    | {"exclusiveMinimum", "exclusiveMaximum"}
)
_PROVENANCE: Schema = {"type": "object", "description": "Who wrote it, and how far they are trusted."}


@cache
def input_schema(
    model: type[BaseModel], shows: tuple[str, ...] | None, requires: tuple[str, ...] = ()
) -> Schema:
    """What a tool takes: some of a request's fields, those first that it must have. Shared: not to be changed."""
    whole = schema(model)
    required = {*requires, *whole.get("required", ())}
    names = list(shows or whole["properties"])
    properties = {name: _portable(whole["properties"][name], whole.get("$defs", {})) for name in names}
    if shows is not None:
        _shorten(properties)
    return _closed(properties, [name for name in names if name in required])


@cache
def output_schema(model: type[BaseModel], shows: tuple[str, ...] | None) -> Schema:
    """What a tool answers. Memories in it are open: how much is said of each depends on the call."""
    return _answer(schema(model), model, shows)


def _answer(whole: Mapping[str, Any], model: type[BaseModel], shows: tuple[str, ...] | None) -> Schema:
    if issubclass(model, MemoryView):
        return _memory()
    names = shows or tuple(whole["properties"])
    properties = {name: _shallow(whole["properties"][name], whole.get("$defs", {})) for name in names}
    _shorten(properties)
    required = [
        name
        for name in names
        if name in whole.get("required", ()) and not _is_nullable(whole["properties"][name])
    ]
    return _closed(properties, required)


def _shallow(part: Mapping[str, Any], defs: Mapping[str, Any]) -> Schema:
    """A field of an answer: what stands inside of a list or an object is not spelled out twice for each tool."""
    found = _portable(part, defs)
    if found.get("type") == "array" and found["items"].get("type") == "object":
        found["items"] = {"type": "object"}
    if found.get("type") == "object":
        found = {name: found[name] for name in ("type", "description") if name in found}
    return found


def _shorten(properties: Mapping[str, Schema]) -> None:
    """A host shows every tool to its model: of each field the first sentence, which is enough to use it."""
    for part in properties.values():
        part["description"] = part.get("description", "").split(". ", 1)[0].rstrip(".") + "."
        _shorten(part.get("properties", {}))


def _memory() -> Schema:
    properties: dict[str, Schema] = {
        "id": {"type": "string", "description": "Its id."},
        "type": {"type": "string", "description": "Its kind."},
        "content": {"anyOf": [{"type": "string"}, {"type": "object"}], "description": "The memory."},
        "created_at": {"type": "integer", "description": "Epoch ms."},
        "provenance": _PROVENANCE,
    }
    return {"type": "object", "properties": properties, "required": ["id", "type", "content"]}


def _portable(part: Mapping[str, Any], defs: Mapping[str, Any]) -> Schema:
    """One node and all below it."""
    if "$ref" in part:
        target = defs[part["$ref"].rpartition("/")[2]]
        return _portable({**target, **{name: part[name] for name in part if name != "$ref"}}, defs)
    ways = [way for way in cast("list[Schema]", part.get("anyOf", [])) if way.get("type") != "null"]
    rest = {
        name: value
        for name, value in part.items()
        if name not in ("anyOf", "properties", "items", "additionalProperties", *_UNSAID)
    }
    if len(ways) == 1:
        inner = {name: value for name, value in ways[0].items() if name not in rest}
        return _portable({**inner, **rest}, defs)
    if ways:
        return {"anyOf": [_portable(way, defs) for way in ways], **rest}
    if "items" in part:
        rest["items"] = _portable(_undescribed(part["items"]), defs)
    if "properties" in part:
        properties = {name: _portable(below, defs) for name, below in part["properties"].items()}
        closed = _closed(properties, list(part.get("required", ())))
        return {**closed, **{name: rest[name] for name in ("description",) if name in rest}}
    return rest


def _undescribed(part: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in part.items() if name != "description"}


def _is_nullable(part: Mapping[str, Any]) -> bool:
    return any(way.get("type") == "null" for way in part.get("anyOf", ()))


def _closed(properties: Mapping[str, Any], required: Collection[str]) -> Schema:
    found: Schema = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    return {**found, "required": list(required)} if required else found
