"""What `as_of` names."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import InvalidError, NotFoundError
from quipu.model.journal import Head
from quipu.rules.moments import Moment, Position, RunStart, as_of, checked_position, future

HEAD = Head(seq=50, hash="0" * 64, at=1_000, horizon=10)


@given(st.integers(0, 10**18 - 1))
def test_digits_are_a_position(number: int) -> None:
    assert as_of(str(number)) == Position(number)


@given(
    st.integers(-5_000_000_000, 7_000_000_000),
    st.integers(-12 * 60, 14 * 60),
)
def test_a_moment_is_the_same_in_every_zone(seconds: int, minutes: int) -> None:
    there = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds, microseconds=1_234)
    here = there.astimezone(timezone(timedelta(minutes=minutes)))
    told = as_of(here.isoformat())
    assert told == as_of(here.astimezone(UTC).isoformat())
    assert isinstance(told, Moment)
    assert told.at == (here - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def test_runs_are_told_by_their_prefix_and_space_around_is_ignored() -> None:
    assert as_of("run_01J") == RunStart("run_01J")
    assert as_of(" 42 ") == Position(42)
    assert as_of("2026-05-08T13:56:00Z") == Moment(1_778_248_560_000)


@pytest.mark.parametrize("text", ["", "now", "-1", "1.5", "٣", "2026-05-08", "2026-05-08T13:56:00", "9" * 19])
def test_anything_else_is_refused_with_what_would_do(text: str) -> None:
    with pytest.raises(InvalidError) as refused:
        as_of(text, "/here")
    (fault,) = refused.value.faults
    assert (fault.pointer, fault.reason, len(fault.accepted)) == ("/here", "bad_value", 3)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidError):
        assert isinstance(as_of(text), Position | Moment | RunStart)


@given(st.integers(0, 100))
def test_only_positions_between_horizon_and_head_can_be_read(seq: int) -> None:
    if seq > HEAD.seq:
        with pytest.raises(InvalidError):
            checked_position(seq, HEAD)
    elif seq < HEAD.horizon:
        with pytest.raises(NotFoundError) as gone:
            checked_position(seq, HEAD)
        assert gone.value.reason == "snapshot_unavailable"
    else:
        assert checked_position(seq, HEAD) == seq


def test_the_future_is_an_error_of_the_caller() -> None:
    assert future("/x").faults[0].pointer == "/x"
