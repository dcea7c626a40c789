"""Who calls from outside: proofs of a key, assertions, signatures, and what of them is good once (D2, D23, 5.4)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quipu.errors import BackendUnavailableError, InvalidError, UnauthenticatedError, UnverifiableError
from quipu.model.disclosure import Question, Standing, Writes
from quipu.model.value import JsonObject
from quipu.ports.keys import LendingParts
from quipu.ports.parts import Parts
from quipu.rules import dids
from quipu.rules import grants_tokens as tokens
from quipu.service.lending import document_of, lending_parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What somebody shows at the door: `Authorization`, the proof beside it, and the request that it is for."""

    scheme: str
    token: str
    proof: str | None
    method: str
    url: str
    #: The id that the caller gave the request, which it may use once.
    request_id: str | None = None
    #: A JWT by which a client says who it is (RFC 7523), instead of a proof.
    assertion: str | None = None


class Callers:
    """Finds out whose key is behind a request."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        #: DIDs of owners who are known to be here; they need not be looked up again.
        self._here: set[str] = set()

    @property
    def _own(self) -> LendingParts:
        return lending_parts(self._parts)

    def proof(self, shown: Shown, token_hash: str | None, now: int) -> tuple[Mapping[str, Any], str]:
        """The key that a proof was made with, and the name under which it is good once (RFC 9449)."""
        own = self._own
        if not shown.proof:
            raise tokens.refused("binding_failed")
        opened = own.jose.opened(shown.proof)
        jti = tokens.check_proof(
            opened.header,
            opened.claims,
            method=shown.method,
            url=shown.url,
            now_s=now / 1000,
            token_hash=token_hash,
        )
        jwk: Mapping[str, Any] = opened.header["jwk"]
        if not own.jose.is_signed(shown.proof, jwk):
            raise tokens.refused("binding_failed")
        return jwk, once(tokens.PROOF, own.jose.thumbprint(jwk), jti)

    async def proven(self, did: str, shown: Shown, now: int) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """The key of somebody who proves to be a DID, by a proof or by an assertion; and what of it is good once."""
        if shown.assertion is None:
            jwk, name = self.proof(shown, None, now)
            await self._check_is_key_of(did, jwk, now)
        else:
            jwk, name = await self._asserted(did, shown.assertion, shown.url, now)
        names = (name,) if shown.request_id is None else (name, once(tokens.REQUEST, did, shown.request_id))
        return jwk, names

    async def _asserted(self, did: str, token: str, url: str, now: int) -> tuple[Mapping[str, Any], str]:
        """`private_key_jwt`: signed by a key of the client's own document, for this host, and good once."""
        own = self._own
        opened = own.jose.opened(token)
        jti = tokens.check_assertion(opened.claims, did, (own.keyring.did(None), url), now / 1000)
        kid = opened.header.get("kid")
        document = await self.document(did)
        key = dids.key_of(document, did, kid, "authentication") if isinstance(kid, str) else None
        jwk = tokens.check_key(key, now).jwk
        if not own.jose.is_signed(token, jwk):
            raise tokens.refused("binding_failed")
        return jwk, once(tokens.PROOF, did, jti)

    async def signer(self, body: JsonObject, signature: str, now: int) -> tuple[str, str | None]:
        """Who signed a body, freshly; and the name under which the signature is good once, if it has one."""
        own = self._own
        header = own.jose.opened_detached(signature)
        did, _ = dids.split(str(header.get("kid")))
        made, jti = header.get("iat"), header.get("jti")
        # Whole numbers stay whole here: one may be larger than any fraction.
        is_fresh = isinstance(made, int | float) and -tokens.PROOF_S <= made - now // 1000 <= tokens.PROOF_S
        if not is_fresh:
            raise tokens.refused("bad_signature")
        key = tokens.check_key(
            dids.key_of(await self.document(did, "bad_signature"), did, str(header["kid"])), now
        )
        if not own.jose.verify_detached(self._parts.canonical(body), signature, key.jwk):
            raise tokens.refused("bad_signature")
        return did, once(tokens.PROOF, did, jti) if isinstance(jti, str) else None

    async def document(self, did: str, reason: str = "bad_token") -> JsonObject:
        """Without the document nobody is believed."""
        own, is_here = self._own, did in self._here
        try:
            found = await (own.documents.document(did) if is_here else document_of(self._parts, did))
        except (UnverifiableError, BackendUnavailableError, InvalidError) as error:
            raise tokens.refused(reason) from error
        if not is_here and own.keyring.tenant_of(did) is not None:
            self._here.add(did)
        return found

    async def use(self, tenant: str, names: tuple[str, ...], now: int) -> None:
        """Each is good once."""
        if not names:
            return

        def decide(standing: Standing) -> Writes:
            tokens.check_once(standing.replayed)
            return Writes(once_until=now + tokens.REPLAY_MS)

        await self._parts.ledger.lending.decide(tenant, Question(once=names, now=now), decide)

    async def _check_is_key_of(self, did: str, jwk: Mapping[str, Any], now: int) -> None:
        document = await self.document(did)
        wanted = self._own.jose.thumbprint(jwk)
        for key in dids.keys_of(document, did, "authentication"):
            is_current = key.revoked is None and (key.expires is None or now < key.expires)
            if is_current and self._is_called(key.jwk, wanted):
                return
        raise tokens.refused("binding_failed")

    def _is_called(self, jwk: Mapping[str, Any], thumbprint: str) -> bool:
        """A document may list keys of kinds that are not spoken here; they are nobody's then."""
        try:
            return self._own.jose.thumbprint(jwk) == thumbprint
        except UnauthenticatedError:
            return False


def once(kind: str, who: str, name: str) -> str:
    """What is kept of something that is good once: whose it is and how it is called, and neither can be read."""
    # Anybody names their own, also by what is no Unicode: it is a name all the same.
    return kind + hashlib.sha256(f"{who}.{name}".encode("utf-8", "surrogatepass")).hexdigest()
