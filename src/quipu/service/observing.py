"""What an observer is told of each operation, around the work itself.

1. Without anybody looking, the work is all that happens.
2. A name that a caller chose is shown only after the tenant's redactors have seen it; so is content, where it is wanted.
3. Whatever fails in here is logged and left out: no operation fails because it is watched.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, TypeVar

from quipu.errors import ConflictError, QuipuError
from quipu.model.consolidation import Settlement
from quipu.model.observation import Action, Became, Observation
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
from quipu.model.principal import Principal
from quipu.model.record import Record
from quipu.model.store import MAIN, Store
from quipu.ports.parts import Parts
from quipu.rules import observing, redaction
from quipu.rules.observing import Place
from quipu.rules.texts import is_keepable
from quipu.service.access import Access
from quipu.service.secrets import Checked, Secrets

Q = TypeVar("Q")
R = TypeVar("R")
#: The operation itself.
Work: TypeAlias = Callable[[Principal, Q], Awaitable[R]]
#: What became of memories that were to go, and the proposal that waits, if there is one.
Removed: TypeAlias = tuple[dict[str, Settlement], str | None]

_log = logging.getLogger("quipu.telemetry")
_MOST_READ = 1_000
_KEPT_NAMES = 4_096


class Observing:
    """Stands around the operations of one service."""

    def __init__(self, parts: Parts, access: Access, secrets: Secrets) -> None:
        self._parts, self._access, self._secrets = parts, access, secrets
        #: For each tenant, what its names are checked with, and what shows them.
        self._names: dict[str, tuple[Checked, Callable[[str], str]]] = {}

    async def _observed(
        self,
        seen: Observation,
        store: str | None,
        work: Callable[[], Awaitable[R]],
        told: Callable[[R], Awaitable[None] | None],
    ) -> R:
        with self._parts.observer.operation(seen):
            if not seen.is_watched:
                return await work()
            if not self._is_ready(seen):
                await _quietly(self._begun(seen))
            try:
                answer = await work()
            finally:
                self._located(seen, store)
            try:
                if (telling := told(answer)) is not None:
                    await telling
            except Exception as error:  # noqa: BLE001  an operation that was done must not fail for being watched
                _left_off(error)
            return answer

    def _is_ready(self, seen: Observation) -> bool:
        """Whether names can be shown without asking the ledger, as is the case nearly always."""
        tenant = seen.tenant or ""
        known = self._names.get(tenant)
        if seen.wants_content or known is None or self._secrets.current(tenant) is not known[0]:
            return False
        seen.clean = known[1]
        return True

    async def _begun(self, seen: Observation) -> None:
        """From here on names can be shown."""
        tenant = seen.tenant or ""
        if self._access.known(tenant, MAIN) is None:
            await self._access.stores(tenant)
        checked = await (self._checked(tenant) if seen.wants_content else self._secrets.checked(tenant))
        known = self._names.get(tenant)
        if known is None or known[0] is not checked:
            known = self._names[tenant] = checked, _cleaning(checked)
        seen.clean = known[1]

    async def _checked(self, tenant: str, run_id: str | None = None) -> Checked:
        """What texts are checked with, as of this moment: a secret may just have been registered elsewhere."""

        async def work(checked: Checked) -> Checked:
            if (await self._parts.ledger.guard(tenant)).position != checked.position:
                raise ConflictError(reason="secrets_changed")
            return checked

        return await self._secrets.checking(tenant, work, run_id)

    def _located(self, seen: Observation, name: str | None) -> None:
        """The store that was named; without a name, the only one there is."""
        store = self._access.known(seen.tenant or "", name)
        if store is not None:
            seen.within(store)

    # -- the five operations ------------------------------------------------------------------------------------

    async def remember(
        self, principal: Principal, request: RememberRequest, work: Work[RememberRequest, RememberResponse]
    ) -> RememberResponse:
        if not self._parts.observer.is_watching:
            return await work(principal, request)
        seen = observing.remembering(request, principal.tenant, principal.user_id)

        async def told(answer: RememberResponse) -> None:
            observing.remembered(seen, request, answer)
            if request.id is not None:
                await self._recorded(seen, request.id)
            if seen.wants_content:
                kept = (await self._checked(principal.tenant, request.run_id)).kept(request)
                seen.records.append({"id": answer.id, "content": kept.content})

        return await self._observed(seen, request.store, lambda: work(principal, request), told)

    async def _recorded(self, seen: Observation, record_id: str) -> None:
        """The record as it now is: it stays in its store, whatever the request names."""
        record = (await self._parts.ledger.read(seen.tenant or "", [record_id])).get(record_id)
        if record is None or record.is_emptied:
            return
        self._located(seen, record.store_id)
        seen.tier, seen.importance, seen.expires_at = record.tier, record.importance, record.expires_at
        seen.session_id, seen.user_id = record.session_id, record.user_id
        seen.agent_id = seen.agent_id or record.agent_id

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
            if (
                seen.record_id is not None and not seen.is_new
            ):  # of one alone, all is known that a plain write tells
                seen.strategy = requests[0].update_strategy.value
                await self._recorded(seen, seen.record_id)

        return await self._observed(seen, observing.common_store(requests), work, told)

    async def recall(
        self, principal: Principal, request: RecallRequest, work: Work[RecallRequest, RecallResponse]
    ) -> RecallResponse:
        if not self._parts.observer.is_watching:
            return await work(principal, request)
        seen = observing.recalling(request, principal.tenant, principal.user_id)

        def told(answer: RecallResponse) -> Awaitable[None] | None:
            observing.recalled(seen, request, answer)
            return self._quoted(seen, request, answer) if seen.wants_content else None

        return await self._observed(seen, request.store, lambda: work(principal, request), told)

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

    async def _places(self, seen: Observation, ids: Sequence[str]) -> dict[str, Place]:
        """Where each record is, as far as it is known."""
        tenant = seen.tenant or ""
        named = [name for name in ids[:_MOST_READ] if is_keepable(name)]
        records = await self._parts.ledger.read(tenant, named)
        if any(self._access.known(tenant, record.store_id) is None for record in records.values()):
            await self._access.stores(tenant)
        return {
            name: Place(store, record.agent_id, record.session_id)
            for name, record in records.items()
            if (store := self._access.known(tenant, record.store_id)) is not None
        }

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

    async def opened(self, tenant: str, work: Callable[[], Awaitable[None]]) -> None:
        """Open a tenant. Where that makes its store `main`, a store was created."""
        before = self._parts.clock()
        await work()
        if self._parts.observer.is_watching:
            await _quietly(self._made_main(tenant, before))

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


def _cleaning(checked: Checked) -> Callable[[str], str]:
    """Takes secrets out of a name; of names seen before it knows how they are shown."""
    names: dict[str, str] = {}

    def clean(name: str) -> str:
        shown = names.get(name)
        if shown is None:
            if len(names) > _KEPT_NAMES:
                names.clear()
            shown = names[name] = redaction.redacted_text(name, checked.redaction.redactors, [])
        return shown

    return clean


async def _quietly(telling: Awaitable[None]) -> None:
    try:
        await telling
    except Exception as error:  # noqa: BLE001  an operation that was done must not fail for being watched
        _left_off(error)


def _left_off(error: Exception) -> None:
    _log.warning("An operation could not be described: %s", type(error).__name__)
