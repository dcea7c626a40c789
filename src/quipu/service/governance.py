"""Writes that wait for a person: held, shown, decided."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import fields, replace

from quipu.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from quipu.model.change import Approval, Approve, Commit, Proposal, Settle, Stage
from quipu.model.governance import Decision, Edit, Verdict
from quipu.model.journal import Draft, Op
from quipu.model.operations import ProposalsRequest, RememberRequest
from quipu.model.outcomes import ProposalPage
from quipu.model.principal import Permission, Principal
from quipu.model.value import Json
from quipu.ports.parts import Parts
from quipu.rules import staging
from quipu.rules.chain import exact
from quipu.rules.staging import Held
from quipu.service import answers
from quipu.service.access import Access
from quipu.service.answers import A
from quipu.service.committing import plain


class Governance:
    """The queue between a write and memory."""

    def __init__(self, parts: Parts, access: Access) -> None:
        self._parts, self._access = parts, access

    async def hold(
        self,
        principal: Principal,
        asked: Held,
        verdict: Verdict,
        answer: Callable[[Proposal], A],
        *,
        guard: int,
        staged: Held | None = None,
    ) -> A:
        """Stage a write, apart from records and search. `staged` is what a yes carries out, if not what was asked."""
        commit, told = self.staging(principal, asked, verdict, answer, staged=staged)
        (done,) = await self._parts.ledger.commit(commit, guard=guard)
        return answers.settled(told, done)

    def staging(
        self,
        principal: Principal,
        asked: Held,
        verdict: Verdict,
        answer: Callable[[Proposal], A],
        *,
        staged: Held | None = None,
    ) -> tuple[Commit, A]:
        """How a write is staged, and what is answered once it is."""
        now = self._parts.clock()
        request = staged or asked
        # An erasure finds the staged copy by the record it would make or change.
        record_id = None
        if isinstance(request, RememberRequest):
            record_id = self._parts.mint_id("mem") if request.id is None else request.id
        proposal = Proposal(
            id=self._parts.mint_id("prp"),
            tenant=principal.tenant,
            operation=staging.operation_of(request),
            agent_id=request.agent_id,
            request=plain(request),
            writer=principal.name,
            held_by=(verdict.rule,),
            status="pending",
            created_at=now,
            lapses_at=now + self._parts.proposal_life_ms,
            record_id=record_id,
            approvals=verdict.approvals,
            because=verdict.reason,
            salt=self._parts.mint_salt(),
        )
        told = answer(proposal)
        draft = Draft(
            op=Op.HOLD,
            actor=principal.name,
            at=now,
            agent=request.agent_id,
            detail={
                "proposal": proposal.id,
                "operation": proposal.operation,
                "held_by": list(proposal.held_by),
                "digest": self._digest(proposal),
            },
        )
        named = () if record_id is None else (record_id,)
        commit = Commit(
            tenant=principal.tenant,
            draft=draft,
            changes=(_stage(proposal),),
            once=answers.once(principal, asked, self._parts.canonical, told, named),
        )
        return commit, told

    def _digest(self, proposal: Proposal) -> str:
        """What the journal tells of the staged content. Without the salt, which goes with it, nobody can guess it."""
        return hashlib.sha256(proposal.salt + self._parts.canonical(exact(proposal.request))).hexdigest()

    async def proposals(self, principal: Principal, status: str | None = None) -> tuple[Proposal, ...]:
        """What waits, and what was decided, as far as the reviewer may see the agents."""
        self._access.authorise(principal, Permission.REVIEW)
        found = await self._parts.ledger.proposals(principal.tenant, status)
        return tuple(_told(proposal) for proposal in found if staging.may_see(proposal, principal))

    async def page(self, principal: Principal, request: ProposalsRequest) -> ProposalPage:
        """A page of them, oldest first."""
        self._access.authorise(principal, Permission.REVIEW, request.agent_id)
        if not 1 <= request.limit <= self._parts.limits.page:
            raise InvalidError.at(
                "/limit",
                "bad_value",
                "A page is not that long.",
                accepted=[f"from 1 to {self._parts.limits.page}"],
            )
        after = None if request.cursor is None else _place(request.cursor)
        found = [
            proposal
            for proposal in await self.proposals(principal, request.status)
            if request.agent_id in (None, proposal.agent_id)
            and (after is None or (proposal.created_at, proposal.id) > after)
        ]
        page = found[: request.limit]
        return ProposalPage(
            proposals=tuple(page), next_cursor=_cursor(page[-1]) if len(found) > len(page) else None
        )

    async def proposal(self, principal: Principal, proposal_id: str) -> Proposal:
        """One of them, for its reviewers and for whoever wrote it."""
        return _told(await self.found(principal, proposal_id))

    async def found(self, principal: Principal, proposal_id: str) -> Proposal:
        """The same with its salt, which is nobody's business."""
        found = await self._parts.ledger.proposals(principal.tenant)
        proposal = next((p for p in found if p.id == proposal_id), None)
        if proposal is None or not staging.may_see(proposal, principal):
            raise _absent()
        return proposal

    async def withdraw(self, principal: Principal, proposal_id: str) -> None:
        """Its writer takes it back; nothing of it is kept."""
        proposal = await self.proposal(principal, proposal_id)
        if proposal.writer != principal.name:
            raise ForbiddenError("Only who wrote it takes it back.", reason="not_the_writer")
        if proposal.status != "pending":
            raise _decided()
        await self._parts.ledger.commit(
            self.settling(principal, proposal, Decision(approved=False), closed_by="withdrawn")
        )

    async def lapse(self, tenant: str) -> int:
        """Close what nobody decided on in time; returns how many. Nothing is approved by time."""
        now, lapsed = self._parts.clock(), 0
        for proposal in await self._parts.ledger.proposals(tenant, "pending"):
            if proposal.lapses_at is None or proposal.lapses_at > now:
                continue
            system = Principal(tenant=tenant, name="system", permissions=frozenset())
            commit = self.settling(system, proposal, Decision(approved=False), closed_by="lapsed")
            try:
                await self._parts.ledger.commit(commit)
            except ConflictError:
                continue  # somebody decided after all
            lapsed += 1
        return lapsed

    async def to_decide(
        self, principal: Principal, proposal_id: str, *, approved: bool, is_in_place: bool = False
    ) -> tuple[Proposal, Held]:
        """A proposal that this reviewer may decide on now, and what it holds."""
        self._access.authorise(principal, Permission.REVIEW)
        proposal = await self.found(principal, proposal_id)
        if proposal.status != "pending":
            raise _decided()
        if approved and proposal.lapses_at is not None and proposal.lapses_at <= self._parts.clock():
            raise ConflictError("This proposal has lapsed.", reason="already_decided")
        if approved and proposal.writer == principal.name and not (principal.is_local or is_in_place):
            raise ForbiddenError("Nobody decides on their own write.", reason="self_approval")
        return proposal, held_request(proposal)

    def settling(
        self, principal: Principal, proposal: Proposal, decision: Decision, *, closed_by: str | None = None
    ) -> Commit:
        """The commit that closes a proposal, and says what became of it."""
        detail: dict[str, Json] = {"proposal": proposal.id, "approved": decision.approved}
        if closed_by is not None:
            detail["closed_by"] = closed_by
        if decision.edit is not None:
            detail["edited"] = [
                field.name for field in fields(Edit) if getattr(decision.edit, field.name) is not None
            ]
        if decision.merge_into is not None:
            detail["merged_into"] = decision.merge_into
        if decision.supersedes:
            detail["supersedes"] = list(decision.supersedes)
        if proposal.approvals > 1 and decision.approved:
            detail["with"] = [one.reviewer for one in proposal.given]
        settle = Settle(
            proposal_id=proposal.id,
            approved=decision.approved,
            reviewer=closed_by or principal.name,
            reason=decision.reason,
        )
        return self._entry(principal, proposal, Op.DECIDE, detail, settle)

    def approving(self, principal: Principal, proposal: Proposal, given: Sequence[Approval]) -> Commit:
        """The commit by which one of several says yes; the proposal goes on waiting."""
        detail: dict[str, Json] = {
            "proposal": proposal.id,
            "approvals": len(given),
            "needed": proposal.approvals,
        }
        change = Approve(proposal_id=proposal.id, given=tuple(given), expects=len(proposal.given))
        return self._entry(principal, proposal, Op.APPROVE, detail, change)

    def _entry(
        self,
        principal: Principal,
        proposal: Proposal,
        op: Op,
        detail: dict[str, Json],
        change: Settle | Approve,
    ) -> Commit:
        draft = Draft(
            op=op, actor=principal.name, at=self._parts.clock(), agent=proposal.agent_id, detail=detail
        )
        return Commit(tenant=principal.tenant, draft=draft, changes=(change,))


def held_request(proposal: Proposal) -> Held:
    """What a yes carries out. The answer that was kept under its key is the one to the held request, and stays."""
    request = staging.request_of(proposal.operation, proposal.request)
    return replace(request, approval_required=False, idempotency_key=None)


def _stage(proposal: Proposal) -> Stage:
    return Stage(
        proposal_id=proposal.id,
        operation=proposal.operation,
        agent_id=proposal.agent_id,
        request=proposal.request,
        held_by=proposal.held_by,
        lapses_at=proposal.lapses_at,
        record_id=proposal.record_id,
        approvals=proposal.approvals,
        because=proposal.because,
        salt=proposal.salt,
    )


def _told(proposal: Proposal) -> Proposal:
    return replace(proposal, salt=b"")


def _decided() -> ConflictError:
    return ConflictError("This proposal has been decided already.", reason="already_decided")


def _cursor(proposal: Proposal) -> str:
    return base64.urlsafe_b64encode(f"{proposal.created_at} {proposal.id}".encode()).decode().rstrip("=")


def _place(cursor: str) -> tuple[int, str]:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        created_at, _, proposal_id = text.partition(" ")
        return int(created_at), proposal_id
    except ValueError:
        raise InvalidError.at("/cursor", "bad_value", "This is no cursor of ours.") from None


def _absent() -> NotFoundError:
    return NotFoundError("There is no such proposal.", reason="proposal")
