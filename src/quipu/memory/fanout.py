"""Many backends asked at once: each within its time and behind a circuit breaker, so that none holds up the others.

A breaker leaves a backend alone that failed 5 times in a row, or in over half of its last 20 calls within 30 s: for 30 s,
doubling up to 5 minutes, a little longer by chance. Then one call is let through, and what becomes of it decides.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

from quipu.errors import BackendUnavailableError, QuipuError

T = TypeVar("T")

IN_A_ROW: Final = 5
CALLS: Final = 20
WINDOW_MS: Final = 30_000
FIRST_MS: Final = 30_000
LONGEST_MS: Final = 300_000
#: A try that nobody heard of again within this time is made once more.
TRY_MS: Final = 60_000
#: How much longer a pause may get by chance, so that many servers do not all come back at once.
_JITTER: Final = 0.1

#: closed: calls go through; open: none do; half_open: one does, to see.
State: TypeAlias = Literal["closed", "open", "half_open"]


@dataclass(frozen=True, slots=True)
class Breaker:
    """What is known of a backend's last calls. Each call makes a new one."""

    in_a_row: int = 0
    #: When the last calls ended, and whether they failed.
    recent: tuple[tuple[int, bool], ...] = ()
    open_until: int | None = None
    open_for: int = FIRST_MS
    tried_at: int | None = None

    def state(self, now: int) -> State:
        if self.open_until is None:
            return "closed"
        return "open" if now < self.open_until else "half_open"

    def lets_through(self, now: int) -> bool:
        """Whether a call may be made now; where one is already finding out, no other is."""
        state = self.state(now)
        if state == "half_open":
            return self.tried_at is None or now - self.tried_at >= TRY_MS
        return state == "closed"

    def called(self, now: int) -> "Breaker":
        """A call has been let through."""
        return self if self.open_until is None else replace(self, tried_at=now)

    def succeeded(self, now: int) -> "Breaker":
        if self.open_until is not None:
            return Breaker()
        return replace(self, in_a_row=0, recent=_with(self.recent, now, is_failure=False))

    def failed(self, now: int, chance: float = 0.0) -> "Breaker":
        """`chance` is from 0 to 1, and makes the pause a little longer."""
        recent = _with(self.recent, now, is_failure=True)
        in_a_row = self.in_a_row + 1
        if self.open_until is not None:
            if now < self.open_until:  # a call that began before it opened
                return self
            longer = min(self.open_for * 2, LONGEST_MS)
            return Breaker(in_a_row, recent, now + _lengthened(longer, chance), longer)
        if in_a_row >= IN_A_ROW or _is_bad(recent):
            return Breaker(in_a_row, recent, now + _lengthened(FIRST_MS, chance))
        return replace(self, in_a_row=in_a_row, recent=recent)


@dataclass(frozen=True, slots=True)
class Answers(Generic[T]):
    """Who answered, in the order in which they were asked, and why the others did not."""

    told: Mapping[str, T]
    failed: Mapping[str, QuipuError]


def monotonic_ms() -> int:
    """A clock that nobody sets."""
    return time.monotonic_ns() // 1_000_000


@dataclass(slots=True, kw_only=True)
class Fanout:
    """Backends by name, each with its breaker."""

    clock: Callable[[], int] = monotonic_ms
    chance: Callable[[], float] = random.random
    #: Kept by name; a backend that was never called has none yet.
    breakers: dict[str, Breaker] = field(default_factory=dict[str, Breaker])

    def state(self, name: str) -> State:
        return self._breaker(name).state(self.clock())

    async def ask(
        self,
        calls: Mapping[str, Callable[[], Awaitable[T]]],
        *,
        seconds: float | Mapping[str, float],
        kind: type[Any] = object,
        is_counted: bool = True,
    ) -> Answers[T]:
        """All of them at once. Who gives up waiting leaves nothing running.

        seconds: How long each may take, or by name.
        kind: What an answer must be; anything else is a failure.
        is_counted: Off, breakers neither stop a call nor learn from it: to look at a backend's health.
        """
        errors: dict[str, QuipuError] = {}
        tasks: dict[str, asyncio.Task[T]] = {}
        for name, call in calls.items():
            if is_counted and not self._let_through(name):
                errors[name] = BackendUnavailableError(
                    "It failed too often, and is left alone for a while.", reason="breaker_open"
                )
            else:
                limit = seconds.get(name) if isinstance(seconds, Mapping) else seconds
                tasks[name] = asyncio.create_task(within(call, limit))
        try:
            if tasks:
                await asyncio.wait(tasks.values())
        finally:
            for task in tasks.values():
                if not task.done():
                    task.cancel()
        told: dict[str, T] = {}
        for name, task in tasks.items():
            error = _error(task, kind)
            if error is None:
                told[name] = task.result()
            else:
                errors[name] = error
            if is_counted:
                self._count(name, error)
        return Answers(told, {name: errors[name] for name in calls if name in errors})

    def _breaker(self, name: str) -> Breaker:
        return self.breakers.get(name, Breaker())

    def _let_through(self, name: str) -> bool:
        breaker, now = self._breaker(name), self.clock()
        if not breaker.lets_through(now):
            return False
        self.breakers[name] = breaker.called(now)
        return True

    def _count(self, name: str, error: QuipuError | None) -> None:
        """What the caller did wrong is not the backend's failure."""
        breaker, now = self._breaker(name), self.clock()
        is_failure = error is not None and (error.is_retryable or isinstance(error, BackendUnavailableError))
        self.breakers[name] = breaker.failed(now, self.chance()) if is_failure else breaker.succeeded(now)


async def within(call: Callable[[], Awaitable[T]], seconds: float | None) -> T:
    """Its answer in time. One that does not heed its cancellation is left behind, and what it still raises is nobody's."""
    inner = asyncio.ensure_future(_awaited(call))
    try:
        done, _ = await asyncio.wait({inner}, timeout=seconds)
        if not done:
            raise BackendUnavailableError("It did not answer in time.", reason="late")
        return inner.result()
    finally:
        if not inner.done():
            inner.cancel()
            inner.add_done_callback(lambda ended: ended.cancelled() or ended.exception())


async def _awaited(call: Callable[[], Awaitable[T]]) -> T:
    return await call()


def _error(task: asyncio.Task[Any], kind: type[Any]) -> QuipuError | None:
    """Why there is no answer; None where there is. What was raised is the cause, and is repeated in no answer."""
    raised = None if task.cancelled() else task.exception()
    if isinstance(raised, QuipuError):
        return raised
    if raised is None and not task.cancelled() and isinstance(task.result(), kind):
        return None
    error = BackendUnavailableError(
        "It failed.", reason="failed", hint="What it raised is the cause of this error."
    )
    error.__cause__ = raised or TypeError(f"It did not answer with a {kind.__name__}.")
    return error


def _with(recent: Sequence[tuple[int, bool]], now: int, *, is_failure: bool) -> tuple[tuple[int, bool], ...]:
    known = [call for call in recent if now - call[0] < WINDOW_MS]
    return (*known[-(CALLS - 1) :], (now, is_failure))


def _is_bad(recent: Sequence[tuple[int, bool]]) -> bool:
    return len(recent) >= CALLS and sum(is_failure for _, is_failure in recent) * 2 > len(recent)


def _lengthened(pause: int, chance: float) -> int:
    return pause + int(pause * _JITTER * chance)
