"""Tenants: created, listed, suspended and resumed by who runs the server."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from quipu.access import rules
from quipu.access.model import (
    CreateTenantRequest,
    ListTenantsRequest,
    ListTenantsResponse,
    ResumeTenantRequest,
    SuspendTenantRequest,
    TenantView,
)
from quipu.errors import ConflictError, NotFoundError, UnverifiableError
from quipu.ledger.commit import Commit, Suspend
from quipu.ledger.ledger import Ledger, Tenant
from quipu.ledger.reader import Reader
from quipu.memory.pipeline import Guard, Redactor
from quipu.model.journal import Draft
from quipu.operation import Context


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenants:
    """Who has a journal of their own here."""

    ledger: Ledger
    redactor: Redactor
    #: What names are checked with while the key of the registered secrets is missing.
    detectors: Guard

    async def create(self, ctx: Context, request: CreateTenantRequest) -> TenantView:
        """Its store `main` is made with its first memory."""
        await self._check(ctx.tenant, request)
        now = ctx.clock()
        await self.ledger.open_tenant(request.tenant, now)
        draft = Draft(op="create_tenant", actor=ctx.principal.name, at=now)

        def work(reader: Reader) -> tuple[None, Sequence[Commit]]:
            if reader.head().seq:
                raise ConflictError("There is a tenant of this name already.", reason="name_taken")
            return None, [Commit(tenant=request.tenant, draft=draft)]

        await self.ledger.locked(request.tenant, work)
        return _view(await self._known(request.tenant))

    async def listed(self, ctx: Context, request: ListTenantsRequest) -> ListTenantsResponse:
        found = await self.ledger.tenants(request.cursor or "", request.limit + 1)
        page = found[: request.limit]
        return ListTenantsResponse(
            tenants=tuple(_view(tenant) for tenant in page),
            next_cursor=page[-1].tenant if len(found) > len(page) else None,
        )

    async def suspend(self, ctx: Context, request: SuspendTenantRequest) -> TenantView:
        if request.tenant == ctx.tenant and not ctx.principal.is_local:
            raise ConflictError("Nobody can suspend their own tenant.", reason="own_tenant")
        return await self._set(ctx, request.tenant, "suspend_tenant", ctx.clock())

    async def resume(self, ctx: Context, request: ResumeTenantRequest) -> TenantView:
        return await self._set(ctx, request.tenant, "resume_tenant", None)

    async def _set(self, ctx: Context, name: str, op: str, suspended_at: int | None) -> TenantView:
        """Doing it twice does no harm, and is journaled once."""
        await self._known(name)  # locking a tenant would make it

        def work(reader: Reader) -> tuple[None, Sequence[Commit]]:
            if (reader.head().suspended_at is None) == (suspended_at is None):
                return None, ()
            draft = Draft(op=op, actor=ctx.principal.name, at=ctx.clock())
            return None, [Commit(tenant=name, draft=draft, changes=(Suspend(suspended_at),))]

        await self.ledger.locked(name, work)
        return _view(await self._known(name))

    async def _check(self, tenant: str, request: CreateTenantRequest) -> None:
        """The name stands in every token of the tenant: it holds no secret of whoever makes it."""
        guard = self.detectors
        with suppress(UnverifiableError):
            guard = await self.redactor.guard(tenant, None)
        guard.clean(request)

    async def _known(self, name: str) -> Tenant:
        tenant = await self.ledger.tenant(name) if rules.is_tenant_name(name) else None
        if tenant is None:
            raise NotFoundError(
                "There is no such tenant.", reason="tenant", hint="`quipu tenant list` shows them."
            )
        return tenant


def _view(tenant: Tenant) -> TenantView:
    return TenantView(tenant=tenant.tenant, created_at=tenant.created_at, suspended_at=tenant.suspended_at)
