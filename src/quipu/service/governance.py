"""Writes that wait for a person: held, shown, decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from quipu.errors import ConflictError, ForbiddenError, NotFoundError
from quipu.model.change import Commit, Proposal, Settle, Stage
from quipu.model.journal import Draft, Op
from quipu.model.operations import RememberRequest
from quipu.model.principal import Permission, Principal
from quipu.model.value import Json
from quipu.ports.parts import Parts
from quipu.rules import staging
from quipu.rules.staging import Held
from quipu.service.access import Access
from quipu.service.committing import kept_reason, once, plain


class Governance:
    """The queue between a write and memory."""

    def __init__(self, parts: Parts, access: Access) -> None:
        self._parts, self._access = parts, access

    async def hold(self, principal: Principal, request: Held, held_by: Sequence[str]) -> Proposal:
        """Stage a write, apart from records and search."""
        now = self._parts.clock()
        operation = staging.operation_of(request)
        lapses_at = now + self._parts.proposal_life_ms
        # An erasure finds the staged copy by the record it would make or change.
        record_id = None
        if isinstance(request, RememberRequest):
            record_id = self._parts.mint_id("mem") if request.id is None else request.id
        stage = Stage(
            proposal_id=self._parts.mint_id("prp"),
            operation=operation,
            agent_id=request.agent_id,
            request=plain(request),
            held_by=tuple(held_by),
            lapses_at=lapses_at,
            record_id=record_id,
        )
        draft = Draft(
            op=Op.HOLD,
            actor=principal.name,
            at=now,
            agent=request.agent_id,
            detail={"proposal": stage.proposal_id, "operation": operation, "held_by": list(held_by)},
        )
        answer: dict[str, Json] = {"proposal": stage.proposal_id, "record": record_id, "at": now}
        commit = Commit(
            tenant=principal.tenant,
            draft=draft,
            changes=(stage,),
            once=once(
                principal,
                f"hold {operation}",
                request.idempotency_key,
                replace(request, idempotency_key=None),
                answer,
                [] if record_id is None else [record_id],
                self._parts.canonical,
            ),
        )
        (done,) = await self._parts.ledger.commit(commit)
        told: dict[str, Any] = dict(answer if done.replayed is None else done.replayed)
        return Proposal(
            id=told["proposal"],
            tenant=principal.tenant,
            operation=operation,
            agent_id=request.agent_id,
            request=stage.request,
            writer=principal.name,
            held_by=stage.held_by,
            status="pending",
            created_at=told["at"],
            lapses_at=lapses_at,
            record_id=told["record"],
        )

    async def proposals(self, principal: Principal, status: str | None = None) -> tuple[Proposal, ...]:
        """What waits, and what was decided, as far as the reviewer may see the agents."""
        self._access.authorise(principal, Permission.REVIEW)
        found = await self._parts.ledger.proposals(principal.tenant, status)
        return tuple(proposal for proposal in found if principal.may_act_for(proposal.agent_id))

    async def decision(
        self, principal: Principal, proposal_id: str, *, approved: bool, reason: str | None
    ) -> tuple[Proposal, Held, Commit]:
        """The commit that settles a proposal, and the request that it lets through if approved."""
        proposal = next((p for p in await self.proposals(principal) if p.id == proposal_id), None)
        if proposal is None:
            raise NotFoundError("There is no such proposal.", reason="proposal")
        if proposal.status != "pending":
            raise ConflictError("This proposal has been decided already.", reason="already_decided")
        now = self._parts.clock()
        if approved and proposal.lapses_at is not None and proposal.lapses_at <= now:
            raise ConflictError("This proposal has lapsed.", reason="already_decided")
        if approved and proposal.writer == principal.name and not principal.is_local:
            raise ForbiddenError("Nobody decides on their own write.", reason="self_approval")
        request = staging.request_of(proposal.operation, proposal.request)
        kept = kept_reason(reason, self._parts)
        settle = Settle(proposal_id=proposal_id, approved=approved, reviewer=principal.name, reason=kept)
        draft = Draft(
            op=Op.DECIDE,
            actor=principal.name,
            at=now,
            agent=proposal.agent_id,
            detail={"proposal": proposal_id, "approved": approved},
        )
        commit = Commit(tenant=principal.tenant, draft=draft, changes=(settle,))
        return proposal, replace(request, approval_required=False), commit
