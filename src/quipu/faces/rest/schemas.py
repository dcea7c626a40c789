"""JSON Schema of the model's values, as `forms` writes and reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

Node: TypeAlias = dict[str, Any]

_SCALARS: Mapping[type, Node] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    bytes: {"type": "string", "pattern": "^([0-9a-f]{2})*$"},
    NoneType: {"type": "null"},
}
_FREE: Mapping[str, Any] = {"Json": object, "JsonObject": Mapping[str, object]}


def component(kind: type) -> str:
    """The name of a value's schema in the OpenAPI document."""
    return f"quipu.{kind.__name__}"


def ref(kind: type) -> Node:
    """A reference to it."""
    return {"$ref": f"#/components/schemas/{component(kind)}"}


def components(*kinds: type) -> dict[str, Node]:
    """The schemas of these values and of all that they hold."""
    found: dict[str, Node] = {}
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop()
        if component(kind) not in found:
            found[component(kind)] = _object(kind)
            waiting += _inside(kind)
    return dict(sorted(found.items()))


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, localns=dict(_FREE))


def _object(kind: type) -> Node:
    hints = _hints(kind)
    is_asked = kind.__name__.endswith(("Body", "Request", "Line"))
    required = [
        field.name
        for field in fields(kind)
        if NoneType not in get_args(hints[field.name])
        # A caller may leave out what has a default; an answer never does.
        and not (is_asked and (field.default is not MISSING or field.default_factory is not MISSING))
    ]
    node: Node = {
        "type": "object",
        "description": (kind.__doc__ or "").strip().splitlines()[0],
        "properties": {field.name: schema_of(hints[field.name]) for field in fields(kind)},
        "additionalProperties": False,
    }
    return {**node, "required": required} if required else node


def schema_of(kind: Any) -> Node:
    """The schema of one field's type. A field without a value is left out, so null is not told."""
    if kind is object or kind is Any:
        return {}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    if isinstance(kind, type) and kind in _SCALARS:
        return dict(_SCALARS[kind])
    if isinstance(kind, type) and is_dataclass(kind):
        return ref(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        branches = [schema_of(branch) for branch in arguments if branch is not NoneType]
        return branches[0] if len(branches) == 1 else {"anyOf": branches}
    if origin is tuple and Ellipsis not in arguments:
        branches = [schema_of(argument) for argument in arguments]
        count = len(arguments)
        return {"type": "array", "items": {"anyOf": branches}, "minItems": count, "maxItems": count}
    if origin in (tuple, frozenset, list, Sequence):
        return {"type": "array", "items": schema_of(arguments[0])}
    if origin is not None and issubclass(origin, Mapping):
        inner = schema_of(arguments[1])
        return {"type": "object", "additionalProperties": inner} if inner else {"type": "object"}
    raise TypeError(f"no schema for {kind!r}")


def _inside(kind: type) -> Iterator[type]:
    """The values that a value holds."""
    waiting = list(_hints(kind).values())
    while waiting:
        hint = waiting.pop()
        if isinstance(hint, type) and is_dataclass(hint):
            yield hint
        waiting += get_args(hint)
