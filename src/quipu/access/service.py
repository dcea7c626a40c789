"""The capability put together: tenants, who asks, and every operation of access with the function that does it."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from quipu.access import operations as ops
from quipu.access import rules
from quipu.access.budgets import Budgets
from quipu.access.credentials import Credentials, Identities, SigninLinks
from quipu.access.model import (
    CreateTenantRequest,
    ListTenantsRequest,
    ListTenantsResponse,
    ResumeTenantRequest,
    SuspendTenantRequest,
    TenantView,
    WhoamiRequest,
    WhoamiResponse,
)
from quipu.access.tokens import Tokens
from quipu.errors import ConflictError, NotFoundError, UnverifiableError
from quipu.ledger.commit import Commit, Suspend
from quipu.ledger.ledger import Ledger, Tenant
from quipu.ledger.reader import Reader
from quipu.memory.pipeline import Guard, Redactor
from quipu.model.journal import Draft
from quipu.model.principal import Permission
from quipu.operation import AnyBinding, Binding, Clock, Context


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessService:
    """Who may come in, and how much they may have."""

    tokens: Tokens
    tenants: Tenants
    credentials: Credentials
    signin_links: SigninLinks
    budgets: Budgets

    @property
    def bindings(self) -> tuple[AnyBinding, ...]:
        return (
            Binding(ops.WHOAMI, self.whoami),
            Binding(ops.CREATE_TOKEN, self.tokens.create),
            Binding(ops.LIST_TOKENS, self.tokens.listed),
            Binding(ops.REVOKE_TOKEN, self.tokens.revoke),
            Binding(ops.ROTATE_TOKEN, self.tokens.rotate),
            Binding(ops.CREATE_SIGNIN_LINK, self.signin_links.create),
            Binding(ops.CREATE_TENANT, self.tenants.create),
            Binding(ops.LIST_TENANTS, self.tenants.listed),
            Binding(ops.SUSPEND_TENANT, self.tenants.suspend),
            Binding(ops.RESUME_TENANT, self.tenants.resume),
        )

    async def whoami(self, ctx: Context, request: WhoamiRequest) -> WhoamiResponse:
        principal, now = ctx.principal, ctx.clock()
        reviews = principal.may(Permission.REVIEW)
        makers = await self.tokens.makers(ctx.tenant, principal.token_id) if reviews else ()
        return WhoamiResponse(
            tenant=principal.tenant,
            name=principal.name,
            permissions=tuple(one.value for one in Permission if principal.may(one)),
            agents=principal.agents,
            default_agent=principal.default_agent,
            user_id=principal.user_id,
            review_stores=principal.review_stores,
            review_operations=principal.review_operations,
            rate=self.budgets.rate_of(principal),
            recall_left=await self.budgets.left(principal, now),
            solo=await self.is_solo(ctx),
            makers=tuple(sorted(makers)),
            expires_at=principal.expires_at,
        )

    async def is_solo(self, ctx: Context) -> bool:
        """Whether the caller may review, and nobody else in the tenant may."""
        if not ctx.principal.may(Permission.REVIEW):
            return False
        has_oidc = self.credentials.identities is not None
        return await self.tokens.is_solo(ctx.principal, ctx.clock(), has_oidc=has_oidc)


def access_service(
    *,
    ledger: Ledger,
    redactor: Redactor,
    detectors: Guard,
    clock: Clock,
    new_id: Callable[[str], str],
    random: Callable[[int], bytes],
    reviewable: Collection[str],
    budgets: Budgets,
    identities: Identities | None = None,
    public_url: str | None = None,
) -> AccessService:
    """Everything of access, from its parts.

    `detectors` checks names without the registered secrets; `reviewable` are the operations that a reviewer may be
    limited to.
    """
    tokens = Tokens(
        ledger=ledger,
        redactor=redactor,
        detectors=detectors,
        new_id=new_id,
        random=random,
        reviewable=reviewable,
    )
    credentials = Credentials(ledger=ledger, clock=clock, identities=identities)
    return AccessService(
        tokens=tokens,
        tenants=Tenants(ledger=ledger, redactor=redactor, detectors=detectors),
        credentials=credentials,
        signin_links=SigninLinks(
            ledger=ledger,
            tokens=tokens,
            credentials=credentials,
            random=random,
            public_url=None if public_url is None else public_url.rstrip("/"),
        ),
        budgets=budgets,
    )
