"""A server's memory as its client sees it work: one span for each call, around everything the call takes.

Content is not shown here: only the server knows what must be kept out of it, and its own span shows it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from quipu.client.host import RemoteHost
from quipu.client.reading import RemoteReading, RemoteStores
from quipu.client.transport import Transport
from quipu.errors import InvalidError, NotFoundError, QuipuError
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
from quipu.model.principal import Principal
from quipu.model.record import Record
from quipu.model.store import Store
from quipu.ports.observing import Observer, Unobserved
from quipu.ports.surroundings import MintId
from quipu.rules import observing

R = TypeVar("R")
Told: TypeAlias = Callable[[Observation, R], None]
_STORE_ID = "ms_"
_log = logging.getLogger("quipu.telemetry")


def _unchanged(_headers: MutableMapping[str, str]) -> None:
    return


def _as_it_is(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Who is told of calls, what takes secrets out of names, and what puts the trace into a request's headers."""

    observer: Observer = Unobserved()  # noqa: RUF009  has no state, so one for all is safe
    clean: Callable[[str], str] = _as_it_is
    inject: Callable[[MutableMapping[str, str]], None] = _unchanged

    async def call(
        self, seen: Observation, store: str | None, work: Callable[[], Awaitable[R]], told: Told[R]
    ) -> R:
        """One operation of memory."""
        with self.observer.operation(seen):
            if not seen.is_watched:
                return await work()
            seen.clean, seen.wants_content = self.clean, False
            try:
                answer = await work()
            except BaseException as error:
                # What was refused may name any text for a store, or one that is not there: nobody knows it then.
                if not isinstance(error, InvalidError | NotFoundError):
                    _within(seen, store)
                raise
            _within(seen, store)
            try:
                told(seen, answer)
            except Exception as error:  # noqa: BLE001  a call that was answered must not fail for being watched
                _log.warning("Something was left off a span. (%s)", type(error).__name__)
            return answer


def _within(seen: Observation, store: object) -> None:
    """The store that a caller named: by its id, or by its name."""
    if isinstance(store, str) and store.startswith(_STORE_ID):
        seen.store_id = store
    elif isinstance(store, str) and store:
        seen.store_name = store


class ObservedReading(RemoteReading):
    """Reads that do not rank."""

    def __init__(self, transport: Transport, observed: Observed) -> None:
        super().__init__(transport)
        self._observed = observed

    async def get(
        self, principal: Principal, agent_id: str | None, record_id: str, as_of: str | None
    ) -> Record:
        plain = super().get
        seen = observing.getting(agent_id, record_id, None, None)
        return await self._observed.call(
            seen, None, lambda: plain(principal, agent_id, record_id, as_of), observing.got
        )

    async def list(self, principal: Principal, request: ListRequest) -> Page:
        plain = super().list
        seen = observing.listing(request, None, None)
        return await self._observed.call(
            seen, request.store, lambda: plain(principal, request), observing.listed
        )


class ObservedStores(RemoteStores):
    """The containers of a tenant."""

    def __init__(self, transport: Transport, observed: Observed) -> None:
        super().__init__(transport)
        self._observed = observed

    async def create(self, principal: Principal, request: CreateStoreRequest) -> Store:
        plain = super().create
        seen = observing.creating_store(request, None)
        return await self._observed.call(
            seen, request.name, lambda: plain(principal, request), observing.created_store
        )

    async def delete(self, principal: Principal, name: str, confirm: str, *, hard_delete: bool) -> int:
        plain = super().delete
        return await self._observed.call(
            observing.deleting_store(None),
            name,
            lambda: plain(principal, name, confirm, hard_delete=hard_delete),
            observing.deleted_store,
        )


class ObservedHost(RemoteHost):
    """The host of a `Memory` on a server, watched."""

    def __init__(self, transport: Transport, mint_id: MintId, observed: Observed) -> None:
        super().__init__(transport, mint_id)
        self._observed = observed
        self.reading = ObservedReading(transport, observed)
        self.stores = ObservedStores(transport, observed)

    async def remember(self, principal: Principal, request: RememberRequest) -> RememberResponse:
        plain = super().remember
        seen = observing.remembering(request, None, None)
        return await self._observed.call(
            seen,
            request.store if request.id is None else None,
            lambda: plain(principal, request),
            lambda seen, answer: observing.remembered(seen, request, answer),
        )

    async def remember_many(
        self, principal: Principal, requests: Sequence[RememberRequest], *, atomic: bool = False
    ) -> list[RememberResponse | QuipuError]:
        plain = super().remember_many
        seen = observing.remembering_many(requests, None, None)
        return await self._observed.call(
            seen,
            observing.common_store(requests),
            lambda: plain(principal, requests, atomic=atomic),
            observing.remembered_many,
        )

    async def recall(self, principal: Principal, request: RecallRequest) -> RecallResponse:
        plain = super().recall
        seen = observing.recalling(request, None, None)
        return await self._observed.call(
            seen,
            request.store,
            lambda: plain(principal, request),
            lambda seen, answer: observing.recalled(seen, request, answer),
        )

    async def forget(self, principal: Principal, request: ForgetRequest) -> ForgetResponse:
        plain = super().forget
        seen = observing.forgetting(request, None, None)
        return await self._observed.call(
            seen,
            request.store,
            lambda: plain(principal, request),
            lambda seen, answer: observing.forgotten(seen, request, answer, {}),
        )

    async def merge(self, principal: Principal, request: MergeRequest) -> MergeResponse:
        plain = super().merge
        seen = observing.merging(request, None, None)
        return await self._observed.call(
            seen, request.store, lambda: plain(principal, request), observing.merged
        )

    async def expire(self, principal: Principal, request: ExpireRequest) -> ExpireResponse:
        plain = super().expire
        seen = observing.expiring(request, None, None)
        return await self._observed.call(
            seen,
            request.store,
            lambda: plain(principal, request),
            lambda seen, answer: observing.expired(seen, request, answer, {}),
        )

    async def restore(
        self, principal: Principal, agent_id: str, record_id: str, reason: str | None = None
    ) -> RememberResponse:
        plain = super().restore
        return await self._observed.call(
            observing.restoring(agent_id, record_id, None, None),
            None,
            lambda: plain(principal, agent_id, record_id, reason),
            observing.restored,
        )
