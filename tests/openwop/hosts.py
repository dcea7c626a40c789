"""A host for tests: a service over a real ledger, and short words for what tests do all the time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quipu.bootstrap import Running, start
from quipu.config import Config
from quipu.model.principal import Principal, local
from quipu.model.runs import Run, RunEvent
from quipu.rules.runs_options import ListOptions, new_entry
from quipu.rules.runs_wire import entry_body, entry_id
from quipu.service.memory import MemoryService
from quipu.service.runs import OpenRequest
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder

REF = "team/notes"


@dataclass
class Host:
    """One service, one tenant."""

    running: Running
    clock: FixedClock
    principal: Principal

    @property
    def service(self) -> MemoryService:
        return self.running.service

    async def close(self) -> None:
        await self.running.close()

    async def of(self, tenant: str) -> Host:
        """The same host for another tenant."""
        await self.running.parts.ledger.open(tenant)
        return Host(self.running, self.clock, local(tenant))

    # -- runs ---------------------------------------------------------------------------------------------------

    async def open(self, workflow_id: str = "outside", **given: Any) -> Run:
        """A run that is driven from outside."""
        request = OpenRequest(workflow_id=workflow_id, is_external=True, **given)
        return (await self.service.runs.open(self.principal, request)).run

    async def execute(self, workflow_id: str, **given: Any) -> Run:
        """A run of the engine, to its end."""
        opened = await self.service.runs.open(self.principal, OpenRequest(workflow_id=workflow_id, **given))
        await self.service.runs.engine.settle()
        return await self.run(opened.run)

    async def run(self, run: Run) -> Run:
        return await self.service.runs.get(self.principal, run.id)

    async def variables(self, run: Run) -> Any:
        return (await self.service.runs.snapshot(self.principal, run.id))["variables"]

    async def events(self, run: Run) -> Sequence[RunEvent]:
        return await self.service.runs.events(self.principal, run.id)

    async def types(self, run: Run) -> list[str]:
        return [event.type.value for event in await self.events(run)]

    async def complete(self, run: Run) -> Run:
        return await self.service.runs.complete(self.principal, run.id)

    # -- memory -------------------------------------------------------------------------------------------------

    async def put(
        self,
        content: str,
        ref: str = REF,
        *,
        run: Run | None = None,
        node_id: str | None = None,
        **given: Any,
    ) -> str:
        entry = new_entry({"content": content, **given}, now=self.clock(), most_bytes=65_536)
        memory = self.service.runs.memory
        return entry_id(await memory.put(self.principal, ref, entry, run=run, node_id=node_id))

    async def list(self, ref: object = REF, *, run: Run | None = None, **options: Any) -> list[str]:
        """Ids."""
        found = await self.service.runs.memory.list(self.principal, ref, ListOptions(**options), run)
        return [entry_id(record) for record in found]

    async def texts(self, ref: object = REF, *, run: Run | None = None, **options: Any) -> list[str]:
        found = await self.service.runs.memory.list(self.principal, ref, ListOptions(**options), run)
        return [record.content for record in found]

    async def get(self, name: object, ref: object = REF, *, run: Run | None = None) -> Any:
        found = await self.service.runs.memory.get(self.principal, ref, name, run)
        return None if found is None else entry_body(found)

    async def delete(self, name: object, ref: object = REF) -> bool:
        return await self.service.runs.memory.delete(self.principal, ref, name)


async def hosted(url: str, clock: FixedClock, **settings: Any) -> Host:
    """A host over a store, with the seams on unless said otherwise."""
    config = Config(**{"store_url": url, "openwop_seams": True, **settings})
    running = await start(config, embedder=WordEmbedder(), clock=clock)
    await running.parts.ledger.open("default")
    return Host(running, clock, local())
