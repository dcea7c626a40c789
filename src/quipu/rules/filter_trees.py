"""A filter after it was read: what it looks at, and what it asks of each value.

- Values are equal as JSON: 1 is 1.0, but neither `"1"` nor `true`; lists and objects as a whole.
- A field without a value is missing. Missing equals null, is in no list without null, and is never ordered.
- `holds` depends on one test and one value and on nothing else, so it may be asked once per distinct value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, TypeAlias, assert_never, cast

from quipu.model.record import DETAIL_FIELDS, Record, Sensitivity
from quipu.model.value import Json, JsonObject


class Missing(Enum):
    """The type of `MISSING`: there is nothing at the path."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING


class Operator(StrEnum):
    """What a `Test` asks of a value. The last two only of tags: has all of them, has one of them."""

    EQ = "$eq"
    IN = "$in"
    GT = "$gt"
    GTE = "$gte"
    LT = "$lt"
    LTE = "$lte"
    EXISTS = "$exists"
    CONTAINS = "$contains"
    HAS_ALL = "$all"
    HAS_ANY = "$any"


@dataclass(frozen=True, slots=True)
class Path:
    """A field of the record, or (`field` is None) the way to a value in its metadata."""

    field: str | None
    segments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Test:
    """One condition. The operand is a token, a set of tokens, a number, a text or a truth value."""

    path: Path
    operator: Operator
    operand: Hashable


@dataclass(frozen=True, slots=True)
class All:
    """Holds when every part does; so without parts it always holds."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Any:
    """Holds when a part does."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Holds when the part does not."""

    part: Tree


Tree: TypeAlias = All | Any | Not | Test


def _detail(name: str) -> Callable[[Record, str], Json]:
    return lambda record, _: record.details.get(name)


def _sensitivity(record: Record, _: str) -> Json:
    stated = record.privacy.sensitivity if record.privacy is not None else None
    return (stated or Sensitivity.INTERNAL).value


#: Fields that a plain name means.
RESERVED: Final[Mapping[str, Callable[[Record, str], Json]]] = {
    "agent_id": lambda record, _: record.agent_id,
    "confidence": lambda record, _: record.confidence,
    "created_at": lambda record, _: record.created_at,
    "session_id": lambda record, _: record.session_id,
    "source": lambda record, _: record.source,
    "store": lambda _, store_name: store_name,
    "tags": lambda record, _: record.tags or None,
    "type": lambda record, _: record.type.value,
    "user_id": lambda record, _: record.user_id,
}
#: Fields that `record.<name>` means: these and the reserved ones.
FIELDS: Final[Mapping[str, Callable[[Record, str], Json]]] = {
    **RESERVED,
    **{name: _detail(name) for name in DETAIL_FIELDS},
    "captured_at": lambda record, _: record.provenance.captured_at,
    "consent_id": lambda record, _: record.privacy.consent_id if record.privacy is not None else None,
    "expires_at": lambda record, _: record.expires_at,
    "id": lambda record, _: record.id,
    "import_id": lambda record, _: record.provenance.import_id,
    "importance": lambda record, _: record.importance,
    "node_id": lambda record, _: record.provenance.node_id,
    "run_id": lambda record, _: record.provenance.run_id,
    "sensitivity": _sensitivity,
    "subject": lambda record, _: record.provenance.subject,
    "tier": lambda record, _: record.tier.value,
    "trust": lambda record, _: record.provenance.trust.value,
    "updated_at": lambda record, _: record.updated_at,
    "version": lambda record, _: record.version,
    "written_by": lambda record, _: record.provenance.written_by,
}
#: Fields whose value is a moment, in milliseconds.
TIMES: Final = frozenset({"captured_at", "created_at", "event_time", "expires_at", "updated_at"})
TAGS: Final = Path("tags")
STORE: Final = Path("store")

_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")


def passes(tree: Tree, record: Record, store_name: str) -> bool:
    """Whether the record, lying in the store of this name, passes the tree."""
    match tree:
        case All(parts):
            return all(passes(part, record, store_name) for part in parts)
        case Any(parts):
            return any(passes(part, record, store_name) for part in parts)
        case Not(part):
            return not passes(part, record, store_name)
        case Test():
            return holds(tree, value_at(record, tree.path, store_name))
        case _:
            assert_never(tree)


def paths(tree: Tree) -> set[Path]:
    """Everything the tree looks at."""
    match tree:
        case All(parts) | Any(parts):
            return {path for part in parts for path in paths(part)}
        case Not(part):
            return paths(part)
        case Test():
            return {tree.path}
        case _:
            assert_never(tree)


def value_at(record: Record, path: Path, store_name: str) -> Json | Missing:
    """What stands at the path; a field without a value, and tags without a tag, are missing."""
    if path.field is None:
        return metadata_at(record.metadata, path)
    value = FIELDS[path.field](record, store_name)
    return MISSING if value is None else value


def metadata_at(metadata: JsonObject, path: Path) -> Json | Missing:
    """What stands at a path into metadata."""
    return _descended(metadata, path.segments)


def holds(test: Test, value: Json | Missing) -> bool:
    """Whether one value passes one test."""
    operand = test.operand
    match test.operator:
        case Operator.EXISTS:
            return (value is not MISSING) is operand
        case Operator.EQ:
            return _token_or_null(value) == operand
        case Operator.IN:
            return _token_or_null(value) in cast(frozenset[Hashable], operand)
        case Operator.HAS_ALL:
            return cast(frozenset[Hashable], operand).issubset(_tags(value))
        case Operator.HAS_ANY:
            return not cast(frozenset[Hashable], operand).isdisjoint(_tags(value))
        case Operator.CONTAINS:
            return _contains(value, operand)
        case Operator.GT | Operator.GTE | Operator.LT | Operator.LTE:
            return _is_ordered(test.operator, value, operand)
        case _:
            assert_never(test.operator)


def token(value: Json) -> Hashable:
    """A hashable stand-in: two values are equal as JSON exactly when their tokens are equal."""
    if isinstance(value, bool):
        return ("bool", value)
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return ("object", frozenset((name, token(item)) for name, item in value.items()))
    return ("list", tuple(token(item) for item in value))


def _token_or_null(value: Json | Missing) -> Hashable:
    return None if isinstance(value, Missing) else token(value)


def _tags(value: Json | Missing) -> Sequence[Hashable]:
    return cast(Sequence[str], value) if isinstance(value, list | tuple) else ()


def _contains(value: Json | Missing, wanted: Hashable) -> bool:
    if isinstance(value, str):
        return isinstance(wanted, str) and wanted in value
    if isinstance(value, Sequence):
        return any(token(item) == wanted for item in value)
    return False


def _is_ordered(operator: Operator, value: Json | Missing, operand: Hashable) -> bool:
    """Number against number, text against text by code point; anything else is not ordered."""
    if isinstance(value, str) and isinstance(operand, str):
        below, above = value < operand, value > operand
    elif is_number(value) and not isinstance(operand, str):
        number, bound = cast(float, value), cast(float, operand)
        below, above = number < bound, number > bound
    else:
        return False
    match operator:
        case Operator.GT:
            return above
        case Operator.GTE:
            return not below
        case Operator.LT:
            return below
        case _:
            return not above


def is_number(value: object) -> bool:
    """Truth values are no numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _descended(value: Json, segments: Sequence[str]) -> Json | Missing:
    for segment in segments:
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
