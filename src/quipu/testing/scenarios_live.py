"""A memory that is in use somewhere: a server, a database, a file. Scenarios play beside what is there.

Each scenario has an agent of its own, whose records are erased afterwards. What would disturb others (moving the clock,
stopping the backend, reading its files) is lacking, and told as not run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

from quipu.errors import ForbiddenError, QuipuError
from quipu.model.change import Proposal
from quipu.model.operations import ForgetRequest, RememberRequest
from quipu.model.outcomes import RememberResponse
from quipu.model.record import Record
from quipu.testing.scenarios_memory import FullMemory
from quipu.testing.scenarios_subject import Broken, Lacking, Scenario, Size, Subject


class LiveSubject(Subject):
    """Quipu's own `Memory`, wherever it leads."""

    store: FullMemory
    size = Size(crowd=300, users=10, each=20, rows=1_050, writes=80, recalls=50)
    is_alone = False
    brief_ms = 5_000

    def __init__(
        self,
        memory: FullMemory,
        reply: Callable[[object, bool], dict[str, Any]],
        *,
        label: str,
        clock: Callable[[], int],
        before_recall: Callable[[], Any] | None = None,
        reviewer: FullMemory | None = None,
    ) -> None:
        """`label` keeps runs apart; `before_recall` is awaited before every recall, for mirrors to catch up.

        `reviewer` is somebody else on the same memory, where nobody may decide on their own write.
        """
        super().__init__(memory, agent=f"conformance-{label}")
        self._reply, self._label, self._clock = reply, label, clock
        self._before_recall, self._reviewer = before_recall, reviewer or memory
        self._count = 0
        #: What a scenario has made beside its own agent: names of agents, and memory stores.
        self._others: set[str] = set()
        self._made: list[str] = []

    def fresh(self, scenario: Scenario) -> AbstractAsyncContextManager[Subject]:
        return self._as_own_agent(scenario)

    @asynccontextmanager
    async def _as_own_agent(self, scenario: Scenario) -> AsyncGenerator[Subject]:
        memory: Any = self.store
        before, self.agent = self.agent, f"{self.agent}-{scenario.name}"[:200]
        memory.agent_id = self.agent
        await memory.describe()  # a memory somewhere else says by itself what it promises
        try:
            yield self
        finally:
            await self._tidied()
            self.agent = memory.agent_id = before

    def beside(self, name: str) -> str:
        """A name that nobody else has here."""
        self._others.add(own := f"{name}-{self._label}")
        return own

    async def _tidied(self) -> None:
        """Leave nothing behind, as far as the credential allows it: no records, no store, nothing that waits."""
        agents = {self.agent, *self._others}
        with suppress(QuipuError):
            for waiting in await self.store.proposals():
                if waiting.agent_id in agents:
                    await self._reviewer.decide(waiting.id, approved=False)
        for agent in agents:
            with suppress(QuipuError):
                mine = ForgetRequest(agent_id=agent, filter={"agent_id": agent}, hard_delete=True)
                await self.store.forget(mine)
        for name in self._made:
            with suppress(QuipuError):
                await self.store.delete_store(name, confirm=name, hard_delete=True)
        self._others.clear()
        self._made.clear()

    async def recall(self, query: str, **fields: Any) -> Any:
        if self._before_recall is not None:
            await self._before_recall()
        return await super().recall(query, **fields)

    def now(self) -> int:
        return self._clock()

    async def outlast(self, milliseconds: int) -> None:
        await asyncio.sleep(milliseconds / 1000 + 0.1)

    async def kept_since(self, created_at: int, content: str, **fields: Any) -> str:
        """By way of import, which may say when a memory was made."""
        self._count += 1
        line: dict[str, Any] = {
            "agent_id": self.agent,
            "user_id": self.user,
            "content": content,
            "created_at": created_at,
            "id": f"mem_{self._label}-{self._count}",
            **fields,
        }
        summary = await self.store.import_records([line])
        if summary.failed:
            raise Broken(f"the import failed: {summary.errors}")
        return line["id"]

    async def remember_all(self, requests: Sequence[RememberRequest]) -> list[str]:
        ids: list[str] = []
        for start in range(0, len(requests), 100):
            answers = await self.store.remember_many(requests[start : start + 100])
            ids += [answer.id for answer in answers]
        return ids

    async def submit(self, operation: str, body: Mapping[str, Any], *, strict: bool = True) -> dict[str, Any]:
        response = await self.store.submit(operation, {"agent_id": self.agent, **body}, strict=strict)
        return self._reply(response, bool(body.get("extensions")))

    async def get(self, record_id: str) -> Record:
        return await self.store.get(record_id)

    async def history(self, record_id: str) -> Sequence[Any]:
        return await self.store.history(record_id)

    async def restore(self, record_id: str) -> RememberResponse:
        return await self.store.restore(record_id)

    async def exported(self) -> list[dict[str, Any]]:
        return [line async for line in self.store.export() if line.get("agent_id") == self.agent]

    async def journal(self) -> Sequence[Any]:
        entries: list[Any] = []
        while more := await self.store.journal(after=entries[-1].seq if entries else 0, limit=1_000):
            entries.extend(more)
        return entries

    async def pending(self) -> Sequence[Proposal]:
        return [one for one in await self.store.proposals() if one.agent_id == self.agent]

    async def decide(self, proposal_id: str, *, approved: bool) -> object:
        try:
            return await self._reviewer.decide(proposal_id, approved=approved)
        except ForbiddenError as error:
            if error.reason != "self_approval":
                raise
            raise Lacking("a second person to decide") from error

    async def create_store(self, name: str) -> None:
        await self.store.create_store(name)
        self._made.append(name)

    async def flush(self) -> None:
        await self.store.flush()

    async def stays_sound(self) -> bool:
        return (await self.store.verify()).holds
