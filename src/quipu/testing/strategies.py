"""Hypothesis strategies for records, JSON values and filters.

They draw from small pools on purpose, so that filters match, links meet and texts repeat.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from quipu.model.record import (
    DETAIL_FIELDS,
    Link,
    MemoryType,
    PrivacyIntent,
    Provenance,
    Record,
    Sensitivity,
    Tier,
    Trust,
)
from quipu.model.value import Json, JsonObject

IDS: Final[tuple[str, ...]] = tuple(f"mem_{letter}" for letter in "ABCDEF")
TAGS: Final[tuple[str, ...]] = ("red", "green", "blue")
KEYS: Final[tuple[str, ...]] = ("a", "b", "0", "a.b", "c\\d", "type", "tags", "record", "")
FIRST_MS: Final = 1_700_000_000_000
RETAINS: Final = ("P30D", "PT12H", "P1Y2M", "30d", "12h", "15m", "session", "forever")

_POOL: Final[tuple[Json, ...]] = (None, True, False, 0, 1, 1.0, -1, 2.5, "", "1", "a", "ab", "true", "é")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def texts(min_size: int = 0, max_size: int = 40) -> SearchStrategy[str]:
    """Any text a ledger can keep."""
    alphabet = st.characters(exclude_categories=("Cs",), exclude_characters="\0")
    return st.text(alphabet, min_size=min_size, max_size=max_size)


def sentences() -> SearchStrategy[str]:
    """Short texts of few words, so that one often contains another."""
    words = st.sampled_from(("Ana", "Anastasia", "likes", "tea", "steak", "and", "coffee"))
    return st.lists(words, min_size=1, max_size=4).map(" ".join)


def numbers() -> SearchStrategy[int | float]:
    """Finite numbers of at most 64 bits."""
    return st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)


def json_values(max_leaves: int = 8) -> SearchStrategy[Json]:
    """Any JSON value: mostly small ones that meet each other, some wild ones."""
    leaves: SearchStrategy[Json] = st.sampled_from(_POOL) | texts() | numbers()
    keys = _keys() | texts(max_size=3)
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=max_leaves,
    )


def json_objects() -> SearchStrategy[JsonObject]:
    """Metadata."""
    return st.dictionaries(_keys(), json_values(), max_size=4)


def _keys() -> SearchStrategy[str]:
    return st.sampled_from(KEYS)


def moments() -> SearchStrategy[int]:
    """Milliseconds that lie close together."""
    return st.integers(FIRST_MS, FIRST_MS + 5)


def privacy_intents() -> SearchStrategy[PrivacyIntent]:
    """What a writer may want done with a memory."""
    agents = st.lists(st.sampled_from(("ana", "bo", "cy", "*")), unique=True, max_size=3).map(tuple)
    return st.builds(
        PrivacyIntent,
        retain=st.none() | st.sampled_from(RETAINS),
        share_with=st.none() | agents,
        consent_id=st.none() | st.sampled_from(("consent-1", "consent-2")),
        sensitivity=st.none() | st.sampled_from(Sensitivity),
    )


def provenances() -> SearchStrategy[Provenance]:
    """Where a version may come from."""
    return st.builds(
        Provenance,
        written_by=st.sampled_from(("ana", "bo")),
        trust=st.sampled_from(Trust),
        run_id=st.none() | st.just("run-1"),
        node_id=st.none() | st.just("node-1"),
        subject=st.none() | st.sampled_from(("Ana", "Bo")),
        import_id=st.none() | st.just("imp-1"),
        captured_at=st.none() | moments(),
    )


@st.composite
def records(draw: st.DrawFn, **fixed: SearchStrategy[Any]) -> Record:
    """A first version in one tenant; name a field to draw it from another strategy."""
    type_ = draw(fixed.pop("type", st.sampled_from(MemoryType)))
    fields = {**_fields(type_), **fixed}
    return Record(type=type_, **{name: draw(strategy) for name, strategy in fields.items()})


@cache
def _fields(type_: MemoryType) -> dict[str, SearchStrategy[Any]]:
    return {
        "tenant": st.just("tenant-1"),
        "id": st.sampled_from(IDS),
        "version": st.integers(1, 3),
        "store_id": st.just("sto_1"),
        "agent_id": st.sampled_from(("ana", "bo")),
        "user_id": st.sampled_from((None, "", "u1")),
        "session_id": st.sampled_from((None, "s1")),
        "tier": st.sampled_from(Tier),
        "content": sentences() | texts(min_size=1),
        "metadata": json_objects(),
        "tags": st.lists(st.sampled_from(TAGS), unique=True).map(tuple),
        "links": st.lists(links(), max_size=3).map(tuple),
        "confidence": st.sampled_from((0.0, 0.5, 1.0)) | st.floats(0, 1),
        "importance": st.none() | st.floats(0, 1),
        "source": st.sampled_from((None, "user", "web_page")),
        "provenance": provenances(),
        "details": _details(type_),
        "privacy": st.none() | privacy_intents(),
        "created_at": moments(),
        "updated_at": moments(),
        "expires_at": st.none() | moments(),
    }


@st.composite
def machines(draw: st.DrawFn) -> dict[str, Any]:
    """A machine that may be remembered: a few states and what leads from one to the next."""
    states = draw(st.lists(st.sampled_from(("asked", "sent", "paid", "done")), min_size=1, unique=True))
    transition = st.fixed_dictionaries(
        {
            "trigger": st.sampled_from(("go", "stop")),
            "source": st.sampled_from((*states, "*")),
            "dest": st.sampled_from(states),
            "conditions": st.lists(st.sampled_from(("ready", "paid_for")), min_size=1, max_size=2),
        }
    )
    machine = {"name": "errand", "initial": states[0], "states": states}
    return {
        **machine,
        "transitions": draw(st.lists(transition, max_size=4)),
        "current": draw(st.sampled_from(states)),
        "metadata": draw(st.sampled_from(({"note": "x"}, {"version": "1.0"}))),
    }


def links() -> SearchStrategy[Link]:
    """A link to one of the few records there are."""
    return st.builds(Link, to=st.sampled_from(IDS), rel=st.sampled_from(("about", "follows")))


def _details(type_: MemoryType) -> SearchStrategy[JsonObject]:
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
    own = {name: values[name] for name, owner in DETAIL_FIELDS.items() if owner is type_}
    return st.fixed_dictionaries({}, optional=own)


_TIME_PATHS: Final = ("created_at", "record.updated_at", "record.expires_at", "record.event_time")
_TEXT_PATHS: Final = ("type", "user_id", "session_id", "store", "source", "agent_id", "record.sensitivity")
_OTHER_PATHS: Final = (
    "confidence",
    "record.importance",
    "record.version",
    "record.participants",
    "record.tier",
)
_METADATA_PATHS: Final = (
    "a", "b", "a.b", "a.0", "b.0.a", "a\\.b", "c\\\\d", "metadata.type", "metadata.tags", "0", "", "record", "a.b.a",
)  # fmt: skip


_PATHS: Final = (
    *_TIME_PATHS,
    *_TEXT_PATHS,
    *_OTHER_PATHS,
    *_METADATA_PATHS,
    *_METADATA_PATHS,
    "tags",
    "tags",
)


def filters(max_leaves: int = 6) -> SearchStrategy[JsonObject]:
    """Well-formed filters over the fields and metadata that `records` draws."""
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


def iso_times() -> SearchStrategy[str]:
    """Moments as ISO 8601 texts, in several zones."""
    zones = st.sampled_from(("+00:00", "-05:00", "+05:30"))
    return st.tuples(moments(), zones).map(lambda pair: _iso(*pair))


def _iso(moment: int, zone: str) -> str:
    away = datetime.fromisoformat(f"2000-01-01T00:00:00{zone}").tzinfo
    return (_EPOCH + timedelta(milliseconds=moment)).astimezone(away).isoformat()


@cache
def _test(path: str) -> SearchStrategy[JsonObject]:
    return st.fixed_dictionaries({path: _tests(path)})


def _tests(path: str) -> SearchStrategy[Json]:
    values = _values(path)
    bounds = _bounds(path)
    equals = values if path != "tags" else values | st.lists(values, min_size=1, max_size=3) | st.none()
    several = st.lists(values, min_size=1, max_size=3)
    operators: dict[str, SearchStrategy[Json]] = {
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
    several_at_once = st.tuples(one, one).map(lambda pair: {**pair[0], **pair[1]})
    return one | several_at_once | equals.filter(lambda value: not _has_operator(value))


def _values(path: str) -> SearchStrategy[Json]:
    if path in _TIME_PATHS:
        return moments() | iso_times()
    if path == "tags":
        return st.sampled_from(TAGS)
    if path in _TEXT_PATHS:
        return st.sampled_from((None, "", "u1", "s1", "main", "user", "ana", "internal", *MemoryType))
    if path in _OTHER_PATHS:
        return st.sampled_from((None, 0, 0.5, 1, 1.0, True, "long_term", ["Ana"], ["Ana", "Bo"]))
    return json_values(max_leaves=4)


def _bounds(path: str) -> SearchStrategy[Json]:
    if path in _TIME_PATHS:
        return moments() | iso_times()
    return st.sampled_from((0, 1, 0.5, 2.5, "", "a", "main", "red")) | numbers() | texts(max_size=3)


def _has_operator(value: Json) -> bool:
    return isinstance(value, dict) and any(str(name).startswith("$") for name in value)


def _depth(drawn: JsonObject) -> int:
    inner: list[Any] = []
    for name, value in drawn.items():
        if name == "$not":
            inner.append(value)
        elif name in ("$and", "$or"):
            inner.extend(value if isinstance(value, list) else ())
    return 1 + max((_depth(part) for part in inner), default=0)
