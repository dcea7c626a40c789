"""Recalls that wait for a person: let through once, to whoever asked, within a quarter of an hour of the yes."""

import hashlib
import json
from dataclasses import dataclass

from quipu.errors import ForbiddenError
from quipu.governance.diffs import NOTHING
from quipu.governance.model import PROPOSALS, Proposal
from quipu.governance.proposals import Proposals
from quipu.governance.rule_list import Rules
from quipu.governance.rules import Facts, Question, decided
from quipu.ledger.commit import Commit, Once
from quipu.ledger.ledger import Ledger
from quipu.memory.model import RecallRequest
from quipu.memory.pipeline import Held, Redactor, Verdict
from quipu.model.journal import Draft
from quipu.model.principal import Permission
from quipu.operation import Context

LIFE_MS = 15 * 60 * 1000
#: So many of a writer's recalls are looked through for the one that was approved.
_MOST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallApprovals:
    """Asks the rules about recalls, before anything is found."""

    ledger: Ledger
    redactor: Redactor
    rules: Rules
    proposals: Proposals

    async def check(self, ctx: Context, request: RecallRequest, checked_at: int) -> Held | None:
        """None: go ahead. Raises ForbiddenError where a rule denies it."""
        verdict = await self._verdict(ctx, request, checked_at)
        if verdict.effect == "allow":
            return None
        if verdict.effect == "deny":
            await self._deny(ctx, request, verdict)
        approved = await self._find(ctx, request, "approved")
        if approved is not None and await self._used(ctx, approved):
            return None
        waiting = await self._find(ctx, request, "pending")
        return await self._staged(ctx, request, verdict) if waiting is None else self.proposals.held(waiting)

    async def _verdict(self, ctx: Context, request: RecallRequest, position: int) -> Verdict:
        facts = Facts(
            operation="recall",
            agent_id=request.agent,
            principal=ctx.principal.name,
            is_admin=ctx.principal.may(Permission.ADMIN),
        )
        rules = await self.rules.in_force(ctx.tenant, position)
        verdict = decided(rules, facts, ctx.clock(), caller_asks=request.approval_required)
        assert not isinstance(
            verdict, Question
        )  # a rule that names recalls asks for nothing that takes looking up
        return verdict

    async def _deny(self, ctx: Context, request: RecallRequest, verdict: Verdict) -> None:
        # Nobody has checked the name of the agent for secrets, so the entry leaves it out.
        draft = Draft(
            op="deny",
            actor=ctx.principal.name,
            at=ctx.clock(),
            detail={"operation": "recall", "rules": list(verdict.rules)},
        )
        await self.ledger.commit(Commit(tenant=ctx.tenant, draft=draft))
        raise ForbiddenError(
            f"A rule forbids this: {', '.join(verdict.rules)}.", reason="denied", hint=verdict.because
        )

    async def _staged(self, ctx: Context, request: RecallRequest, verdict: Verdict) -> Held:
        guard = await self.redactor.guard(ctx.tenant, None)
        clean = guard.clean(request)
        nonce = self.proposals.random(8).hex()
        more = {"nonce": nonce, "fingerprint": _fingerprint(ctx, request, nonce)}
        commit, held = self.proposals.stage(ctx, "recall", clean, NOTHING, verdict, more)
        await self.ledger.commit(commit, checked_at=guard.checked_at)
        return held

    async def _find(self, ctx: Context, request: RecallRequest, status: str) -> Proposal | None:
        equal = {"status": status, "operation": "recall", "writer": ctx.principal.name}
        page = await self.ledger.page(PROPOSALS, ctx.tenant, equal, limit=_MOST, newest_first=True)
        now = ctx.clock()
        for proposal in page:
            nonce = proposal.traits.get("nonce")
            is_same = proposal.traits.get("fingerprint") == _fingerprint(ctx, request, str(nonce))
            if is_same and _is_fresh(proposal, now):
                return proposal
        return None

    async def _used(self, ctx: Context, approved: Proposal) -> bool:
        """Use up a yes; False when it has been used before."""
        draft = Draft(
            op="recall",
            actor=ctx.principal.name,
            at=ctx.clock(),
            agent=approved.agent_id,
            detail={"proposal": approved.id},
        )
        once = Once(
            principal=ctx.principal.name,
            operation="recall",
            key=approved.id,
            fingerprint=approved.id,
            answer={},
        )
        (done,) = await self.ledger.commit(Commit(tenant=ctx.tenant, draft=draft, once=once))
        return done.replayed is None


def _fingerprint(ctx: Context, request: RecallRequest, nonce: str) -> str:
    """The same request of the same principal, named without its words."""
    asked = request.model_dump(mode="json", exclude={"approval_required"})
    text = json.dumps([nonce, ctx.tenant, ctx.principal.name, asked], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _is_fresh(proposal: Proposal, now: int) -> bool:
    """Whether it can still be approved, or used."""
    if proposal.is_pending:
        return not proposal.has_lapsed(now)
    return (proposal.reviewed_at or 0) > now - LIFE_MS
