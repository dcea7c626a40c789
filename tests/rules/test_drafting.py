"""From a request to a version."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import ConflictError
from quipu.model.operations import RememberRequest, UpdateStrategy
from quipu.model.principal import Principal, local
from quipu.model.record import Ending, MemoryType, PrivacyIntent, Provenance, Record, State, Tier, Trust
from quipu.model.store import Store
from quipu.rules.drafting import (
    changed_record,
    content_text,
    least_trusted,
    new_record,
    revived,
    sealed,
)
from quipu.rules.durations import DAY_MS
from quipu.testing.builders import canonical
from quipu.testing.strategies import json_objects, machines, records, texts

STORE = Store(tenant="default", id="ms_A", name="window", tier=Tier.SHORT_TERM, created_at=0)
NOW = 1_700_000_000_000
ME = local()

#: Types whose content is words.
WORDED = st.sampled_from([kind for kind in MemoryType if kind is not MemoryType.PROCEDURAL])


def asked(**fields: Any) -> RememberRequest:
    known: dict[str, Any] = {"agent_id": "ana", "type": MemoryType.SEMANTIC, "content": "tea"}
    return RememberRequest(**{**known, **fields})


def first(principal: Principal = ME, import_id: str | None = None, **fields: Any) -> Record:
    return new_record(
        asked(**fields), record_id="mem_A", store=STORE, principal=principal, now=NOW, import_id=import_id
    )


def test_a_first_version_is_what_was_asked_for_in_its_store() -> None:
    record = first(tags=("t",), metadata={"subject": "Mara"}, run_id="run_1", node_id="n")
    assert (record.id, record.version, record.store_id, record.tier) == ("mem_A", 1, "ms_A", Tier.SHORT_TERM)
    assert (record.created_at, record.updated_at, record.state) == (NOW, NOW, State.LIVE)
    provenance = record.provenance
    assert (provenance.written_by, provenance.subject, provenance.run_id) == ("local", "Mara", "run_1")
    assert (record.born, record.died, record.digest) == (0, None, "")


@pytest.mark.parametrize(
    ("fields", "provenance"),
    [
        ({}, Provenance(written_by="local", trust=Trust.USER)),
        ({"run_id": "run_1"}, Provenance(written_by="local", trust=Trust.USER, run_id="run_1")),
        ({"node_id": "n"}, Provenance(written_by="local", trust=Trust.USER, node_id="n")),
        (
            {"metadata": {"speaker": "Mara"}},
            Provenance(written_by="local", trust=Trust.USER, subject="Mara"),
        ),
        ({"import_id": "imp_1"}, Provenance(written_by="local", trust=Trust.EXTERNAL, import_id="imp_1")),
    ],
)
def test_each_thing_that_is_known_of_where_it_came_from_is_kept(
    fields: dict[str, Any], provenance: Provenance
) -> None:
    assert first(**fields).provenance == provenance


@pytest.mark.parametrize(
    ("source", "import_id", "trust"),
    [
        (None, None, Trust.USER),
        ("user", None, Trust.USER),
        ("web_page", None, Trust.EXTERNAL),
        ("document", None, Trust.EXTERNAL),
        ("tool_result", None, Trust.EXTERNAL),
        (None, "imp_1", Trust.EXTERNAL),
    ],
)
def test_trust_is_the_writers_at_most(source: str | None, import_id: str | None, trust: Trust) -> None:
    assert first(source=source, import_id=import_id).provenance.trust is trust
    unknown = replace(ME, trust=Trust.UNKNOWN)
    assert first(unknown, source=source, import_id=import_id).provenance.trust is Trust.UNKNOWN


@given(st.lists(st.sampled_from(Trust), min_size=1))
def test_the_least_trusted_is_one_of_them_and_no_better_than_any(levels: list[Trust]) -> None:
    order = list(Trust)
    worst = least_trusted(*levels)
    assert worst in levels
    assert all(order.index(worst) >= order.index(level) for level in levels)


@given(records(type=WORDED), texts(min_size=1), json_objects())
def test_overwriting_keeps_scope_and_birth_and_nothing_else(
    current: Record, content: str, metadata: Any
) -> None:
    request = asked(type=current.type, content=content, metadata=metadata)
    record = changed_record(current, request, principal=ME, now=NOW)
    assert (record.content, dict(record.metadata)) == (content, dict(metadata))
    assert (record.tags, record.links, record.confidence, record.importance) == ((), (), 1.0, None)
    assert (record.source, dict(record.details), record.privacy, record.expires_at) == (None, {}, None, None)
    same = ("tenant", "id", "store_id", "agent_id", "user_id", "session_id", "type", "tier", "created_at")
    assert all(getattr(record, name) == getattr(current, name) for name in same)
    assert (record.version, record.updated_at, record.ending) == (current.version + 1, NOW, None)


@given(
    records(type=WORDED), texts(min_size=1), st.sampled_from((UpdateStrategy.MERGE, UpdateStrategy.APPEND))
)
def test_what_a_merge_or_an_append_does_not_say_stays(
    current: Record, content: str, strategy: UpdateStrategy
) -> None:
    request = asked(type=current.type, content=content, update_strategy=strategy, id=current.id)
    record = changed_record(current, request, principal=ME, now=NOW)
    expected = content if strategy is UpdateStrategy.MERGE else f"{current.content}\n{content}"
    assert record.content == expected
    kept = ("metadata", "tags", "links", "confidence", "importance", "source", "details", "privacy")
    assert all(getattr(record, name) == getattr(current, name) for name in kept)


def test_what_is_said_wins_over_what_was_there() -> None:
    current = first(metadata={"a": 1, "b": 1}, tags=("x",), confidence=0.5, importance=0.1, source="user")
    request = asked(
        update_strategy=UpdateStrategy.MERGE,
        metadata={"b": 2},
        tags=(),
        confidence=0.9,
        importance=0.2,
        source="system",
        expires_at=NOW + 5,
        links=(),
        privacy_intent=PrivacyIntent(retain="P1D"),
    )
    record = changed_record(current, request, principal=ME, now=NOW)
    assert (dict(record.metadata), record.tags, record.confidence) == ({"a": 1, "b": 2}, (), 0.9)
    assert (record.importance, record.source, record.expires_at) == (0.2, "system", NOW + 5)


@pytest.mark.parametrize("strategy", [UpdateStrategy.MERGE, UpdateStrategy.APPEND])
@pytest.mark.parametrize(
    ("asked_end", "end"), [(None, 9 * DAY_MS), (7 * DAY_MS, 7 * DAY_MS), (99 * DAY_MS, 9 * DAY_MS)]
)
def test_a_promise_that_came_with_a_younger_text_reaches_as_far_as_it_did(
    strategy: UpdateStrategy, asked_end: int | None, end: int
) -> None:
    taken_over = replace(
        first(), created_at=0, expires_at=9 * DAY_MS, privacy=PrivacyIntent(retain="P1D"), version=2
    )
    record = changed_record(
        taken_over, asked(update_strategy=strategy, expires_at=asked_end), principal=ME, now=5 * DAY_MS
    )
    assert (record.expires_at, record.privacy) == (end, taken_over.privacy)
    renewed = asked(update_strategy=strategy, privacy_intent=PrivacyIntent(retain="P6D"))
    assert changed_record(taken_over, renewed, principal=ME, now=5 * DAY_MS).expires_at == 6 * DAY_MS


def test_an_end_may_be_put_off_as_far_as_its_promise_reaches() -> None:
    current = replace(first(), created_at=0, expires_at=DAY_MS, privacy=PrivacyIntent(retain="P3D"))
    for asked_end, end in ((2 * DAY_MS, 2 * DAY_MS), (4 * DAY_MS, 3 * DAY_MS)):
        later = asked(update_strategy=UpdateStrategy.MERGE, expires_at=asked_end)
        assert changed_record(current, later, principal=ME, now=1).expires_at == end


def test_words_that_are_added_to_are_trusted_no_more_than_they_were() -> None:
    brought = first(import_id="imp_1")
    trusts = {
        strategy: changed_record(
            brought, asked(update_strategy=strategy), principal=ME, now=NOW
        ).provenance.trust
        for strategy in UpdateStrategy
    }
    assert trusts == {
        UpdateStrategy.OVERWRITE: Trust.USER,
        UpdateStrategy.MERGE: Trust.USER,
        UpdateStrategy.APPEND: Trust.EXTERNAL,
    }
    theirs = replace(ME, trust=Trust.UNKNOWN)
    added = changed_record(first(), asked(update_strategy=UpdateStrategy.APPEND), principal=theirs, now=NOW)
    assert added.provenance.trust is Trust.UNKNOWN


def test_a_type_or_a_version_that_is_not_there_is_a_conflict() -> None:
    current = first()
    for fields, reason in (
        ({"type": MemoryType.EPISODIC}, "type_mismatch"),
        ({"if_version": 2}, "version_mismatch"),
    ):
        with pytest.raises(ConflictError) as refused:
            changed_record(current, asked(**fields), principal=ME, now=NOW)
        assert refused.value.reason == reason
    assert changed_record(current, asked(if_version=1), principal=ME, now=NOW).version == 2


@given(records(), st.sampled_from((State.LIVE, State.ARCHIVED)))
def test_a_revived_version_says_what_the_last_one_said(last: Record, state: State) -> None:
    ended = replace(last, died=9, ending=Ending.MERGED, merged_into="mem_Z")
    record = revived(ended, principal=replace(ME, name="carla"), now=NOW, state=state)
    assert (record.version, record.state, record.updated_at) == (last.version + 1, state, NOW)
    assert (record.born, record.died, record.ending, record.merged_into) == (0, None, None, None)
    assert (record.content, record.metadata, record.expires_at) == (
        last.content,
        last.metadata,
        last.expires_at,
    )
    assert record.provenance == replace(last.provenance, written_by="carla")


@given(records(), st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16))
def test_a_seal_depends_on_what_is_sealed_and_on_its_salt(record: Record, salt: bytes, other: bytes) -> None:
    one = sealed(record, salt, canonical)
    assert one == sealed(record, salt, canonical)
    assert one.salt == salt
    assert len(one.digest) == 64
    assert (sealed(record, other, canonical).digest == one.digest) == (salt == other)
    assert sealed(replace(record, content=record.content + "!"), salt, canonical).digest != one.digest


@given(machines())
def test_a_machine_is_kept_as_json_text_with_its_state(machine: dict[str, Any]) -> None:
    for content in (machine, json.dumps(machine)):
        assert json.loads(content_text(MemoryType.PROCEDURAL, content)) == machine
    without = {name: value for name, value in machine.items() if name != "current"}
    kept = json.loads(content_text(MemoryType.PROCEDURAL, without))
    assert kept == {**machine, "current": machine["initial"]}
    assert content_text(MemoryType.SEMANTIC, "text") == "text"
