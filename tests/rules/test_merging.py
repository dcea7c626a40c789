"""What a merge makes of the canonical record."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import ConflictError
from quipu.model.operations import MergeStrategy
from quipu.model.record import (
    Ending,
    Link,
    MemoryType,
    PrivacyIntent,
    Provenance,
    Record,
    Sensitivity,
    State,
    Trust,
)
from quipu.rules.durations import Span, duration
from quipu.rules.filters import token
from quipu.rules.merging import Merged, merged
from quipu.testing.strategies import IDS, records, sentences

NOW = 1_800_000_000_000
KEEP = MergeStrategy.KEEP_CANONICAL
JOIN = MergeStrategy.MERGE_CONTENT
BEST = MergeStrategy.KEEP_HIGHEST_CONFIDENCE

CANONICAL = Record(
    tenant="tenant-1",
    id="mem_A",
    version=3,
    store_id="sto_1",
    agent_id="ana",
    user_id="u1",
    type=MemoryType.SEMANTIC,
    content="Ana likes tea.",
    metadata={"a": 1, "b": 1},
    tags=("red",),
    confidence=0.5,
    provenance=Provenance(written_by="ana", trust=Trust.USER, subject="Ana"),
    created_at=2_000,
    updated_at=2_500,
    born=7,
    salt=b"salt",
    digest="d" * 64,
)
OTHER = replace(
    CANONICAL,
    id="mem_B",
    version=1,
    content="Ana drinks coffee.",
    metadata={"b": 2, "c": 2},
    tags=("green", "red"),
    confidence=0.9,
    provenance=Provenance(written_by="bo", trust=Trust.EXTERNAL, subject="Bo"),
    created_at=3_000,
)


def after(canonical: Record, *duplicates: Record, strategy: MergeStrategy = JOIN) -> Record:
    record = merged(canonical, duplicates, strategy, NOW).record
    assert record is not None
    return record


# What all strategies share


@pytest.mark.parametrize("strategy", MergeStrategy)
def test_without_duplicates_nothing_changes(strategy: MergeStrategy) -> None:
    nothing = Merged(record=None, is_text_new=False, collapsed=())
    assert merged(CANONICAL, [], strategy, NOW) == nothing
    assert merged(CANONICAL, [CANONICAL, CANONICAL], strategy, NOW) == nothing


@pytest.mark.parametrize("strategy", MergeStrategy)
def test_a_duplicate_given_twice_collapses_once(strategy: MergeStrategy) -> None:
    assert merged(CANONICAL, [OTHER, CANONICAL, OTHER], strategy, NOW).collapsed == (OTHER,)


def test_duplicates_collapse_by_age_and_then_by_id() -> None:
    rows = [replace(OTHER, id=id, created_at=at) for id, at in (("mem_D", 2), ("mem_C", 2), ("mem_E", 1))]
    assert [row.id for row in merged(CANONICAL, rows, KEEP, NOW).collapsed] == ["mem_E", "mem_C", "mem_D"]


@pytest.mark.parametrize("strategy", MergeStrategy)
@pytest.mark.parametrize(
    "difference", [{"user_id": None}, {"user_id": ""}, {"store_id": "sto_2"}, {"tenant": "tenant-2"}]
)
def test_records_of_another_scope_are_refused(
    strategy: MergeStrategy, difference: dict[str, str | None]
) -> None:
    stranger = replace(OTHER, **difference)  # type: ignore[arg-type]  # one field at a time
    with pytest.raises(ConflictError) as caught:
        merged(CANONICAL, [replace(OTHER, id="mem_C"), stranger], strategy, NOW)
    assert caught.value.reason == "scope_mismatch"


@pytest.mark.parametrize("strategy", [JOIN, BEST])
def test_records_of_another_type_are_refused(strategy: MergeStrategy) -> None:
    with pytest.raises(ConflictError) as caught:
        merged(CANONICAL, [replace(OTHER, type=MemoryType.EPISODIC)], strategy, NOW)
    assert caught.value.reason == "type_mismatch"


def test_keep_canonical_merges_across_types() -> None:
    stranger = replace(OTHER, type=MemoryType.PROCEDURAL)
    assert merged(CANONICAL, [stranger], KEEP, NOW) == Merged(
        record=None, is_text_new=False, collapsed=(stranger,)
    )


def test_procedures_are_never_joined() -> None:
    machine = replace(CANONICAL, type=MemoryType.PROCEDURAL, content="{}")
    other = replace(OTHER, type=MemoryType.PROCEDURAL, content='{"x": 1}')
    with pytest.raises(ConflictError) as caught:
        merged(machine, [other], JOIN, NOW)
    assert caught.value.reason == "type_mismatch"
    assert merged(machine, [other], KEEP, NOW).record is None
    assert after(machine, other, strategy=BEST).content == '{"x": 1}'


def test_a_new_version_follows_the_one_it_replaces() -> None:
    ended = replace(CANONICAL, died=9, ending=Ending.REPLACED)
    record = after(ended, OTHER)
    assert (record.id, record.version, record.updated_at, record.created_at) == ("mem_A", 4, NOW, 2_000)
    assert (record.born, record.died, record.ending, record.salt, record.digest) == (0, None, None, b"", "")
    assert record.state is State.LIVE


@pytest.mark.parametrize("strategy", MergeStrategy)
def test_a_link_of_the_canonical_to_a_duplicate_is_dropped(strategy: MergeStrategy) -> None:
    linked = replace(CANONICAL, links=(Link("mem_B", "same"), Link("mem_Z", "about")), confidence=1.0)
    result = merged(linked, [OTHER], strategy, NOW)
    assert result.record is not None
    assert result.record.links == (Link("mem_Z", "about"),)
    assert result.record.version == 4


# keep_canonical


def test_keep_canonical_leaves_the_canonical_as_it_is() -> None:
    linked = replace(
        OTHER, links=(Link("mem_Z", "about"),), privacy=PrivacyIntent(sensitivity=Sensitivity.SECRET)
    )
    assert merged(CANONICAL, [linked], KEEP, NOW) == Merged(
        record=None, is_text_new=False, collapsed=(linked,)
    )


# merge_content


def test_joined_text_is_the_canonical_first_and_then_by_age() -> None:
    younger = replace(OTHER, id="mem_C", content="She also likes mate.", created_at=3_500)
    oldest = replace(OTHER, id="mem_D", content="Ana hates milk.", created_at=1_000)
    record = after(CANONICAL, younger, OTHER, oldest)
    assert record.content == "Ana likes tea.\nAna hates milk.\nAna drinks coffee.\nShe also likes mate."
    assert merged(CANONICAL, [OTHER], JOIN, NOW).is_text_new


def test_a_text_already_contained_is_left_out() -> None:
    result = merged(CANONICAL, [replace(OTHER, content="likes tea")], JOIN, NOW)
    assert result.record is not None
    assert result.record.content == "Ana likes tea."
    assert not result.is_text_new


def test_part_of_a_word_is_another_text() -> None:
    longer = replace(CANONICAL, content="Bo likes Anastasia")
    assert after(longer, replace(OTHER, content="Bo likes Ana")).content == "Bo likes Anastasia\nBo likes Ana"


def test_an_exact_copy_changes_nothing() -> None:
    copy = replace(CANONICAL, id="mem_B")
    assert merged(CANONICAL, [copy], JOIN, NOW) == Merged(record=None, is_text_new=False, collapsed=(copy,))


def test_true_in_place_of_one_is_a_change() -> None:
    copy = replace(CANONICAL, id="mem_B", metadata={"a": True, "b": 1}, created_at=5_000)
    assert after(CANONICAL, copy).metadata["a"] is True


def test_the_later_row_decides_a_metadata_key() -> None:
    older = replace(OTHER, id="mem_C", metadata={"a": 0, "b": 0, "d": 0}, created_at=1_000)
    assert after(CANONICAL, OTHER, older).metadata == {"a": 1, "b": 2, "c": 2, "d": 0}


def test_tags_are_united_also_where_metadata_repeats_them() -> None:
    tagged = replace(CANONICAL, metadata={"tags": ["red"]})
    assert after(CANONICAL, OTHER).tags == ("red", "green")
    assert after(tagged, OTHER).metadata["tags"] == ["red", "green"]
    assert after(replace(CANONICAL, metadata={"tags": [1]}), OTHER).metadata["tags"] == [1]
    assert after(replace(CANONICAL, metadata={"tags": "x"}), OTHER).metadata["tags"] == "x"


def test_links_are_united_and_those_among_the_rows_dropped() -> None:
    one = replace(CANONICAL, links=(Link("mem_Z", "about"), Link("mem_B", "same")))
    two = replace(OTHER, links=(Link("mem_A", "same"), Link("mem_Y", "about"), Link("mem_Z", "about")))
    assert after(one, two).links == (Link("mem_Z", "about"), Link("mem_Y", "about"))


def test_the_highest_confidence_and_importance_count() -> None:
    record = after(CANONICAL, OTHER, replace(OTHER, id="mem_C", confidence=0.1, importance=0.3))
    assert (record.confidence, record.importance) == (0.9, 0.3)


def test_the_earliest_expiry_counts() -> None:
    assert after(CANONICAL, replace(OTHER, expires_at=9_000)).expires_at == 9_000
    assert after(replace(CANONICAL, expires_at=8_000), replace(OTHER, expires_at=9_000)).expires_at == 8_000


def test_the_lowest_trust_of_the_texts_that_survive_counts() -> None:
    assert after(CANONICAL, OTHER).provenance == replace(CANONICAL.provenance, trust=Trust.EXTERNAL)
    contained = replace(OTHER, content="likes tea")
    assert after(CANONICAL, contained).provenance.trust is Trust.USER


@pytest.mark.parametrize(
    ("own", "other", "strictest"),
    [
        (None, None, None),
        (PrivacyIntent(), None, PrivacyIntent()),
        (PrivacyIntent(retain="P30D"), PrivacyIntent(retain="12h"), PrivacyIntent(retain="12h")),
        (PrivacyIntent(retain="forever"), PrivacyIntent(retain="P1Y"), PrivacyIntent(retain="P1Y")),
        (PrivacyIntent(retain="session"), PrivacyIntent(retain="P2D"), PrivacyIntent(retain="session")),
        (None, PrivacyIntent(retain="forever"), PrivacyIntent(retain="forever")),
        (
            PrivacyIntent(share_with=("a", "b")),
            PrivacyIntent(share_with=("c", "b")),
            PrivacyIntent(share_with=("b",)),
        ),
        (
            PrivacyIntent(share_with=("*",)),
            PrivacyIntent(share_with=("c",)),
            PrivacyIntent(share_with=("c",)),
        ),
        (
            PrivacyIntent(share_with=("*",)),
            PrivacyIntent(share_with=("*",)),
            PrivacyIntent(share_with=("*",)),
        ),
        (PrivacyIntent(share_with=("*",)), None, PrivacyIntent(share_with=None)),
        (None, PrivacyIntent(share_with=()), PrivacyIntent(share_with=())),
        (PrivacyIntent(consent_id="c1"), PrivacyIntent(consent_id="c2"), PrivacyIntent(consent_id="c1")),
        (None, PrivacyIntent(consent_id="c2"), PrivacyIntent(consent_id="c2")),
        (
            PrivacyIntent(sensitivity=Sensitivity.SECRET),
            PrivacyIntent(sensitivity=Sensitivity.PUBLIC),
            PrivacyIntent(sensitivity=Sensitivity.SECRET),
        ),
        (
            PrivacyIntent(sensitivity=Sensitivity.PUBLIC),
            None,
            PrivacyIntent(sensitivity=Sensitivity.INTERNAL),
        ),
    ],
)
def test_the_strictest_privacy_of_each_member_counts(
    own: PrivacyIntent | None, other: PrivacyIntent | None, strictest: PrivacyIntent | None
) -> None:
    assert after(replace(CANONICAL, privacy=own), replace(OTHER, privacy=other)).privacy == strictest
    assert (
        after(replace(CANONICAL, privacy=own), replace(OTHER, privacy=other), strategy=BEST).privacy
        == strictest
    )


# keep_highest_confidence


def test_the_most_confident_row_moves_in_under_the_canonical_id() -> None:
    best = replace(OTHER, details={"x": 1}, links=(Link("mem_Z", "about"),), expires_at=9_000, importance=0.9)
    result = merged(
        replace(CANONICAL, expires_at=99_000), [best, replace(OTHER, id="mem_C", confidence=0.6)], BEST, NOW
    )
    record = result.record
    assert record is not None
    assert result.is_text_new
    assert (record.id, record.created_at, record.user_id) == ("mem_A", 2_000, "u1")
    assert (record.content, record.metadata, record.tags) == (best.content, best.metadata, best.tags)
    assert (record.details, record.confidence, record.links) == ({"x": 1}, 0.9, (Link("mem_Z", "about"),))
    assert (record.expires_at, record.provenance.trust, record.importance) == (9_000, Trust.EXTERNAL, None)


def test_when_the_canonical_is_the_most_confident_only_links_change() -> None:
    sure = replace(CANONICAL, confidence=1.0)
    assert merged(sure, [OTHER], BEST, NOW).record is None
    linked = replace(OTHER, links=(Link("mem_Z", "about"),))
    result = merged(sure, [linked], BEST, NOW)
    expected = replace(sure, links=linked.links, version=4, updated_at=NOW, born=0, salt=b"", digest="")
    assert result == Merged(record=expected, is_text_new=False, collapsed=(linked,))


@pytest.mark.parametrize(
    ("others", "content"),
    [
        ([{"id": "mem_B", "created_at": 1_000, "content": "older"}], "older"),
        ([{"id": "mem_B", "created_at": 3_000, "content": "younger"}], None),
        ([{"id": "mem_0", "created_at": 2_000, "content": "smaller id"}], "smaller id"),
        ([{"id": "mem_B", "created_at": 2_000, "content": "larger id"}], None),
    ],
)
def test_a_tie_of_confidence_goes_to_the_older_and_then_the_smaller_id(
    others: list[dict], content: str | None
) -> None:
    rows = [replace(CANONICAL, **other) for other in others]
    record = merged(CANONICAL, rows, BEST, NOW).record
    assert (record.content if record else None) == content


# Properties


@st.composite
def clusters(draw: st.DrawFn) -> list[Record]:
    """Records of one scope and one type, with different ids; the first is the canonical."""
    type_ = draw(st.sampled_from([kind for kind in MemoryType if kind is not MemoryType.PROCEDURAL]))
    ids = draw(st.lists(st.sampled_from(IDS), unique=True, min_size=1, max_size=4))
    fixed = {"type": st.just(type_), "user_id": st.just("u1"), "content": sentences()}
    return [draw(records(id=st.just(id), **fixed)) for id in ids]


@given(clusters(), st.sampled_from(MergeStrategy), st.randoms(use_true_random=False))
def test_the_order_of_duplicates_never_matters(rows: list[Record], strategy: MergeStrategy, random) -> None:
    canonical, *others = rows
    shuffled = random.sample(others, len(others))
    assert merged(canonical, others, strategy, NOW) == merged(canonical, shuffled, strategy, NOW)


@given(clusters(), st.sampled_from(MergeStrategy))
def test_merging_again_changes_nothing_more(rows: list[Record], strategy: MergeStrategy) -> None:
    canonical, *others = rows
    first = merged(canonical, others, strategy, NOW)
    assert {row.id for row in first.collapsed} == {row.id for row in others}
    settled = first.record or canonical
    assert merged(settled, [], strategy, NOW).record is None
    if strategy is not JOIN:
        assert merged(settled, others, strategy, NOW).record is None


@given(clusters())
def test_joining_keeps_every_text_and_adds_none_twice(rows: list[Record]) -> None:
    canonical, *others = rows
    record = merged(canonical, others, JOIN, NOW).record or canonical
    assert record.content.startswith(canonical.content)
    assert all(row.content in record.content for row in rows)
    lines = record.content.split("\n")
    assert len(lines) == len(set(lines))
    assert set(lines) <= {row.content for row in rows}
    again = merged(record, others, JOIN, NOW)
    assert not again.is_text_new


@given(clusters())
def test_joining_never_loosens_a_promise(rows: list[Record]) -> None:
    canonical, *others = rows
    record = merged(canonical, others, JOIN, NOW).record or canonical
    levels = list(Sensitivity)
    assert record.confidence == max(row.confidence for row in rows)
    assert set(record.tags) == {tag for row in rows for tag in row.tags}
    for row in rows:
        if row.expires_at is not None:
            assert record.expires_at is not None
            assert record.expires_at <= row.expires_at
        if row.privacy is not None:
            assert record.privacy is not None
            own, now = row.privacy, record.privacy
            assert levels.index(now.sensitivity or levels[1]) >= levels.index(own.sensitivity or levels[1])
            if own.share_with is not None and "*" not in own.share_with:
                assert now.share_with is not None
                assert set(now.share_with) <= set(own.share_with)
            if own.retain is not None and not isinstance(duration(own.retain), Span):
                assert now.retain is not None
                assert now.retain == "session" or duration(now.retain) <= duration(own.retain)


@given(clusters(), st.sampled_from(MergeStrategy))
def test_identity_stays_and_links_lead_out_of_the_cluster(
    rows: list[Record], strategy: MergeStrategy
) -> None:
    canonical, *others = rows
    record = merged(canonical, others, strategy, NOW).record
    if record is None:
        return
    assert (record.id, record.version, record.created_at) == (
        canonical.id,
        canonical.version + 1,
        canonical.created_at,
    )
    assert (record.tenant, record.store_id, record.user_id, record.type) == (
        canonical.tenant,
        canonical.store_id,
        canonical.user_id,
        canonical.type,
    )
    assert not {link.to for link in record.links} & {row.id for row in rows}
    assert len(record.links) == len(set(record.links))
    assert record.confidence in {row.confidence for row in rows}


@given(clusters())
def test_keep_canonical_never_touches_what_the_canonical_says(rows: list[Record]) -> None:
    canonical, *others = rows
    record = merged(canonical, others, KEEP, NOW).record or canonical
    assert (record.content, record.tags, record.confidence) == (
        canonical.content,
        canonical.tags,
        canonical.confidence,
    )
    assert token(record.metadata) == token(canonical.metadata)
    assert record.privacy == canonical.privacy
