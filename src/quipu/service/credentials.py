"""From what a caller shows to who they are."""

from __future__ import annotations

import re
from functools import lru_cache

from quipu.errors import UnauthenticatedError
from quipu.model.access import Tenant, Token
from quipu.model.principal import Permission, Principal
from quipu.model.record import Trust
from quipu.ports.parts import Parts
from quipu.rules.roles import is_tenant
from quipu.service.budgets import Budgets
from quipu.service.tokens import digest_of

_TOKEN = re.compile(r"qp_([a-z0-9][a-z0-9-]{0,62})_[A-Za-z0-9_-]{43}")
_ANOTHER = "Ask an administrator for another; `quipu token create` makes one."
_SUSPENDED = "Ask who runs the server; `quipu tenant resume` lets a tenant in again."
_JWT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


class Credentials:
    """Asks the ledger each time, so that an ended token is refused at once."""

    def __init__(self, parts: Parts, budgets: Budgets) -> None:
        self._parts, self._budgets = parts, budgets

    async def principal(self, text: str) -> Principal:
        """Who shows this token, or this signed statement of an identity provider."""
        principal = await self.renewed(text)
        self._budgets.charge_request(principal)
        return principal

    async def renewed(self, text: str) -> Principal:
        """The same once more, for a stream that is open already: that is no new request."""
        if match := _TOKEN.fullmatch(text):
            return await self._of_token(match.group(1), text)
        if self._parts.identities is None or not _JWT.fullmatch(text):
            raise unknown_credential()
        principal = await self._parts.identities.principal(text)
        tenant = principal.tenant
        known = await self._parts.ledger.tenant(tenant) if is_tenant(tenant) else None
        if known is None:
            raise unknown_credential()
        _check_open(known)
        return principal

    async def _of_token(self, tenant: str, text: str) -> Principal:
        found = await self._parts.ledger.token(tenant, digest_of(text))
        if found is None:
            raise unknown_credential()
        token, of = found
        now = self._parts.clock()
        if token.revoked_at is not None and token.revoked_at <= now:
            raise _refused("This token has been revoked.", "revoked_token", _ANOTHER)
        if token.expires_at is not None and token.expires_at <= now:
            raise _refused("This token has expired.", "expired_token", _ANOTHER)
        _check_open(of)
        return principal_of(token)


@lru_cache(maxsize=1024)
def principal_of(token: Token) -> Principal:
    """Whom a good token stands for."""
    ends = [end for end in (token.expires_at, token.revoked_at) if end is not None]
    return Principal(
        tenant=token.tenant,
        name=token.name,
        permissions=token.permissions,
        agents=token.agents,
        review_stores=token.review_stores,
        review_operations=token.review_operations,
        user_id=token.user_id,
        trust=Trust.USER if Permission.ADMIN in token.permissions else Trust.AGENT,
        rate=token.rate,
        recall_budget=token.recall_budget,
        expires_at=min(ends, default=None),
    )


def unknown_credential() -> UnauthenticatedError:
    """For whatever is not a whole, known token: one answer for all of it, so that guesses learn nothing.

    That a token has ended is told only to who shows the whole text of it: tokens are found by the digest of all they are.
    """
    return UnauthenticatedError(
        "This credential is not known here.",
        reason="bad_token",
        hint="Check that the token was copied whole, and that it is a token of this server.",
    )


def _check_open(tenant: Tenant) -> None:
    if tenant.suspended_at is not None:
        raise _refused("This tenant is suspended.", "suspended_tenant", _SUSPENDED)


def _refused(message: str, reason: str, hint: str) -> UnauthenticatedError:
    return UnauthenticatedError(message, reason=reason, hint=hint)
