"""Where a server is in its life: starting, ready, draining."""

from __future__ import annotations

import asyncio
import time
from enum import StrEnum


class Stage(StrEnum):
    """One after the other, never back."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"


class Lifecycle:
    """Told by the server, asked by the door, by readiness and by streams."""

    def __init__(self) -> None:
        self.stage = Stage.STARTING
        #: What kept the server from starting.
        self.failure: BaseException | None = None
        self._settled = asyncio.Event()
        self._draining = asyncio.Event()
        self._drained_at: float | None = None

    def ready(self) -> None:
        """Everything is open."""
        if self.stage is Stage.STARTING:
            self.stage = Stage.READY
        self._settled.set()

    def failed(self, failure: BaseException) -> None:
        """It cannot be opened."""
        self.failure = failure
        self._settled.set()

    def drain(self) -> None:
        """The end has begun: what is at work is finished, nothing new is wanted."""
        self.stage = Stage.DRAINING
        if self._drained_at is None:
            self._drained_at = time.monotonic()
        self._draining.set()
        self._settled.set()

    async def settled(self) -> None:
        """Until it is known whether the server starts."""
        await self._settled.wait()

    async def draining(self) -> None:
        """Until the server drains."""
        await self._draining.wait()

    def left(self, seconds: float) -> float:
        """What is left of so many seconds, counted from the beginning of the end."""
        begun = time.monotonic() if self._drained_at is None else self._drained_at
        return max(0.0, begun + seconds - time.monotonic())
