"""What an observer is told of each operation, around the work itself.

1. Without anybody looking, the work is all that happens.
2. A name that a caller chose is shown only after the tenant's redactors have seen it; so is content, where it is wanted.
3. Whatever fails in here is logged and left out: no operation fails because it is watched.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from quipu.model.principal import Principal
from quipu.rules import observing, redaction
from quipu.service.observing_unasked import Removed, Unasked

if TYPE_CHECKING:
    from quipu.errors import QuipuError
    from quipu.model.observation import Observation
    from quipu.model.operations import (
        CreateStoreRequest,
        ExpireRequest,
        ForgetRequest,
        ListRequest,
        MergeRequest,
        RecallRequest,
        RememberRequest,
    )
    from quipu.model.outcomes import (
        ExpireResponse,
        ForgetResponse,
        MergeResponse,
        Page,
        RecallResponse,
        RememberResponse,
    )
    from quipu.model.record import Record
    from quipu.model.store import Store
    from quipu.rules.observing import Place

__all__ = ["Observing", "Removed"]

Q = TypeVar("Q")
R = TypeVar("R")
#: The operation itself.
Work: TypeAlias = Callable[[Principal, Q], Awaitable[R]]


class Observing(Unasked):
    """Stands around the operations of one service."""

    # -- the five operations ------------------------------------------------------------------------------------

    def remember(
        self, principal: Principal, request: RememberRequest, work: Work[RememberRequest, RememberResponse]
    ) -> Awaitable[RememberResponse]:
        """To be awaited."""
        if not self._parts.observer.is_watching:
            return work(principal, request)
        seen = observing.remembering(request, principal.tenant, principal.user_id)

        async def told(answer: RememberResponse) -> None:
            observing.remembered(seen, request, answer)
            if request.id is not None:
                await self._recorded(seen, request.id)
            if seen.wants_content:
                kept = (await self._checked(principal.tenant, request.run_id)).kept(request)
                seen.records.append({"id": answer.id, "content": kept.content})

        return self._observed(seen, request.store, lambda: work(principal, request), told)

    async def remember_many(
        self,
        principal: Principal,
        requests: Sequence[RememberRequest],
        work: Callable[[], Awaitable[list[RememberResponse | QuipuError]]],
    ) -> list[RememberResponse | QuipuError]:
        if not requests:
            return await work()
        seen = observing.remembering_many(requests, principal.tenant, principal.user_id)

        async def told(answers: list[RememberResponse | QuipuError]) -> None:
            observing.remembered_many(seen, answers)
            # Of one alone, all is known that a plain write tells.
            if seen.record_id is not None and not seen.is_new:
                seen.strategy = requests[0].update_strategy.value
                await self._recorded(seen, seen.record_id)

        return await self._observed(seen, observing.common_store(requests), work, told)

    def recall(
        self, principal: Principal, request: RecallRequest, work: Work[RecallRequest, RecallResponse]
    ) -> Awaitable[RecallResponse]:
        """To be awaited. Nothing stands between the caller and the work that need not: recalls are what agents wait for."""
        if not self._parts.observer.is_watching:
            return work(principal, request)
        seen = observing.recalling(request, principal.tenant, principal.user_id)

        def told(answer: RecallResponse) -> Awaitable[None] | None:
            observing.recalled(seen, request, answer)
            return self._quoted(seen, request, answer) if seen.wants_content else None

        return self._observed(seen, request.store, partial(work, principal, request), told)

    async def _quoted(self, seen: Observation, request: RecallRequest, answer: RecallResponse) -> None:
        """What was asked and what was found. A secret may have been registered after it was remembered."""
        redactors = (await self._checked(seen.tenant or "")).redaction.redactors
        seen.query = redaction.redacted_text(request.query, redactors, [])
        for hit in answer.results:
            content = redaction.redacted_value(hit.content, redactors, [])
            seen.records.append({"id": hit.id, "content": content, "score": hit.score})

    async def forget(
        self, principal: Principal, request: ForgetRequest, work: Work[ForgetRequest, ForgetResponse]
    ) -> ForgetResponse:
        seen = observing.forgetting(request, principal.tenant, principal.user_id)

        before: dict[str, Place] = {}

        async def located() -> ForgetResponse:
            if seen.is_watched and request.hard_delete:  # afterwards nobody knows where it was
                before.update(await self._places(seen, request.ids))
            return await work(principal, request)

        async def told(answer: ForgetResponse) -> None:
            places = before or await self._places(seen, observing.removed_ids(request, answer))
            observing.forgotten(seen, request, answer, places)

        return await self._observed(seen, request.store, located, told)

    async def merge(
        self, principal: Principal, request: MergeRequest, work: Work[MergeRequest, MergeResponse]
    ) -> MergeResponse:
        seen = observing.merging(request, principal.tenant, principal.user_id)

        async def told(answer: MergeResponse) -> None:
            observing.merged(seen, answer)
            if seen.record_id is not None:
                await self._recorded(seen, seen.record_id)

        return await self._observed(seen, request.store or "", lambda: work(principal, request), told)

    async def expire(
        self, principal: Principal, request: ExpireRequest, work: Work[ExpireRequest, ExpireResponse]
    ) -> ExpireResponse:
        seen = observing.expiring(request, principal.tenant, principal.user_id)

        async def told(answer: ExpireResponse) -> None:
            places = await self._places(seen, observing.expired_ids(answer)) if seen.deletes else {}
            observing.expired(seen, request, answer, places)

        return await self._observed(seen, request.store, lambda: work(principal, request), told)

    async def restore(
        self,
        principal: Principal,
        agent_id: str | None,
        record_id: str,
        work: Callable[[], Awaitable[RememberResponse]],
    ) -> RememberResponse:
        seen = observing.restoring(agent_id, record_id, principal.tenant, principal.user_id)

        async def told(answer: RememberResponse) -> None:
            observing.restored(seen, answer)
            await self._recorded(seen, record_id)

        return await self._observed(seen, "", work, told)

    # -- reads that do not rank ---------------------------------------------------------------------------------

    async def get(
        self,
        principal: Principal,
        agent_id: str | None,
        record_id: str,
        work: Callable[[], Awaitable[Record]],
    ) -> Record:
        seen = observing.getting(agent_id, record_id, principal.tenant, principal.user_id)

        async def told(record: Record) -> None:
            observing.got(seen, record)
            self._located(seen, record.store_id)
            if seen.wants_content:
                redactors = (await self._checked(principal.tenant)).redaction.redactors
                content = redaction.redacted_text(record.content, redactors, [])
                seen.records.append({"id": record.id, "content": content})

        return await self._observed(seen, "", work, told)

    async def list(
        self, principal: Principal, request: ListRequest, work: Callable[[], Awaitable[Page]]
    ) -> Page:
        seen = observing.listing(request, principal.tenant, principal.user_id)

        async def told(page: Page) -> None:
            observing.listed(seen, page)

        return await self._observed(seen, request.store, work, told)

    # -- stores -------------------------------------------------------------------------------------------------

    async def create_store(
        self, principal: Principal, request: CreateStoreRequest, work: Callable[[], Awaitable[Store]]
    ) -> Store:
        seen = observing.creating_store(request, principal.tenant)

        async def told(store: Store) -> None:
            observing.created_store(seen, store)

        return await self._observed(seen, "", work, told)

    async def delete_store(self, principal: Principal, name: str, work: Callable[[], Awaitable[int]]) -> int:
        """The store is looked up first: afterwards nobody knows it."""
        seen = observing.deleting_store(principal.tenant)

        async def located() -> int:
            if seen.is_watched:
                if self._access.known(principal.tenant, name) is None:
                    await self._access.stores(principal.tenant)
                self._located(seen, name)
            return await work()

        async def told(removed: int) -> None:
            observing.deleted_store(seen, removed)

        return await self._observed(seen, "", located, told)
