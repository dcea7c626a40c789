r"""The filter language: one meaning for recall, list, forget, expire, rules, import and export.

    filter  := { key: test, ... }                     all must hold
    key     := path | "$and" | "$or" | "$not"
    test    := value | { "$op": operand, ... }        a bare value means $eq; several operators all hold
    path    := a record field | "metadata." and a way into the metadata: `.` descends, `\.` is a dot

- A filter inside `$and`, `$or` or `$not` says something: an empty one would match every record.
- `{"tags": "a"}`: has that tag; a list: has all of them; `$in`: has one of them. No list of tags is empty.
- What a plain name means depends on who asks (`PlainNames`). The canonical form has `metadata.` before every way into
  the metadata; it is what is kept and searched with.

`compiled` reads a filter once into a tree. `$ne` and `$nin` become `Not` around `$eq` and `$in`, times become
milliseconds, and the tests on tags become `$has_all` and `$has_any`.
"""

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Final, Literal, NoReturn, TypeAlias, cast

from quipu.errors import Fault, InvalidError, may_repeat
from quipu.model.record import Record
from quipu.model.value import Json, JsonObject
from quipu.search.filter_tree import (
    FIELDS,
    TAGS,
    TIMES,
    AllOf,
    AnyOf,
    Condition,
    Not,
    Path,
    Tree,
    is_number,
    passes,
    token,
)
from quipu.search.text import is_storable

#: What a plain name is: a field of the record, or an error; or, on memorywire's v0 wire, a key of the metadata, except
#: for the fields that a v0 request has itself.
PlainNames: TypeAlias = Literal["fields", "metadata"]

V0_FIELDS: Final = frozenset(
    (
        "agent_id",
        "confidence",
        "created_at",
        "session_id",
        "source",
        "store",
        "tags",
        "type",
        "user_id",
    )
)
MAX_DEPTH: Final = 8
MAX_NODES: Final = 200
MAX_LISTED: Final = 1_000
#: As deep as metadata may be; a deeper operand equals nothing.
MAX_OPERAND_DEPTH: Final = 32

LOGIC: Final = ("$and", "$or", "$not")
OPERATORS: Final = ("$eq", "$ne", "$in", "$nin", "$gt", "$gte", "$lt", "$lte", "$exists", "$contains")
METADATA: Final = "metadata."

_ESCAPED_OR_DOT: Final = re.compile(r"\\([.\\])|(\.)")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def compiled(filter: JsonObject, *, plain_names: PlainNames, pointer: str = "/filter") -> Tree:
    """The filter as a tree; raises, with the JSON Pointer of the place, unless it is one."""
    return _Reading(plain_names).filter(filter, pointer, 1)


def canonical(filter: JsonObject, *, plain_names: PlainNames, pointer: str = "/filter") -> JsonObject:
    """The same filter in the form in which it is kept and searched with; raises unless it is a filter."""
    compiled(filter, plain_names=plain_names, pointer=pointer)
    return _renamed(filter, plain_names, pointer)


def matches(filter: JsonObject, record: Record, store_name: str) -> bool:
    """Whether the record, which is in the store of this name, passes a filter in its canonical form."""
    return passes(compiled(filter, plain_names="fields"), record, store_name)


class _Reading:
    """One pass over a filter, which counts what it has seen."""

    def __init__(self, plain_names: PlainNames) -> None:
        self._plain_names: PlainNames = plain_names
        self._nodes = 0

    def filter(self, value: object, pointer: str, depth: int) -> Tree:
        members = _object(value)
        if members is None:
            _refuse(pointer, "A filter is an object.")
        if depth > MAX_DEPTH:
            _refuse(pointer, f"A filter is at most {MAX_DEPTH} levels deep.")
        parts = [self._member(name, test, pointer, depth) for name, test in members.items()]
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _member(self, name: object, test: object, pointer: str, depth: int) -> Tree:
        if not isinstance(name, str):
            _refuse(pointer, "The keys of a filter are texts.")
        place = _below(pointer, _storable(name, pointer))
        if not name.startswith("$"):
            return self._tests(_path(name, self._plain_names, place), test, place)
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
        return AllOf(parts) if name == "$and" else AnyOf(parts)

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
        parts = [
            self._test(path, name, members[name], _below(pointer, _storable(name, pointer)))
            for name in operators
        ]
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _test(self, path: Path, name: str, operand: object, pointer: str) -> Tree:
        self._count(pointer)
        match name:
            case "$eq" | "$ne":
                test = _equality(path, operand, pointer)
            case "$in" | "$nin":
                test = _membership(path, operand, pointer)
            case "$gt" | "$gte" | "$lt" | "$lte":
                test = Condition(path, name, _bound(path, operand, pointer))
            case "$exists":
                if not isinstance(operand, bool):
                    _refuse(pointer, "$exists takes true or false.", ("true", "false"))
                test = Condition(path, "$exists", operand)
            case "$contains":
                test = Condition(path, "$contains", token(_value(operand, pointer)))
            case _:
                _refuse_operator(pointer, name, OPERATORS, "This operator stands around whole filters.")
        return Not(test) if name in ("$ne", "$nin") else test

    def _count(self, pointer: str) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            _refuse(pointer, f"A filter has at most {MAX_NODES} tests and operators.")


# -- names ----------------------------------------------------------------------------------------------------------


def _path(name: str, plain_names: PlainNames, pointer: str) -> Path:
    if name in (FIELDS if plain_names == "fields" else V0_FIELDS):
        return Path(name)
    if name.startswith(METADATA) or plain_names == "metadata":
        return Path(None, _segments(name.removeprefix(METADATA)))
    message = _suggesting(
        "A record has no such field; a key of its metadata is `metadata.<key>`.", name, FIELDS
    )
    place = pointer if may_repeat(name) else pointer.rpartition("/")[0]
    raise _fault(place, "unknown_field", message, (*sorted(FIELDS), "metadata.<key>"))


def _segments(name: str) -> tuple[str, ...]:
    r"""The steps of a path: dots part them; `\.` is a dot and `\\` a backslash within one."""
    marked = _ESCAPED_OR_DOT.sub(lambda found: found[1] or "\0", name)
    return tuple(marked.split("\0"))


def _renamed(filter: JsonObject, plain_names: PlainNames, pointer: str) -> JsonObject:
    """A filter that is known to be one, with canonical names."""
    renamed: dict[str, Json] = {}
    for name, test in filter.items():
        if name == "$not":
            renamed[name] = _renamed(cast("JsonObject", test), plain_names, _below(pointer, name))
        elif name in LOGIC:
            place = _below(pointer, name)
            renamed[name] = [
                _renamed(part, plain_names, f"{place}/{index}")
                for index, part in enumerate(cast("Sequence[JsonObject]", test))
            ]
        else:
            is_field = _path(name, plain_names, pointer).field is not None
            path = name if is_field or name.startswith(METADATA) else METADATA + name
            if path in renamed:
                _refuse(_below(pointer, name), "This path is named twice. Put the two into an `$and`.")
            renamed[path] = test
    return renamed


# -- operands -------------------------------------------------------------------------------------------------------


def _equality(path: Path, operand: object, pointer: str) -> Condition:
    if path == TAGS and operand is not None:
        listed = _list(operand)
        return Condition(path, "$has_all", _tag_names([operand] if listed is None else listed, pointer))
    return Condition(path, "$eq", token(_operand(path, operand, pointer)))


def _membership(path: Path, operand: object, pointer: str) -> Condition:
    listed = _list(operand)
    if listed is None or not 1 <= len(listed) <= MAX_LISTED:
        _refuse(pointer, f"This takes a list of 1 to {MAX_LISTED} values.")
    if path == TAGS:
        return Condition(path, "$has_any", _tag_names(listed, pointer))
    values = (_operand(path, value, f"{pointer}/{index}") for index, value in enumerate(listed))
    return Condition(path, "$in", frozenset(token(value) for value in values))


def _bound(path: Path, operand: object, pointer: str) -> Hashable:
    if not isinstance(operand, str) and not is_number(operand):
        _refuse(pointer, "This compares with a number or a text.", ("number", "string"))
    return cast("Hashable", _operand(path, operand, pointer))


def _tag_names(listed: Sequence[object], pointer: str) -> frozenset[str]:
    names = frozenset(_storable(tag, pointer) for tag in listed if isinstance(tag, str))
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
    microseconds = (moment - _EPOCH) // timedelta(microseconds=1)
    return microseconds / 1_000 if microseconds % 1_000 else microseconds // 1_000


def _value(value: object, pointer: str, depth: int = 1) -> Json:
    """The same value, once it is known to be JSON that every ledger can compare."""
    if depth > MAX_OPERAND_DEPTH:
        _refuse(pointer, f"A value is at most {MAX_OPERAND_DEPTH} levels deep.")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _storable(value, pointer)
    if isinstance(value, int | float):
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise _fault(pointer, "bad_value", "An integer has at most 64 bits.")
        if not math.isfinite(value):
            raise _fault(pointer, "bad_value", "A number is finite.")
        return value
    members, listed = _object(value), _list(value)
    if members is None and listed is None:
        raise _fault(pointer, "bad_value", "This is not a JSON value.")
    for name, item in (members or {}).items():
        if not isinstance(name, str):
            raise _fault(pointer, "bad_value", "The keys of an object are texts.")
        _value(item, _below(pointer, _storable(name, pointer)), depth + 1)
    for index, item in enumerate(listed or ()):
        _value(item, f"{pointer}/{index}", depth + 1)
    return cast("Json", value)


def _storable(text: str, pointer: str) -> str:
    if not is_storable(text):
        raise _fault(pointer, "bad_value", "A text holds no U+0000 and no unpaired surrogate.")
    return text


def _object(value: object) -> Mapping[object, object] | None:
    return cast("Mapping[object, object]", value) if isinstance(value, Mapping) else None


def _list(value: object) -> Sequence[object] | None:
    return cast("Sequence[object]", value) if isinstance(value, list | tuple) else None


# -- refusals -------------------------------------------------------------------------------------------------------


def _below(pointer: str, name: str) -> str:
    return f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"


def _suggesting(message: str, name: str, known: Sequence[str] | frozenset[str]) -> str:
    near = get_close_matches(name, sorted(known), n=1)
    return f"{message} Did you mean {near[0]}?" if near else message


def _refuse_operator(pointer: str, name: str, accepted: Sequence[str], misplaced: str) -> NoReturn:
    is_known = name in LOGIC + OPERATORS
    message = misplaced if is_known else _suggesting("Unknown operator.", name, accepted)
    raise _fault(pointer, "unknown_operator", message, accepted)


def _refuse(pointer: str, message: str, accepted: Sequence[str] = ()) -> NoReturn:
    raise _fault(pointer, "bad_filter", message, accepted)


def _fault(pointer: str, reason: str, message: str, accepted: Sequence[str] = ()) -> InvalidError:
    return InvalidError(message, faults=[Fault(pointer, reason, ", ".join(accepted) or message)])
