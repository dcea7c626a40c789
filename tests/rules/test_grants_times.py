"""Times as text: whatever time of 64 bits a record holds can be told, and what can be written is written exactly."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.rules.grants_times import instant, rfc3339
from quipu.rules.runs_wire import stamp

FIRST, LAST = -62_135_596_800_000, 253_402_300_799_999


@given(st.integers(FIRST, LAST), st.booleans())
def test_a_time_within_the_calendar_is_read_back_as_it_was(at: int, fraction: bool) -> None:
    assert instant(rfc3339(at, fraction=fraction)) == at


@pytest.mark.parametrize("told", [rfc3339, stamp])
@pytest.mark.parametrize(
    ("at", "nearest"), [(-(2**63), FIRST), (FIRST - 1, FIRST), (LAST + 1, LAST), (2**63 - 1, LAST)]
)
def test_one_beyond_it_is_told_as_the_nearest(told: Callable[[int], str], at: int, nearest: int) -> None:
    assert told(at) == told(nearest)
    assert instant(told(at)) == nearest


def test_years_have_four_digits() -> None:
    assert rfc3339(FIRST) == "0001-01-01T00:00:00Z"
    assert rfc3339(LAST) == "9999-12-31T23:59:59.999Z"
    assert rfc3339(0, fraction=True) == stamp(0) == "1970-01-01T00:00:00.000Z"
