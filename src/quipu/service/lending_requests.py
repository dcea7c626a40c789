"""Requests for access: an agent outside asks, the owner says yes or no, and the agent learns of it (5.4).

A request is kept beside the grants, unsigned, so that it opens nothing. Who asks proves a key of its DID.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from quipu.errors import (
    ConflictError,
    InvalidError,
    NotFoundError,
    RateLimitedError,
    UnauthenticatedError,
)
from quipu.model.disclosure import Question, Standing, Writes
from quipu.model.grants import AccessRequest, GrantStatus, KeptGrant, TaskState
from quipu.model.principal import Principal
from quipu.model.value import JsonObject
from quipu.ports.keys import LendingParts
from quipu.ports.parts import Parts
from quipu.rules import dids, grants_requests, receipts
from quipu.rules import grants_tokens as tokens
from quipu.rules.grants_times import rfc3339
from quipu.rules.projection_profiles import ITEM_PROFILE
from quipu.service.access import Access
from quipu.service.lending import Lending, lending_parts, owner_of
from quipu.service.lending_callers import Callers, Shown

_HOUR_S = 3600


class Requests:
    """Both ends of a request, at the host that would lend."""

    def __init__(self, parts: Parts, access: Access, lending: Lending, callers: Callers) -> None:
        self._parts, self._access, self._lending, self._callers = parts, access, lending, callers

    @property
    def _own(self) -> LendingParts:
        return lending_parts(self._parts)

    # -- the asker ----------------------------------------------------------------------------------------------

    async def ask(self, body: JsonObject, shown: Shown, signature: str | None = None) -> dict[str, Any]:
        """Keep what somebody asks for, until the owner answers. The same once more is the same request."""
        own, now = self._own, self._parts.clock()
        draft = grants_requests.wanted(body)
        grantee = dids.checked(draft["grantee"], "/authorization_details/0/grantee")
        _, names = await self._callers.proven(grantee, shown, now)
        if signature is not None and (await self._callers.signer(body, signature, now))[0] != grantee:
            raise tokens.refused("bad_signature")
        defaults = {"max_items": min(500, own.limits.max_items), "redaction_profile": ITEM_PROFILE}
        grant = grants_requests.as_grant(draft, defaults, now, self._parts.canonical)
        tenant = own.keyring.tenant_of(grant.granter)
        known = None if tenant is None else await self._parts.ledger.tenant(tenant)
        if known is None or known.suspended_at is not None:
            raise NotFoundError("There is nobody of this name.", reason="owner")
        await self._lending.check(known.id, grant)
        hash = receipts.hashed(draft, self._parts.canonical)
        waiting = [one for one in await self._rows(known.id) if one.state is TaskState.AWAITING_INPUT]
        same = [one for one in waiting if receipts.hashed(one.draft, self._parts.canonical) == hash]
        if not same:
            _check_room(waiting, grantee)
        wanted = KeptGrant(
            tenant=known.id,
            id=same[0].id if same else self._parts.mint_id("mrq"),
            body=draft,
            hash=hash,
            grantee=grantee,
            status=GrantStatus.SUSPENDED,
            registered_at=now,
            expires_at=now + grants_requests.WAITS_MS,
        )

        def decide(standing: Standing) -> Writes:
            tokens.check_once(standing.replayed)
            return Writes(grants=[] if same else [wanted], once_until=now + tokens.REPLAY_MS)

        await self._parts.ledger.lending.decide(known.id, Question(once=names, now=now), decide)
        return self.told(same[0] if same else grants_requests.read(wanted, None, now))

    async def task(self, task: str, shown: Shown) -> dict[str, Any]:
        """How a request stands, for who made it; for anybody else there is none."""
        now = self._parts.clock()
        if shown.assertion is None:
            self._callers.proof(shown, None, now)
        found = await self._find(grants_requests.request_id(task))
        if found is None:
            raise _unknown()
        try:
            _, names = await self._callers.proven(found.grantee, shown, now)
        except UnauthenticatedError as error:
            raise _unknown() from error
        await self._callers.use(found.tenant, names, now)
        return self.told(found)

    def told(self, request: AccessRequest) -> dict[str, Any]:
        """A request as the task that its asker waits for (contract 5.1)."""
        task, root = grants_requests.task_id(request.id), self._own.public_url
        said: dict[str, Any] = {
            "task_id": task,
            "status": request.state.value,
            "poll_url": f"{root}/oap/tasks/{task}",
            "callback_url_supported": False,
            "estimated_completion": rfc3339(request.lapses_at),
        }
        if request.grant is not None:
            said["grant"] = dict(request.grant.body)
            said["endpoints"] = self._lending.endpoints(request.grant.id)
        return said

    # -- the owner ----------------------------------------------------------------------------------------------

    async def list(self, principal: Principal) -> Sequence[AccessRequest]:
        """What was asked of an owner, newest first."""
        return await self._rows(owner_of(self._access, principal))

    async def get(self, principal: Principal, request_id: str) -> AccessRequest:
        """One of them."""
        found = await self._read(owner_of(self._access, principal), request_id)
        if found is None:
            raise _unknown()
        return found

    async def approve(
        self,
        principal: Principal,
        request_id: str,
        changes: JsonObject | None = None,
        days: int | None = None,
    ) -> KeptGrant:
        """Lend what was asked for, or what the owner makes of it."""
        found = await self._waiting(principal, request_id)
        given = {} if changes is None else dict(changes)
        if fixed := sorted(given.keys() & {"grantee", "granter", "grant_id", "signature"}):
            raise InvalidError.at(f"/{fixed[0]}", "bad_value", "Who asks, and whom, stays as it was asked.")
        draft = {**found.draft, **given, "grant_id": grants_requests.grant_id(found.id)}
        if days is None:
            return await self._lending.issue(principal, draft)
        return await self._lending.issue_for(principal, draft, days)

    async def refuse(self, principal: Principal, request_id: str) -> AccessRequest:
        """Say no. Once more changes nothing."""
        found, now = await self.get(principal, request_id), self._parts.clock()
        if found.state is TaskState.CANCELED:
            return found
        found = await self._waiting(principal, request_id)

        def decide(standing: Standing) -> Writes:
            if standing.grant is None:
                raise _unknown()
            return Writes(grants=[replace(standing.grant, status=GrantStatus.REVOKED, revoked_at=now)])

        question = Question(grant_id=found.id, now=now)
        await self._parts.ledger.lending.decide(found.tenant, question, decide)
        return replace(found, state=TaskState.CANCELED)

    # -- reading ------------------------------------------------------------------------------------------------

    async def _waiting(self, principal: Principal, request_id: str) -> AccessRequest:
        found = await self.get(principal, request_id)
        if found.state is not TaskState.AWAITING_INPUT:
            raise ConflictError("This request was answered, or has lapsed.", reason="already_decided")
        return found

    async def _rows(self, tenant: str) -> list[AccessRequest]:
        rows = await self._parts.ledger.lending.grants(tenant)
        by_id, now = {row.id: row for row in rows}, self._parts.clock()
        return [
            grants_requests.read(row, by_id.get(grants_requests.grant_id(row.id)), now)
            for row in rows
            if row.is_request
        ]

    async def _read(self, tenant: str, request_id: str) -> AccessRequest | None:
        lending = self._parts.ledger.lending
        kept = await lending.grant(tenant, request_id)
        if kept is None or not kept.is_request:
            return None
        grant = await lending.grant(tenant, grants_requests.grant_id(request_id))
        return grants_requests.read(kept, grant, self._parts.clock())

    async def _find(self, request_id: str) -> AccessRequest | None:
        for tenant in await self._parts.ledger.tenants():
            found = await self._read(tenant.id, request_id)
            if found is not None:
                return found
        return None


def _check_room(waiting: Sequence[AccessRequest], grantee: str) -> None:
    """Strangers may ask, but not without end."""
    mine = sum(one.grantee == grantee for one in waiting)
    if mine >= grants_requests.MOST_OF_ONE or len(waiting) >= grants_requests.MOST:
        raise RateLimitedError(
            "Too many requests wait for this owner.", reason="request_rate", retry_after=_HOUR_S
        )


def _unknown() -> NotFoundError:
    return NotFoundError("There is no such request.", reason="access_request")
