"""Tokens: issued once, kept as a hash, ended at once."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from quipu.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError, UnverifiableError
from quipu.model.access import IssuedToken, Role, Token
from quipu.model.change import AddToken, Commit, Committed, EndToken, Once
from quipu.model.journal import Draft, Op
from quipu.model.principal import Permission, Principal
from quipu.model.value import Json
from quipu.ports.parts import Parts
from quipu.rules import roles as rules
from quipu.rules import values
from quipu.rules.redaction import refuse_named_secrets
from quipu.rules.texts import checked_keepable
from quipu.service.access import Access
from quipu.service.secrets import Secrets

_SHOWN = 6
#: Under this the first token is made, whoever makes it.
_FIRST = Once(principal="system", operation="first_token", key="first", fingerprint="first", answer={})


class Tokens:
    """The credentials that Quipu gives out itself."""

    def __init__(self, parts: Parts, access: Access) -> None:
        self._parts, self._access, self._secrets = parts, access, Secrets(parts, access)

    async def issue(
        self,
        principal: Principal,
        *,
        name: str,
        roles: Iterable[Role] = (),
        permissions: Iterable[Permission] | None = None,
        agents: Sequence[str] = ("*",),
        user_id: str | None = None,
        expires_at: int | None = None,
        rate: int | None = None,
        recall_budget: int | None = None,
        review_stores: Sequence[str] = ("*",),
        review_operations: Sequence[str] = ("*",),
        tenant: str | None = None,
        once: Once | None = None,
    ) -> IssuedToken:
        """A new token: what its roles may do, and the permissions named beside them. With `once` it is made once."""
        owner = await self._tenant(principal, tenant)
        given = rules.permissions_of(roles) | frozenset(permissions or ())
        if not given:
            raise InvalidError.at(
                "/roles", "missing_field", "A token needs a role or a scope.", accepted=[*Role]
            )
        rules.checked_grant(principal, given, is_foreign=owner != principal.tenant)
        self._check_reach(principal, agents, user_id)
        rules.checked_review_grant(principal, given, review_stores, review_operations)
        for field, value in (("rate", rate), ("recall_budget", recall_budget)):
            if value is not None and value < 1:
                raise InvalidError.at(f"/{field}", "bad_value", f"{field} is at least 1.")
        patterns = {"agents": agents, "review_stores": review_stores}
        self._check_texts(user_id, patterns)
        now = self._parts.clock()
        if expires_at is not None and expires_at <= now:
            raise InvalidError.at("/expires_at", "bad_value", "A token ends in the future.")
        checked = rules.checked_token_name(name)
        await self._refuse_secrets(owner, checked, user_id, patterns)
        if any(token.name == checked and _is_good(token, now) for token in await self._all(owner)):
            raise _name_taken()
        token = Token(
            tenant=owner,
            id=self._parts.mint_id("tok"),
            name=checked,
            prefix="",
            permissions=given,
            agents=rules.checked_agents(agents),
            user_id=user_id,
            created_at=now,
            created_by=principal.name,
            expires_at=expires_at,
            rate=rate,
            recall_budget=recall_budget,
            review_stores=rules.checked_review_stores(review_stores),
            review_operations=rules.checked_review_operations(review_operations),
        )
        return await self._added(principal, token, (), once)

    def _check_texts(self, user_id: str | None, patterns: Mapping[str, Sequence[str]]) -> None:
        """A token that no ledger can hold, or that is bound to a user whom nobody can be, is no token."""
        for fault, message in values.name_faults("/user_id", user_id, self._parts.limits):
            raise InvalidError(message, reason=fault.reason, faults=[fault])
        for field, given in patterns.items():
            for pattern in given:
                checked_keepable(pattern, f"/{field}")

    async def _refuse_secrets(
        self, tenant: str, name: str, user_id: str | None, patterns: Mapping[str, Sequence[str]]
    ) -> None:
        """They are told in the journal, where nothing goes again."""
        told = [("/name", name), ("/user_id", user_id)]
        told += [
            (f"/{field}/{place}", one) for field, given in patterns.items() for place, one in enumerate(given)
        ]
        known = self._parts.redaction
        # Without the key what is registered stays unknown, and tokens are needed.
        with suppress(UnverifiableError):
            known = (await self._secrets.checked(tenant)).redaction
        refuse_named_secrets(told, known)

    @staticmethod
    def _check_reach(principal: Principal, agents: Sequence[str], user_id: str | None) -> None:
        """Whoever may act for some agents or one user cannot let others act for more."""
        if principal.may(Permission.OPERATE) or (principal.agents == ("*",) and principal.user_id is None):
            return
        is_narrower = set(agents) <= set(principal.agents) and (
            principal.user_id is None or user_id == principal.user_id
        )
        if not is_narrower:
            raise ForbiddenError("Nobody can give more than they may do themselves.", reason="missing_scope")

    async def list(self, principal: Principal, tenant: str | None = None) -> tuple[Token, ...]:
        """All tokens, also ended ones, without their texts."""
        return tuple(await self._all(await self._tenant(principal, tenant)))

    async def revoke(self, principal: Principal, token_id: str, tenant: str | None = None) -> Token:
        """End a token now. Ending it twice does no harm."""
        token = await self._known(principal, token_id, tenant)
        now = self._parts.clock()
        if token.revoked_at is not None and token.revoked_at <= now:
            return token
        await self._commit(principal, token, Op.END_TOKEN, [EndToken(token_id=token.id, revoked_at=now)])
        return replace(token, revoked_at=now)

    async def rotate(
        self, principal: Principal, token_id: str, *, grace_ms: int = 0, tenant: str | None = None
    ) -> IssuedToken:
        """The same rights under a new text; the old text ends now, or after a grace for those who still use it."""
        old = await self._known(principal, token_id, tenant)
        # Whoever rotates a token holds its new text: it is handed out like any other.
        rules.checked_grant(principal, old.permissions, is_foreign=old.tenant != principal.tenant)
        self._check_reach(principal, old.agents, old.user_id)
        rules.checked_review_grant(principal, old.permissions, old.review_stores, old.review_operations)
        now = self._parts.clock()
        if not _is_good(old, now):
            raise ConflictError("This token has ended; issue a new one.", reason="token_ended")
        fresh = replace(
            old, id=self._parts.mint_id("tok"), created_at=now, created_by=principal.name, revoked_at=None
        )
        ends_at = now + max(0, grace_ms)
        if ends_at >= values.INT64:
            raise InvalidError.at("/grace_ms", "bad_value", "No token lives that long.")
        ending = EndToken(token_id=old.id, revoked_at=ends_at)
        return await self._added(principal, fresh, [ending])

    async def first(self, principal: Principal) -> IssuedToken | None:
        """The first token of all, for who runs the server; None where there was one before.

        Of several servers that start on an empty database at the same time one makes it, and the others go on.
        """
        if not await self.is_first_run():
            return None
        try:
            return await self.issue(principal, name="admin", roles=(Role.ADMIN, Role.OPERATOR), once=_FIRST)
        except ConflictError as conflict:
            if conflict.reason != "name_taken":
                raise
            return None

    async def is_first_run(self) -> bool:
        """Whether nobody was ever given a token here."""
        for tenant in await self._parts.ledger.tenants():
            if await self._parts.ledger.tokens(tenant.id):
                return False
        return True

    async def _added(
        self, principal: Principal, token: Token, ending: Sequence[EndToken], once: Once | None = None
    ) -> IssuedToken:
        secret = base64.urlsafe_b64encode(self._parts.mint_salt() + self._parts.mint_salt())
        beginning = f"qp_{token.tenant}_"
        text = beginning + secret.decode("ascii").rstrip("=")
        named = replace(token, prefix=text[: len(beginning) + _SHOWN])
        added = AddToken(token=named, digest=digest_of(text))
        done = await self._commit(principal, named, Op.ISSUE_TOKEN, [*ending, added], once)
        if done.replayed is not None:
            raise _name_taken()
        return IssuedToken(named, text)

    async def _commit(
        self,
        principal: Principal,
        token: Token,
        op: Op,
        changes: Sequence[AddToken | EndToken],
        once: Once | None = None,
    ) -> Committed:
        draft = Draft(
            op=op,
            actor=principal.name,
            at=self._parts.clock(),
            detail={
                "token": token.id,
                "name": token.name,
                "permissions": sorted(token.permissions),
                "agents": list(token.agents),
                **_limits(token),
            },
        )
        commit = Commit(tenant=token.tenant, draft=draft, changes=tuple(changes), once=once)
        return (await self._parts.ledger.commit(commit))[0]

    async def _known(self, principal: Principal, token_id: str, tenant: str | None) -> Token:
        owner = await self._tenant(principal, tenant)
        found = next((token for token in await self._all(owner) if token.id == token_id), None)
        if found is None:
            raise NotFoundError("There is no such token.", reason="token")
        return found

    async def _all(self, tenant: str) -> Sequence[Token]:
        return await self._parts.ledger.tokens(tenant)

    async def _tenant(self, principal: Principal, tenant: str | None) -> str:
        """The own tenant for those who manage it; any for those who run the server."""
        if principal.may(Permission.OPERATE):
            owner = principal.tenant if tenant is None else tenant
            if not rules.is_tenant(owner) or await self._parts.ledger.tenant(owner) is None:
                raise NotFoundError("There is no such tenant.", reason="tenant")
            return owner
        self._access.authorise(principal, Permission.MANAGE)
        if tenant not in (None, principal.tenant):
            raise NotFoundError("There is no such tenant.", reason="tenant")
        return principal.tenant


def digest_of(text: str) -> str:
    """What is kept of a token. It has 256 random bits, so one plain hash is enough."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _name_taken() -> ConflictError:
    return ConflictError(
        "There is a token of this name.",
        reason="name_taken",
        hint="Choose another name, or rotate the one there is.",
    )


def _limits(token: Token) -> dict[str, Json]:
    """What a reviewer is limited to, if to anything."""
    wanted = {"review_stores": token.review_stores, "review_operations": token.review_operations}
    return {name: list(given) for name, given in wanted.items() if given != ("*",)}


def _is_good(token: Token, now: int) -> bool:
    return all(end is None or end > now for end in (token.revoked_at, token.expires_at))
