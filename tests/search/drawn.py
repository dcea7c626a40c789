"""Drawn values for properties: texts, JSON, records, filters, candidates.

They come from small pools on purpose, so that filters match and texts repeat.
"""

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, get_args

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from quipu.model.record import (
    DETAIL_FIELDS,
    MemoryType,
    PrivacyIntent,
    Provenance,
    Record,
    Sensitivity,
    Trust,
)
from quipu.model.search import Candidate
from quipu.model.value import Json, JsonObject

TAGS = ("red", "green", "blue")
KEYS = ("a", "b", "0", "a.b", "c\\d", "type", "tags", "record", "")
FIRST_MS = 1_700_000_000_000
_POOL: tuple[Json, ...] = (None, True, False, 0, 1, 1.0, -1, 2.5, "", "1", "a", "ab", "true", "\u00e9")


def texts(min_size: int = 0, max_size: int = 40) -> SearchStrategy[str]:
    """Any text that a ledger can hold."""
    alphabet = st.characters(exclude_categories=("Cs",), exclude_characters="\0")
    return st.text(alphabet, min_size=min_size, max_size=max_size)


def sentences() -> SearchStrategy[str]:
    words = st.sampled_from(("Ana", "Anastasia", "likes", "tea", "steak", "and", "coffee"))
    return st.lists(words, min_size=1, max_size=4).map(" ".join)


def numbers() -> SearchStrategy[int | float]:
    """Finite numbers of at most 64 bits."""
    return st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)


def json_values(max_leaves: int = 8) -> SearchStrategy[Any]:
    leaves: SearchStrategy[Any] = st.sampled_from(_POOL) | texts() | numbers()
    keys = st.sampled_from(KEYS) | texts(max_size=3)
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=max_leaves,
    )


def moments() -> SearchStrategy[int]:
    """Milliseconds that lie close together."""
    return st.integers(FIRST_MS, FIRST_MS + 5)


def iso_times() -> SearchStrategy[str]:
    """Moments as ISO 8601 texts, in several zones."""
    return st.tuples(moments(), st.sampled_from(("+00:00", "-05:00", "+05:30"))).map(lambda pair: _iso(*pair))


def _iso(moment: int, zone: str) -> str:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=moment)
    return at.astimezone(datetime.fromisoformat(f"2000-01-01T00:00:00{zone}").tzinfo).isoformat()


@st.composite
def records(draw: st.DrawFn, **fixed: SearchStrategy[Any]) -> Record:
    """A first version; name a field to draw it from another strategy."""
    kind = draw(fixed.pop("type", st.sampled_from(get_args(MemoryType))))
    strategies = {**_fields(kind), **fixed}
    return Record(type=kind, **{name: draw(strategy) for name, strategy in strategies.items()})


@cache
def _fields(kind: MemoryType) -> dict[str, SearchStrategy[Any]]:
    return {
        "id": st.sampled_from([f"mem_{letter}" for letter in "ABCDEF"]),
        "version": st.integers(1, 3),
        "store_id": st.sampled_from(("ms_1", "ms_2")),
        "agent_id": st.sampled_from(("ana", "bo")),
        "user_id": st.sampled_from((None, "", "u1")),
        "session_id": st.sampled_from((None, "s1")),
        "tier": st.sampled_from(("short_term", "long_term")),
        "content": sentences() | texts(min_size=1),
        "metadata": st.dictionaries(st.sampled_from(KEYS), json_values(), max_size=4),
        "tags": st.lists(st.sampled_from(TAGS), unique=True).map(tuple),
        "confidence": st.sampled_from((0.0, 0.5, 1.0)) | st.floats(0, 1),
        "importance": st.none() | st.floats(0, 1),
        "source": st.sampled_from((None, "user", "web_page")),
        "provenance": st.builds(
            Provenance,
            written_by=st.sampled_from(("ana", "bo")),
            trust=st.sampled_from(get_args(Trust)),
            subject=st.none() | st.sampled_from(("Ana", "Bo")),
        ),
        "details": _details(kind),
        "privacy": st.none()
        | st.builds(PrivacyIntent, sensitivity=st.none() | st.sampled_from(get_args(Sensitivity))),
        "created_at": moments(),
        "updated_at": moments(),
        "expires_at": st.none() | moments(),
        "key": st.sampled_from((None, "city")),
        "valid_until": st.none() | moments(),
    }


def _details(kind: MemoryType) -> SearchStrategy[JsonObject]:
    values: dict[str, SearchStrategy[Json]] = {
        "event_time": moments(),
        "location": st.sampled_from(("Cusco", "Lima")),
        "participants": st.lists(st.sampled_from(("Ana", "Bo")), unique=True),
        "sentiment": st.sampled_from(("positive", "negative")),
        "valence": st.floats(-1, 1),
        "arousal": st.floats(0, 1),
        "emotion": st.just("joy"),
        "target": st.just("Bo"),
    }
    own = {name: values[name] for name, owner in DETAIL_FIELDS.items() if owner == kind}
    return st.fixed_dictionaries({}, optional=own)


# -- filters --------------------------------------------------------------------------------------------------------

TIME_FIELDS = ("created_at", "updated_at", "expires_at", "event_time", "valid_until")
_TEXT_FIELDS = (
    "type",
    "user_id",
    "session_id",
    "store",
    "source",
    "agent_id",
    "sensitivity",
    "subject",
    "key",
)
_OTHER_FIELDS = ("confidence", "importance", "version", "participants", "tier")
_METADATA = (
    "a", "b", "a.b", "a.0", "b.0.a", "a\\.b", "c\\\\d", "type", "tags", "0", "", "record", "a.b.a",
)  # fmt: skip
_PATHS = (
    *TIME_FIELDS,
    *_TEXT_FIELDS,
    *_OTHER_FIELDS,
    *(f"metadata.{path}" for path in _METADATA * 2),
    "tags",
    "tags",
)


def filters(max_leaves: int = 6) -> SearchStrategy[dict[str, Any]]:
    """Filters in canonical form over the fields and metadata that `records` draws."""
    return st.recursive(
        st.sampled_from(_PATHS).flatmap(_test),
        lambda inner: (
            st.fixed_dictionaries({"$not": inner})
            | st.fixed_dictionaries({"$and": st.lists(inner, min_size=1, max_size=3)})
            | st.fixed_dictionaries({"$or": st.lists(inner, min_size=1, max_size=3)})
            | st.tuples(inner, inner).map(lambda pair: {**pair[0], **pair[1]})
        ),
        max_leaves=max_leaves,
    ).filter(lambda drawn: _depth(drawn) <= 8)


@cache
def _test(path: str) -> SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({path: _tests(path)})


def _tests(path: str) -> SearchStrategy[Any]:
    values, bounds = _values(path), _bounds(path)
    equals = values if path != "tags" else values | st.lists(values, min_size=1, max_size=3) | st.none()
    several = st.lists(values, min_size=1, max_size=3)
    operators: dict[str, SearchStrategy[Any]] = {
        "$eq": equals,
        "$ne": equals,
        "$in": several,
        "$nin": several,
        "$gt": bounds,
        "$gte": bounds,
        "$lt": bounds,
        "$lte": bounds,
        "$exists": st.booleans(),
        "$contains": st.sampled_from((*TAGS, "a", "Ana", 1, None)) | json_values(max_leaves=2),
    }
    one = st.one_of([st.fixed_dictionaries({name: operand}) for name, operand in operators.items()])
    two = st.tuples(one, one).map(lambda pair: {**pair[0], **pair[1]})
    return one | two | equals.filter(lambda value: not _has_operator(value))


def _values(path: str) -> SearchStrategy[Any]:
    if path in TIME_FIELDS:
        return moments() | iso_times()
    if path == "tags":
        return st.sampled_from(TAGS)
    if path in _TEXT_FIELDS:
        known = (
            None,
            "",
            "u1",
            "s1",
            "main",
            "user",
            "ana",
            "internal",
            "Ana",
            "city",
            *get_args(MemoryType),
        )
        return st.sampled_from(known)
    if path in _OTHER_FIELDS:
        return st.sampled_from((None, 0, 0.5, 1, 1.0, True, "long_term", ["Ana"], ["Ana", "Bo"]))
    return json_values(max_leaves=4)


def _bounds(path: str) -> SearchStrategy[Any]:
    if path in TIME_FIELDS:
        return moments() | iso_times()
    return st.sampled_from((0, 1, 0.5, 2.5, "", "a", "main", "red")) | numbers() | texts(max_size=3)


def _has_operator(value: Any) -> bool:
    return isinstance(value, dict) and any(str(name).startswith("$") for name in value)


def _depth(drawn: dict[str, Any]) -> int:
    inner: list[Any] = []
    for name, value in drawn.items():
        if name == "$not":
            inner.append(value)
        elif name in ("$and", "$or"):
            inner.extend(value if isinstance(value, list) else ())
    return 1 + max((_depth(part) for part in inner), default=0)


# -- candidates -----------------------------------------------------------------------------------------------------

_DRAWN: dict[str, SearchStrategy[Any]] = {
    "str": st.text("abcdef", min_size=1, max_size=4),
    "str | None": st.none() | st.sampled_from(("s1", "s2", "s3")),
    "int": st.integers(0, 500),
    "float": st.floats(0, 1),
    "float | None": st.none() | st.floats(-1, 1),
    "bool": st.booleans(),
}


def candidates(**fixed: SearchStrategy[Any]) -> SearchStrategy[Candidate]:
    """One candidate; a cosine is there or not for all it says about vectors."""
    drawn = {one.name: _DRAWN[getattr(one.type, "__name__", str(one.type))] for one in fields(Candidate)}
    drawn |= {"keyword": st.floats(0, 40), **fixed}

    def consistent(one: Candidate) -> Candidate:
        brevity = one.brevity if one.session_id is not None else 0.0
        if one.cosine is None or one.near is None:
            return replace(one, cosine=None, near=None, brevity=brevity)
        return replace(one, brevity=brevity)

    return st.builds(Candidate, **drawn).map(consistent)


def candidate_lists(
    min_size: int = 0, max_size: int = 12, **fixed: SearchStrategy[Any]
) -> SearchStrategy[list[Candidate]]:
    """Several, with different ids."""
    return st.lists(candidates(**fixed), min_size=min_size, max_size=max_size, unique_by=lambda one: one.id)
