"""How long to wait and how often to try again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

#: A fresh number from 0 to 1, so that many clients do not come back at the same moment.
Jitter: TypeAlias = Callable[[], float]


class Repeat(Enum):
    """Whether a call may be made again when nobody knows what became of the first."""

    #: A read, or a write with an idempotency key: as often as need be.
    HARMLESS = auto()
    #: Only when it surely was not carried out.
    UNSENT = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Seconds and counts. `total_s` covers a call with all its repetitions; a stream has no end of its own."""

    connect_s: float = 5.0
    #: Between two pieces of an answer.
    read_s: float = 30.0
    total_s: float = 60.0
    retries: int = 4
    #: The first pause; each one is twice as long as the one before.
    first_s: float = 0.2
    longest_s: float = 10.0

    def pause(self, attempt: int, retry_after: float | None, jitter: float) -> float:
        """Seconds before the next attempt; `attempt` counts from 0. What the server asks for is the least."""
        grown = min(self.longest_s, self.first_s * 2.0**attempt)
        own = grown * (0.5 + 0.5 * jitter)
        return own if retry_after is None else max(own, retry_after + self.first_s * jitter)
