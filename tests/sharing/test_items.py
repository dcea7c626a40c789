"""Records as items, and items as writes: the same memory comes back."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import InvalidError
from quipu.fields import DAY_MS
from quipu.model.record import Link, PrivacyIntent, Provenance, Record
from quipu.sharing.items import Landing, item_of, kind_of, may_leave, owners_item, write_of
from quipu.sharing.times import instant, rfc3339

OWNER = "did:web:user.example"
NOW = 1_750_000_000_000
LANDING = Landing(agent_id="here", source="import", now=NOW)


def record(**changes: Any) -> Record:
    made = Record(
        id="mem_1",
        version=1,
        store_id="store",
        agent_id="agent",
        type="semantic",
        content="Likes tea.",
        provenance=Provenance(written_by="somebody"),
        created_at=NOW - 5 * DAY_MS,
        updated_at=NOW - 5 * DAY_MS,
    )
    return replace(made, **changes)


SEED = {
    "item_id": "mem_01HX2QFXR0Q4S8U9V3W7X2Y0Z1",
    "owner_did": OWNER,
    "scope_id": "professional",
    "kind": "preference",
    "subject_entity_id": "ent_org_acme",
    "content": {
        "text": "User prefers morning meetings.",
        "structured": {"value": {"preferred_days": ["tue"]}},
    },
    "provenance": {
        "source_receipt": "rec_01",
        "captured_at": "2025-05-01T14:00:00Z",
        "confidence": 0.92,
    },
    "labels": ["preference", "scheduling"],
    "ttl_days": 365,
    "exportable": True,
}


def test_the_item_of_the_proposal_comes_in_and_goes_out_as_it_was() -> None:
    write = write_of(SEED, replace(LANDING, most_confidence=1.0))
    request = write.request
    assert (write.record_id, request.type, request.confidence) == (SEED["item_id"], "semantic", 0.92)
    assert write.captured_at == instant("2025-05-01T14:00:00Z")
    kept = record(
        id=write.record_id,
        content=request.content,
        metadata=request.metadata,
        tags=request.tags,
        confidence=request.confidence,
        provenance=Provenance(written_by="x", captured_at=write.captured_at),
        expires_at=request.expires_at,
        created_at=NOW,
    )
    shown = item_of(kept, OWNER)
    assert {name: shown[name] for name in SEED} == SEED


KINDS = [
    (record(), "fact"),
    (record(type="episodic"), "observation"),
    (record(metadata={"oap_kind": "preference"}), "preference"),
    (record(type="episodic", metadata={"oap_kind": "preference"}), "observation"),
    (record(type="episodic", metadata={"oap_kind": "conversation_turn"}), "conversation_turn"),
    (record(tags=("kind:summary",)), "summary"),
    (record(tags=("kind:document_reference",)), "document_reference"),
    (record(type="procedural", content="{}", tags=("kind:summary",)), "fact"),
]


@pytest.mark.parametrize(("given", "kind"), KINDS)
def test_the_kind_of_a_record(given: Record, kind: str) -> None:
    assert kind_of(given) == kind


def test_a_label_alone_never_decides_the_type() -> None:
    item = {**SEED, "kind": "fact", "labels": ["memory_type:emotional"]}
    assert write_of(item, LANDING).request.type == "semantic"
    both = {
        **item,
        "content": {"text": "Glad.", "structured": {"memory_type": "emotional", "affect": {"valence": 0.5}}},
    }
    assert write_of(both, LANDING).request.type == "emotional"
    assert write_of(both, LANDING).request.valence == 0.5


_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)


@given(
    content=_TEXT,
    tags=st.lists(_TEXT, max_size=3, unique=True).map(tuple),
    confidence=st.floats(0, 1),
    kind=st.sampled_from(["semantic", "episodic"]),
    life=st.none() | st.integers(1, 10**10),
    valid=st.none() | st.integers(0, 2**50),
    session=st.none() | _TEXT,
)
def test_an_owners_copy_brings_everything_back(
    content: str, tags: tuple[str, ...], confidence: float, kind: Any, life: Any, valid: Any, session: Any
) -> None:
    kept = record(
        type=kind,
        content=content,
        tags=tags,
        confidence=confidence,
        expires_at=None if life is None else NOW + life,
        valid_from=valid,
        session_id=session,
        links=(Link("mem_2", "about"),),
        privacy=PrivacyIntent(retain="30d", share_with=("one",), sensitivity="internal"),
        provenance=Provenance(written_by="x", captured_at=NOW - 9 * DAY_MS),
    )
    write = write_of(owners_item(kept, OWNER, "main"), LANDING)
    request = write.request
    assert (request.agent, request.type, request.content) == ("agent", kind, content)
    assert (request.tags or (), request.confidence) == (tags, confidence)
    assert (request.expires_at, request.valid_from, request.session_id) == (kept.expires_at, valid, session)
    assert [(link.to, link.rel) for link in request.links or ()] == [("mem_2", "about")]
    assert request.privacy_intent is not None
    assert request.privacy_intent.share_with == ("one",)
    assert (write.record_id, write.created_at) == ("mem_1", kept.created_at)
    assert write.captured_at == NOW - 9 * DAY_MS


BAD: dict[str, dict[str, Any]] = {
    "/kind": {"kind": "song"},
    "/content": {"content": {}},
    "/ttl_days": {"ttl_days": -1},
    "/provenance/confidence": {"provenance": {"confidence": 7}},
    "/extensions/quipu/store": {"extensions": {"quipu": {"store": "elsewhere"}}},
}


@pytest.mark.parametrize("pointer", BAD)
def test_an_item_that_cannot_be_kept_is_refused_at_its_place(pointer: str) -> None:
    with pytest.raises(InvalidError) as refused:
        write_of({**SEED, **BAD[pointer]}, LANDING)
    assert refused.value.faults[0].pointer == pointer


def test_what_expired_before_it_came_is_refused() -> None:
    with pytest.raises(InvalidError) as refused:
        write_of({**SEED, "ttl_days": 1}, LANDING)
    assert refused.value.reason == "expired"


def test_an_item_without_an_id_gets_one_that_follows_from_it() -> None:
    bare = {name: value for name, value in SEED.items() if name != "item_id"}
    assert write_of(bare, LANDING).record_id == write_of(bare, LANDING).record_id
    other = {**bare, "content": {"text": "Something else."}}
    assert write_of(bare, LANDING).record_id != write_of(other, LANDING).record_id


def test_nobody_captures_in_the_future() -> None:
    later = {**SEED, "provenance": {"captured_at": "2099-01-01T00:00:00Z"}}
    assert write_of(later, LANDING).captured_at == NOW


@pytest.mark.parametrize(
    ("changes", "leaves"),
    [
        ({}, True),
        ({"metadata": {"exportable": False}}, False),
        ({"privacy": PrivacyIntent(sensitivity="secret")}, False),
        ({"privacy": PrivacyIntent(sensitivity="confidential")}, True),
        ({"privacy": PrivacyIntent(share_with=("did:web:other.example",))}, False),
        ({"privacy": PrivacyIntent(share_with=(OWNER,))}, True),
        ({"privacy": PrivacyIntent(share_with=("*",))}, True),
    ],
)
def test_the_owners_own_word_about_what_leaves(changes: dict[str, Any], leaves: bool) -> None:
    assert may_leave(record(**changes), OWNER) is leaves


@given(st.integers(-(2**60), 2**60))
def test_a_time_is_written_and_read(at: int) -> None:
    text = rfc3339(at)
    assert instant(text) == min(max(at, -62_135_596_800_000), 253_402_300_799_999)


@pytest.mark.parametrize(
    "text", ["2025-01-01", "2025-13-01T00:00:00Z", "2025-01-01T00:00:00+01:00", "x", None, 7]
)
def test_what_is_no_time_is_none(text: object) -> None:
    assert instant(text) is None
