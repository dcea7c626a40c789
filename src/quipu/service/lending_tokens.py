"""Who stands outside with a token: which grant it is for, whether it still counts, and whether it is theirs.

The grant row is read for every request, so that a revocation counts from the next one on (S7): here, or in the very
transaction that discloses something. What was once found right about a token or a grant, and cannot change, is kept.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

from quipu.errors import ConflictError, InvalidError, QuipuError, UnauthenticatedError
from quipu.model.grants import Binding, Grant, GrantStatus, KeptGrant, Lent
from quipu.model.value import JsonObject
from quipu.ports.keys import LendingParts, Opened
from quipu.ports.parts import Parts
from quipu.rules import dids, grants, receipts
from quipu.rules import grants_tokens as tokens
from quipu.service.lending import Lending, lending_parts
from quipu.service.lending_callers import Callers, Shown, once
from quipu.service.lending_refusals import Refusals

_STALE_MS = 300_000
_KEPT = 10_000
K = TypeVar("K")
V = TypeVar("V")


class Doors:
    """Lets grantees in, one request at a time."""

    def __init__(self, parts: Parts, lending: Lending) -> None:
        self._parts, self._lending = parts, lending
        self.callers, self.refusals = Callers(parts), Refusals(parts)
        #: What other hosts said of grants that are revoked there, by owner and id: when, and whether it was good.
        self._remote: OrderedDict[tuple[str, str], tuple[int, bool]] = OrderedDict()
        #: Grants as they were last read, by owner and id, and tokens whose signature was found right under a key.
        self._grants: OrderedDict[tuple[str, str], tuple[Grant, KeptGrant]] = OrderedDict()
        self._signed: OrderedDict[str, tuple[Opened, str]] = OrderedDict()

    @property
    def _own(self) -> LendingParts:
        return lending_parts(self._parts)

    async def lent(self, shown: Shown, *, is_read_later: bool = False) -> Lent:
        """The grant that a token is for, if every check of 4.5 holds.

        `is_read_later` is for callers that read the grant row in a transaction of their own: it may be as last seen here,
        and what is good once is used up there.
        """
        own, now = self._own, self._parts.clock()
        claims = await self._claims(shown.token)
        found = self._as_last_read(claims, now) if is_read_later else None
        grant, kept = found or await self._grant(claims, shown.token)
        longest = tokens.TOKEN_S if grant.binding is Binding.BEARER else tokens.LONGEST_S
        tokens.check_times(claims, now / 1000, longest_s=longest)
        scopes = tokens.check_claims(claims, grant, own.keyring.did(None))
        try:
            await self._check_standing(grant, kept, now)
        except UnauthenticatedError as error:
            await self.refusals.note(kept.tenant, grant, error.reason or "refused")
            raise
        is_proven = shown.scheme.lower() == "dpop"
        jkt = tokens.check_binding(claims, grant, is_proven=is_proven)
        names = [] if shown.request_id is None else [once(tokens.REQUEST, grant.id, shown.request_id)]
        if jkt is not None:
            digest = receipts.b64(hashlib.sha256(shown.token.encode("utf-8")).digest())
            jwk, name = self.callers.proof(shown, digest, now)
            names.append(name)
            if own.jose.thumbprint(jwk) != jkt:
                raise tokens.refused("binding_failed")
        if not is_read_later:
            await self.callers.use(kept.tenant, tuple(names), now)
            names = []
        return Lent(
            tenant=kept.tenant,
            grant=grant,
            kept=kept,
            scopes=scopes,
            once=tuple(names),
            token=dict(claims),
        )

    async def signed(self, lent: Lent, body: JsonObject, signature: str | None) -> Lent:
        """The same, after a look at the signature over the body, where there is one: it is the grantee's, and fresh (D23)."""
        if signature is None:
            return lent
        did, name = await self.callers.signer(body, signature, self._parts.clock())
        if did != lent.grant.grantee:
            raise tokens.refused("bad_signature")
        return lent if name is None else replace(lent, once=(*lent.once, name))

    async def mint(self, grant_id: str, shown: Shown) -> dict[str, Any]:
        """A short-lived token for a grantee that proves a key of its own DID document (5.4)."""
        own, now = self._own, self._parts.clock()
        if shown.assertion is None:
            self.callers.proof(shown, None, now)  # before anything is looked up for a stranger
        kept = await self._lending.find(grant_id)
        if kept is None:
            raise tokens.refused("grant_unknown")
        grant = grants.parsed(kept.body, self._parts.canonical)
        jwk, names = await self.callers.proven(grant.grantee, shown, now)
        await self._check_standing(grant, kept, now)
        await self.callers.use(kept.tenant, names, now)
        claims = tokens.claims_for(
            grant,
            issuer=own.keyring.did(None),
            audience=own.keyring.did(None),
            jti=self._parts.mint_id("tok"),
            now_s=now // 1000,
            life_s=tokens.TOKEN_S,
            thumbprint=None if grant.binding is Binding.BEARER else own.jose.thumbprint(jwk),
        )
        hand = own.keyring.hand(None)
        header = {"alg": "EdDSA", "typ": tokens.GRANT_TYPE, "kid": hand.kid}
        return {
            "access_token": own.jose.token(header, claims, hand),
            "token_type": "Bearer" if grant.binding is Binding.BEARER else "DPoP",
            "expires_in": claims["exp"] - claims["iat"],
            "scope": claims["scope"],
        }

    async def inspect(self, token: str) -> dict[str, Any]:
        """RFC 7662: whether a token counts now, without using it."""
        now = self._parts.clock()
        try:
            claims = await self._claims(token)
            grant, kept = await self._grant(claims, token, registers=False)
            tokens.check_times(claims, now / 1000)
            tokens.check_claims(claims, grant, self._own.keyring.did(None))
            await self._check_standing(grant, kept, now)
        except QuipuError:
            return {"active": False}
        names = ("iss", "sub", "aud", "jti", "iat", "nbf", "exp", "scope", "cnf", "grant_id")
        return {"active": True, **{name: claims[name] for name in names if name in claims}}

    # -- the checks ---------------------------------------------------------------------------------------------

    async def _claims(self, token: str) -> Mapping[str, Any]:
        """What a token says, once its signature is right under a key of its issuer."""
        own = self._own
        # What a token says, and that a key signed it, stays true; whether that key counts is asked each time.
        known = self._signed.get(token)
        opened = own.jose.opened(token) if known is None else known[0]
        issuer = opened.claims.get("iss")
        if not isinstance(issuer, str):
            raise tokens.refused()
        kid = tokens.check_header(opened.header, issuer)
        if issuer != own.keyring.did(None) and (
            issuer != opened.claims.get("oap_principal") or own.keyring.tenant_of(issuer) is None
        ):
            raise tokens.refused()
        document = await self.callers.document(issuer)
        issued_ms = int(tokens.seconds(opened.claims.get("iat")) * 1000)
        key = tokens.check_key(dids.key_of(document, issuer, kid), issued_ms)
        thumbprint = own.jose.thumbprint(key.jwk)
        if known is None or known[1] != thumbprint:
            if not own.jose.is_signed(token, key.jwk):
                raise tokens.refused()
            _keep(self._signed, token, (opened, thumbprint))
        return opened.claims

    def _as_last_read(self, claims: Mapping[str, Any], now: int) -> tuple[Grant, KeptGrant] | None:
        """The grant as it was last read, if it counted then and the token speaks of the same one."""
        tenant = self._own.keyring.tenant_of(str(claims.get("oap_principal")))
        found = self._grants.get((str(tenant), str(claims.get("grant_id"))))
        if found is None or found[0].hash != claims.get("grant_hash") or "memory_grant" in claims:
            return None
        return found if found[1].standing(now) is GrantStatus.ACTIVE else None

    async def _grant(
        self, claims: Mapping[str, Any], token: str, *, registers: bool = True
    ) -> tuple[Grant, KeptGrant]:
        own, grant_id = self._own, claims.get("grant_id")
        tenant = own.keyring.tenant_of(str(claims.get("oap_principal")))
        known = None if tenant is None else await self._parts.ledger.tenant(tenant)
        if known is None or known.suspended_at is not None or not isinstance(grant_id, str):
            raise tokens.refused("grant_unknown")
        kept = await self._parts.ledger.lending.grant(known.id, grant_id)
        embedded = claims.get("memory_grant")
        if isinstance(embedded, Mapping):
            body = cast("JsonObject", embedded)
            if grants.grant_hash(body, self._parts.canonical) != claims.get("grant_hash"):
                raise tokens.refused()
            if kept is None and registers:
                kept = await self._registered(claims, body, token)
        if kept is None:
            raise tokens.refused("grant_unknown")
        kept = await self._lending.as_noted(kept)
        found = self._grants.get((known.id, grant_id))
        if found is None or found[0].hash != kept.hash:
            grant = grants.parsed(kept.body, self._parts.canonical)
        else:
            grant = found[0]
        _keep(self._grants, (known.id, grant_id), (grant, kept))
        return grant, kept

    async def _registered(self, claims: Mapping[str, Any], body: JsonObject, token: str) -> KeptGrant:
        """A grant that comes inside a token of the granter's is kept when it is first seen (D1)."""
        if claims.get("iss") != claims.get("oap_principal"):
            raise tokens.refused("grant_unknown")
        header = self._own.jose.opened(token).header
        digest = hashlib.sha256(token.encode("utf-8")).hexdigest()
        signature = {"alg": header["alg"], "kid": header["kid"], "token": f"sha256:{digest}"}
        signed = {**receipts.without(body, "signature"), "signature": signature}
        tokens.check_times(claims, self._parts.clock() / 1000)
        try:
            return await self._lending.register_signed(signed)
        except (InvalidError, ConflictError) as error:
            raise tokens.refused("grant_unknown") from error

    async def _check_standing(self, grant: Grant, kept: KeptGrant, now: int) -> None:
        tokens.check_standing(kept, now)
        signature = grant.body["signature"]
        document = await self.callers.document(grant.granter)
        if isinstance(signature, Mapping):
            key = dids.key_of(document, grant.granter, str(signature.get("kid")))
            is_good = key is not None and key.revoked is None
        else:  # such a signature need not name its key: it is one that still counts
            keys = [key for key in dids.keys_of(document, grant.granter) if key.revoked is None]
            is_good = self._lending.is_signed(grant, document, keys)
        if not is_good:
            raise tokens.refused("grant_suspended", "The grant is no longer valid.")
        await self._check_remote(grant, kept.tenant, now)

    async def _check_remote(self, grant: Grant, tenant: str, now: int) -> None:
        """A grant that can be revoked elsewhere is asked about there, and counts only while the answer is fresh (D6)."""
        own, url = self._own, grant.revocation_endpoint
        if url is None or (own.public_url and url.startswith(f"{own.public_url}/")):
            return
        at, is_good = self._remote.get((tenant, grant.id), (0, False))
        if not 0 <= now - at < _STALE_MS or not is_good:
            try:
                answer = await own.peers.get(f"{url}?grant_id={grant.id}")
            except QuipuError as error:
                raise tokens.refused("status_stale") from error
            said = answer.members
            is_active = said.get("status") == GrantStatus.ACTIVE.value
            is_good = answer.status == 200 and said.get("grant_id") == grant.id and is_active
            _keep(self._remote, (tenant, grant.id), (now, is_good))
        if not is_good:
            raise tokens.refused("grant_revoked", "The grant is no longer valid.")


def _keep(kept: OrderedDict[K, V], key: K, value: V) -> None:
    kept[key] = value
    if len(kept) > _KEPT:
        kept.popitem(last=False)
