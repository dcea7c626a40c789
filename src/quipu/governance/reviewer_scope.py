"""What a reviewer sees and decides on: agents, a user, operations and stores.

1. A held write is seen as a whole or not at all: every memory that it touches must lie within the limits.
2. What lies beyond them answers as what does not exist. What is not certain is not shown.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
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


@dataclass(frozen=True, slots=True)
class Reach:
    """What one caller sees and decides on."""

    principal: Principal
    #: By name and by id; looked up only for reviewers who are limited to some.
    stores: Mapping[str, Store]

    def sees(self, proposal: Proposal) -> bool:
        """Who wrote it and who decided it always may."""
        return self.principal.name in (proposal.writer, proposal.reviewer) or self.decides(proposal)

    def decides(self, proposal: Proposal) -> bool:
        """By operation, agents, user, and the stores of all that it touches. A store that is gone is in nobody's reach."""
        principal = self.principal
        is_within = (
            principal.may(Permission.REVIEW)
            and reviews(principal, proposal.operation)
            and all(map(principal.may_act_for, {proposal.agent_id, *proposal.listed("agents")}))
            and (
                principal.user_id is None
                or {proposal.user_id, *proposal.listed("users")} == {principal.user_id}
            )
        )
        if not is_within or "*" in principal.review_stores:
            return is_within
        touched = [self.stores.get(name) for name in proposal.listed("stores")]
        reached = [store is not None and principal.reaches_store(store.name) for store in touched]
        return bool(reached) and all(reached) and not proposal.traits.get("is_open")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewerScope:
    """Knows how far each reviewer reaches."""

    ledger: Ledger
    scopes: Scopes

    async def of(self, principal: Principal) -> Reach:
        is_limited = "*" not in principal.review_stores
        return Reach(principal, await self.scopes.stores(principal.tenant) if is_limited else {})

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
        reach = await self.of(principal)
        return [entry for entry in writes if await self._sees_write(reach, entry, seen)]

    async def _sees_write(self, reach: Reach, entry: Entry, seen: Collection[str]) -> bool:
        if entry.agent is not None and not reach.principal.may_act_for(entry.agent):
            return False
        proposal_id = entry.detail.get("proposal")
        if isinstance(proposal_id, str):  # seen as a whole or not at all, after it was carried out too
            proposal = await self.ledger.get(PROPOSALS, reach.principal.tenant, proposal_id)
            if proposal is None or not reach.sees(proposal):
                return False
        return bool(entry.records) and all(mention.id in seen for mention in entry.records)
