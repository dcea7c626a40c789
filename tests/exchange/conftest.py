"""Hosts with a clock that stands still: each is a memory, and the service behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quipu import Memory
from quipu.model.moving import ExportReport, FileExport, FileImport, Format, ImportReport
from quipu.model.principal import Permission, Principal, local
from quipu.service.memory import MemoryService
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder

WRITER = Principal(
    tenant="default",
    name="writer",
    permissions=frozenset({Permission.READ, Permission.WRITE}),
)
REVIEWER = Principal(
    tenant="default",
    name="reviewer",
    permissions=frozenset({Permission.READ, Permission.WRITE, Permission.REVIEW}),
)
ADMIN = local()


async def pieces(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 1000):
        yield data[start : start + 1000]


@dataclass
class Host:
    """One memory, and what this folder is about."""

    memory: Memory
    service: MemoryService

    async def out(self, format: Format = Format.BUNDLE, **given: Any) -> tuple[bytes, ExportReport]:
        made = await self.service.exporting.made(ADMIN, FileExport(format=format, **given))
        try:
            return made.file.read(), made.report
        finally:
            made.close()

    async def tried(self, data: bytes | str, who: Principal = ADMIN, **given: Any) -> ImportReport:
        raw = data.encode() if isinstance(data, str) else data
        request = FileImport(**{"agent_id": "ana", **given})
        return await self.service.importing.tried(who, pieces(raw), request)

    async def into(self, data: bytes | str, who: Principal = ADMIN, **given: Any) -> ImportReport:
        report = await self.tried(data, who, **given)
        return await self.service.importing.committed(who, report.import_id)

    async def keys(self) -> dict[str, str]:
        return dict(await self.service.audit.keys(ADMIN))

    async def contents(self) -> list[Any]:
        """Every record, as an export of lines tells it."""
        return [record async for record in self.memory.export(all_agents=True)]

    async def positions(self) -> int:
        return (await self.service.audit.head(ADMIN)).seq


Hosted = Callable[..., Any]


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
async def hosted(clock: FixedClock) -> AsyncIterator[Hosted]:
    """Makes hosts; all are closed afterwards."""
    memories: list[Memory] = []

    async def make(file: Path | None = None) -> Host:
        url = "sqlite://:memory:" if file is None else f"sqlite://{file}"
        memory = Memory(agent_id="ana", stores=url, embedder=WordEmbedder(), clock=clock)
        memories.append(memory)
        service = await memory._service()
        assert isinstance(service, MemoryService)
        return Host(memory, service)

    yield make
    for memory in memories:
        await memory.close()


@pytest.fixture
async def host(hosted: Hosted) -> Host:
    made: Host = await hosted()
    return made
