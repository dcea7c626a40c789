"""The filter language: one meaning for recall, forget, expire, rules, import and export.

    filter  := { key: test, ... }                     all must hold
    key     := path | "$and" | "$or" | "$not"
    test    := value | { "$op": operand, ... }        a bare value means $eq; several operators all hold

`compiled` reads a filter once into a tree of `All`, `Any`, `Not` and `Test`. `$ne` and `$nin` become `Not`
around `$eq` and `$in`, times become milliseconds, and the tests on tags become `$all` and `$any`.

- A filter inside `$and`, `$or` or `$not` says something: an empty one would match every record.
- `{"tags": "a"}`: has that tag; a list: has all of them; `$in`: has one of them. No list of tags is empty.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Hashable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Final, NoReturn, cast

from quipu.errors import InvalidError
from quipu.model.record import Record
from quipu.model.value import Json, JsonObject
from quipu.rules.filter_trees import (
    FIELDS,
    MISSING,
    RESERVED,
    STORE,
    TAGS,
    TIMES,
    All,
    Any,
    Missing,
    Not,
    Operator,
    Path,
    Test,
    Tree,
    holds,
    is_number,
    metadata_at,
    passes,
    paths,
    token,
    value_at,
)
from quipu.rules.texts import checked_keepable

__all__ = [
    "MISSING",
    "STORE",
    "All",
    "Any",
    "Missing",
    "Not",
    "Operator",
    "Path",
    "Test",
    "Tree",
    "checked",
    "compiled",
    "holds",
    "key",
    "matches",
    "metadata_at",
    "passes",
    "paths",
    "token",
    "value_at",
]

MAX_DEPTH: Final = 8
MAX_NODES: Final = 200
MAX_LISTED: Final = 1_000
#: As deep as metadata may be; a deeper operand equals nothing.
MAX_OPERAND_DEPTH: Final = 32

LOGIC: Final = ("$and", "$or", "$not")
OPERATORS: Final = ("$eq", "$ne", "$in", "$nin", "$gt", "$gte", "$lt", "$lte", "$exists", "$contains")


def checked(filter: JsonObject, pointer: str = "/filter") -> None:
    """Raise unless this is a filter."""
    compiled(filter, pointer)


def compiled(filter: JsonObject, pointer: str = "/filter") -> Tree:
    """The filter as a tree; raises, with the JSON Pointer of the place, unless it is one."""
    return _Reading().filter(filter, pointer, 1)


def key(filter: JsonObject) -> str:
    """A canonical text: filters with the same one match the same records."""
    return json.dumps(_plain(filter), sort_keys=True, separators=(",", ":"))


def matches(filter: JsonObject, record: Record, store_name: str) -> bool:
    """Whether the record, lying in the store of this name, passes the filter."""
    return passes(compiled(filter), record, store_name)


_ESCAPED_OR_DOT: Final = re.compile(r"\\([.\\])|(\.)")


class _Reading:
    """One pass over a filter, which counts what it has seen."""

    def __init__(self) -> None:
        self._nodes = 0

    def filter(self, value: object, pointer: str, depth: int) -> Tree:
        members = _object(value)
        if members is None:
            _refuse(pointer, "A filter is an object.")
        if depth > MAX_DEPTH:
            _refuse(pointer, f"A filter is at most {MAX_DEPTH} levels deep.")
        parts = [self._member(name, test, pointer, depth) for name, test in members.items()]
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _member(self, name: object, test: object, pointer: str, depth: int) -> Tree:
        if not isinstance(name, str):
            _refuse(pointer, "The keys of a filter are texts.")
        place = _below(pointer, checked_keepable(name, pointer))
        if not name.startswith("$"):
            return self._tests(_path(name, place), test, place)
        self._count(place)
        if name == "$not":
            return Not(self._inner(test, place, depth))
        if name not in LOGIC:
            _refuse_operator(
                place, name, LOGIC, "This operator stands in a test: {path: {operator: operand}}."
            )
        filters = _list(test)
        if not filters:
            _refuse(place, "This takes a list of one or more filters.")
        parts = tuple(self._inner(part, f"{place}/{index}", depth) for index, part in enumerate(filters))
        return All(parts) if name == "$and" else Any(parts)

    def _inner(self, value: object, pointer: str, depth: int) -> Tree:
        if _object(value) == {}:
            _refuse(pointer, "An empty filter here would match every record.")
        return self.filter(value, pointer, depth + 1)

    def _tests(self, path: Path, test: object, pointer: str) -> Tree:
        members = _object(test) or {}
        operators = [name for name in members if isinstance(name, str) and name.startswith("$")]
        if not operators:
            return self._test(path, "$eq", test, pointer)
        if len(operators) < len(members):
            _refuse(pointer, "Operators and other keys cannot be mixed.", OPERATORS)
        places = [_below(pointer, checked_keepable(name, pointer)) for name in operators]
        parts = [
            self._test(path, name, members[name], place)
            for name, place in zip(operators, places, strict=True)
        ]
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _test(self, path: Path, name: str, operand: object, pointer: str) -> Tree:
        self._count(pointer)
        match name:
            case "$eq" | "$ne":
                test = _equality(path, operand, pointer)
            case "$in" | "$nin":
                test = _membership(path, operand, pointer)
            case "$gt" | "$gte" | "$lt" | "$lte":
                test = Test(path, Operator(name), _bound(path, operand, pointer))
            case "$exists":
                if not isinstance(operand, bool):
                    _refuse(pointer, "$exists takes true or false.", ("true", "false"))
                test = Test(path, Operator.EXISTS, operand)
            case "$contains":
                test = Test(path, Operator.CONTAINS, token(_value(operand, pointer)))
            case _:
                _refuse_operator(pointer, name, OPERATORS, "This operator stands around whole filters.")
        return Not(test) if name in ("$ne", "$nin") else test

    def _count(self, pointer: str) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            _refuse(pointer, f"A filter has at most {MAX_NODES} tests and operators.")


def _path(name: str, pointer: str) -> Path:
    """A name without a prefix is a reserved field, or else the first step into the metadata."""
    if name in RESERVED:
        return Path(name)
    if not name.startswith("record."):
        return Path(None, _segments(name.removeprefix("metadata.")))
    field = name.removeprefix("record.")
    if field not in FIELDS:
        accepted = [f"record.{known}" for known in sorted(FIELDS)]
        message = _suggesting("A record has no such field.", field, sorted(FIELDS), "record.")
        _refuse(pointer, message, accepted)
    return Path(field)


def _segments(name: str) -> tuple[str, ...]:
    r"""The steps of a path: dots part them; `\.` is a dot and `\\` a backslash within one."""
    marked = _ESCAPED_OR_DOT.sub(lambda found: found[1] or "\0", name)
    return tuple(marked.split("\0"))


def _equality(path: Path, operand: object, pointer: str) -> Test:
    if path == TAGS and operand is not None:
        listed = _list(operand)
        return Test(path, Operator.HAS_ALL, _tag_names([operand] if listed is None else listed, pointer))
    return Test(path, Operator.EQ, token(_operand(path, operand, pointer)))


def _membership(path: Path, operand: object, pointer: str) -> Test:
    listed = _list(operand)
    if listed is None or not 1 <= len(listed) <= MAX_LISTED:
        _refuse(pointer, f"This takes a list of 1 to {MAX_LISTED} values.")
    if path == TAGS:
        return Test(path, Operator.HAS_ANY, _tag_names(listed, pointer))
    values = (_operand(path, value, f"{pointer}/{index}") for index, value in enumerate(listed))
    return Test(path, Operator.IN, frozenset(token(value) for value in values))


def _bound(path: Path, operand: object, pointer: str) -> Hashable:
    if not isinstance(operand, str) and not is_number(operand):
        _refuse(pointer, "This compares with a number or a text.", ("number", "string"))
    return cast(Hashable, _operand(path, operand, pointer))


def _tag_names(listed: Sequence[object], pointer: str) -> frozenset[str]:
    names = frozenset(checked_keepable(tag, pointer) for tag in listed if isinstance(tag, str))
    if not names or not all(isinstance(tag, str) for tag in listed):
        _refuse(
            pointer,
            "Tags are compared with a text or a list of one or more texts.",
            ("string", "list of strings"),
        )
    return names


def _operand(path: Path, value: object, pointer: str) -> Json:
    """The value as JSON; where the path is a time, a text is read as one."""
    if path.field in TIMES and isinstance(value, str):
        return _moment(value, pointer)
    return _value(value, pointer)


def _moment(text: str, pointer: str) -> int | float:
    """Milliseconds since the epoch; a fraction of one stays, so that comparisons are exact."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        accepted = ("integer milliseconds", "2026-01-31T09:30:00Z")
        _refuse(pointer, "A time is written in milliseconds or as ISO 8601 with its zone.", accepted)
    microseconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return microseconds / 1_000 if microseconds % 1_000 else microseconds // 1_000


def _value(value: object, pointer: str, depth: int = 1) -> Json:
    """The same value, once it is known to be JSON that every ledger can compare."""
    if depth > MAX_OPERAND_DEPTH:
        _refuse(pointer, f"A value is at most {MAX_OPERAND_DEPTH} levels deep.")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return checked_keepable(value, pointer)
    if isinstance(value, int | float):
        return _keepable_number(value, pointer)
    members, listed = _object(value), _list(value)
    if members is None and listed is None:
        raise InvalidError.at(pointer, "bad_value", "This is not a JSON value.")
    for name, item in (members or {}).items():
        if not isinstance(name, str):
            raise InvalidError.at(pointer, "bad_value", "The keys of an object are texts.")
        _value(item, _below(pointer, checked_keepable(name, pointer)), depth + 1)
    for index, item in enumerate(listed or ()):
        _value(item, f"{pointer}/{index}", depth + 1)
    return cast(Json, value)


def _object(value: object) -> Mapping[object, object] | None:
    return cast(Mapping[object, object], value) if isinstance(value, Mapping) else None


def _list(value: object) -> Sequence[object] | None:
    return cast(Sequence[object], value) if isinstance(value, list | tuple) else None


def _keepable_number(number: int | float, pointer: str) -> int | float:
    if isinstance(number, int) and not -(2**63) <= number < 2**63:
        raise InvalidError.at(pointer, "bad_value", "An integer has at most 64 bits.")
    if not math.isfinite(number):
        raise InvalidError.at(pointer, "bad_value", "A number is finite.")
    return number


def _plain(value: Json) -> object:
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _below(pointer: str, name: str) -> str:
    return f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"


def _suggesting(message: str, name: str, accepted: Sequence[str], prefix: str = "") -> str:
    near = get_close_matches(name, accepted, n=1)
    return f"{message} Did you mean {prefix}{near[0]}?" if near else message


def _refuse_operator(pointer: str, name: str, accepted: Sequence[str], misplaced: str) -> NoReturn:
    is_known = name in LOGIC + OPERATORS
    message = misplaced if is_known else _suggesting("Unknown operator.", name, accepted)
    raise InvalidError.at(pointer, "unknown_operator", message, accepted=accepted)


def _refuse(pointer: str, message: str, accepted: Sequence[str] = ()) -> NoReturn:
    raise InvalidError.at(pointer, "bad_filter", message, accepted=accepted)
