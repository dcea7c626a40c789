"""What an observer is told of work that nobody asked for: a tenant's first store, what expires, what settles."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeAlias

from quipu.model.consolidation import Settlement
from quipu.model.observation import Action, Became, Observation
from quipu.model.store import MAIN
from quipu.rules import observing
from quipu.service.observing_around import Around, quietly

if TYPE_CHECKING:
    from quipu.model.operations import ForgetRequest, RememberRequest
    from quipu.model.principal import Principal

#: What became of memories that were to go, and the proposal that waits, if there is one.
Removed: TypeAlias = tuple[dict[str, Settlement], str | None]


class Unasked(Around):
    """Stands around what a service does by itself."""

    async def opened(self, tenant: str, work: Callable[[], Awaitable[None]]) -> None:
        """Open a tenant. Where that makes its store `main`, a store was created."""
        before = self._parts.clock()
        await work()
        if self._parts.observer.is_watching:
            await quietly(self._made_main(tenant, before))

    async def _made_main(self, tenant: str, before: int) -> None:
        main = (await self._access.stores(tenant)).get(MAIN)
        is_fresh = (await self._parts.ledger.head(tenant)).seq <= 1
        if main is None or main.created_at < before or not is_fresh:
            return
        seen = Observation(action=Action.CREATE_STORE, tenant=tenant)
        observing.created_store(seen, main)  # it has been, also where somebody breaks off now
        with self._parts.observer.operation(seen):
            await self._begun(seen)

    # -- without a request --------------------------------------------------------------------------------------

    async def sweep(self, principal: Principal, work: Callable[[Principal], Awaitable[int]]) -> int:
        """What has expired goes in the background; a look that finds nothing due is not shown."""
        observer = self._parts.observer
        if not observer.is_watching:
            return await work(principal)
        due = [record.id for record in await self._parts.ledger.due(principal.tenant, self._parts.clock())]
        if not due:
            return await work(principal)
        seen = observing.sweeping(principal.tenant)

        async def told(closed: int) -> None:
            seen.count = closed
            seen.became = Became.DELETED if closed else Became.UNCHANGED
            observing.split(seen, await self._places(seen, due))

        with observer.background("quipu.expire", due):
            return await self._observed(seen, "", lambda: work(principal), told)

    # -- passes over short-term memory --------------------------------------------------------------------------

    def settling(self, causes: Sequence[str]) -> AbstractContextManager[Any]:
        """The block is a pass; `causes` are the memories it looks at."""
        return self._parts.observer.background("quipu.consolidate", causes)

    async def promote(
        self,
        principal: Principal,
        request: RememberRequest,
        work: Callable[[], Awaitable[tuple[Settlement, str | None]]],
    ) -> tuple[Settlement, str | None]:
        """A new memory; that its sources end is a part of it."""
        seen = observing.remembering(request, principal.tenant, principal.user_id)

        async def told(answer: tuple[Settlement, str | None]) -> None:
            observing.promoted(seen, *answer)
            if seen.wants_content and seen.record_id is not None:
                kept = (await self._checked(principal.tenant)).kept(request)
                seen.records.append({"id": seen.record_id, "content": kept.content})

        return await self._observed(seen, request.store, work, told)

    async def evict(
        self,
        principal: Principal,
        request: ForgetRequest,
        work: Callable[[], Awaitable[Removed]],
    ) -> Removed:
        seen = observing.forgetting(request, principal.tenant, principal.user_id)

        async def told(removed: Removed) -> None:
            observing.evicted(seen, request, *removed, await self._places(seen, request.ids))

        return await self._observed(seen, request.store, work, told)
