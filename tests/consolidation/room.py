"""An installation with a short-term store, and what tests of consolidation ask of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from quipu.audit.operations import UNDO, VERIFY
from quipu.config import Settings
from quipu.consolidation.model import ConsolidateResponse
from quipu.consolidation.operations import CONSOLIDATE
from quipu.governance.model import PROPOSALS, Proposal
from quipu.governance.operations import LIST_REVIEWS
from quipu.memory.operations import CREATE_STORE, FORGET, LIST, REMEMBER
from quipu.model.principal import Principal, local
from quipu.model.record import Record
from quipu.operation import AnyOperation
from tests.governance.office import Office, open_office

DAY, HOUR = 86_400_000, 3_600_000
OWNER = local(agent_id="ana")
#: As a server's own passes are called.
SYSTEM = replace(OWNER, name="system")
#: Weighs enough to be promoted while it is young.
HEAVY: dict[str, Any] = {"importance": 1.0}
LOOK = {
    "id": "look",
    "when": {"operations": ["remember"], "sources": ["consolidation"]},
    "effect": "hold",
}


@dataclass
class Room:
    """Whoever is not named is the person whose memory it is."""

    office: Office

    async def __call__(self, operation: AnyOperation, who: Principal | None = None, /, **fields: Any) -> Any:
        return await self.office(operation, who or OWNER, **fields)

    @property
    def container(self) -> Any:
        return self.office.container

    def move(self, ms: int) -> None:
        self.office.clock.now += ms

    async def push(self, content: Any, **given: Any) -> str:
        """Put something into the window."""
        return (await self(REMEMBER, content=content, **{"store": "window", **given})).id

    async def known(self, content: str, **given: Any) -> str:
        """A long-term memory."""
        return (await self(REMEMBER, content=content, **given)).id

    async def consolidate(self, **fields: Any) -> ConsolidateResponse:
        return await self(CONSOLIDATE, SYSTEM, **{"all_agents": True, **fields})

    async def live(self) -> dict[str, Any]:
        """What there is, by id."""
        return {one.id: one for one in (await self(LIST, limit=1000)).records}

    async def texts(self) -> list[str]:
        return sorted(one.content for one in (await self.live()).values())

    async def versions(self, record_id: str) -> list[Record]:
        return list(await self.container.ledger.versions("default", record_id))

    async def waiting(self) -> list[Any]:
        return list((await self(LIST_REVIEWS, limit=1000)).reviews)

    async def proposal(self, proposal_id: str) -> Proposal:
        found = await self.container.ledger.get(PROPOSALS, "default", proposal_id)
        assert found is not None
        return found

    async def decided(self, *, approved: bool) -> str:
        """The one proposal that waits, after a person's word."""
        (waiting,) = await self.waiting()
        await self.office.decide(waiting.id, OWNER, approved=approved)
        return waiting.id

    async def rules(self, *rules: dict[str, Any]) -> None:
        await self.office.rules(*rules)

    async def erase(self, *ids: str) -> set[str]:
        return set((await self(FORGET, ids=list(ids), hard_delete=True)).forgotten_ids)

    async def undo(self, pass_id: str) -> dict[str, tuple[str, str]]:
        """What became of each memory of a pass."""
        done = await self(UNDO, pass_id=pass_id, dry_run=False)
        return {one.id: (one.step, one.outcome) for one in done.findings}

    async def is_verified(self) -> bool:
        report = await self(VERIFY)
        assert report.verified, report
        return True


@asynccontextmanager
async def room_at(
    address: str = ":memory:", settings: Settings | None = None, **given: Any
) -> AsyncIterator[Room]:
    """Another one over the same database is another process."""
    office = await open_office(address, settings, **given)
    try:
        yield Room(office)
    finally:
        await office.container.close()


async def with_window(room: Room) -> Room:
    await room(CREATE_STORE, name="window", tier="short_term")
    return room
