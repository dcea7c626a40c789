"""From what a caller shows to who it is. The ledger is asked each time, so an ended token is refused at once."""

import base64
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

from quipu.access import rules
from quipu.access.model import (
    RESERVED_NAMES,
    SIGNIN_LINKS,
    TOKENS,
    CreateSigninLinkRequest,
    SigninLink,
    SigninLinkResponse,
    Token,
)
from quipu.access.tokens import Tokens, check_gift, hash_of
from quipu.errors import ConflictError, Fault, UnauthenticatedError
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Reader
from quipu.model.principal import Permission, Principal
from quipu.operation import Context, invalid

_TOKEN = re.compile(r"qp_([a-z0-9][a-z0-9-]{0,62})_[A-Za-z0-9_-]{43}")
_JWT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
#: Longer than any credential that is accepted.
_LONGEST = 16_384


class Identities(Protocol):
    """An identity provider whose signed tokens are accepted."""

    async def principal(self, text: str) -> Principal:
        """Raises UnauthenticatedError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Who shows a token of ours, or a signed token of the identity provider."""

    ledger: Ledger
    clock: Callable[[], int]
    identities: Identities | None = None

    async def principal(self, text: str) -> Principal:
        """One answer for whatever is not a whole, known credential, so that guesses learn nothing.

        That a token has ended is said only to who shows the whole text of it.
        """
        if found := _TOKEN.fullmatch(text):
            digest = hash_of(text)
            return await self._of(found[1], lambda reader: _by_hash(reader, digest))
        if self.identities is None or len(text) > _LONGEST or not _JWT.fullmatch(text):
            raise unknown_credential()
        principal = await self.identities.principal(text)
        tenant = (
            await self.ledger.tenant(principal.tenant) if rules.is_tenant_name(principal.tenant) else None
        )
        if tenant is None:
            raise unknown_credential()
        if tenant.suspended_at is not None:
            raise _suspended()
        return principal

    async def of_token(self, tenant: str, token_id: str) -> Principal:
        """Who is signed in with a token, whose id a web session names."""
        if not rules.is_tenant_name(tenant):
            raise unknown_credential()
        return await self._of(tenant, lambda reader: reader.get(TOKENS, token_id))

    async def is_whole_admin(self, tenant: str, name: str) -> bool:
        """Whether whoever is called so in the journal may still see every memory of the tenant.

        Of people who sign in with the identity provider nobody here knows when they stop being who they were.
        """
        if name in RESERVED_NAMES or name.startswith("oidc:"):
            return True
        found = await self.ledger.matching(TOKENS, tenant, "name", [name])
        good = [principal_of(tenant, token) for token in found if token.is_good(self.clock())]
        return any(who.may(Permission.ADMIN) and who.is_whole for who in good)

    async def _of(self, tenant: str, find: Callable[[Reader], Token | None]) -> Principal:
        token, suspended_at = await self.ledger.read(
            tenant, lambda reader: (find(reader), reader.head().suspended_at), is_brief=True
        )
        if token is None:
            raise unknown_credential()
        now = self.clock()
        another = "Ask an administrator for another; `quipu token create` makes one."
        if token.revoked_at is not None and token.revoked_at <= now:
            raise UnauthenticatedError("This token was revoked.", reason="revoked_token", hint=another)
        if token.expires_at is not None and token.expires_at <= now:
            raise UnauthenticatedError("This token has expired.", reason="expired_token", hint=another)
        if suspended_at is not None:
            raise _suspended()
        return principal_of(tenant, token)


def _by_hash(reader: Reader, digest: str) -> Token | None:
    found = reader.matching(TOKENS, "hash", [digest])
    return found[0].value if found else None


@lru_cache(maxsize=1024)
def principal_of(tenant: str, token: Token) -> Principal:
    """Whom a good token stands for."""
    ends = [end for end in (token.expires_at, token.revoked_at) if end is not None]
    return Principal(
        tenant=tenant,
        name=token.name,
        permissions=token.granted,
        agents=token.agents,
        default_agent=token.default_agent,
        user_id=token.user_id,
        review_stores=token.review_stores,
        review_operations=token.review_operations,
        trust="user" if Permission.ADMIN in token.granted else "agent",
        token_id=token.id,
        rate=token.rate,
        recall_budget=token.recall_budget,
        expires_at=min(ends, default=None),
    )


def unknown_credential() -> UnauthenticatedError:
    return UnauthenticatedError(
        "This credential is not known here.",
        reason="bad_token",
        hint="Check that the token was copied whole, and that it is a token of this server.",
    )


def _suspended() -> UnauthenticatedError:
    return UnauthenticatedError(
        "This tenant is suspended.",
        reason="suspended_tenant",
        hint="Ask who runs the server; `quipu tenant resume` lets a tenant in again.",
    )


# -- links that sign in to the web page once -------------------------------------------------------------------------

LINK_LIFE_MS = 15 * 60_000
_LINK = re.compile(r"ql_([a-z0-9][a-z0-9-]{0,62})_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SigninLinks:
    """Made for a token, used once."""

    ledger: Ledger
    tokens: Tokens
    credentials: Credentials
    random: Callable[[int], bytes]
    #: The server's address as people know it, without a slash at the end.
    public_url: str | None = None

    async def create(self, ctx: Context, request: CreateSigninLinkRequest) -> SigninLinkResponse:
        token_id = request.token_id or ctx.principal.token_id
        if token_id is None:
            raise invalid([Fault("/token_id", "missing_field", "the id of a token, see `quipu token list`")])
        return await self.made(ctx.principal, token_id, ctx.clock())

    async def made(self, principal: Principal, token_id: str, now: int) -> SigninLinkResponse:
        """A link for a token whose rights the principal may give."""
        token = await self.tokens.get(principal.tenant, token_id)
        check_gift(principal, token, principal.tenant)
        if not token.is_good(now):
            raise ConflictError("This token has ended.", reason="token_ended")
        text = (
            f"ql_{principal.tenant}_{base64.urlsafe_b64encode(self.random(32)).decode('ascii').rstrip('=')}"
        )
        link = SigninLink(id=hash_of(text), token_id=token.id, expires_at=now + LINK_LIFE_MS)
        stale = await self.ledger.page(SIGNIN_LINKS, principal.tenant, limit=100)
        ended = [(one.id,) for one in stale if one.expires_at <= now]
        await self.ledger.update(principal.tenant, SIGNIN_LINKS, link, drop=ended)
        return SigninLinkResponse(
            url=f"{self.public_url or ''}/signin?link={text}", expires_at=link.expires_at
        )

    async def redeemed(self, text: str) -> Principal:
        """Whom the link signs in; from now on it is used. One answer whatever is wrong with it."""
        found = _LINK.fullmatch(text)
        if found is None:
            raise unknown_credential()
        tenant, link_id, now = found[1], hash_of(text), self.credentials.clock()
        if await self.ledger.get(SIGNIN_LINKS, tenant, link_id) is None:  # locking a tenant would make it
            raise unknown_credential()

        def work(reader: Reader) -> tuple[str | None, Sequence[SigninLink]]:
            link = reader.get(SIGNIN_LINKS, link_id)
            if link is None or link.used_at is not None or link.expires_at <= now:
                return None, ()
            return link.token_id, [replace(link, used_at=now)]

        token_id = await self.ledger.revise(tenant, SIGNIN_LINKS, work)
        if token_id is None:
            raise unknown_credential()
        return await self.credentials.of_token(tenant, token_id)
