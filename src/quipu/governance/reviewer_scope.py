"""What a reviewer sees and decides on: agents, a user, operations and stores.

1. A held write is seen as a whole or not at all: every memory that it touches must lie within the limits.
2. What lies beyond them answers as what does not exist. What is not certain is not shown.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from quipu.errors import ForbiddenError, NotFoundError
from quipu.governance.model import PROPOSALS, DecideRequest, Proposal
from quipu.ledger.ledger import Ledger
from quipu.memory.scope import Scopes, reaches
from quipu.model.journal import Entry
from quipu.model.principal import Permission, Principal
from quipu.model.record import Record
from quipu.model.store import Store

#: Who may decide on what is remembered may decide on these too.
_REMEMBERING = frozenset({"update", "remember_many", "import"})


def reviews(principal: Principal, operation: str) -> bool:
    """Whether a reviewer decides on such writes."""
    return (
        principal.reviews_operation(operation)
        or (operation in _REMEMBERING and principal.reviews_operation("remember"))
        or (operation == "import_removals" and principal.reviews_operation("forget"))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewerScope:
    """Stores are looked up only for reviewers who are limited to some."""

    ledger: Ledger
    scopes: Scopes

    async def sees(self, principal: Principal, proposal: Proposal) -> bool:
        """Whether it is this caller's to see; who wrote it and who decided it always may."""
        return (await self.seeing(principal))(proposal)

    async def decides(self, principal: Principal, proposal: Proposal) -> bool:
        """Whether it is this reviewer's to decide on."""
        return (await self._deciding(principal))(proposal)

    async def seeing(self, principal: Principal) -> Callable[[Proposal], bool]:
        """The same as `sees`, for many."""
        decides = await self._deciding(principal)

        def sees(proposal: Proposal) -> bool:
            return principal.name in (proposal.writer, proposal.reviewer) or decides(proposal)

        return sees

    async def _deciding(self, principal: Principal) -> Callable[[Proposal], bool]:
        is_limited = "*" not in principal.review_stores
        stores: Mapping[str, Store] = await self.scopes.stores(principal.tenant) if is_limited else {}

        def decides(proposal: Proposal) -> bool:
            if not principal.may(Permission.REVIEW) or not self._is_within(principal, proposal):
                return False
            if not is_limited:
                return True
            touched = proposal.listed("stores")
            return not proposal.traits.get("is_open") and _reaches_all(principal, touched, stores)

        return decides

    @staticmethod
    def _is_within(principal: Principal, proposal: Proposal) -> bool:
        """As far as the proposal says it itself: operation, agents, user."""
        agents = {proposal.agent_id, *proposal.listed("agents")}
        users = {proposal.user_id, *proposal.listed("users")}
        return (
            reviews(principal, proposal.operation)
            and all(principal.may_act_for(agent) for agent in agents)
            and (principal.user_id is None or users == {principal.user_id})
        )

    def check_decision(self, principal: Principal, said: DecideRequest) -> None:
        """Letting one memory in by merging it into another, or in place of others, decides on those too."""
        wanted = ["merge"] if said.merge_into is not None else []
        wanted += ["forget"] if said.supersedes else []
        for operation in wanted:
            if not principal.reviews_operation(operation):
                raise ForbiddenError(
                    "This reviewer does not decide on that.",
                    reason="review_reach",
                    hint=f"It needs a reviewer who also decides on `{operation}`.",
                )

    async def check_records(self, principal: Principal, records: Iterable[Record]) -> None:
        """Memories that a decision reaches beyond what was held; what lies beyond the reviewer is not there."""
        stores = await self.scopes.stores(principal.tenant)
        if not all(reaches(principal, record, stores) for record in records):
            raise NotFoundError("There is no such memory.", reason="record")

    async def entries(self, principal: Principal, writes: Sequence[Entry]) -> list[Entry]:
        """Those of these writes that touched nothing beyond the principal's limits."""
        if principal.is_whole:
            return list(writes)
        ids = sorted({mention.id for entry in writes for mention in entry.records})
        records = await self.ledger.newest_versions(principal.tenant, ids)
        stores = await self.scopes.stores(principal.tenant)
        seen = {name for name, record in records.items() if reaches(principal, record, stores)}
        sees = await self.seeing(principal)
        return [entry for entry in writes if await self._sees_write(principal, entry, seen, sees)]

    async def _sees_write(
        self, principal: Principal, entry: Entry, seen: Collection[str], sees: Callable[[Proposal], bool]
    ) -> bool:
        if entry.agent is not None and not principal.may_act_for(entry.agent):
            return False
        proposal_id = entry.detail.get("proposal")
        if isinstance(proposal_id, str):  # seen as a whole or not at all, after it was carried out too
            proposal = await self.ledger.get(PROPOSALS, principal.tenant, proposal_id)
            if proposal is None or not sees(proposal):
                return False
        return bool(entry.records) and all(mention.id in seen for mention in entry.records)


def _reaches_all(principal: Principal, names: Iterable[str], stores: Mapping[str, Store]) -> bool:
    """Whether these stores, by name or id, are all within the limits. One that is gone is not."""
    found: Collection[Store | None] = [stores.get(name) for name in names]
    return bool(found) and all(store is not None and principal.reaches_store(store.name) for store in found)
