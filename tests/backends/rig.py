"""A memory with mirrors that are handed in."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from quipu import Memory
from quipu.backends.guarded import GuardedBackend, Patience, monotonic_ms
from quipu.bootstrap import now_ms, start
from quipu.config import Config
from quipu.model.principal import local
from quipu.ports.backend import Backend, Mirror, Routing
from quipu.ports.ledger import Ledger
from quipu.service.memory import MemoryService
from quipu.testing.embedders import WordEmbedder

#: What a patient mirror gets in tests: enough, and not long.
PATIENCE = Patience(open_s=2.0, search_s=0.3, effect_s=0.3, health_s=0.3)


def mirror(
    name: str,
    backend: Backend,
    *,
    patience: Patience = PATIENCE,
    clock: Callable[[], int] = monotonic_ms,
    **given: object,
) -> Mirror:
    """A backend behind its guard; `clock` is what its breaker goes by."""
    guarded = GuardedBackend(name, backend, patience=patience, clock=clock)
    return Mirror(name=name, backend=guarded, **given)


@dataclass(slots=True)
class Rig:
    """The memory, its service and its ledger."""

    memory: Memory
    service: MemoryService
    ledger: Ledger

    async def drained(self, tenant: str = "default") -> bool:
        return await self.service.mirrors.drained(tenant)

    async def lag(self, name: str, tenant: str = "default") -> int:
        standings = await self.service.mirrors.standings(tenant)
        return next(standing.waiting for standing in standings if standing.name == name)


class _Connection:
    def __init__(self, service: MemoryService) -> None:
        self._service = service

    async def open(self) -> MemoryService:
        return self._service

    async def close(self) -> None:
        """The rig closes it."""


@asynccontextmanager
async def rig(
    *mirrors: Mirror,
    path: Path | None = None,
    routing: Routing | None = None,
    clock: Callable[[], int] = now_ms,
    is_started: bool = True,
) -> AsyncGenerator[Rig]:
    """Open a memory with these mirrors; effects are carried out in the background when it is started."""
    config = Config(store_url="sqlite://:memory:" if path is None else f"sqlite://{path}")
    running = await start(config, embedder=WordEmbedder(), clock=clock)
    parts = replace(running.parts, mirrors=mirrors, routing=routing or Routing(write_deadline_ms=5000))
    service = MemoryService(parts, "test")
    try:
        await service.open(local().tenant)
        if is_started:
            await service.mirrors.start()
        memory = Memory("ana", connection=_Connection(service))
        yield Rig(memory, service, parts.ledger)
    finally:
        await service.close()
        await running.close()
