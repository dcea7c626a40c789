"""Expiry policies, and the effect of `retain` on `expires_at`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import InvalidError
from quipu.model.operations import ExpirePolicy
from quipu.model.record import Mark, MemoryType, PrivacyIntent, Provenance, Record
from quipu.rules.durations import DAY_MS, HOUR_MS
from quipu.rules.expiry import (
    POLICY_KEYS,
    checked_policy,
    created_to,
    earlier,
    effective_expiry,
    matches_policy,
)
from quipu.testing.strategies import privacy_intents, records

NOW = 1_800_000_000_000
RECORD = Record(
    tenant="tenant-1",
    id="mem_A",
    version=1,
    store_id="sto_1",
    agent_id="ana",
    type=MemoryType.SEMANTIC,
    content="Ana likes tea.",
    provenance=Provenance(written_by="ana"),
    confidence=0.5,
    created_at=NOW - 30 * DAY_MS,
    updated_at=NOW,
)


def recalled(days_ago: int) -> Mark:
    return Mark("mem_A", last_recalled_at=NOW - days_ago * DAY_MS)


@pytest.mark.parametrize(
    ("policy", "mark", "is_matched"),
    [
        (ExpirePolicy(older_than_days=30), None, True),
        (ExpirePolicy(older_than_days=31), None, False),
        (ExpirePolicy(type=MemoryType.SEMANTIC), None, True),
        (ExpirePolicy(type=MemoryType.EMOTIONAL), None, False),
        (ExpirePolicy(confidence_below=0.51), None, True),
        (ExpirePolicy(confidence_below=0.5), None, False),
        (ExpirePolicy(no_recall_in_days=29), None, True),
        (ExpirePolicy(no_recall_in_days=30), None, False),
        (ExpirePolicy(no_recall_in_days=7), Mark("mem_A"), True),
        (ExpirePolicy(no_recall_in_days=7), recalled(8), True),
        (ExpirePolicy(no_recall_in_days=7), recalled(7), False),
        (ExpirePolicy(no_recall_in_days=7), recalled(40), True),
        (ExpirePolicy(older_than_days=7, no_recall_in_days=7), recalled(1), False),
        (ExpirePolicy(older_than_days=7, type=MemoryType.SEMANTIC, confidence_below=0.9), None, True),
        (ExpirePolicy(), None, False),
    ],
)
def test_a_policy_matches_when_every_key_does(
    policy: ExpirePolicy, mark: Mark | None, is_matched: bool
) -> None:
    assert matches_policy(policy, RECORD, mark, NOW) is is_matched


def test_a_record_written_just_now_has_not_gone_without_recall() -> None:
    fresh = replace(RECORD, created_at=NOW - 1_000)
    assert not matches_policy(ExpirePolicy(no_recall_in_days=1), fresh, None, NOW)


def test_an_empty_policy_is_refused() -> None:
    with pytest.raises(InvalidError) as caught:
        checked_policy(ExpirePolicy())
    [fault] = caught.value.faults
    assert (fault.pointer, fault.reason, fault.accepted) == ("/policy", "empty_policy", POLICY_KEYS)


@pytest.mark.parametrize(
    ("policy", "key"),
    [
        (ExpirePolicy(older_than_days=0), "older_than_days"),
        (ExpirePolicy(older_than_days=True), "older_than_days"),
        (ExpirePolicy(older_than_days=1.5), "older_than_days"),  # type: ignore[arg-type]  # what a caller may send
        (ExpirePolicy(no_recall_in_days=-1), "no_recall_in_days"),
        (ExpirePolicy(confidence_below=1.1), "confidence_below"),
        (ExpirePolicy(confidence_below=float("nan")), "confidence_below"),
        (ExpirePolicy(confidence_below=True), "confidence_below"),
        (ExpirePolicy(older_than_days=5, confidence_below=-0.1), "confidence_below"),
    ],
)
def test_a_senseless_key_is_refused_at_its_place(policy: ExpirePolicy, key: str) -> None:
    with pytest.raises(InvalidError) as caught:
        checked_policy(policy, "/rules/0")
    assert [(fault.pointer, fault.reason) for fault in caught.value.faults] == [
        (f"/rules/0/{key}", "bad_value")
    ]


def test_a_sensible_policy_is_accepted() -> None:
    checked_policy(
        ExpirePolicy(older_than_days=1, type=MemoryType.SEMANTIC, confidence_below=0, no_recall_in_days=1)
    )
    checked_policy(ExpirePolicy(confidence_below=1))


@given(
    records(),
    st.none() | st.integers(1, 400),
    st.none() | st.integers(1, 400),
    st.none() | st.floats(0, 1),
    st.none() | st.integers(0, 500),
)
def test_another_key_never_widens_a_policy(
    record: Record,
    days: int | None,
    unused_days: int | None,
    below: float | None,
    recalled_days_ago: int | None,
) -> None:
    record = replace(record, created_at=NOW - record.version * 100 * DAY_MS)
    mark = recalled(recalled_days_ago) if recalled_days_ago is not None else None
    narrow = ExpirePolicy(older_than_days=days, no_recall_in_days=unused_days, confidence_below=below)
    wide = [
        replace(narrow, **{key: None}) for key in ("older_than_days", "no_recall_in_days", "confidence_below")
    ]
    if matches_policy(narrow, record, mark, NOW):
        assert all(policy == ExpirePolicy() or matches_policy(policy, record, mark, NOW) for policy in wide)
        assert record.created_at <= (created_to(narrow, NOW) or NOW)


def test_what_is_too_young_for_a_policy_need_not_be_looked_at() -> None:
    assert created_to(ExpirePolicy(older_than_days=7), NOW) == NOW - 7 * DAY_MS
    assert created_to(ExpirePolicy(no_recall_in_days=9, older_than_days=7), NOW) == NOW - 9 * DAY_MS
    assert created_to(ExpirePolicy(confidence_below=0.5), NOW) is None
    assert created_to(ExpirePolicy(older_than_days=10**15), NOW) == -(1 << 63)


@pytest.mark.parametrize(
    ("expires_at", "retain", "end"),
    [
        (None, None, None),
        (500, None, 500),
        (None, "12h", 1_000 + 12 * HOUR_MS),
        (500, "12h", 500),
        (1_000 + 13 * HOUR_MS, "PT12H", 1_000 + 12 * HOUR_MS),
        (None, "session", 1_000 + 24 * HOUR_MS),
        (None, "forever", None),
        (700, "forever", 700),
    ],
)
def test_the_earliest_end_counts(expires_at: int | None, retain: str | None, end: int | None) -> None:
    assert effective_expiry(1_000, expires_at, PrivacyIntent(retain=retain)) == end


def test_without_a_privacy_intent_the_time_asked_for_stays() -> None:
    assert effective_expiry(1_000, 2_000, None) == 2_000


@pytest.mark.parametrize(
    ("one", "other", "first"), [(None, None, None), (5, None, 5), (None, 5, 5), (4, 5, 4), (5, 4, 4)]
)
def test_what_has_no_end_ends_with_the_other(one: int | None, other: int | None, first: int | None) -> None:
    assert earlier(one, other) == first


@pytest.mark.parametrize(("written_at", "start"), [(None, 1_000), (9_000, 9_000), (10, 1_000)])
def test_a_session_ends_a_day_after_its_last_write(written_at: int | None, start: int) -> None:
    privacy = PrivacyIntent(retain="session")
    assert effective_expiry(1_000, None, privacy, session_written_at=written_at) == start + 24 * HOUR_MS


def test_a_bad_retain_is_refused() -> None:
    with pytest.raises(InvalidError):
        effective_expiry(0, None, PrivacyIntent(retain="a while"))


@given(st.integers(0, 10**13), st.none() | st.integers(0, 10**13), privacy_intents())
def test_expiry_is_never_later_than_what_was_asked_for_and_settles_at_once(
    created_at: int, expires_at: int | None, privacy: PrivacyIntent
) -> None:
    end = effective_expiry(created_at, expires_at, privacy)
    assert effective_expiry(created_at, end, privacy) == end
    if expires_at is not None:
        assert end is not None
        assert end <= expires_at
