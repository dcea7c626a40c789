"""A text in every place that a request has for one, found in its schema: nested, in lists, in free JSON, in keys."""

from collections.abc import Iterator, Mapping
from typing import Any

from quipu.operation import Request
from quipu.schemas import schema

#: A request may hold itself, as a batch of a batch would; no deeper than this.
_DEEPEST = 6


def placed(request: type[Request], text: str) -> Iterator[tuple[str, Any]]:
    """Field and value, with the text in exactly one place of it."""
    whole = schema(request)
    for name, part in whole.get("properties", {}).items():
        for value in _values(part, whole.get("$defs", {}), text, 0):
            yield name, value


def _values(part: Mapping[str, Any], shared: Mapping[str, Any], text: str, depth: int) -> Iterator[Any]:
    part = _resolved(part, shared)
    if depth > _DEEPEST or "enum" in part or "const" in part:
        return
    if "anyOf" in part:
        for arm in part["anyOf"]:
            yield from _values(arm, shared, text, depth)
        return
    match part.get("type"):
        case "string":
            yield text
        case "array":
            for value in _values(part["items"], shared, text, depth + 1):
                yield [value]
        case "object" if "properties" in part:
            least = {name: _least(part["properties"][name], shared) for name in part.get("required", ())}
            for name, inner in part["properties"].items():
                for value in _values(inner, shared, text, depth + 1):
                    yield {**least, name: value}
        case "object":
            yield from ({"a": text}, {text: "a"}, {"a": [text]}, {"a": {"b": {text: text}}})
            yield from ({"consent_id": text}, {"metadata.x": text}, {"tags": text})
        case _:
            return


def _least(part: Mapping[str, Any], shared: Mapping[str, Any]) -> Any:
    """The least that the schema takes."""
    part = _resolved(part, shared)
    if "enum" in part or "const" in part:
        return part.get("const", part.get("enum", [None])[0])
    if "anyOf" in part:
        return _least(part["anyOf"][0], shared)
    match part.get("type"):
        case "string":
            return "x"
        case "integer" | "number":
            return max(1, part.get("minimum", 1))
        case "boolean":
            return True
        case "array":
            return [_least(part["items"], shared)] * part.get("minItems", 0)
        case _:
            return {name: _least(part["properties"][name], shared) for name in part.get("required", ())}


def _resolved(part: Mapping[str, Any], shared: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = part.get("$ref")
    return part if reference is None else shared[reference.rpartition("/")[2]]
