"""The capability put together: every operation of access and the function that does it."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from quipu.access import operations as ops
from quipu.access.budgets import Budgets
from quipu.access.credentials import Credentials, Identities
from quipu.access.model import WhoamiRequest, WhoamiResponse
from quipu.access.signin_links import SigninLinks
from quipu.access.tenants import Tenants
from quipu.access.tokens import Tokens
from quipu.ledger.ledger import Ledger
from quipu.memory.pipeline import Guard, Redactor
from quipu.model.principal import Permission
from quipu.operation import AnyBinding, Binding, Clock, Context


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
