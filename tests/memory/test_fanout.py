"""Many backends asked at once: deadlines, failures, breakers, giving up."""

import asyncio

import pytest

from quipu.errors import BackendUnavailableError, InvalidError
from quipu.memory.fanout import CALLS, FIRST_MS, LONGEST_MS, TRY_MS, Breaker, Fanout


async def answer() -> str:
    return "yes"


async def never() -> str:
    await asyncio.Event().wait()
    return "never"


async def fails() -> str:
    raise OSError("connection to 10.0.0.9 refused")


async def refuses() -> str:
    raise InvalidError("No.", reason="bad_value")


async def test_who_is_late_or_fails_is_named_and_the_others_answer() -> None:
    asked = await Fanout().ask(
        {"late": never, "good": answer, "broken": fails, "strict": refuses},
        seconds={"late": 0.02, "good": 60, "broken": 60, "strict": 60},
        kind=str,
    )
    assert asked.told == {"good": "yes"}
    assert {name: error.reason for name, error in asked.failed.items()} == {
        "late": "late",
        "broken": "failed",
        "strict": "bad_value",
    }
    assert isinstance(asked.failed["broken"].__cause__, OSError)
    assert "10.0.0.9" not in str(asked.failed["broken"])


async def test_an_answer_of_another_kind_is_a_failure() -> None:
    asked = await Fanout().ask({"odd": answer}, seconds=60, kind=int)
    assert asked.failed["odd"].reason == "failed"
    assert "int" in str(asked.failed["odd"].__cause__)


async def test_who_gives_up_waiting_leaves_nothing_running() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        begun.set()
        try:
            return await never()
        finally:
            ended.set()

    asked = asyncio.create_task(Fanout().ask({"slow": slow}, seconds=60))
    await begun.wait()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    await asyncio.wait_for(ended.wait(), 30)


async def test_one_that_does_not_heed_its_cancellation_holds_up_nobody() -> None:
    goes_on = asyncio.Event()

    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await goes_on.wait()
        return "too late"

    asked = await asyncio.wait_for(Fanout().ask({"stubborn": stubborn}, seconds=0.02), 30)
    assert asked.failed["stubborn"].reason == "late"
    goes_on.set()


async def test_one_that_keeps_failing_is_left_alone_and_tried_again() -> None:
    now, called = [0], [0]

    async def counted() -> str:
        called[0] += 1
        raise OSError

    fanout = Fanout(clock=lambda: now[0], chance=lambda: 0.0)
    for _ in range(5):
        await fanout.ask({"b": counted}, seconds=60)
    assert (fanout.state("b"), called[0]) == ("open", 5)
    asked = await fanout.ask({"b": counted}, seconds=60)
    assert (asked.failed["b"].reason, called[0]) == ("breaker_open", 5), "skipped at no cost"
    assert isinstance(asked.failed["b"], BackendUnavailableError)
    looked = await fanout.ask({"b": answer}, seconds=60, is_counted=False)
    assert (looked.told, fanout.state("b")) == ({"b": "yes"}, "open"), "looking does not count"
    now[0] = FIRST_MS
    assert fanout.state("b") == "half_open"
    assert (await fanout.ask({"b": answer}, seconds=60)).told == {"b": "yes"}
    assert fanout.state("b") == "closed"


async def test_what_the_caller_did_wrong_is_not_the_backends_failure() -> None:
    fanout = Fanout()
    for _ in range(20):
        await fanout.ask({"b": refuses}, seconds=60)
    assert fanout.state("b") == "closed"


def test_pauses_double_up_to_a_bound_and_one_try_is_made_at_a_time() -> None:
    breaker, now = Breaker(), 0
    for _ in range(5):
        breaker = breaker.failed(now)
    pauses: list[int] = []
    for _ in range(6):
        assert breaker.open_until is not None
        pauses.append(breaker.open_until - now)
        now = breaker.open_until
        assert breaker.lets_through(now)
        breaker = breaker.called(now)
        assert not breaker.lets_through(now), "somebody is finding out already"
        assert breaker.lets_through(now + TRY_MS), "nobody heard of that one again"
        breaker = breaker.failed(now)
    assert pauses == [FIRST_MS, 2 * FIRST_MS, 4 * FIRST_MS, 8 * FIRST_MS, LONGEST_MS, LONGEST_MS]
    assert Breaker(open_until=10).failed(5) == Breaker(open_until=10), "a call that began before"
    assert breaker.succeeded(now) == Breaker()


def test_over_half_of_many_calls_is_too_much() -> None:
    breaker = Breaker()
    for number in range(CALLS):
        breaker = breaker.succeeded(number) if number % 2 else breaker.failed(number)
    assert breaker.state(CALLS) == "closed"
    assert breaker.failed(CALLS).failed(CALLS).state(CALLS) == "open"
    assert Breaker().failed(0, chance=1.0).failed(0).failed(0).failed(0).failed(0, 1.0).open_until == 33_000
