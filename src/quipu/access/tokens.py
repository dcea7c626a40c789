"""Tokens: their text is shown once, a hash of it is kept, and they end at once."""

import base64
import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from quipu.access import rules
from quipu.access.model import (
    ANY,
    TOKENS,
    CreateTokenRequest,
    IssuedTokenResponse,
    ListTokensRequest,
    ListTokensResponse,
    RevokeTokenRequest,
    RotateTokenRequest,
    Token,
    TokenView,
)
from quipu.errors import ConflictError, Fault, NotFoundError, UnverifiableError
from quipu.fields import duration_ms
from quipu.ledger.commit import Commit, Keep
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Reader
from quipu.memory.pipeline import Guard, Redactor
from quipu.model.journal import Draft
from quipu.model.principal import DEFAULT_TENANT, Principal
from quipu.operation import Context, Request, invalid

#: Characters of the random part of a text, and how many of them are kept to tell tokens apart by.
_RANDOM, _SHOWN = 43, 6
_PAGE = 1000
#: Each time the secrets of the tenant have changed since the request was checked, it is checked again.
_MOST_ATTEMPTS = 16


def new_text(tenant: str, random: Callable[[int], bytes]) -> str:
    """A new token's text: the tenant, and 256 random bits."""
    secret = base64.urlsafe_b64encode(random(32)).decode("ascii").rstrip("=")
    return f"qp_{tenant}_{secret}"


def hash_of(text: str) -> str:
    """What is kept of a text. It has 256 random bits, so one plain hash is enough."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token with its text, which is shown this once."""

    token: Token
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The credentials that Quipu gives out itself."""

    ledger: Ledger
    redactor: Redactor
    #: What names are checked with while the key of the registered secrets is missing: tokens are needed then too.
    detectors: Guard
    new_id: Callable[[str], str]
    random: Callable[[int], bytes]
    #: Names of the operations that a reviewer may decide on.
    reviewable: Collection[str]

    # -- operations -------------------------------------------------------------------------------------------------

    async def create(self, ctx: Context, request: CreateTokenRequest) -> IssuedTokenResponse:
        tenant = await self._tenant(ctx, request.tenant)
        now = ctx.clock()
        token = self._planned(ctx.principal, request, now)
        check_gift(ctx.principal, token, tenant)
        issued = await self._issued(tenant, ctx.principal, token, request, now)
        return IssuedTokenResponse(token=view(issued.token, now), text=issued.text)

    async def listed(self, ctx: Context, request: ListTokensRequest) -> ListTokensResponse:
        tenant = await self._tenant(ctx, request.tenant)
        after = None if request.cursor is None else (request.cursor,)
        found = await self.ledger.page(TOKENS, tenant, after=after, limit=request.limit + 1)
        page = found[: request.limit]
        return ListTokensResponse(
            tokens=tuple(view(token, ctx.clock()) for token in page),
            next_cursor=page[-1].id if len(found) > len(page) else None,
        )

    async def revoke(self, ctx: Context, request: RevokeTokenRequest) -> TokenView:
        tenant = await self._tenant(ctx, request.tenant)
        now = ctx.clock()

        def work(reader: Reader) -> tuple[Token, Sequence[Commit]]:
            kept = reader.kept(TOKENS, request.id)
            if kept is None:
                raise no_token()
            token = kept.value
            if token.revoked_at is not None and token.revoked_at <= now:
                return token, ()
            ended = replace(token, revoked_at=now)
            draft = _draft("revoke_token", ctx.principal, ended, now)
            return ended, [Commit(tenant=tenant, draft=draft, changes=(Keep(TOKENS, ended, kept.seq),))]

        return view(await self.ledger.locked(tenant, work), now)

    async def rotate(self, ctx: Context, request: RotateTokenRequest) -> IssuedTokenResponse:
        tenant = await self._tenant(ctx, request.tenant)
        now = ctx.clock()
        text = new_text(tenant, self.random)
        fresh_id = self.new_id("tok")

        def work(reader: Reader) -> tuple[Token, Sequence[Commit]]:
            kept = reader.kept(TOKENS, request.id)
            if kept is None:
                raise no_token()
            old = kept.value
            check_gift(ctx.principal, old, tenant)
            if not old.is_good(now) or old.revoked_at is not None:
                raise ConflictError(
                    "This token has ended, or was rotated already.",
                    reason="token_ended",
                    hint="Rotate the one that took its place, or create a new one with `quipu token create`.",
                )
            ended = replace(old, revoked_at=now + request.grace_ms)
            fresh = replace(
                old,
                id=fresh_id,
                hash=hash_of(text),
                prefix=_prefix(text),
                created_at=now,
                created_by=ctx.principal.name,
                created_by_token=ctx.principal.token_id,
            )
            draft = _draft("rotate_token", ctx.principal, fresh, now, replaces=old.id)
            changes = (Keep(TOKENS, ended, kept.seq), Keep(TOKENS, fresh, 0))
            return fresh, [Commit(tenant=tenant, draft=draft, changes=changes)]

        token = await self.ledger.locked(tenant, work)
        return IssuedTokenResponse(token=view(token, now), text=text)

    # -- for the rest of the product ----------------------------------------------------------------------------------

    async def first(self, principal: Principal, now: int) -> IssuedToken | None:
        """The first token of all, for who runs the server; None where there was one before.

        Of several servers that start on an empty database at the same time one makes it, and the others go on.
        Whoever calls shows the text at once: there is no second way to get it.
        """
        await self.ledger.open_tenant(DEFAULT_TENANT, now)
        if not await self._is_first_run():
            return None
        request = CreateTokenRequest(name="admin", roles=("admin", "operator"))
        token = self._planned(principal, request, now)
        try:
            return await self._issued(DEFAULT_TENANT, principal, token, request, now, is_first=True)
        except ConflictError as conflict:
            if conflict.reason != "name_taken":
                raise
            return None

    async def _is_first_run(self) -> bool:
        """Whether nobody was ever given a token here, in any tenant."""
        after = ""
        while tenants := await self.ledger.tenants(after, _PAGE):
            for tenant in tenants:
                if await self.ledger.count(TOKENS, tenant.tenant):
                    return False
            after = tenants[-1].tenant
        return True

    async def every(self, tenant: str) -> Sequence[Token]:
        """All tokens of a tenant, also ended ones, as of one moment."""
        return await self.ledger.read(tenant, _every)

    async def makers(self, tenant: str, token_id: str | None) -> frozenset[str]:
        """The names of all by whom a token was made, directly or not: what they wrote, it does not approve."""
        return rules.makers({token.id: token for token in await self.every(tenant)}, token_id)

    async def is_solo(self, principal: Principal, now: int, *, has_oidc: bool) -> bool:
        """Whether nobody but this principal may review in its tenant, so that it may approve what it wrote itself."""
        if has_oidc:  # the provider knows who else may, we do not
            return False
        names = rules.reviewers(await self.every(principal.tenant), now)
        if principal.is_local:
            return not names
        return names == frozenset({principal.name}) and principal.token_id is not None

    async def get(self, tenant: str, token_id: str) -> Token:
        found = await self.ledger.get(TOKENS, tenant, token_id)
        if found is None:
            raise no_token()
        return found

    # -- parts ----------------------------------------------------------------------------------------------------------

    async def _tenant(self, ctx: Context, tenant: str | None) -> str:
        """The own one; another one needs `server:operate`, which the operation asks for."""
        if tenant is None:
            return ctx.tenant
        if await self.ledger.tenant(tenant) is None:
            raise NotFoundError("There is no such tenant.", reason="tenant")
        return tenant

    def _planned(self, principal: Principal, request: CreateTokenRequest, now: int) -> Token:
        """The token that is asked for, without its text; or InvalidError."""
        agents = tuple(dict.fromkeys(request.agents))
        default = rules.default_agent(request.default_agent, agents)
        unknown = set(request.review_operations) - {*ANY, *self.reviewable}
        if unknown:
            raise invalid(
                [Fault("/review_operations", "bad_value", f"some of *, {', '.join(sorted(self.reviewable))}")]
            )
        token = Token(
            id=self.new_id("tok"),
            hash="",
            name=request.name,
            prefix="",
            permissions=tuple(sorted(rules.granted(request.roles, request.permissions))),
            agents=agents,
            default_agent=default,
            user_id=request.user_id,
            created_at=now,
            created_by=principal.name,
            created_by_token=principal.token_id,
            expires_at=_moment(request.expires_at, now),
            rate=request.rate,
            recall_budget=request.recall_budget,
            review_stores=tuple(dict.fromkeys(request.review_stores)),
            review_operations=tuple(dict.fromkeys(request.review_operations)),
        )
        if token.expires_at is not None and token.expires_at <= now:
            raise invalid([Fault("/expires_at", "bad_value", "a time in the future")])
        reach = Principal(tenant="", name="", permissions=frozenset(), agents=agents)
        if default is not None and not reach.may_act_for(default):
            raise invalid([Fault("/default_agent", "bad_value", "an agent that `agents` takes in")])
        return token

    async def _issued(
        self,
        tenant: str,
        principal: Principal,
        token: Token,
        request: Request,
        now: int,
        *,
        is_first: bool = False,
    ) -> IssuedToken:
        text = new_text(tenant, self.random)
        whole = replace(token, hash=hash_of(text), prefix=_prefix(text))
        for _ in range(_MOST_ATTEMPTS):
            # Names stand in the journal, from where nothing goes again: a secret in one refuses the request.
            checked_at = await self._checked(tenant, request)

            def work(reader: Reader, checked_at: int | None = checked_at) -> tuple[bool, Sequence[Commit]]:
                if checked_at is not None and reader.head().guarded > checked_at:
                    return False, ()
                same = [] if is_first else reader.matching(TOKENS, "name", [whole.name])
                if any(kept.value.is_good(now) for kept in same) or (is_first and reader.count(TOKENS)):
                    raise ConflictError(
                        "There is a token of this name.",
                        reason="name_taken",
                        hint="Choose another name, or rotate the one there is.",
                    )
                draft = _draft("create_token", principal, whole, now)
                return True, [Commit(tenant=tenant, draft=draft, changes=(Keep(TOKENS, whole, 0),))]

            if await self.ledger.locked(tenant, work):
                return IssuedToken(whole, text)
        raise ConflictError("The secrets of the tenant keep changing.", reason="secrets_changed")

    async def _checked(self, tenant: str, request: Request) -> int | None:
        """The position of the registered secrets that the request holds none of; None: they cannot be read now."""
        try:
            guard = await self.redactor.guard(tenant, None)
        except UnverifiableError:
            self.detectors.clean(request)
            return None
        guard.clean(request)
        return guard.checked_at


def check_gift(principal: Principal, token: Token, tenant: str) -> None:
    """Whoever is handed a token's rights, by its text or by a sign-in link, must be allowed to give them."""
    rules.check_gift(
        principal,
        token.granted,
        agents=token.agents,
        user_id=token.user_id,
        review_stores=token.review_stores,
        review_operations=token.review_operations,
        is_other_tenant=tenant != principal.tenant,
    )


def view(token: Token, now: int) -> TokenView:
    fields = {name: getattr(token, name) for name in TokenView.model_fields if name != "is_good"}
    return TokenView(**fields, is_good=token.is_good(now))


def no_token() -> NotFoundError:
    return NotFoundError("There is no such token.", reason="token", hint="`quipu token list` shows them.")


def _every(reader: Reader) -> list[Token]:
    found: list[Token] = []
    while True:
        page = reader.rows(TOKENS, after=(found[-1].id,) if found else None, limit=_PAGE)
        found.extend(kept.value for kept in page)
        if len(page) < _PAGE:
            return found


def _prefix(text: str) -> str:
    return text[: len(text) - _RANDOM + _SHOWN]


def _moment(expiry: int | str | None, now: int) -> int | None:
    return now + (duration_ms(expiry) or 0) if isinstance(expiry, str) else expiry


def _draft(op: str, principal: Principal, token: Token, now: int, **more: str) -> Draft:
    """The name and the limits stand in the row, whose digest the entry names."""
    return Draft(
        op=op,
        actor=principal.name,
        at=now,
        detail={"token": token.id, "permissions": list(token.permissions), **more},
    )
