"""A memory with mirrors that are handed in."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from quipu import Memory
from quipu.bootstrap import Container, open_container
from quipu.config import Settings
from quipu.memory.fanout import monotonic_ms
from quipu.mirrors.backend import Backend
from quipu.mirrors.copies import Mirror
from quipu.mirrors.guard import GuardedBackend, Patience
from quipu.mirrors.service import Standing
from quipu.model.ids import now
from quipu.model.principal import Principal, local
from quipu.opening import EmbeddedConnection
from quipu.testing.embedders import WordEmbedder
from tests.mirrors.shelf import ShelfBackend

#: What a mirror gets in tests, however busy the machine is; none that hangs has it.
PATIENCE = Patience(open_s=30.0, search_s=30.0, effect_s=30.0, health_s=30.0)
OWNER = local(agent_id="ana")


def mirror(
    name: str,
    backend: Backend,
    *,
    patience: Patience = PATIENCE,
    clock: Callable[[], int] = monotonic_ms,
    **given: Any,
) -> Mirror:
    """A backend behind its guard; `clock` is what its breaker goes by."""
    guarded = GuardedBackend(name, backend, patience=patience, clock=clock, chance=lambda: 0.0)
    return Mirror(name=name, backend=guarded, shown=f"{name}://here", **given)


@dataclass
class Rig:
    """The memory of `ana`, and what stands behind it."""

    memory: Memory
    container: Container

    async def drained(self, tenant: str = "default") -> bool:
        return await self.container.mirrors.drained(tenant)

    async def standing(self, name: str, tenant: str = "default") -> Standing:
        standings = await self.container.mirrors.standings(tenant)
        return next(one for one in standings if one.row.name == name)

    async def lag(self, name: str, tenant: str = "default") -> int:
        return (await self.standing(name, tenant)).waiting

    def of(self, who: Principal) -> Memory:
        return Memory.over(_opener(self.container, who), agent_id="ana")

    def tenant(self, name: str) -> Memory:
        """The same agent of another tenant."""
        return self.of(replace(OWNER, tenant=name))


class _Lent(EmbeddedConnection):
    async def close(self) -> None:
        """The rig closes it."""


def _opener(container: Container, who: Principal) -> Any:
    async def opened() -> Any:
        return _Lent(container, who)

    return opened


@asynccontextmanager
async def rig(
    *mirrors: Mirror,
    path: Path | None = None,
    clock: Callable[[], int] = now,
    in_background: bool = True,
    settings: Settings | None = None,
    **options: Any,
) -> AsyncIterator[Rig]:
    """Open a memory with these mirrors; what they are owed goes to them in the background, or when it is drained."""
    container = await open_container(
        settings or Settings(mirror_write_deadline_ms=30_000, recall_deadline_ms=30_000),
        stores=[":memory:" if path is None else str(path)],
        embedder=options.pop("embedder", None) or WordEmbedder(),
        clock=clock,
        mirrors=mirrors,
        **options,
    )
    try:
        if not in_background:
            await container.mirrors.stop()
        yield Rig(Memory.over(_opener(container, OWNER), agent_id="ana"), container)
    finally:
        await container.close()


async def until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait for a state, and not for ever."""
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends, "it did not happen in time"
        await asyncio.sleep(0.01)


async def eventually(holds: Callable[[], Awaitable[object]], seconds: float = 30.0) -> None:
    """The same for what has to be looked up."""
    ends = time.monotonic() + seconds
    for _ in range(1 << 20):
        if await holds():
            return
        assert time.monotonic() < ends, "it did not happen in time"
        await asyncio.sleep(0.01)


__all__ = ["OWNER", "PATIENCE", "Rig", "ShelfBackend", "eventually", "mirror", "rig", "until"]
