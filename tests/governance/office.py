"""A whole installation with rules, writers and reviewers, asked through `dispatch`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quipu.access.operations import CREATE_TOKEN
from quipu.bootstrap import Container, open_container
from quipu.config import Settings
from quipu.governance.operations import DECIDE, GET_RULES, REVIEW, SET_RULES
from quipu.ledger.ledger import JournalQuery
from quipu.ledger.queries import Query
from quipu.memory.operations import RECALL
from quipu.model.journal import Entry
from quipu.model.principal import Principal, local
from quipu.operation import AnyOperation, Context, dispatch
from quipu.testing.embedders import WordEmbedder
from tests.fixtures.memories import Clock

HOLD_ALL: dict[str, Any] = {"id": "all", "effect": "hold"}


@dataclass
class Office:
    """The container and its clock."""

    container: Container
    clock: Clock

    def context(self, who: Principal | None = None) -> Context:
        return self.container.context(who or local(agent_id="agent"))

    async def __call__(self, operation: AnyOperation, who: Principal | None = None, /, **fields: Any) -> Any:
        """Run an operation; without a principal, as the person at the file."""
        return await dispatch(self.context(who), operation, fields)

    async def token(self, name: str, *roles: str, by: Principal | None = None, **fields: Any) -> Principal:
        """Who shows a new token. An agent acts for `agent`, unless it is said otherwise."""
        roles = roles or ("agent",)
        more = {"default_agent": "agent"} if "agents" not in fields else {}
        issued = await self(CREATE_TOKEN, by, name=name, roles=roles, **{**more, **fields})
        return await self.container.access.credentials.principal(issued.text)

    async def rules(self, *rules: dict[str, Any]) -> None:
        await self(SET_RULES, rules=list(rules))

    async def review(self, proposal_id: str, who: Principal | None = None) -> Any:
        return await self(REVIEW, who, id=proposal_id)

    async def decide(
        self, proposal_id: str, who: Principal | None = None, approved: bool = True, **fields: Any
    ) -> Any:
        return await self(DECIDE, who, id=proposal_id, approved=approved, **fields)

    async def texts(self, query: str = "Ana", who: Principal | None = None, **fields: Any) -> list[str]:
        answer = await self(RECALL, who, query=query, min_relevance="off", k=50, **fields)
        return sorted(hit.content for hit in answer)

    async def entries(self, *ops: str) -> Sequence[Entry]:
        """What the journal says of these."""
        entries = await self.container.ledger.entries("default", JournalQuery(limit=10_000))
        return [entry for entry in entries if entry.op in ops or not ops]


async def open_office(address: str = ":memory:", settings: Settings | None = None, **options: Any) -> Office:
    clock = Clock()
    container = await open_container(
        settings or Settings(), stores=[address], embedder=WordEmbedder(), clock=clock, **options
    )
    return Office(container, clock)


async def altered(container: Container, proposal_id: str) -> None:
    """As somebody with the database in their hands would alter what waits."""
    ledger: Any = container.ledger

    def work(reader: Any) -> tuple[None, tuple[()]]:
        text = '{"agent_id":"agent","content":"Ana owes me money"}'
        query = Query("UPDATE proposal SET request = :request WHERE tenant = :tenant AND id = :id")
        reader.cursor.run(query, tenant="default", id=proposal_id, request=text)
        return None, ()

    await ledger.locked("default", work)


__all__ = ["GET_RULES", "HOLD_ALL", "Office", "altered", "open_office"]
