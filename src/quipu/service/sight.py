"""What a reviewer sees and decides on: agents, a user, operations and stores (contract 6.6)."""

from __future__ import annotations

from collections.abc import Collection

from quipu.errors import ForbiddenError
from quipu.model.change import Proposal
from quipu.model.governance import Decision
from quipu.model.principal import Principal
from quipu.ports.parts import Parts
from quipu.rules import staging, touching
from quipu.rules.texts import is_keepable
from quipu.service.access import Access


class Sight:
    """Stores are looked up only for reviewers who are limited to some."""

    def __init__(self, parts: Parts, access: Access) -> None:
        self._parts, self._access = parts, access

    async def sees(self, principal: Principal, proposal: Proposal) -> bool:
        """Whether it is this caller's to see; who wrote it and who decided it always may."""
        if not staging.may_see(proposal, principal):
            return False
        if "*" in principal.review_stores or principal.name in (proposal.writer, proposal.reviewer):
            return True
        found = touching.touched(proposal)
        if found.is_open:
            return False
        names = await self._stores(principal.tenant, found.stores, found.records)
        return bool(names) and all(principal.reviews_store(name) for name in names)

    async def check_decision(self, principal: Principal, said: Decision) -> None:
        """Letting one memory in by merging it into another, or in place of others, decides on those too."""
        extra = [("merge", [said.merge_into])] if said.merge_into is not None else []
        extra += [("forget", list(said.supersedes))] if said.supersedes else []
        for operation, ids in extra:
            names = set[str]()
            if "*" not in principal.review_stores:
                names = await self._stores(principal.tenant, (), ids)
            is_mine = all(principal.reviews_store(name) for name in names)
            if not is_mine or not principal.reviews_operation(operation):
                raise ForbiddenError(
                    "This reviewer decides on other stores or operations.", reason="review_reach"
                )

    async def _stores(self, tenant: str, stores: Collection[str], records: Collection[str]) -> set[str]:
        """The names of stores, those that were named and those in which the records are."""
        named = [name for name in records if is_keepable(name)]
        found = await self._parts.ledger.read(tenant, named)
        known = await self._access.stores(tenant)
        wanted = {*stores, *(record.store_id for record in found.values())}
        return {known[name].name if name in known else name for name in wanted}
