"""Reads and stores that an observer is told of."""

from __future__ import annotations

from typing import Any

from quipu.model.access import Tenant
from quipu.model.operations import CreateStoreRequest, ListRequest
from quipu.model.outcomes import Page
from quipu.model.principal import Principal
from quipu.model.record import Record
from quipu.model.store import Store
from quipu.service.observing import Observing
from quipu.service.reading import Reading
from quipu.service.stores import Stores
from quipu.service.tenancy import Tenancy


class ObservedReading(Reading):
    """Reading by id and by page is searching, for whoever looks."""

    def __init__(self, observing: Observing, *parts: Any) -> None:
        super().__init__(*parts)
        self._observing = observing

    async def get(
        self, principal: Principal, agent_id: str | None, record_id: str, as_of: str | None
    ) -> Record:
        plain = super().get
        return await self._observing.get(
            principal, agent_id, record_id, lambda: plain(principal, agent_id, record_id, as_of)
        )

    async def list(self, principal: Principal, request: ListRequest) -> Page:
        plain = super().list
        return await self._observing.list(principal, request, lambda: plain(principal, request))


class ObservedStores(Stores):
    """Making and taking away stores."""

    def __init__(self, observing: Observing, *parts: Any) -> None:
        super().__init__(*parts)
        self._observing = observing

    async def create(self, principal: Principal, request: CreateStoreRequest) -> Store:
        plain = super().create
        return await self._observing.create_store(principal, request, lambda: plain(principal, request))

    async def delete(self, principal: Principal, name: str, confirm: str, *, hard_delete: bool) -> int:
        plain = super().delete
        return await self._observing.delete_store(
            principal, name, lambda: plain(principal, name, confirm, hard_delete=hard_delete)
        )


class ObservedTenancy(Tenancy):
    """A new tenant comes with a store."""

    def __init__(self, observing: Observing, *parts: Any) -> None:
        super().__init__(*parts)
        self._observing = observing

    async def create(self, principal: Principal, tenant_id: str) -> Tenant:
        plain, made = super().create, list[Tenant]()

        async def work() -> None:
            made.append(await plain(principal, tenant_id))

        await self._observing.opened(tenant_id, work)
        return made[0]
