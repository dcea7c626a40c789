"""The model's values as JSON, and back: what `plain` writes, `formed` reads.

A value has its own fields, by their own names. A field without a value is left out, bytes are hexadecimal, a set is a
sorted list. Reading is strict about types; an unknown field is refused where a caller sends it and passed over where
a server answers, so that a newer server can be understood.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AnySet
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from quipu.errors import InvalidError

T = TypeVar("T")
#: Value, where it stands, whether unknown fields are refused → the model's value.
Reader: TypeAlias = Callable[[object, str, bool], Any]

#: Free-form JSON is taken as it is.
_FREE: Mapping[str, Any] = {"Json": object, "JsonObject": Mapping[str, object]}


def plain(value: object) -> Any:
    """A value of the model, ready for JSON."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if is_dataclass(value) and not isinstance(value, type):
        members = ((field.name, getattr(value, field.name)) for field in fields(value))
        return {name: plain(member) for name, member in members if member is not None}
    if isinstance(value, Mapping):
        return {str(name): plain(member) for name, member in cast("Mapping[object, object]", value).items()}
    if isinstance(value, AnySet):
        return sorted(plain(item) for item in cast("AnySet[object]", value))
    return [plain(item) for item in cast("Sequence[object]", value)]


def dumped(value: object) -> bytes:
    """A JSON value as one line of NDJSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def formed(kind: type[T], data: object, *, at: str = "", strict: bool = True) -> T:
    """The value of the model that JSON stands for, or an `InvalidError` that says where it is not one."""
    return cast("T", _reader(kind)(data, at, strict))


@cache
def _reader(kind: Any) -> Reader:
    if kind is object or kind is Any:
        return lambda value, _at, _strict: value
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum(kind)
    if isinstance(kind, type) and kind in _SCALARS:
        return _scalar(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        return _object(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _either(tuple(arguments))
    if origin is tuple and Ellipsis not in arguments:
        return _row(tuple(arguments))
    if origin in (tuple, frozenset, list, Sequence):
        return _many(tuple if origin is Sequence else cast("Any", origin), arguments[0])
    if origin is not None and issubclass(origin, Mapping):
        return _map(arguments[1])
    raise TypeError(f"no form for {kind!r}")


_SCALARS: Mapping[type, tuple[tuple[type, ...], str]] = {
    str: ((str,), "string"),
    int: ((int,), "integer"),
    float: ((int, float), "number"),
    bool: ((bool,), "boolean"),
    bytes: ((str,), "hexadecimal"),
    NoneType: ((NoneType,), "null"),
}


def _refused(at: str, *accepted: str) -> InvalidError:
    return InvalidError.at(
        at, "bad_value", f"Value not accepted; expected: {', '.join(accepted)}.", accepted=accepted
    )


def _scalar(kind: type) -> Reader:
    allowed, name = _SCALARS[kind]

    def read(value: object, at: str, _strict: bool) -> Any:
        if kind is int and isinstance(value, float) and value.is_integer():
            value = int(value)  # a number without a fraction is an integer
        if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
            raise _refused(at, name)
        if kind is bytes:
            try:
                return bytes.fromhex(cast("str", value))
            except ValueError:
                raise _refused(at, name) from None
        return float(cast("int", value)) if kind is float else value

    return read


def _enum(kind: type[Enum]) -> Reader:
    by_value = {member.value: member for member in kind}

    def read(value: object, at: str, _strict: bool) -> Any:
        found = by_value.get(value) if isinstance(value, str) else None
        if found is None:
            raise _refused(at, *(str(member.value) for member in kind))
        return found

    return read


def _many(made: Callable[[list[Any]], Any], kind: Any) -> Reader:
    item = _reader(kind)

    def read(value: object, at: str, strict: bool) -> Any:
        if not isinstance(value, list):
            raise _refused(at, "list")
        return made(
            [
                item(member, f"{at}/{place}", strict)
                for place, member in enumerate(cast("list[object]", value))
            ]
        )

    return read


def _row(kinds: tuple[Any, ...]) -> Reader:
    readers = [_reader(kind) for kind in kinds]

    def read(value: object, at: str, strict: bool) -> Any:
        members = cast("list[object]", value) if isinstance(value, list) else []
        if not isinstance(value, list) or len(members) != len(readers):
            raise _refused(at, f"list of {len(readers)}")
        return tuple(
            reader(member, f"{at}/{place}", strict)
            for place, (reader, member) in enumerate(zip(readers, members, strict=True))
        )

    return read


def _map(kind: Any) -> Reader:
    member = _reader(kind)

    def read(value: object, at: str, strict: bool) -> Any:
        if not isinstance(value, Mapping):
            raise _refused(at, "object")
        given = cast("Mapping[str, object]", value)
        return {name: member(inner, f"{at}/{name}", strict) for name, inner in given.items()}

    return read


def _either(kinds: tuple[Any, ...]) -> Reader:
    """The first that fits; with one choice beside null, its own complaint."""
    readers = [_reader(kind) for kind in kinds if kind is not NoneType]

    def read(value: object, at: str, strict: bool) -> Any:
        if value is None and NoneType in kinds:
            return None
        for reader in readers[:-1]:
            try:
                return reader(value, at, strict)
            except InvalidError:
                continue
        return readers[-1](value, at, strict)

    return read


def _object(kind: type) -> Reader:
    hints = get_type_hints(kind, localns=dict(_FREE))
    readers = {field.name: _reader(hints[field.name]) for field in fields(kind) if field.init}
    required = {
        field.name
        for field in fields(kind)
        if field.init
        and field.default is MISSING
        and field.default_factory is MISSING
        and NoneType not in get_args(hints[field.name])
    }
    empty = {
        field.name: None
        for field in fields(kind)
        if field.init
        and field.default is MISSING
        and field.default_factory is MISSING
        and field.name not in required
    }

    def read(value: object, at: str, strict: bool) -> Any:
        if not isinstance(value, Mapping):
            raise _refused(at, "object")
        given = cast("Mapping[str, object]", value)
        if strict:
            for name in given:
                if name not in readers:
                    raise InvalidError.at(
                        f"{at}/{name[:128]}", "unknown_field", "Unknown field.", accepted=sorted(readers)
                    )
        for name in required:
            if given.get(name) is None:
                raise InvalidError.at(
                    f"{at}/{name}", "missing_field", f"Required field missing: {name}.", accepted=[name]
                )
        members = {
            name: reader(given[name], f"{at}/{name}", strict)
            for name, reader in readers.items()
            if given.get(name) is not None
        }
        return kind(**{**empty, **members})

    return read
