"""From what a caller shows to who it is. The ledger is asked each time, so an ended token is refused at once."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from quipu.access import rules
from quipu.access.model import RESERVED_NAMES, TOKENS, Token
from quipu.access.tokens import hash_of
from quipu.errors import UnauthenticatedError
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Reader
from quipu.model.principal import Permission, Principal

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
