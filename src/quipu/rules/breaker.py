"""When a backend that fails is left alone for a while.

It opens after 5 failures in a row, or when over half of the last 20 calls within 30 s failed; stays open for 30 s,
doubling up to 5 min, with jitter; then one call is let through, and what becomes of it decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

IN_A_ROW: Final = 5
CALLS: Final = 20
WINDOW_MS: Final = 30_000
FIRST_MS: Final = 30_000
LONGEST_MS: Final = 300_000
#: A probe that nobody heard of again within this time is made once more.
PROBE_MS: Final = 60_000


class BreakerState(StrEnum):
    """Closed: calls go through. Open: none do. Half open: one does, to see."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True, slots=True)
class Breaker:
    """What is known of a backend's last calls. Each call gives a new one."""

    in_a_row: int = 0
    #: When the last calls ended, and whether they failed.
    recent: tuple[tuple[int, bool], ...] = ()
    open_until: int | None = None
    open_for: int = FIRST_MS
    probed_at: int | None = None

    def state(self, now: int) -> BreakerState:
        if self.open_until is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if now < self.open_until else BreakerState.HALF_OPEN

    def lets_through(self, now: int) -> bool:
        """Whether a call may be made now; where one is already finding out, no other is."""
        match self.state(now):
            case BreakerState.CLOSED:
                return True
            case BreakerState.OPEN:
                return False
            case BreakerState.HALF_OPEN:
                return self.probed_at is None or now - self.probed_at >= PROBE_MS

    def called(self, now: int) -> Breaker:
        """A call has been let through."""
        return self if self.open_until is None else replace(self, probed_at=now)

    def succeeded(self, now: int) -> Breaker:
        if self.open_until is not None:
            return Breaker()
        return replace(self, in_a_row=0, recent=_with(self.recent, now, is_failure=False))

    def failed(self, now: int, jitter: float) -> Breaker:
        """`jitter` is from 0 to 1, and makes the pause up to a tenth longer."""
        recent = _with(self.recent, now, is_failure=True)
        in_a_row = self.in_a_row + 1
        if self.open_until is not None:
            if now < self.open_until:  # a call that began before it opened
                return self
            longer = min(self.open_for * 2, LONGEST_MS)
            return Breaker(in_a_row, recent, now + _jittered(longer, jitter), longer)
        if in_a_row >= IN_A_ROW or _is_bad(recent):
            return Breaker(in_a_row, recent, now + _jittered(FIRST_MS, jitter))
        return replace(self, in_a_row=in_a_row, recent=recent)


def _with(recent: Sequence[tuple[int, bool]], now: int, *, is_failure: bool) -> tuple[tuple[int, bool], ...]:
    known = [call for call in recent if now - call[0] < WINDOW_MS]
    return (*known[-(CALLS - 1) :], (now, is_failure))


def _is_bad(recent: Sequence[tuple[int, bool]]) -> bool:
    return len(recent) >= CALLS and sum(is_failure for _, is_failure in recent) * 2 > len(recent)


def _jittered(pause: int, jitter: float) -> int:
    return pause + int(pause * 0.1 * jitter)
