"""Tenants: made, listed, shut and opened by those who run the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from quipu.errors import ConflictError, NotFoundError
from quipu.model.access import Tenant
from quipu.model.change import Commit, Suspend
from quipu.model.journal import Draft, Op
from quipu.model.principal import Permission, Principal
from quipu.ports.parts import Parts
from quipu.rules import roles
from quipu.rules.redaction import refuse_named_secrets
from quipu.service.access import Access


class Tenancy:
    """Who has a chain of their own here."""

    def __init__(self, parts: Parts, access: Access, made: Callable[[str], Awaitable[None]]) -> None:
        """`made` sees to what a new tenant is to have."""
        self._parts, self._access, self._made = parts, access, made

    async def create(self, principal: Principal, tenant_id: str) -> Tenant:
        """A new tenant, with its first journal entry and the store `main`."""
        self._access.authorise(principal, Permission.OPERATE)
        roles.checked_tenant(tenant_id)
        refuse_named_secrets([("/tenant", tenant_id)], self._parts.redaction)
        if await self._parts.ledger.tenant(tenant_id) is not None:
            raise ConflictError("There is a tenant of this name already.", reason="name_taken")
        await self._parts.ledger.open(tenant_id)
        await self._made(tenant_id)
        return await self._known(tenant_id)

    async def list(self, principal: Principal) -> tuple[Tenant, ...]:
        self._access.authorise(principal, Permission.OPERATE)
        return tuple(await self._parts.ledger.tenants())

    async def suspend(self, principal: Principal, tenant_id: str) -> Tenant:
        """From now on none of the tenant's credentials is good. Nothing is lost."""
        return await self._turn(principal, tenant_id, self._parts.clock())

    async def resume(self, principal: Principal, tenant_id: str) -> Tenant:
        return await self._turn(principal, tenant_id, None)

    async def _turn(self, principal: Principal, tenant_id: str, suspended_at: int | None) -> Tenant:
        self._access.authorise(principal, Permission.OPERATE)
        before = await self._known(tenant_id)
        if (before.suspended_at is None) == (suspended_at is None):
            return before
        if suspended_at is not None and tenant_id == principal.tenant and not principal.is_local:
            raise ConflictError("Nobody shuts themselves out.", reason="own_tenant")
        draft = Draft(
            op=Op.RESUME if suspended_at is None else Op.SUSPEND,
            actor=principal.name,
            at=self._parts.clock(),
        )
        await self._parts.ledger.commit(
            Commit(tenant=tenant_id, draft=draft, changes=(Suspend(at=suspended_at),))
        )
        return await self._known(tenant_id)

    async def _known(self, tenant_id: str) -> Tenant:
        tenant = await self._parts.ledger.tenant(tenant_id) if roles.is_tenant(tenant_id) else None
        if tenant is None:
            raise NotFoundError("There is no such tenant.", reason="tenant")
        return tenant
