"""Values of the model that a caller made: every field holds what the model says it does, all the way down.

Python itself does not look; a word where a member belongs would be kept, and could not be read any more.
What may stand in a text, a number or free JSON is the rules' to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import EnumType
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from quipu.errors import InvalidError
from quipu.model.operations import Embedding

T = TypeVar("T")
#: Value, where it stands → nothing, or an `InvalidError`.
Check: TypeAlias = Callable[[object, str], None]

_WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false", NoneType: "None"}
#: Free JSON: the rules go through it.
_FREE: Mapping[str, Any] = {"Json": object, "JsonObject": Mapping[str, object]}


def shaped(value: T, pointer: str = "") -> T:
    """The same value, or an `InvalidError` that says which field is not of its kind."""
    _check(type(value))(value, pointer)
    return value


@cache
def _check(kind: Any) -> Check:
    """What tells a value of this kind from all others."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _either(parts)
    if kind is Embedding:
        return _embedding
    if isinstance(kind, type) and is_dataclass(kind):
        return _object(kind)
    if origin is tuple:
        return _many(parts[0])
    return _alone(origin or kind)


def _is(value: object, kind: Any) -> bool:
    """Whether a value is of a kind, seen from outside; yes and no are no numbers."""
    kind = get_origin(kind) or kind
    if kind is object:
        return True
    if kind is tuple:
        return isinstance(value, tuple | list)
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def _refused(pointer: str, kinds: Sequence[Any]) -> InvalidError:
    named = [_word(kind) for kind in kinds]
    what = pointer.rpartition("/")[2] or "This"
    return InvalidError.at(pointer, "bad_value", f"{what} is not {' or '.join(named)}.", accepted=named)


def _word(kind: Any) -> str:
    bare: Any = get_origin(kind) or kind
    if bare is tuple:
        return "list"
    if bare is Mapping:
        return "object"
    if isinstance(bare, EnumType):
        return f"{bare.__name__}: {', '.join(str(one) for one in cast('Iterable[object]', bare))}"
    return _WORDS.get(bare) or str(bare.__name__)


def _alone(kind: Any) -> Check:
    def check(value: object, pointer: str) -> None:
        if not _is(value, kind):
            raise _refused(pointer, [kind])

    return check


def _either(kinds: Sequence[Any]) -> Check:
    checks = [(kind, _check(kind)) for kind in kinds]

    def check(value: object, pointer: str) -> None:
        for kind, inner in checks:
            if _is(value, kind):
                return inner(value, pointer)
        raise _refused(pointer, kinds)

    return check


def _many(kind: Any) -> Check:
    item = _check(kind)

    def check(value: object, pointer: str) -> None:
        if not isinstance(value, tuple | list):
            raise _refused(pointer, [tuple])
        for place, one in enumerate(cast("Sequence[object]", value)):
            item(one, f"{pointer}/{place}")

    return check


def _object(kind: type) -> Check:
    hints = get_type_hints(kind, localns=dict(_FREE))
    members = [(field.name, _check(hints[field.name])) for field in fields(kind)]

    def check(value: object, pointer: str) -> None:
        if not isinstance(value, kind):
            raise _refused(pointer, [kind])
        for name, inner in members:
            inner(getattr(value, name), f"{pointer}/{name}")

    return check


def _embedding(value: object, pointer: str) -> None:
    """Its vector may be any row of numbers, such as an array; what is in it is looked at where it is kept."""
    if not isinstance(value, Embedding):
        raise _refused(pointer, [Embedding])
    if not isinstance(cast("object", value.model), str):
        raise _refused(f"{pointer}/model", [str])
    if isinstance(value.vector, str | Mapping) or not hasattr(value.vector, "__len__"):
        raise InvalidError.at(
            f"{pointer}/vector", "bad_value", "vector is not a list of numbers.", accepted=["list of numbers"]
        )
