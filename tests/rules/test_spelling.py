"""Canonical bytes spelt out are the bytes of RFC 8785's reference implementation, and have not changed since."""

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.crypto.canonical import canonical as fast
from quipu.model.journal import Entry, Mention, Op
from quipu.model.record import (
    Link,
    MemoryType,
    PrivacyIntent,
    Provenance,
    Record,
    Sensitivity,
    State,
    Tier,
    Trust,
)
from quipu.rules import chain
from quipu.rules.spelling import spelt_entry, spelt_record
from quipu.testing import strategies
from quipu.testing.builders import canonical

MAYBE = st.none() | strategies.texts(max_size=8)
WHOLE = st.integers(-(2**53) + 1, 2**53 - 1)
LARGE = st.integers(-(2**63), 2**63 - 1)

ENTRIES = st.builds(
    Entry,
    tenant=strategies.texts(max_size=8),
    seq=WHOLE,
    at=WHOLE,
    actor=strategies.texts(),
    op=st.sampled_from(Op),
    store=MAYBE,
    agent=MAYBE,
    run=MAYBE,
    node=MAYBE,
    records=st.lists(st.builds(Mention, strategies.texts(), WHOLE, strategies.texts()), max_size=3).map(
        tuple
    ),
    detail=strategies.json_objects().map(lambda drawn: dict(chain.exact(drawn))),  # type: ignore[arg-type]  an object stays one
    prev=strategies.texts(),
    hash=st.just(""),
)
RECORDS = strategies.records(
    tenant=strategies.texts(max_size=8),
    id=strategies.texts(max_size=8),
    version=WHOLE,
    user_id=MAYBE,
    session_id=MAYBE,
    source=MAYBE,
    state=st.sampled_from(State),
    tags=st.lists(strategies.texts(), max_size=3).map(tuple),
    created_at=LARGE,
    updated_at=LARGE,
    expires_at=st.none() | LARGE,
)


@given(ENTRIES)
def test_an_entry_is_spelt_as_the_reference_does(entry: Entry) -> None:
    reference = canonical(chain.entry_body(entry))
    assert spelt_entry(entry, canonical) == spelt_entry(entry, fast) == reference


@given(RECORDS)
def test_a_version_is_spelt_as_the_reference_does(record: Record) -> None:
    privacy = chain.privacy_body(record.privacy)
    reference = canonical(chain.digest_body(record))
    assert spelt_record(record, privacy, canonical) == spelt_record(record, privacy, fast) == reference


def entry(**fields: Any) -> Entry:
    told: dict[str, Any] = {
        "tenant": "default",
        "seq": 7,
        "at": 1_700_000_000_000,
        "actor": "ana \u2028 \U0001f600",
        "op": Op.REMEMBER,
        "store": "ms_1",
        "agent": 'the "agent"\n',
        "run": None,
        "node": None,
        "records": (Mention("mem_1", 1, "ab" * 32), Mention("mem_2", 3, "cd" * 32)),
        "detail": {"k": 5, "returned": 0, "\u00e9": None},
        "prev": "ef" * 32,
        "hash": "",
    }
    return Entry(**{**told, **fields})


@pytest.mark.parametrize(
    "wrong",
    [
        {"seq": "7"},
        {"seq": True},
        {"at": None},
        {"actor": 1},
        {"store": 0},
        {"detail": []},
        {"detail": None},
        {"detail": 0},
        {"records": (Mention("mem_1", "1", "ab" * 32),)},  # type: ignore[arg-type]  what a forged file may say
        {"records": (Mention("mem_1", True, "ab" * 32),)},
        {"records": (Mention(1, 1, "ab" * 32),)},  # type: ignore[arg-type]  what a forged file may say
    ],
    ids=str,
)
def test_what_is_of_another_type_is_not_taken_for_what_it_looks_like(wrong: dict[str, Any]) -> None:
    forged = entry(**wrong)
    reference = hashlib.sha256(canonical(chain.entry_body(forged))).hexdigest()
    assert chain.entry_hash(forged, canonical) == reference
    assert chain.entry_hash(forged, canonical) != chain.entry_hash(entry(), canonical)


@pytest.mark.parametrize("wrong", [{"at": 2**53}, {"seq": -(2**53)}, {"actor": "\ud800"}], ids=str)
def test_what_has_no_canonical_bytes_has_no_hash(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  any: a walk along the chain takes each of them for an altered entry
        chain.entry_hash(entry(**wrong), fast)


def test_the_hash_of_an_entry_is_what_it_was() -> None:
    assert (
        chain.entry_hash(entry(), fast) == "2985023c4e053dd0f4283fb49b35deaa52faa5629c60d217c4f3357a1abe7d3a"
    )
    assert (
        chain.entry_hash(entry(detail={}, records=(), run="r", node="n", store=None), fast)
        == "9ed8b423c0df1397674717634877f1dd27f4f99646d5a41abfe3e82e20378e66"
    )


def test_the_digest_of_a_version_is_what_it_was() -> None:
    plain = Record(
        tenant="default",
        id="mem_1",
        version=1,
        store_id="ms_1",
        agent_id="ana",
        type=MemoryType.SEMANTIC,
        content="tea \u2028 \x7f \t at noon",
        provenance=Provenance(written_by="local", trust=Trust.USER),
        created_at=1_700_000_000_000,
        updated_at=1_700_000_000_001,
    )
    full = replace(
        plain,
        version=2,
        user_id="mara",
        session_id="",
        type=MemoryType.EPISODIC,
        tier=Tier.SHORT_TERM,
        state=State.ARCHIVED,
        metadata={"n": 2**60, "$m": [1.0, 0.1, -0.0, 1e21], "\uff5e": 1, "\U0001f600": None},
        tags=("red", "\u00e9"),
        links=(Link("mem_2", "about"),),
        confidence=0.75,
        importance=1e-7,
        source="web_page",
        provenance=replace(
            plain.provenance, run_id="r", node_id="n", subject="Ana", captured_at=5, receipt="x"
        ),
        details={"event_time": 1_600_000_000_000, "participants": ["Bo"]},
        privacy=PrivacyIntent(retain="P30D", share_with=("bo",), sensitivity=Sensitivity.SECRET),
        expires_at=2**60,
    )
    assert (
        chain.digest(plain, b"0123456789abcdef", fast)
        == "d6742fd9ffcd5b39c57ec0b7a7c8f2efbfae9c2fbcf78109d38b0373a0c33a6c"
    )
    assert (
        chain.digest(full, b"0123456789abcdef", fast)
        == "4a065fccba1711a3d165dfaaf2b851017bfedd617f1c58fff58812514adeed73"
    )


def test_flat_metadata_is_spelt_as_the_long_way_spells_it() -> None:
    for metadata in (
        {"$integer": "5"},
        {"b": 1, "a": "é"},
        {"é": 1},
        {"n": 2**60},
        {"t": True},
        {"f": 1.0},
        {},
    ):
        drafted = replace(_plain_record(), metadata=metadata)
        assert spelt_record(drafted, None, canonical) == canonical(chain.digest_body(drafted))


def _plain_record() -> Record:
    return Record(
        tenant="t",
        id="mem_1",
        version=1,
        store_id="ms_1",
        agent_id="ana",
        type=MemoryType.SEMANTIC,
        content="tea",
        provenance=Provenance(written_by="w"),
        created_at=1,
        updated_at=1,
    )
