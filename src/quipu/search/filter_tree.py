"""A filter after it was read: what it looks at, and what it asks of each value.

- Values are equal as JSON: 1 is 1.0, but neither `"1"` nor `true`; lists and objects as a whole.
- A field without a value is missing. Missing equals null, is in no list without null, and is never ordered.
- `holds` depends on one condition and one value and on nothing else, so it may be asked once per distinct value.
"""

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, TypeAlias, assert_never, cast

from quipu.model.record import DETAIL_FIELDS, Record
from quipu.model.value import Json, JsonObject


class Missing(Enum):
    """The type of `MISSING`: there is nothing at the path."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING
#: What may stand at a path.
Value: TypeAlias = "Json | Missing"

#: What a condition asks of a value. The last two only of tags: has all of them, has one of them.
Operator: TypeAlias = Literal[
    "$eq", "$in", "$gt", "$gte", "$lt", "$lte", "$exists", "$contains", "$has_all", "$has_any"
]


@dataclass(frozen=True, slots=True)
class Path:
    """A field of the record, or (`field` is None) the way to a value in its metadata."""

    field: str | None
    segments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition. The operand is a token, a set of tokens, a number, a text or a truth value."""

    path: Path
    operator: Operator
    operand: Hashable


@dataclass(frozen=True, slots=True)
class AllOf:
    """Holds when every part does; so without parts it always holds."""

    parts: "tuple[Tree, ...]"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Holds when a part does."""

    parts: "tuple[Tree, ...]"


@dataclass(frozen=True, slots=True)
class Not:
    """Holds when the part does not."""

    part: "Tree"


Tree: TypeAlias = AllOf | AnyOf | Not | Condition


def _detail(name: str) -> Callable[[Record], Json]:
    return lambda record: record.details.get(name)


def _sensitivity(record: Record) -> Json:
    stated = record.privacy.sensitivity if record.privacy is not None else None
    return stated or "internal"


#: The fields of a record that a filter may name. The name of its store is not in the record: `STORE`.
_FIELDS: Final[Mapping[str, Callable[[Record], Json]]] = {
    **{name: _detail(name) for name in DETAIL_FIELDS},
    "agent_id": lambda record: record.agent_id,
    "captured_at": lambda record: record.provenance.captured_at,
    "confidence": lambda record: record.confidence,
    "consent_id": lambda record: record.privacy.consent_id if record.privacy is not None else None,
    "created_at": lambda record: record.created_at,
    "expires_at": lambda record: record.expires_at,
    "id": lambda record: record.id,
    "import_id": lambda record: record.provenance.import_id,
    "importance": lambda record: record.importance,
    "key": lambda record: record.key,
    "node_id": lambda record: record.provenance.node_id,
    "run_id": lambda record: record.provenance.run_id,
    "sensitivity": _sensitivity,
    "session_id": lambda record: record.session_id,
    "source": lambda record: record.source,
    "subject": lambda record: record.provenance.subject,
    "tags": lambda record: record.tags or None,
    "tier": lambda record: record.tier,
    "trust": lambda record: record.provenance.trust,
    "type": lambda record: record.type,
    "updated_at": lambda record: record.updated_at,
    "user_id": lambda record: record.user_id,
    "valid_from": lambda record: record.valid_from,
    "valid_until": lambda record: record.valid_until,
    "version": lambda record: record.version,
    "written_by": lambda record: record.provenance.written_by,
}
STORE: Final = Path("store")
TAGS: Final = Path("tags")
FIELDS: Final = frozenset((*_FIELDS, "store"))
#: Fields whose value is a time, in milliseconds.
TIMES: Final = frozenset(
    ("captured_at", "created_at", "event_time", "expires_at", "updated_at", "valid_from", "valid_until")
)

_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")


def passes(tree: Tree, record: Record, store_name: str) -> bool:
    """Whether the record, which is in the store of this name, passes the filter."""
    match tree:
        case AllOf(parts):
            return all(passes(part, record, store_name) for part in parts)
        case AnyOf(parts):
            return any(passes(part, record, store_name) for part in parts)
        case Not(part):
            return not passes(part, record, store_name)
        case Condition():
            return holds(tree, value_at(record, tree.path, store_name))
        case _:
            assert_never(tree)


def paths(tree: Tree) -> set[Path]:
    """Everything the filter looks at."""
    match tree:
        case AllOf(parts) | AnyOf(parts):
            return {path for part in parts for path in paths(part)}
        case Not(part):
            return paths(part)
        case Condition():
            return {tree.path}
        case _:
            assert_never(tree)


def value_at(record: Record, path: Path, store_name: str) -> Value:
    """What stands at the path; a field without a value, and tags without a tag, are missing."""
    if path.field is None:
        return metadata_at(record.metadata, path)
    value = store_name if path == STORE else _FIELDS[path.field](record)
    return MISSING if value is None else value


def metadata_at(metadata: JsonObject, path: Path) -> Value:
    """What stands at a path into metadata: members by name, items of lists by number."""
    value: Json = metadata
    for segment in path.segments:
        if isinstance(value, Mapping):
            if segment not in value:
                return MISSING
            value = value[segment]
        elif isinstance(value, Sequence) and not isinstance(value, str) and _INDEX.fullmatch(segment):
            if int(segment) >= len(value):
                return MISSING
            value = value[int(segment)]
        else:
            return MISSING
    return value


def holds(condition: Condition, value: Value) -> bool:
    """Whether one value passes one condition."""
    operand = condition.operand
    match condition.operator:
        case "$exists":
            return (value is not MISSING) is operand
        case "$eq":
            return _token_or_null(value) == operand
        case "$in":
            return _token_or_null(value) in cast("frozenset[Hashable]", operand)
        case "$has_all":
            return cast("frozenset[Hashable]", operand).issubset(_tags(value))
        case "$has_any":
            return not cast("frozenset[Hashable]", operand).isdisjoint(_tags(value))
        case "$contains":
            return _contains(value, operand)
        case "$gt" | "$gte" | "$lt" | "$lte":
            return _is_ordered(condition.operator, value, operand)
        case _:
            assert_never(condition.operator)


def token(value: Json) -> Hashable:
    """A hashable stand-in: two values are equal as JSON exactly when their tokens are equal."""
    if isinstance(value, bool):
        return ("bool", value)
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return ("object", frozenset((name, token(item)) for name, item in value.items()))
    return ("list", tuple(token(item) for item in value))


def is_number(value: object) -> bool:
    """Truth values are no numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _token_or_null(value: Value) -> Hashable:
    return None if isinstance(value, Missing) else token(value)


def _tags(value: Value) -> Sequence[Hashable]:
    return cast("Sequence[str]", value) if isinstance(value, list | tuple) else ()


def _contains(value: Value, wanted: Hashable) -> bool:
    if isinstance(value, str):
        return isinstance(wanted, str) and wanted in value
    if isinstance(value, Sequence):
        return any(token(item) == wanted for item in value)
    return False


def _is_ordered(operator: Literal["$gt", "$gte", "$lt", "$lte"], value: Value, operand: Hashable) -> bool:
    """Number against number, text against text by code point; anything else is not ordered."""
    if isinstance(value, str) and isinstance(operand, str):
        below, above = value < operand, value > operand
    elif is_number(value) and is_number(operand):
        number, bound = cast("float", value), cast("float", operand)
        below, above = number < bound, number > bound
    else:
        return False
    match operator:
        case "$gt":
            return above
        case "$gte":
            return not below
        case "$lt":
            return below
        case "$lte":
            return not above
