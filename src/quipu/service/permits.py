"""Recalls that wait for a person: let through once, to whoever asked, within a quarter of an hour of the yes."""

from __future__ import annotations

import hashlib

from quipu.errors import ForbiddenError
from quipu.model.change import Commit, Once, Proposal
from quipu.model.governance import Effect
from quipu.model.journal import Draft, Op
from quipu.model.operations import RecallRequest
from quipu.model.principal import Principal
from quipu.ports.ledger import Proposals
from quipu.ports.parts import Parts
from quipu.rules.chain import exact
from quipu.service.committing import plain
from quipu.service.gate import Gate
from quipu.service.governance import Governance

LIFE_MS = 15 * 60 * 1000
#: So many of an agent's recalls are looked through for the one that was approved.
_MOST = 200


class Permits:
    """Asks the gate about recalls."""

    def __init__(self, parts: Parts, gate: Gate, governance: Governance) -> None:
        self._parts, self._gate, self._governance = parts, gate, governance

    async def check(self, principal: Principal, request: RecallRequest) -> None:
        """Let a recall through, or raise: ForbiddenError where a rule denies it or a person has to look first."""
        position = (await self._parts.ledger.guard(principal.tenant)).position
        verdict = await self._gate.judged_recall(principal, request, position)
        if verdict.effect is not Effect.HOLD:
            return
        fingerprint = self._fingerprint(principal, request)
        if (approved := await self._find(principal, request, fingerprint, "approved")) is not None and (
            await self._used(principal, approved)
        ):
            return
        waiting = await self._find(principal, request, fingerprint, "pending")
        if waiting is None:
            waiting = await self._governance.hold_recall(
                principal, request, verdict, fingerprint, guard=position
            )
        refusal = ForbiddenError(
            "A person has to approve this recall first.",
            reason="approval_pending",
            hint=f"It waits as {waiting.id}. Once it was approved, ask the same again within 15 minutes.",
        )
        refusal.proposal_id, refusal.approval_url = waiting.id, f"quipu:proposal/{waiting.id}"
        raise refusal

    def _fingerprint(self, principal: Principal, request: RecallRequest) -> str:
        """The same request of the same principal, told without its words."""
        asked = plain({"tenant": principal.tenant, "who": principal.name, "request": plain(request)})
        return hashlib.sha256(self._parts.canonical(exact(asked))).hexdigest()

    async def _find(
        self, principal: Principal, request: RecallRequest, fingerprint: str, status: str
    ) -> Proposal | None:
        wanted = Proposals(operation="recall", agent_id=request.agent_id, limit=_MOST, is_newest_first=True)
        now = self._parts.clock()
        for proposal in await self._parts.ledger.proposals(principal.tenant, status, wanted):
            is_same = proposal.traits.get("fingerprint") == fingerprint and proposal.writer == principal.name
            if is_same and _is_fresh(proposal, now):
                return proposal
        return None

    async def _used(self, principal: Principal, approved: Proposal) -> bool:
        """Use up a yes; False when it has been used before."""
        draft = Draft(
            op=Op.RECALL,
            actor=principal.name,
            at=self._parts.clock(),
            agent=approved.agent_id,
            detail={"proposal": approved.id},
        )
        once = Once(
            principal=principal.name,
            operation="recall",
            key=approved.id,
            fingerprint=approved.id,
            answer={},
        )
        (done,) = await self._parts.ledger.commit(Commit(tenant=principal.tenant, draft=draft, once=once))
        return done.replayed is None


def _is_fresh(proposal: Proposal, now: int) -> bool:
    """Whether it can still be approved, or used. What has lapsed waits for a sweep, and for nobody's yes."""
    if proposal.status == "pending":
        return proposal.lapses_at is None or proposal.lapses_at > now
    return (proposal.reviewed_at or 0) > now - LIFE_MS
