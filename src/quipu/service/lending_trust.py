"""Evidence that a grantee shows beyond its grant: each piece is looked at, and what became of it is told (7.1)."""

from __future__ import annotations

from quipu.errors import BackendUnavailableError, InvalidError, UnauthenticatedError, UnverifiableError
from quipu.model.grants import AskedTrust, Grant, Trust
from quipu.model.value import JsonObject
from quipu.ports.parts import Parts
from quipu.rules import dids, grants_trust
from quipu.rules import grants_tokens as tokens
from quipu.service.lending import document_of, lending_parts

#: How far a piece of evidence reaches, and until when.
_NOTHING = (0, 0)


class Evidence:
    """Weighs it."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def weighed(self, grant: Grant, asked: AskedTrust) -> Trust:
        """How far the evidence reaches. A credential whose issuer is not trusted is not even fetched for."""
        best, told = _NOTHING, list[JsonObject]()
        for kind, credential in asked.evidence:
            outcome, reach = await self._looked_at(grant, kind, credential)
            best = max(best, reach)
            told.append({"type": kind, "outcome": outcome})
        vouched, until = best
        return Trust(
            requested=asked.level,
            vouched=vouched,
            vouched_until=until if vouched else None,
            told=tuple(told),
        )

    async def _looked_at(self, grant: Grant, kind: str, credential: str) -> tuple[str, tuple[int, int]]:
        own, now = lending_parts(self._parts), self._parts.clock()
        if kind != grants_trust.VOUCHED:
            return grants_trust.UNKNOWN, _NOTHING
        try:
            opened = own.jose.opened(credential)
        except UnauthenticatedError:
            return grants_trust.UNREADABLE, _NOTHING
        fault = grants_trust.fault(opened.header, opened.claims, grant, own.vouchers, now)
        if fault is not None:
            return fault, _NOTHING
        issuer = str(grants_trust.issuer_of(opened.claims))
        try:
            document = await document_of(self._parts, issuer)
            key = tokens.check_key(dids.key_of(document, issuer, str(opened.header["kid"])), now)
            if own.jose.is_signed(credential, key.jwk):
                reach = grants_trust.vouched(opened.claims), grants_trust.ends(opened.claims)
                return grants_trust.ACCEPTED, reach
        except (UnverifiableError, BackendUnavailableError, InvalidError, UnauthenticatedError):
            pass  # whoever cannot be asked has vouched for nobody
        return grants_trust.UNVERIFIED, _NOTHING
