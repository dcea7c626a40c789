"""Short-term windows as they are: what is in them, what it weighs, what waits for a person and what one refused."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeAlias, cast

from quipu.model.change import Proposal
from quipu.model.consolidation import ConsolidateRequest, NearlySame
from quipu.model.operations import ForgetRequest, RememberRequest
from quipu.model.principal import Principal
from quipu.model.record import Record, Tier
from quipu.model.search import Selection, Snapshot
from quipu.model.store import Store
from quipu.ports.ledger import Proposals
from quipu.ports.parts import Parts
from quipu.rules import derivations, settling, staging
from quipu.rules.settling import Item, Refusals
from quipu.service.access import Access
from quipu.service.embedding import Vectors

#: Tenant, agent, user.
Window: TypeAlias = tuple[str, str, str | None]
_PAGE = 500
#: So many windows' vectors are kept from one pass to the next.
_KEPT = 64


def window_of(record: Record) -> Window:
    """The window that a memory is in, if it is a short-term one."""
    return record.tenant, record.agent_id, record.user_id


class Windows:
    """Reads windows."""

    def __init__(self, parts: Parts, access: Access, vectors: Vectors) -> None:
        self._parts, self._access, self._vectors = parts, access, vectors
        #: Vectors of the memories that a window had when it was last looked at, by id and version.
        self._known: OrderedDict[Window, dict[tuple[str, int], bytes | None]] = OrderedDict()

    async def wanted(
        self, principal: Principal, request: ConsolidateRequest, only: Window | None = None
    ) -> list[list[Record]]:
        """The live short-term memories of each agent and user, as far as they are in reach. `only` this window."""
        user = principal.user_id if request.user_id is None else request.user_id
        if request.agent_id is not None:
            await self._access.scope(principal, request.agent_id, request.user_id)  # refuses another's user
        windows: dict[tuple[str, str], list[Record]] = {}
        async for record in self._short_term(principal.tenant, request.agent_id, user):
            if principal.may_act_for(record.agent_id) and only in (None, window_of(record)):
                windows.setdefault((record.agent_id, record.user_id or ""), []).append(record)
        if only is None and request.agent_id is None and user is None:
            self._let_go(principal.tenant, {window_of(records[0]) for records in windows.values()})
        elif only is not None and not windows:
            self._known.pop(only, None)
        return [windows[key] for key in sorted(windows)]

    def _let_go(self, tenant: str, present: set[Window]) -> None:
        """Nothing is kept of windows that are empty by now."""
        for window in [one for one in self._known if one[0] == tenant and one not in present]:
            del self._known[window]

    async def is_over(self, window: Window) -> tuple[bool, int]:
        """Whether a window has more than it holds, and how many it has as far as that needs counting."""
        tenant, agent, user = window
        count = 0
        async for record in self._short_term(tenant, agent, user):
            count += window_of(record) == window
            if count > self._parts.settling.window:
                return True, count
        return False, count

    async def _short_term(self, tenant: str, agent: str | None, user: str | None) -> AsyncIterator[Record]:
        stores: dict[str, Store] = {store.id: store for store in (await self._access.stores(tenant)).values()}
        for store in stores.values():
            if store.tier is not Tier.SHORT_TERM:
                continue
            selection = Selection(tenant=tenant, agent_id=agent, user_id=user, store_id=store.id)
            async for record in self._parts.ledger.scan(selection, Snapshot(None, self._parts.clock())):
                if record.tier is Tier.SHORT_TERM:
                    yield record

    # -- what people said ---------------------------------------------------------------------------------------

    async def waiting(self, tenant: str) -> frozenset[str]:
        """Memories whose promotion or eviction waits for a person: they stay, and nobody is asked again."""
        found: set[str] = set()
        for proposal in await self._parts.ledger.proposals(tenant, "pending"):
            request = staging.request_of(proposal.operation, proposal.request)
            if isinstance(request, ForgetRequest):
                found.update(request.ids)
            elif isinstance(request, RememberRequest):
                named = request.links or ()
                found.update(link.to for link in named if link.rel == derivations.DERIVED_FROM)
        return frozenset(found)

    async def refusals(self, tenant: str, windows: Sequence[Sequence[Record]]) -> Refusals:
        """What a person said no to, as far as it is still the version that they saw. A later yes takes it back."""
        records = [record for window in windows for record in window]
        if not records:
            return Refusals()
        since = min(record.updated_at for record in records)  # nobody was asked about a version before it was
        refused: dict[str, set[str]] = {"remember": set(), "forget": set()}
        allowed: dict[str, set[str]] = {"remember": set(), "forget": set()}
        for status, found in (("rejected", refused), ("approved", allowed)):
            async for proposal in self._decided(tenant, status, since):
                if proposal.operation in found:
                    found[proposal.operation].update(_marks(proposal))
        standing = {name: frozenset(refused[name] - allowed[name]) for name in refused}
        return settling.refusals_of(records, standing)

    async def _decided(self, tenant: str, status: str, since: int) -> AsyncIterator[Proposal]:
        after = (since - 1, "")
        while True:
            page = await self._parts.ledger.proposals(tenant, status, Proposals(after=after, limit=_PAGE))
            for proposal in page:
                yield proposal
            if len(page) < _PAGE:
                return
            after = (page[-1].created_at, page[-1].id)

    # -- weighing -----------------------------------------------------------------------------------------------

    async def weighed(self, records: Sequence[Record]) -> tuple[list[Item], list[NearlySame]]:
        """The memories of one window with what is known of their use, and which of them seem to say the same."""
        tenant = records[0].tenant
        marks = await self._parts.ledger.marks(tenant, [record.id for record in records])
        items = [Item(one, marks[one.id].recall_count if one.id in marks else 0) for one in records]
        items = settling.newest_first(items)
        vectors = await self._vectors_of([item.record for item in items])
        weighed: list[Item] = []
        similar: list[NearlySame] = []
        # What was pushed out of the window is weighed among its own.
        for start in range(0, len(items), self._parts.settling.window):
            part = items[start : start + self._parts.settling.window]
            texts = [item.record for item in part]
            beside = vectors[start : start + len(part)]
            # Every pair of a window is a moment's arithmetic: requests go on meanwhile.
            pairs = await asyncio.to_thread(settling.nearly_same, texts, beside, self._parts.settling.similar)
            similar.extend(pairs)
            weighed.extend(settling.with_mentions(part, pairs))
        return weighed, similar

    async def _vectors_of(self, records: Sequence[Record]) -> list[bytes | None]:
        """Vectors, those of the last look at the same versions again. What has left the window is not kept."""
        window = window_of(records[0])
        known = self._known.pop(window, {})
        new = [one for one in records if known.get((one.id, one.version)) is None]
        made = await self._vectors.of_records(window[0], new, [None] * len(new))
        found = {**known, **{(one.id, one.version): vector for one, vector in zip(new, made, strict=True)}}
        kept = {(one.id, one.version): found[one.id, one.version] for one in records}
        self._known[window] = kept
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return list(kept.values())


def _marks(proposal: Proposal) -> list[str]:
    """The versions that a held settlement was about."""
    named: Any = proposal.traits.get(settling.SETTLES)
    return cast("list[str]", named) if isinstance(named, list) else []
