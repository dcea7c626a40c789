"""Agents that act in an owner's name: the OAP Trust Token, given and looked at (contract 4.5).

A token is the word of the owner's own DID, for one agent, for some actions, for a short while, bound to the agent's key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from quipu.errors import InvalidError, UnauthenticatedError
from quipu.model.principal import Permission, Principal
from quipu.ports.parts import Parts
from quipu.rules import dids, receipts
from quipu.rules import grants_tokens as tokens
from quipu.service.access import Access
from quipu.service.lending import lending_parts, owner_of
from quipu.service.lending_callers import Callers, Shown, once

_MAY = frozenset({Permission.READ, Permission.WRITE, Permission.DELETE, Permission.ADMIN})


class Agents:
    """Who comes for whom."""

    def __init__(self, parts: Parts, access: Access, callers: Callers) -> None:
        self._parts, self._access, self._callers = parts, access, callers

    async def token(
        self, principal: Principal, agent: str, actions: Sequence[str], life_s: int = tokens.TOKEN_S
    ) -> dict[str, Any]:
        """A token for an agent, signed with the owner's key, which is kept here."""
        tenant, own, now = owner_of(self._access, principal), lending_parts(self._parts), self._parts.clock()
        if not actions or set(actions) - set(tokens.OWNED):
            accepted = list(tokens.OWNED)
            raise InvalidError.at("/scope", "bad_value", "Say what the agent may do.", accepted=accepted)
        if not 0 < life_s <= tokens.TOKEN_S:
            accepted = [f"1 … {tokens.TOKEN_S} seconds"]
            raise InvalidError.at("/life", "bad_value", "A token lasts a short while.", accepted=accepted)
        try:
            document = await self._callers.document(dids.checked(agent, "/agent"), "did_unresolved")
        except UnauthenticatedError as error:  # not the caller's credential, but the agent's name is not good
            raise InvalidError.at(
                "/agent", "did_unresolved", "The agent's DID cannot be resolved."
            ) from error
        keys = [key for key in dids.keys_of(document, agent, "authentication") if key.revoked is None]
        if not keys:
            raise InvalidError.at("/agent", "did_unresolved", "The agent's DID has no key.")
        hand, owner = own.keyring.hand(tenant), own.keyring.did(tenant)
        claims: dict[str, Any] = {
            "iss": owner,
            "sub": owner,
            "aud": own.keyring.did(None),
            "agent": agent,
            "oap_principal": owner,
            "oap_agent": agent,
            "scope": " ".join(sorted(set(actions))),
            "nonce": receipts.b64(self._parts.mint_salt()),
            "iat": now // 1000,
            "exp": now // 1000 + life_s,
            "cnf": {"jkt": own.jose.thumbprint(keys[0].jwk)},
        }
        header = {"alg": "EdDSA", "typ": tokens.TRUST_TYPE, "kid": hand.kid}
        token = own.jose.token(header, claims, hand)
        return {"access_token": token, "token_type": "DPoP", "expires_in": life_s, "scope": claims["scope"]}

    async def admitted(self, shown: Shown) -> tuple[Principal, frozenset[str]]:
        """The owner in whose name somebody comes, and for what, if every check holds."""
        own, now = lending_parts(self._parts), self._parts.clock()
        opened = own.jose.opened(shown.token)
        trust = tokens.check_trust(opened.claims, own.keyring.did(None), now / 1000)
        kid = tokens.check_header(opened.header, trust.principal, tokens.TRUST_TYPE)
        tenant = own.keyring.tenant_of(trust.principal)
        known = None if tenant is None else await self._parts.ledger.tenant(tenant)
        if known is None or known.suspended_at is not None:
            raise tokens.refused()
        document = await self._callers.document(trust.principal)
        key = tokens.check_key(dids.key_of(document, trust.principal, kid), now)
        if not own.jose.is_signed(shown.token, key.jwk):
            raise tokens.refused()
        if shown.scheme.lower() != "dpop":
            raise tokens.refused("binding_failed")
        digest = receipts.b64(hashlib.sha256(shown.token.encode("utf-8")).digest())
        jwk, name = self._callers.proof(shown, digest, now)
        if own.jose.thumbprint(jwk) != trust.thumbprint:
            raise tokens.refused("binding_failed")
        names = [name]
        if shown.request_id is not None:
            names.append(once(tokens.REQUEST, trust.agent, shown.request_id))
        await self._callers.use(known.id, tuple(names), now)
        who = Principal(
            tenant=known.id, name=trust.agent, permissions=_MAY, expires_at=int(trust.ends_s * 1000)
        )
        return who, trust.scope
