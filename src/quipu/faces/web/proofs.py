"""A check of the whole journal, which may take longer than a person waits for a page."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from quipu.model.outcomes import Verification
from quipu.ports.surroundings import Clock

#: Most journals are checked before anybody would notice; the others show how far they are.
PATIENCE_S = 1.0

Progress = Callable[[int, int], None]
Verify = Callable[[Progress], Awaitable[Verification]]


class Proof:
    """One check: how far it is, and what it found."""

    def __init__(self, verify: Verify, clock: Clock) -> None:
        self._clock = clock
        self.began_at = clock()
        self.ended_at: int | None = None
        self.done, self.total = 0, 0
        self._task = asyncio.ensure_future(self._run(verify))

    async def _run(self, verify: Verify) -> Verification:
        try:
            return await verify(self._progress)
        finally:
            self.ended_at = self._clock()

    def _progress(self, done: int, total: int) -> None:
        self.done, self.total = done, total

    @property
    def is_running(self) -> bool:
        return not self._task.done()

    @property
    def has_failed(self) -> bool:
        """Whether it came to no result."""
        return self._task.done() and (self._task.cancelled() or self._task.exception() is not None)

    async def wait(self, seconds: float) -> None:
        """Give it a moment; it goes on if that is not enough."""
        await asyncio.wait([self._task], timeout=seconds)

    def found(self) -> Verification:
        """What it found. Raises what stopped it."""
        return self._task.result()

    def stop(self) -> None:
        self._task.cancel()
