"""What a reviewer sees and decides on: agents, a user, operations and stores (contract 6.6).

1. Records are limited by their stores where they are read: `Access.reach` and `Access.scope`.
2. Held writes are seen as a whole or not at all: `sees`.
3. Of the journal and the change feed, a reviewer with limits sees what lies within them for certain.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from quipu.errors import ForbiddenError
from quipu.model.change import Proposal
from quipu.model.feed import FeedEvent, Happening
from quipu.model.governance import Decision
from quipu.model.journal import Entry
from quipu.model.principal import Principal
from quipu.model.trail import TrailRequest
from quipu.ports.parts import Parts
from quipu.rules import staging, touching, trail
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

    async def stores(self, principal: Principal) -> frozenset[str] | None:
        """The ids of the stores that a reviewer looks into; None where there are no limits."""
        return await self._access.stores_for(principal)

    async def entries(self, principal: Principal, entries: Sequence[Entry]) -> list[Entry]:
        """Those entries of the journal that speak of nothing beyond the reviewer's limits."""
        if not principal.is_limited:
            return list(entries)
        return await _Look(self._parts, self, principal, await self._access.stores_for(principal)).at(entries)

    async def looked_back(
        self, principal: Principal, wanted: TrailRequest, stretch: Sequence[Entry]
    ) -> list[Entry]:
        """Those of a stretch that were asked for, and that the principal may see: its agents, its user, its limits."""
        seen = [e for e in stretch if trail.visible(e, principal) and trail.meant(e, wanted)]
        seen = await self.entries(principal, seen)
        if not seen or not trail.needs_users(principal, wanted):
            return seen
        ids = {mention.id for entry in seen for mention in entry.records}
        records = await self._parts.ledger.read(principal.tenant, sorted(ids))
        # Of an erased record nobody knows any more whose it was.
        users = {row.id: row.user_id for row in records.values() if not row.is_emptied}
        return [
            entry
            for entry in seen
            if trail.about({users.get(mention.id) for mention in entry.records}, principal, wanted)
        ]

    async def events(self, principal: Principal, events: Sequence[FeedEvent]) -> tuple[FeedEvent, ...]:
        """The same for events of the change feed. What it says of records has been looked at already."""
        if not principal.is_limited:
            return tuple(events)
        told: list[FeedEvent] = []
        for event in events:
            proposal = None
            if event.cause is not None and event.cause.startswith("prp_"):
                proposal = await self._parts.ledger.proposal(principal.tenant, event.cause)
            if event.op in (Happening.HELD, Happening.DECIDED):
                if proposal is not None and await self.sees(principal, proposal):
                    told.append(event)
            elif proposal is not None and not staging.may_see(proposal, principal):
                told.append(replace(event, cause=None))
            else:
                told.append(event)
        return tuple(told)

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


class _Look:
    """One look of a reviewer with limits at some entries."""

    def __init__(
        self, parts: Parts, sight: Sight, principal: Principal, stores: frozenset[str] | None
    ) -> None:
        self._parts, self._sight, self._principal, self._stores = parts, sight, principal, stores
        #: Whether a proposal is seen whole, and whether its operation and agent are the reviewer's.
        self._known: dict[str, tuple[bool, bool]] = {}

    async def at(self, entries: Sequence[Entry]) -> list[Entry]:
        places: dict[str, str] = {}
        if self._stores is not None:
            ids = {name for entry in entries for name in trail.named(entry)}
            found = await self._parts.ledger.read(self._principal.tenant, sorted(ids))
            places = {record.id: record.store_id for record in found.values()}
        return [entry for entry in entries if await self._is_seen(entry, places)]

    async def _is_seen(self, entry: Entry, places: dict[str, str]) -> bool:
        operation, is_shown = entry.detail.get("operation"), False
        if isinstance(operation, str) and not staging.reviews(self._principal, operation):
            return False
        for name in trail.proposals(entry):
            is_whole, is_mine = await self._proposal(name)
            if not (is_whole if trail.is_of_queue(entry) else is_mine):
                return False
            is_shown = is_whole
        if self._stores is None:
            return True
        # What is nowhere for certain is not shown: it may be about any store.
        lies = {places.get(name, "") for name in trail.named(entry)}
        lies |= set() if entry.store is None else {entry.store}
        return lies <= self._stores and (bool(lies) or is_shown)

    async def _proposal(self, name: str) -> tuple[bool, bool]:
        if name not in self._known:
            found = await self._parts.ledger.proposal(self._principal.tenant, name)
            self._known[name] = (
                found is not None and await self._sight.sees(self._principal, found),
                found is not None and staging.may_see(found, self._principal),
            )
        return self._known[name]
