"""The conformance scenarios on a Quipu that mirrors to a running vendor.

They are played twice: as in use, and with the ledger's own search switched off, so that every hit must have come from
the vendor. Writes wait until the vendor has confirmed them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from quipu import Memory
from quipu.backends.guarded import GuardedBackend, Patience
from quipu.bootstrap import Running, start
from quipu.config import Config
from quipu.model.operations import RememberRequest
from quipu.model.outcomes import RememberResponse
from quipu.model.principal import local
from quipu.ports.backend import Backend, Mirror, Routing
from quipu.ports.embedder import Embedder
from quipu.service.memory import MemoryService
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from quipu.testing.scenarios import MemorySubject, Opening, Scenario, Size
from quipu.testing.scenarios_subject import AGENT
from tests.conformance.test_scenarios import reply
from tests.vendors.sharing import lent

__all__ = ["Switched", "subject"]

_PATIENCE = Patience(open_s=120.0, search_s=60.0, effect_s=120.0, health_s=20.0)
_DEADLINE_MS = 120_000


class Switched:
    """One embedder for the vendor, whatever a scenario's memory embeds with; both have as many dimensions."""

    def __init__(self, real: Embedder) -> None:
        self.real, self.words = real, WordEmbedder(real.dimensions)
        self.now: Embedder = self.words
        self.model, self.dimensions = "switched", real.dimensions

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        return await self.now.embed(texts)

    async def close(self) -> None:
        """Both are somebody else's."""


class _Connection:
    """Opens a ledger with one mirror, which is handed in."""

    def __init__(self, open_parts: Callable[[], Any], mirror: Mirror, routing: Routing) -> None:
        self._open_parts, self._mirror, self._routing = open_parts, mirror, routing
        self._running: Running | None = None
        self.service: MemoryService | None = None

    async def open(self) -> MemoryService:
        self._running = await self._open_parts()
        parts = replace(self._running.parts, mirrors=(self._mirror,), routing=self._routing)
        self.service = MemoryService(parts, "test")
        await self.service.open(local().tenant)
        await self.service.mirrors.start()
        return self.service

    async def close(self) -> None:
        if self.service is not None and self._running is not None:
            await self.service.close()
            await self._running.close()

    async def drained(self) -> None:
        """Until the vendor has everything: what is being carried out in the background takes its time."""
        ends = time.monotonic() + _DEADLINE_MS / 1000
        while self.service is not None and not await self.service.mirrors.drained(local().tenant):
            assert time.monotonic() < ends, "the vendor did not take everything in time"
            await asyncio.sleep(0.05)


class Mirrored(Memory):
    """A memory whose mirror can be waited for."""

    way: _Connection


class MirroredSubject(MemorySubject):
    """Whatever changes memory is over when the vendor has it too."""

    store: Any

    async def _level(self) -> None:
        await self.store.way.drained()

    async def kept_since(self, created_at: int, content: str, **fields: Any) -> str:
        record_id = await super().kept_since(created_at, content, **fields)
        await self._level()
        return record_id

    async def remember_all(self, requests: Sequence[RememberRequest]) -> list[str]:
        ids = await super().remember_all(requests)
        await self._level()
        return ids

    async def restore(self, record_id: str) -> RememberResponse:
        answer = await super().restore(record_id)
        await self._level()
        return answer

    async def decide(self, proposal_id: str, *, approved: bool) -> object:
        answer = await super().decide(proposal_id, approved=approved)
        await self._level()
        return answer


def subject(
    backend: Backend, vendor: str, switched: Switched, file: Path, *, only_mirror: bool, size: Size
) -> MirroredSubject:
    """A Quipu on a file with this vendor as its mirror."""

    def memory(scenario: Scenario, clock: FixedClock) -> Any:
        switched.now = switched.real if scenario.embedder == "real" else switched.words
        config = Config(store_url=f"sqlite://{file}")
        guarded = GuardedBackend(vendor, lent(backend), patience=_PATIENCE)
        routing = Routing(
            write_deadline_ms=_DEADLINE_MS, deadline_ms=_DEADLINE_MS, ledger_votes=not only_mirror
        )
        way = _Connection(
            lambda: start(config, embedder=switched.now, clock=clock),
            Mirror(name=vendor, backend=guarded),
            routing,
        )
        made = Mirrored(AGENT, connection=way)
        made.way = way
        return made

    played = MirroredSubject(Opening(memory, reply, lambda: sorted(file.parent.glob(f"{file.name}*"))))
    played.size = size
    return played
