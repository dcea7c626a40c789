"""Lending and borrowing memory, put together: grants, doors, disclosure, erasure, and what this host says of itself."""

from __future__ import annotations

from typing import Any

from quipu.errors import NotFoundError
from quipu.model.disclosure import Question, Standing, Writes
from quipu.model.grants import Lent
from quipu.model.principal import DEFAULT_TENANT, Principal
from quipu.model.value import JsonObject
from quipu.ports.keys import LendingParts
from quipu.ports.parts import Parts
from quipu.rules import grants_manifests, receipts
from quipu.rules.grants_items import Space
from quipu.service.access import Access
from quipu.service.disclosing import Disclosing
from quipu.service.embedding import Vectors
from quipu.service.erasing import Erasing
from quipu.service.lending import Lending, document_of, lending_parts, owner_of
from quipu.service.lending_agents import Agents
from quipu.service.lending_borrowing import Borrowing
from quipu.service.lending_decisions import GrantDecisions
from quipu.service.lending_invoking import Invocations
from quipu.service.lending_keys import Keys
from quipu.service.lending_requests import Requests
from quipu.service.lending_tokens import Doors


class Sharing:
    """Everything that crosses to another host."""

    def __init__(self, parts: Parts, access: Access, vectors: Vectors, version: str) -> None:
        self._parts, self._access, self._version = parts, access, version
        self.grants = Lending(parts, access)
        self.decisions = GrantDecisions(parts, self.grants)
        self.doors = Doors(parts, self.grants)
        self.requests = Requests(parts, access, self.grants, self.doors.callers)
        self.disclosing = Disclosing(parts, access, self.grants)
        self.erasing = Erasing(parts, access, vectors, self.disclosing)
        self.borrowing = Borrowing(parts, access)
        self.keys = Keys(parts)
        self.agents = Agents(parts, access, self.doors.callers)
        self.invocations = Invocations(parts, self.doors.callers)

    @property
    def _own(self) -> LendingParts:
        return lending_parts(self._parts)

    @property
    def public_url(self) -> str:
        """Where others reach this host; empty where they cannot."""
        return self._own.public_url

    # -- who we are ----------------------------------------------------------------------------------------------

    async def document(self, tenant: str | None = None) -> dict[str, Any]:
        """The DID document of this host, or of one of its owners."""
        if tenant is not None and await self._parts.ledger.tenant(tenant) is None:
            raise NotFoundError("There is nobody of this name.", reason="owner")
        return self._own.keyring.document(tenant)

    def identity(self, principal: Principal) -> dict[str, str]:
        """What the owner and the host are known by."""
        tenant = owner_of(self._access, principal)
        return {"owner": self._own.keyring.did(tenant), "host": self._own.keyring.did(None)}

    def rotate(self, principal: Principal, *, host: bool = False, is_compromised: bool = False) -> str:
        """Sign with a new key from now on; returns its name."""
        tenant = owner_of(self._access, principal)
        who = None if host else tenant
        return self._own.keyring.rotate(who, self._parts.clock(), is_compromised=is_compromised)

    async def memory_manifest(self, tenant: str = DEFAULT_TENANT) -> dict[str, Any]:
        """Where memory is lent, signed."""
        if await self._parts.ledger.tenant(tenant) is None:
            raise NotFoundError("There is nobody of this name.", reason="owner")
        own = self._own
        found = await self._parts.ledger.space(tenant)
        space = None if found is None else Space(found.model, found.dimensions)
        body = grants_manifests.memory_manifest(own.keyring.did(tenant), own.public_url, space, own.limits)
        signed = own.jose.detached(self._parts.canonical(body), {}, own.keyring.hand(None))
        return {**body, "signature": signed}

    def tool_manifest(self) -> dict[str, Any]:
        """What this host does, and what it does with data."""
        own = self._own
        return grants_manifests.tool_manifest(
            own.keyring.did(None), own.public_url, self._version, own.limits
        )

    async def resolve(self, principal: Principal, did: str) -> JsonObject:
        """Somebody's DID document."""
        owner_of(self._access, principal)
        return await document_of(self._parts, did)

    async def erased(self, principal: Principal, request: JsonObject) -> dict[str, Any]:
        """Erase in the owner's name: how far it has come, the receipt, and whom it has reached."""
        done = await self.erasing.erase(
            principal, {"principal_did": self.identity(principal)["owner"], **request}
        )
        report = await self.erasing.report(principal, done.id)
        return {"step": done.step.value, "receipt": done.receipt, "report": report}

    def now(self) -> int:
        """The clock that grants end by."""
        return self._parts.clock()

    # -- on the wire ---------------------------------------------------------------------------------------------

    def mint(self) -> str:
        """A fresh id of a request or an answer."""
        return self._parts.mint_id("req").partition("_")[2]

    def enveloped(self, request_id: str, status: str, **members: Any) -> dict[str, Any]:
        """A signed Response Envelope."""
        return receipts.envelope(
            request_id=request_id,
            response_id=self.mint(),
            at=self._parts.clock(),
            status=status,
            hand=self._own.keyring.hand(None),
            canonical=self._parts.canonical,
            **members,
        )

    async def incident(self, lent: Lent | Principal, body: JsonObject) -> str:
        """Note that somebody reports an incident: a receipt with the hash of what they say, and no more."""
        own, now = self._own, self._parts.clock()
        tenant = lent.tenant
        agent = lent.grant.grantee if isinstance(lent, Lent) else own.keyring.did(tenant)
        salt = receipts.b64(self._parts.mint_salt())

        def decide(standing: Standing) -> Writes:
            receipt = receipts.receipt(
                standing.end,
                id=self.mint(),
                type="incident",
                at=now,
                principal=own.keyring.did(tenant),
                agent=agent,
                hand=own.keyring.hand(None),
                canonical=self._parts.canonical,
                input_hash=receipts.hashed({"input": body, "salt": salt}, self._parts.canonical),
            )
            return Writes(receipts=[receipt], answer=receipt.id)

        return (await self._parts.ledger.lending.decide(tenant, Question(now=now), decide)).answer
