"""Durations read from text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import InvalidError
from quipu.rules.durations import ACCEPTED, DAY_MS, HOUR_MS, LONGEST_MS, MINUTE_MS, SECOND_MS, Span, duration


@pytest.mark.parametrize(
    ("text", "length_ms"),
    [
        ("P30D", 30 * DAY_MS),
        ("PT12H", 12 * HOUR_MS),
        ("P1Y2M", 425 * DAY_MS),
        ("P2W", 14 * DAY_MS),
        ("P1DT2H3M4S", DAY_MS + 2 * HOUR_MS + 3 * MINUTE_MS + 4 * SECOND_MS),
        ("P1M", 30 * DAY_MS),
        ("PT1M", MINUTE_MS),
        ("30d", 30 * DAY_MS),
        ("12h", 12 * HOUR_MS),
        ("15m", 15 * MINUTE_MS),
        ("P1000Y", LONGEST_MS),
        ("session", Span.SESSION),
        ("forever", Span.FOREVER),
    ],
)
def test_a_duration_is_read(text: str, length_ms: int | Span) -> None:
    assert duration(text) == length_ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "P",
        "PT",
        "P1",
        "P1DT",
        "1D2H",
        "P1H",
        "PT1D",
        "P-1D",
        "-3d",
        "1.5d",
        "P1,5D",
        "3 weeks",
        "30",
        "d",
        "P\u0661D",
        "1d\n",
        "never",
    ],
)
def test_what_is_no_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(InvalidError) as caught:
        duration(text, "/retain")
    [fault] = caught.value.faults
    assert (fault.pointer, fault.reason, fault.accepted) == ("/retain", "bad_value", ACCEPTED)


@pytest.mark.parametrize("text", ["P0D", "0h", "PT0S"])
def test_no_time_at_all_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="longer than nothing"):
        duration(text)


@pytest.mark.parametrize("text", ["P1000Y1D", "999999999d"])
def test_more_than_a_thousand_years_is_called_forever(text: str) -> None:
    with pytest.raises(InvalidError, match="forever"):
        duration(text)


@pytest.mark.parametrize(
    ("text", "meant"), [("p30d", "P30D"), ("30 D", "30d"), ("Forever", "forever"), ("P 30 D", "P30D")]
)
def test_the_wrong_case_or_a_space_is_answered_with_what_was_meant(text: str, meant: str) -> None:
    with pytest.raises(InvalidError) as caught:
        duration(text)
    assert caught.value.hint == f"Did you mean {meant}?"


def test_a_stranger_text_gets_no_guess() -> None:
    with pytest.raises(InvalidError) as caught:
        duration("a while")
    assert caught.value.hint is None


@given(st.integers(0, 300), st.integers(0, 300), st.integers(1, 300))
def test_the_parts_of_a_duration_add_up(days: int, hours: int, minutes: int) -> None:
    assert duration(f"P{days}DT{hours}H{minutes}M") == days * DAY_MS + hours * HOUR_MS + minutes * MINUTE_MS


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        length_ms = duration(text)
    except InvalidError:
        return
    assert isinstance(length_ms, Span) or 0 < length_ms <= LONGEST_MS
