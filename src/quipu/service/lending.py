"""Lending: owners grant somebody outside a slice of their memory, see what was seen, and take it back at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from quipu.errors import (
    BackendUnavailableError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnsupportedError,
    UnverifiableError,
)
from quipu.model.disclosure import KeptReceipt, LogKind, Question, Standing, Writes
from quipu.model.grants import Grant, GrantStatus, KeptGrant
from quipu.model.outcomes import Fault
from quipu.model.principal import Permission, Principal
from quipu.model.value import JsonObject
from quipu.ports.keys import LendingParts
from quipu.ports.parts import Parts
from quipu.rules import dids, grants, receipts
from quipu.rules import grants_decisions as decisions
from quipu.rules.grants_times import DAY_MS, rfc3339
from quipu.rules.projection_profiles import ITEM_PROFILE, PROFILES
from quipu.service.access import Access

_ACTION = "1.0.0"


def lending_parts(parts: Parts) -> LendingParts:
    """What lending is made of, where there is any."""
    if parts.lending is None:
        raise UnsupportedError("This memory lends nothing.", reason="no_lending")
    return parts.lending


async def document_of(parts: Parts, did: str) -> JsonObject:
    """Somebody's DID document. A name that would be an owner's here, and is nobody's, has none: no key is made for it."""
    own = lending_parts(parts)
    tenant = own.keyring.tenant_of(did)
    if tenant is not None and await parts.ledger.tenant(tenant) is None:
        raise UnverifiableError("The DID document cannot be had.", reason="did_unresolved")
    return await own.documents.document(did)


def owner_of(access: Access, principal: Principal) -> str:
    """The tenant whose whole memory somebody may speak for: nobody who is bound to a user or to some agents."""
    access.authorise(principal, Permission.ADMIN)
    if principal.user_id is not None or "*" not in principal.agents:
        raise ForbiddenError("Only who speaks for the whole memory lends it.", reason="missing_scope")
    return principal.tenant


class Lending:
    """The owner's side of grants."""

    def __init__(self, parts: Parts, access: Access) -> None:
        self._parts, self._access = parts, access

    @property
    def _own(self) -> LendingParts:
        return lending_parts(self._parts)

    def did(self, principal: Principal) -> str:
        """What an owner is known by."""
        return self._own.keyring.did(owner_of(self._access, principal))

    # -- granting -----------------------------------------------------------------------------------------------

    def drafted(self, principal: Principal, draft: JsonObject) -> Grant:
        """The grant that a draft stands for, signed with the owner's key; nothing is kept of it yet."""
        tenant, own, now = owner_of(self._access, principal), self._own, self._parts.clock()
        scope = draft.get("scope_id", "personal")
        body: dict[str, Any] = {
            "grant_id": self._parts.mint_id("mgr"),
            "granter": f"{own.keyring.did(tenant)}#{scope}",
            "max_items": min(500, own.limits.max_items),
            "expires_at": rfc3339((now + 30 * DAY_MS) // 1000 * 1000),
            "issued_at": rfc3339(now // 1000 * 1000),
            "revocable": True,
            "redaction_profile": ITEM_PROFILE,
            **receipts.without(draft, "scope_id", "signature"),
        }
        if own.public_url:
            body.setdefault("revocation_endpoint", f"{own.public_url}/.well-known/oap-revocation")
        hand = own.keyring.hand(tenant)
        signed = {**body, "signature": receipts.signature(body, hand, self._parts.canonical)}
        grant = grants.parsed(signed, self._parts.canonical)
        if own.keyring.tenant_of(grant.granter) != tenant:
            raise InvalidError.at("/granter", "bad_value", "A grant is given in one's own name.")
        return grant

    async def issue(self, principal: Principal, draft: JsonObject) -> KeptGrant:
        """Draft, sign and register in one step: the owner is logged in, and the key is kept here."""
        grant = self.drafted(principal, draft)
        await self.check(principal.tenant, grant)
        return await self.kept(principal.tenant, grant)

    async def issue_for(self, principal: Principal, draft: JsonObject, days: int) -> KeptGrant:
        """The same, for so many days from now."""
        end = (self._parts.clock() + days * DAY_MS) // 1000 * 1000
        return await self.issue(principal, {**draft, "expires_at": rfc3339(end)})

    async def granter(self, body: JsonObject, *, is_believed: bool) -> tuple[str, str]:
        """In whose name a grant is given: the tenant and its DID. Raises where nobody here is called so.

        Who is not believed shows by the signature that it is theirs.
        """
        grant = grants.parsed(body, self._parts.canonical)
        if not is_believed:
            return await self._check_signature(grant), grant.granter
        return await self._owner_of(grant), grant.granter

    async def register(self, body: JsonObject) -> KeptGrant:
        """Keep a grant that the owner has signed; the signature is the proof (5.4)."""
        await self._check_signature(grants.parsed(body, self._parts.canonical))
        return await self.register_signed(body)

    async def register_signed(self, body: JsonObject) -> KeptGrant:
        """The same, of one whose signature was checked already."""
        grant = grants.parsed(body, self._parts.canonical)
        tenant = await self._owner_of(grant)
        await self.check(tenant, grant)
        return await self.kept(tenant, grant)

    async def check(self, tenant: str, grant: Grant) -> None:
        """The checks of 5.4 that a signature is not part of; raises for a grant that is not to be kept."""
        own = self._own
        document = await document_of(self._parts, grant.granter)
        fragments = dids.fragments_of(document)
        grants.registrable(grant, self._parts.clock(), own.limits, tuple(PROFILES), fragments)
        if own.keyring.tenant_of(grant.grantee) == tenant:
            raise InvalidError.at("/grantee", "bad_value", "Nobody lends to themselves.")
        try:
            await document_of(self._parts, grant.grantee)
        except (UnverifiableError, BackendUnavailableError, InvalidError) as error:
            reason = error.reason or "did_unresolved"
            raise InvalidError.at("/grantee", reason, "The grantee's DID cannot be resolved.") from error

    async def _check_signature(self, grant: Grant) -> str:
        tenant, now = await self._owner_of(grant), self._parts.clock()
        document = await document_of(self._parts, grant.granter)
        keys = [key for key in dids.keys_of(document, grant.granter) if _is_current(key, now)]
        if not self.is_signed(grant, document, keys):
            _unsigned()
        return tenant

    async def _owner_of(self, grant: Grant) -> str:
        tenant = self._own.keyring.tenant_of(grant.granter)
        if tenant is None or await self._parts.ledger.tenant(tenant) is None:
            _unsigned()
        return tenant

    def is_signed(self, grant: Grant, document: JsonObject, keys: Sequence[dids.PublicKey]) -> bool:
        """Whether one of these keys of the granter's document has signed it, in any of the forms of D3."""
        own, given = self._own, grant.body["signature"]
        message = self._parts.canonical(receipts.without(grant.body, "signature"))
        if isinstance(given, Mapping):
            named = dids.key_of(document, grant.granter, str(given.get("kid")))
            keys = [key for key in keys if named is not None and key.kid == named.kid]
            return any(own.jose.verify(message, str(given.get("value")), key.jwk) for key in keys)
        if isinstance(given, str) and ".." in given:
            named_kid = str(own.jose.opened_detached(given).get("kid"))
            keys = [key for key in keys if named_kid in (key.kid, dids.split(key.kid)[1])]
            return any(own.jose.verify_detached(message, given, key.jwk) for key in keys)
        return any(own.jose.verify(message, str(given), key.jwk) for key in keys)

    async def kept(self, tenant: str, grant: Grant) -> KeptGrant:
        """Keep a grant that was checked, with a receipt of the consent. The same one again changes nothing."""
        own, now = self._own, self._parts.clock()
        wanted = KeptGrant(
            tenant=tenant,
            id=grant.id,
            body=grant.body,
            hash=grant.hash,
            grantee=grant.grantee,
            registered_at=now,
            expires_at=grant.expires_at,
        )

        def decide(standing: Standing) -> Writes:
            known = standing.grant
            if known is not None:
                if known.hash != grant.hash:
                    raise _taken()
                return Writes(answer=known)
            receipt = self._consent(standing, wanted, "memory_grant_create", now)
            return Writes(grants=[wanted], receipts=[receipt], answer=wanted)

        if own.keyring.is_revoked(tenant, grant.id):  # the row may have gone with a newer ledger
            wanted = replace(wanted, status=GrantStatus.REVOKED, revoked_at=now)
        other = await self.find(grant.id)
        # Tokens and the status are asked for by the id alone: it is one owner's.
        if other is not None and other.tenant != tenant:
            raise _taken()
        writes = await self._parts.ledger.lending.decide(tenant, Question(grant_id=grant.id, now=now), decide)
        return writes.answer

    # -- looking ------------------------------------------------------------------------------------------------

    async def list(self, principal: Principal) -> Sequence[KeptGrant]:
        """All grants, newest first."""
        found = await self._parts.ledger.lending.grants(owner_of(self._access, principal))
        return [await self.as_noted(kept) for kept in found if not kept.is_request]

    async def as_noted(self, kept: KeptGrant) -> KeptGrant:
        """The grant. One that was taken back stays so: where an older ledger was put in its place, it is revoked again."""
        if kept.status is GrantStatus.REVOKED or not self._own.keyring.is_revoked(kept.tenant, kept.id):
            return kept
        return await self.revoked(kept.tenant, kept.id)

    async def get(self, principal: Principal, grant_id: str) -> KeptGrant:
        """One grant."""
        found = await self._parts.ledger.lending.grant(owner_of(self._access, principal), grant_id)
        if found is None or found.is_request:
            raise _unknown()
        return await self.as_noted(found)

    async def shown(self, principal: Principal, grant_id: str) -> Sequence[tuple[str, int]]:
        """Which records a grant has shown, and when first."""
        await self.get(principal, grant_id)
        return await self._parts.ledger.lending.lent_items(principal.tenant, grant_id)

    async def who_saw(self, principal: Principal, record_id: str) -> Sequence[JsonObject]:
        """Everybody outside who has seen a record: its disclosure log."""
        tenant = owner_of(self._access, principal)
        found = await self._parts.ledger.lending.log(tenant, record_id, LogKind.DISCLOSED)
        return [line.entry for line in found]

    async def receipts(
        self, principal: Principal, after: int = 0, limit: int = 1000
    ) -> Sequence[KeptReceipt]:
        """A stretch of the owner's chain."""
        return await self._parts.ledger.lending.receipts(owner_of(self._access, principal), after, limit)

    async def chain(self, principal: Principal) -> Sequence[KeptReceipt]:
        """All of it."""
        found: list[KeptReceipt] = []
        while page := await self.receipts(principal, found[-1].seq if found else 0):
            found.extend(page)
        return found

    async def verify(self, principal: Principal) -> Sequence[Fault]:
        """What is wrong with the owner's chain of receipts; nothing, if all is well."""
        owner_of(self._access, principal)
        own = self._own
        document, host = own.keyring.document(None), own.keyring.did(None)

        def check(message: bytes, kid: str, value: str) -> bool:
            key = dids.key_of(document, host, kid)
            return key is not None and own.jose.verify(message, value, key.jwk)

        bodies = [receipt.body for receipt in await self.chain(principal)]
        return receipts.chain_faults(bodies, check, self._parts.canonical)

    async def status(self, grant_id: str) -> dict[str, Any]:
        """What anybody who knows the id may know: whether the grant still counts, signed by this host."""
        own, now = self._own, self._parts.clock()
        found = await self.find(grant_id)
        if found is None:
            raise _unknown()
        body: dict[str, Any] = {
            "grant_id": grant_id,
            "status": found.standing(now).value,
            "as_of": rfc3339(now),
            "next_update": rfc3339(now + 300_000),
        }
        signature = own.jose.detached(self._parts.canonical(body), {}, own.keyring.hand(None))
        return {**body, "signature": signature}

    def endpoints(self, grant_id: str) -> dict[str, str]:
        """Where a grant is used, asked about and given up."""
        url = self._own.public_url
        root = f"{url}/oap/memory/grant/{grant_id}"
        status = f"{url}/.well-known/oap-revocation?grant_id={grant_id}"
        return {"token": f"{root}/token", "revoke": root, "status": status}

    async def find(self, grant_id: str) -> KeptGrant | None:
        """A grant by its id alone, whoever gave it."""
        for tenant in await self._parts.ledger.tenants():
            found = await self._parts.ledger.lending.grant(tenant.id, grant_id)
            if found is not None and not found.is_request:
                return await self.as_noted(found)
        return None

    # -- taking back --------------------------------------------------------------------------------------------

    async def revoke(self, principal: Principal, grant_id: str) -> KeptGrant:
        """From the next request on it is worth nothing."""
        return await self.revoked(owner_of(self._access, principal), grant_id)

    async def revoked(self, tenant: str, grant_id: str) -> KeptGrant:
        """The same, by the granter or by the grantee who gives it up. Once more changes nothing."""
        now = self._parts.clock()

        def decide(standing: Standing) -> Writes:
            known = standing.grant
            if known is None or known.is_request:
                raise _unknown()
            if known.status is GrantStatus.REVOKED:
                return Writes(answer=known)
            ended = replace(known, status=GrantStatus.REVOKED, revoked_at=now)
            receipt = self._consent(standing, ended, "memory_grant_revoke", now)
            return Writes(grants=[ended], receipts=[receipt], answer=ended)

        writes = await self._parts.ledger.lending.decide(tenant, Question(grant_id=grant_id, now=now), decide)
        self._own.keyring.note_revoked(tenant, grant_id)
        return writes.answer

    async def kill(self, principal: Principal) -> int:
        """Revoke every grant at once; returns how many there were."""
        tenant = owner_of(self._access, principal)
        ended = await self._killed(tenant, await self._counting(tenant))
        # One that somebody registered meanwhile stands before this in the chain: it goes, too.
        while found := await self._counting(tenant):
            ended += await self._killed(tenant, found)
        return ended

    async def _counting(self, tenant: str) -> Sequence[KeptGrant]:
        """Grants that were not taken back."""
        found = await self._parts.ledger.lending.grants(tenant)
        return [one for one in found if one.status is not GrantStatus.REVOKED and not one.is_request]

    async def _killed(self, tenant: str, found: Sequence[KeptGrant]) -> int:
        own, now = self._own, self._parts.clock()

        def decide(standing: Standing) -> Writes:
            ended = [replace(grant, status=GrantStatus.REVOKED, revoked_at=now) for grant in found]
            receipt = receipts.receipt(
                standing.end,
                id=self._parts.mint_id("rcp").partition("_")[2],
                type="kill_switch",
                at=now,
                principal=own.keyring.did(tenant),
                agent=own.keyring.did(tenant),
                hand=own.keyring.hand(None),
                canonical=self._parts.canonical,
                policy_decisions=[
                    decisions.policy(
                        self._parts.mint_id("pol"),
                        decisions.BLOCK,
                        [decisions.KILL],
                        grants_revoked=[grant.id for grant in ended],
                    )
                ],
            )
            return Writes(grants=ended, receipts=[receipt], answer=len(ended))

        writes = await self._parts.ledger.lending.decide(tenant, Question(now=now), decide)
        for grant in found:
            own.keyring.note_revoked(tenant, grant.id)
        return writes.answer

    def _consent(self, standing: Standing, grant: KeptGrant, action: str, now: int) -> KeptReceipt:
        own = self._own
        granter, scope_id = dids.split(str(grant.body["granter"]))
        return receipts.receipt(
            standing.end,
            id=self._parts.mint_id("rcp").partition("_")[2],
            type="consent",
            at=now,
            principal=granter,
            agent=grant.grantee,
            hand=own.keyring.hand(None),
            canonical=self._parts.canonical,
            grant_id=grant.id,
            action_id=action,
            action_version=_ACTION,
            policy_decisions=[
                decisions.policy(
                    self._parts.mint_id("pol"),
                    decisions.ALLOW,
                    [decisions.GRANT],
                    scope_id=scope_id,
                    consumed_grant_id=grant.id,
                    grant_hash=grant.hash,
                )
            ],
            provenance_tags_out=[f"grant:{grant.id}", f"scope:{scope_id}"],
        )


def _is_current(key: dids.PublicKey, now: int) -> bool:
    return key.revoked is None and (key.expires is None or now < key.expires)


def _taken() -> ConflictError:
    return ConflictError("There is another grant of this name.", reason="grant_taken")


def _unknown() -> NotFoundError:
    return NotFoundError("There is no such grant.", reason="grant")


def _unsigned() -> NoReturn:
    raise ForbiddenError("The grant is not signed by an owner whose memory is here.", reason="bad_signature")
