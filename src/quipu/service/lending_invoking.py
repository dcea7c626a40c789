"""Who stands behind an envelope: the agent that it names has signed it, just now, and once (OAP contract 4.8, 5.1)."""

from __future__ import annotations

from quipu.model.principal import Principal
from quipu.model.value import JsonObject
from quipu.ports.parts import Parts
from quipu.rules import dids, grants_invocations, receipts
from quipu.rules import grants_tokens as tokens
from quipu.rules.grants_invocations import Invocation
from quipu.service.lending import lending_parts
from quipu.service.lending_callers import Callers, once


class Invocations:
    """Looks at envelopes."""

    def __init__(self, parts: Parts, callers: Callers) -> None:
        self._parts, self._callers = parts, callers

    async def check(self, body: JsonObject, asked: Invocation, owner: Principal | None) -> None:
        """Raises where nobody, or somebody else, has signed it. What it may do is decided by the credential beside it."""
        own, now = lending_parts(self._parts), self._parts.clock()
        if not grants_invocations.is_fresh(asked, now):
            raise tokens.refused("bad_signature")
        if owner is not None and own.keyring.tenant_of(asked.principal) != owner.tenant:
            raise tokens.refused("bad_token")
        document = await self._callers.document(asked.agent, "bad_signature")
        key = tokens.check_key(dids.key_of(document, asked.agent, asked.kid), now)
        message = self._parts.canonical(receipts.without(body, "signature"))
        if not own.jose.verify(message, asked.signature, key.jwk):
            raise tokens.refused("bad_signature")
        if owner is not None:
            await self._callers.use(owner.tenant, (once(tokens.REQUEST, asked.agent, asked.request_id),), now)
