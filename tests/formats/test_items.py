"""An Item is a view of a record: what goes out comes back as it was."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from quipu.errors import InvalidError
from quipu.formats.items import Landing, item_of, line_of
from quipu.model.operations import Line
from quipu.model.principal import local
from quipu.model.record import MemoryType, Record
from quipu.model.store import Store
from quipu.rules.drafting import new_record, subject_of
from quipu.rules.grants_items import KINDS, kind_of
from tests.formats.shelves import AT, OWNER, items, keepable, record
from tests.requirement import requirement

LATER = 1 << 52
LANDING = Landing(agent_id="someone", source=None, now=LATER)
STORE = Store(tenant="default", id="ms_1", name="main", created_at=0)


def kept(line: Line) -> Record:
    """The record that a line becomes."""
    made = new_record(
        line.request,
        record_id=line.record_id or "",
        store=STORE,
        principal=local(),
        now=line.created_at or 0,
        import_id="imp_1",
    )
    return replace(made, state=line.state, updated_at=max(line.updated_at or 0, made.updated_at))


def view(one: Record) -> Any:
    """The item as it is after a trip through JSON."""
    return json.loads(json.dumps(item_of(one, owner=OWNER, store="main")))


@requirement("moving:bundle.round-trip")
@given(keepable(privacy=st.none(), expires_at=st.none()))
def test_a_record_comes_back_from_its_item_as_it_was(one: Record) -> None:
    assume(one.updated_at >= one.created_at >= 0)
    # What a write cannot say of itself: when it was captured elsewhere, on which receipt, and what it is about.
    subject = subject_of(one.metadata, one.details)
    provenance = replace(one.provenance, captured_at=None, receipt=None, subject=subject)
    one = replace(one, expires_at=None, tags=tuple(dict.fromkeys(one.tags)), provenance=provenance)
    item = view(one)
    again = kept(line_of(item, LANDING))
    assert view(again) == item


@requirement("moving:bundle.round-trip")
@given(keepable(), st.sampled_from(KINDS))
def test_a_second_trip_changes_nothing_any_more(one: Record, kind: str) -> None:
    """Also of an item that somebody else made of it, with other marks and without our members."""
    item = view(one) | {"kind": kind}
    del item["extensions"]
    assume(item["content"].get("text", "").strip())
    landing = replace(LANDING, now=one.created_at)
    try:
        first = kept(line_of(item, landing))
    except InvalidError as refused:
        if refused.reason not in ("expired", "bad_value"):
            raise
        return
    assert view(kept(line_of(view(first), landing))) == view(first)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_survives_without_our_own_members(kind: str) -> None:
    (item,) = items(record())
    item |= {"kind": kind}
    del item["extensions"]
    again = kept(line_of(item, LANDING))
    assert kind_of(again) == kind
    assert again.agent_id == "someone"
    assert again.created_at == AT + 1
    assert again.provenance.import_id == "imp_1"


@pytest.mark.parametrize("type_", [MemoryType.PROCEDURAL, MemoryType.EMOTIONAL])
def test_a_type_is_told_by_label_and_structure_together_never_by_one_alone(type_: MemoryType) -> None:
    machine = '{"name":"m","states":["a"],"initial":"a","transitions":[]}'
    content = machine if type_ is MemoryType.PROCEDURAL else "glad"
    (item,) = items(record(type=type_, content=content))
    del item["extensions"]
    assert line_of(item, LANDING).request.type is type_
    assert line_of({**item, "labels": []}, LANDING).request.type is MemoryType.SEMANTIC
    alone = {**item, "content": {"text": "x"}}
    assert line_of(alone, LANDING).request.type is MemoryType.SEMANTIC


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kind": "thought"}, "bad_value"),
        ({"content": {}}, "missing_field"),
        ({"content": {"text": "  "}}, "missing_field"),
        ({"ttl_days": 0}, "bad_value"),
        ({"ttl_days": -1}, "bad_value"),
        ({"ttl_days": 1}, "expired"),
        ({"provenance": {"confidence": 1.5}}, "bad_value"),
    ],
)
def test_an_item_that_is_none_is_refused(change: dict[str, Any], reason: str) -> None:
    (item,) = items(record())
    del item["extensions"]
    with pytest.raises(InvalidError) as refused:
        line_of(item | change, LANDING)
    assert refused.value.reason == reason
    assert "fact 1" not in str(refused.value)


@requirement("moving:import.confidence")
@given(st.floats(0, 1), st.floats(0, 1))
def test_confidence_is_capped_and_never_raised(told: float, cap: float) -> None:
    (item,) = items(record(confidence=told))
    came = line_of(item, replace(LANDING, cap=cap)).request.confidence
    assert came is not None
    assert came <= told
    assert came <= cap
    assert came in (told, cap)


@requirement("moving:import.ttl")
def test_the_clock_of_a_ttl_never_restarts() -> None:
    (item,) = items(record(number=0))
    del item["extensions"]
    item["ttl_days"] = 2
    request = line_of(item, replace(LANDING, now=AT + 86_400_000)).request
    assert request.expires_at == AT + 2 * 86_400_000


def test_an_item_of_a_store_that_is_not_here_is_refused() -> None:
    (item,) = items(record())
    item["extensions"]["quipu"]["store"] = "elsewhere"
    with pytest.raises(InvalidError):
        line_of(item, LANDING)
    assert line_of(item, replace(LANDING, store="main")).request.store == "main"


def test_an_item_without_an_id_gets_the_same_one_every_time() -> None:
    (item,) = items(record())
    del item["item_id"]
    one, other = line_of(item, LANDING).record_id, line_of(item, LANDING).record_id
    assert one == other
    item["content"]["text"] = "something else"
    assert line_of(item, LANDING).record_id != one


@requirement("moving:bundle.round-trip")
@pytest.mark.parametrize("tags", [("a", "memory_type:emotional"), ("memory_type:procedural",), ("a",)])
def test_a_tag_that_looks_like_a_label_of_ours_comes_back(tags: tuple[str, ...]) -> None:
    one = record(type=MemoryType.EMOTIONAL, tags=tags, details={"valence": 0.5})
    assert kept(line_of(view(one), LANDING)).tags == tags


def test_nothing_comes_from_the_future() -> None:
    one = record(created_at=LANDING.now - 5, updated_at=LANDING.now + 10_000)
    line = line_of(view(one), LANDING)
    assert (line.created_at, line.updated_at) == (LANDING.now - 5, LANDING.now)


@pytest.mark.parametrize("given", ["", " ", "\u3000", 7, None])
def test_an_id_that_says_nothing_is_none(given: Any) -> None:
    one = record(metadata={"item_id": given})
    assert view(one)["item_id"] == one.id
