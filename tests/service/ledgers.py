"""A real ledger that is watched, and that can be told to fail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from quipu.bootstrap import start
from quipu.config import Config
from quipu.model.change import Commit
from quipu.model.principal import DEFAULT_TENANT
from quipu.rules.redaction import Redaction, Redactor
from quipu.service.memory import MemoryService
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder


class Watched:
    """Everything is passed on; commits are counted, and `before` is asked first."""

    def __init__(self, ledger: Any) -> None:
        self.ledger = ledger
        self.commits: list[tuple[Commit, ...]] = []
        #: Called with the number of this commit; may raise, or do something in between.
        self.before: Callable[[int], Any] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ledger, name)

    async def commit(self, *commits: Commit, guard: int | None = None) -> Any:
        self.commits.append(commits)
        if self.before is not None:
            pause = self.before(len(self.commits))
            if pause is not None:
                await pause
        return await self.ledger.commit(*commits, guard=guard)


@asynccontextmanager
async def watched_service(
    clock: FixedClock, redactors: tuple[Redactor, ...] = ()
) -> AsyncIterator[tuple[MemoryService, Watched]]:
    """A service over a watched ledger."""
    running = await start(Config(store_url="sqlite://:memory:"), embedder=WordEmbedder(), clock=clock)
    watched: Any = Watched(running.parts.ledger)
    await watched.open(DEFAULT_TENANT)
    service = MemoryService(replace(running.parts, ledger=watched, redaction=Redaction(redactors)), "0")
    try:
        yield service, watched
    finally:
        watched.before = None
        await service.close()
        await running.close()
