"""Rates and budgets, whatever the order of requests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quipu.rules import rates

STEPS = st.lists(st.integers(0, 120_000), min_size=1, max_size=60)


@given(STEPS, st.integers(1, 30))
def test_no_minute_sees_more_than_twice_the_rate(steps: list[int], rate: int) -> None:
    """A full bucket and what flows in during the minute: no window of a minute can hold more."""
    bucket, now, let_in = None, 1_000_000, list[int]()
    for step in steps:
        now += step
        for _ in range(3):
            bucket, wait = rates.taken(bucket, rate, now)
            if wait is None:
                let_in.append(now)
    for start in let_in:
        assert sum(start <= at < start + 60_000 for at in let_in) <= 2 * rate


@given(STEPS, st.integers(1, 600))
def test_who_waits_as_told_is_let_in(steps: list[int], rate: int) -> None:
    bucket, now = None, 0
    for step in steps:
        now += step
        bucket, wait = rates.taken(bucket, rate, now)
        if wait is not None:
            now += wait * 1000
            bucket, wait = rates.taken(bucket, rate, now)
            assert wait is None


@given(st.lists(st.tuples(st.integers(0, 600_000), st.integers(1, 50)), max_size=40))
def test_an_hour_remembers_itself_and_nothing_older(spendings: list[tuple[int, int]]) -> None:
    spent: dict[int, int] = {}
    now, happened = 7_000_000, list[tuple[int, int]]()
    for step, count in spendings:
        now += step
        spent = rates.spending(spent, count, now)
        happened.append((now, count))
        told = rates.spent_within_an_hour(spent, now)
        assert told >= sum(count for at, count in happened if at > now - 59 * 60_000)
        assert told <= sum(count for at, count in happened if at > now - 61 * 60_000)
        assert len(spent) <= 60


@given(st.integers(1, 10**7), st.integers(0, 3_600_000))
def test_a_spent_budget_comes_free_when_told(count: int, later: int) -> None:
    start = 5_000_000
    spent = rates.spending({}, count, start)
    now = start + min(later, 59 * 60_000)
    wait = rates.seconds_until_free(spent, now)
    assert 1 <= wait <= 3600
    assert rates.spent_within_an_hour(spent, now + wait * 1000) == 0


@given(st.integers(1, 50), st.integers(3_600_000, 10**9))
def test_what_was_spent_while_a_clock_was_wrong_is_not_waited_for(count: int, ahead: int) -> None:
    now = 7_000_000
    spent = rates.spending({}, count, now + ahead)
    assert rates.spent_within_an_hour(spent, now) == 0
    assert rates.spending(spent, 1, now) == {now // 60_000: 1}
