"""Deadlines and the circuit breaker around a backend."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from quipu.backends.guarded import GuardedBackend, Patience
from quipu.errors import BackendUnavailableError, UnsupportedError
from quipu.ports.backend import Answer, Container, Copy, Health, Kept, NativeHit, Place, Query
from quipu.rules.breaker import FIRST_MS, LONGEST_MS, Breaker, BreakerState
from quipu.testing.backend.case import Keeper
from quipu.testing.backend.shelf import ShelfBackend
from tests.requirement import requirement

QUICK = Patience(open_s=0.2, search_s=0.2, effect_s=0.2, health_s=0.2)


class Stubborn(ShelfBackend):
    """Does not let itself be cancelled."""

    async def search(self, query: Query, limit: int) -> Answer:
        for _ in range(20):
            try:
                await asyncio.sleep(0.1)
            except asyncio.CancelledError:
                continue
        return Answer(hits=())


@requirement("memorywire:router.deadline")
async def test_a_call_that_ignores_cancellation_holds_nobody_up() -> None:
    guarded = GuardedBackend("stubborn", Stubborn(), patience=QUICK)
    started = time.perf_counter()
    with pytest.raises(BackendUnavailableError) as late:
        await Keeper(guarded).asked("tea")
    assert late.value.reason == "mirror_late"
    assert time.perf_counter() - started < 1.0
    await asyncio.sleep(2.2)
    await guarded.close()


@requirement("memorywire:router.breaker")
async def test_a_backend_that_keeps_failing_is_left_alone_then_probed_once() -> None:
    shelf, now = ShelfBackend(), [0]
    guarded = GuardedBackend("shelf", shelf, patience=QUICK, clock=lambda: now[0])
    await guarded.open()
    shelf.is_down = True
    for _ in range(5):
        with pytest.raises(BackendUnavailableError):
            await Keeper(guarded).asked("tea")
    before = shelf.calls["search"]
    with pytest.raises(BackendUnavailableError) as skipped:
        await Keeper(guarded).asked("tea")
    assert (skipped.value.reason, shelf.calls["search"], guarded.breaker) == ("breaker_open", before, "open")
    assert not (await guarded.health()).is_up
    shelf.is_down = False
    now[0] += FIRST_MS
    assert guarded.breaker == "half_open"
    await Keeper(guarded).asked("tea")
    assert guarded.breaker == "closed"
    await guarded.close()


class Odd(ShelfBackend):
    """Answers with something else than was asked."""

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        return ["", *[""] * len(copies)]

    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        raise UnsupportedError("Not here.", reason="no_scan")


async def test_native_ids_that_are_none_are_a_failure_and_a_missing_promise_is_not() -> None:
    guarded = GuardedBackend("odd", Odd(), patience=QUICK)
    with pytest.raises(BackendUnavailableError):
        await Keeper(guarded).put("tea")
    with pytest.raises(UnsupportedError):
        await guarded.get([])
    assert guarded.breaker == "closed"


async def test_opening_that_takes_long_goes_on_behind_a_deadline() -> None:
    class Slow(ShelfBackend):
        opened = 0

        async def open(self) -> None:
            await asyncio.sleep(0.5)
            self.opened += 1

    slow = Slow()
    guarded = GuardedBackend("slow", slow, patience=QUICK)
    with pytest.raises(BackendUnavailableError):
        await Keeper(guarded).asked("tea")
    await asyncio.sleep(0.5)
    assert (await Keeper(guarded).asked("tea")).hits == ()
    assert slow.opened == 1
    await guarded.close()


@requirement("memorywire:router.breaker")
def test_the_breaker_opens_doubles_and_closes() -> None:
    breaker = Breaker()
    for moment in range(4):
        breaker = breaker.failed(moment, 0.0)
    assert breaker.succeeded(4).failed(5, 0.0).state(6) is BreakerState.CLOSED, "not in a row"
    breaker = breaker.failed(4, 1.0)
    assert breaker.state(4 + FIRST_MS) is BreakerState.OPEN, "jitter makes it a little longer"
    now = 4 + FIRST_MS + FIRST_MS // 10
    assert breaker.lets_through(now)
    assert not breaker.called(now).lets_through(now + 1), "one probe at a time"
    pauses = []
    for _ in range(6):
        breaker = breaker.called(now).failed(now, 0.0)
        assert breaker.open_until is not None
        pauses.append(breaker.open_until - now)
        now = breaker.open_until
    assert pauses == [60_000, 120_000, 240_000, LONGEST_MS, LONGEST_MS, LONGEST_MS]
    assert breaker.called(now).succeeded(now) == Breaker()


@requirement("memorywire:router.breaker")
def test_over_half_of_the_last_twenty_calls_open_it() -> None:
    breaker = Breaker()
    for moment in range(20):
        failed = moment % 4 != 0
        breaker = breaker.failed(moment, 0.0) if failed else breaker.succeeded(moment)
    assert breaker.state(20) is BreakerState.OPEN
    calm = Breaker()
    for moment in range(40):
        slow = moment * 5_000
        calm = calm.failed(slow, 0.0) if moment % 4 else calm.succeeded(slow)
    assert calm.state(200_000) is BreakerState.CLOSED, "only what is recent counts"


class Mortal(ShelfBackend):
    """Dies now and then, as a process does; whoever opens it starts it again."""

    is_dead = False

    async def open(self) -> None:
        await super().open()
        self.is_dead = False

    async def _touch(self, call: str) -> None:
        if self.is_dead and call != "open":
            raise BackendUnavailableError("Its process has ended.", reason="mirror_unreachable")
        await super()._touch(call)


async def test_what_was_open_and_has_died_is_opened_again() -> None:
    mortal = Mortal()
    guarded = GuardedBackend("mortal", mortal, patience=QUICK)
    kept = await Keeper(guarded).put("tea at noon")
    mortal.is_dead = True
    with pytest.raises(BackendUnavailableError):
        await Keeper(guarded).asked("tea")
    assert await Keeper(guarded).found("tea") == [kept.native_id]
    assert mortal.calls["open"] == 2
    await guarded.close()


@requirement("memorywire:router.breaker")
async def test_a_backend_that_says_it_is_down_has_failed() -> None:
    class Down(ShelfBackend):
        async def health(self) -> Health:
            return Health(is_up=False)

    now = [0]
    guarded = GuardedBackend("down", Down(), patience=QUICK, clock=lambda: now[0])
    for _ in range(5):
        assert not (await guarded.health()).is_up
    assert guarded.breaker == "open"
    now[0] += FIRST_MS
    assert not (await guarded.health()).is_up
    assert guarded.breaker == "open", "that somebody asked how it is heals nothing"
    await guarded.close()


async def test_a_backend_that_is_well_and_fails_has_trouble_with_what_it_was_given() -> None:
    class Choosy(ShelfBackend):
        async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
            raise BackendUnavailableError("It failed.", reason="mirror_unreachable", hint="Look there.")

    choosy = Choosy()
    guarded = GuardedBackend("choosy", choosy, patience=QUICK)
    with pytest.raises(BackendUnavailableError) as failed:
        await Keeper(guarded).put("tea")
    assert (failed.value.reason, failed.value.hint) == ("mirror_failed", "Look there.")
    choosy.is_down = True
    with pytest.raises(BackendUnavailableError) as down:
        await Keeper(guarded).put("tea")
    assert down.value.reason == "mirror_unreachable"
    await guarded.close()


@pytest.mark.parametrize("text", ["half \ud800 a letter", "a \x00 within"])
async def test_a_text_that_no_ledger_could_hold_is_none(text: str) -> None:
    class Rogue(ShelfBackend):
        async def search(self, query: Query, limit: int) -> Answer:
            return Answer(hits=(NativeHit(native_id="n", text=text), NativeHit(native_id="m", text="tea")))

    guarded = GuardedBackend("rogue", Rogue(), patience=QUICK)
    assert [hit.text for hit in (await Keeper(guarded).asked("tea")).hits] == ["", "tea"]
    await guarded.close()


class Nonsense(ShelfBackend):
    """Answers each call with something that is no answer to it."""

    def __init__(self, put: Any = None, search: Any = None, get: Any = None) -> None:
        super().__init__()
        self.told = {"put": put, "search": search, "get": get}

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        return self.told["put"]

    async def search(self, query: Query, limit: int) -> Answer:
        return self.told["search"]

    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        return self.told["get"]

    async def scan(self, container: Container) -> AsyncIterator[Kept]:
        yield self.told["get"]


@pytest.mark.parametrize("told", [None, 7, ["one"], ["one", "one"], ["one", None], [["one"], "two"]])
async def test_an_answer_that_is_none_is_a_failure_of_the_mirror(told: Any) -> None:
    """It is told like any other: whoever carries copies goes on, and the breaker counts it."""
    guarded = GuardedBackend("odd", Nonsense(told, told, told), patience=QUICK)
    keeper = Keeper(guarded)
    calls: list[Callable[[], Any]] = [
        lambda: keeper.put_all([keeper.copy("tea"), keeper.copy("coffee")]),
        lambda: keeper.asked("tea"),
        lambda: guarded.get([]),
    ]
    for call in calls:
        with pytest.raises(BackendUnavailableError) as failed:
            await call()
        assert failed.value.reason == "mirror_failed"
    if told is not None:
        with pytest.raises(BackendUnavailableError):
            await keeper.held()
    for _ in range(4):
        with pytest.raises(BackendUnavailableError):
            await keeper.asked("tea")
    assert guarded.breaker == "open"
    await guarded.close()
