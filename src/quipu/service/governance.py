"""Writes that wait for a person: held, shown, decided."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import fields, replace

from quipu.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from quipu.model.change import Approval, Approve, Commit, Once, Proposal, Settle, Stage
from quipu.model.governance import Decision, Edit, Verdict
from quipu.model.journal import Draft, Op
from quipu.model.operations import (
    BatchRequest,
    ProposalsRequest,
    RecallRequest,
    RememberRequest,
    RestoreRequest,
)
from quipu.model.outcomes import ProposalPage, RememberResponse
from quipu.model.principal import Permission, Principal
from quipu.model.value import Json, JsonObject
from quipu.ports.ledger import Proposals
from quipu.ports.parts import Parts
from quipu.rules import learning, staging, texts
from quipu.rules.staging import Waiting, Write
from quipu.rules.values import INT64
from quipu.service import answers, held
from quipu.service.access import Access
from quipu.service.answers import A
from quipu.service.committing import plain
from quipu.service.secrets import Secrets
from quipu.service.sight import Sight

_PAGE = 200


class Governance:
    """The queue between a write and memory."""

    def __init__(self, parts: Parts, access: Access) -> None:
        self._parts, self._access = parts, access
        self._secrets = Secrets(parts, access)
        self.sight = Sight(parts, access)

    async def hold(
        self,
        principal: Principal,
        asked: Write,
        verdict: Verdict,
        answer: Callable[[Proposal], A],
        *,
        guard: int,
        staged: Write | None = None,
        more: JsonObject | None = None,
    ) -> A:
        """Stage a write, apart from records and search. `staged` is what a yes carries out, if not what was asked.

        `more` is noted of it beside its traits, and outlives its content.
        """
        if not isinstance(asked, RememberRequest | BatchRequest):  # those were checked as what they will be
            (await self._secrets.checked(principal.tenant)).waiting(staged or asked)
        commit, told = self.staging(principal, asked, verdict, answer, staged=staged, more=more)
        (done,) = await self._parts.ledger.commit(commit, guard=guard)
        return answers.settled(told, done)

    async def hold_together(
        self, principal: Principal, batch: BatchRequest, held: Sequence[Verdict], *, guard: int
    ) -> list[RememberResponse]:
        """Stage memories that are written together or not at all: one proposal, one answer to each."""
        canonical = self._parts.canonical
        if (known := answers.once_together(principal, batch.items, canonical)) is not None:
            first = await self._parts.ledger.answered(principal.tenant, known, self._parts.clock())
            if first is not None:
                return answers.again_together(first)
        proposal = self._proposal(principal, batch, held)
        told = [answers.pending_item(record_id, proposal) for record_id in batch.record_ids]
        once = answers.once_together(principal, batch.items, canonical, told)
        (done,) = await self._parts.ledger.commit(self._held(proposal, once), guard=guard)
        if done.replayed is not None:
            return answers.again_together(done)
        return [answers.settled(answer, done) for answer in told]

    async def hold_recall(
        self, principal: Principal, request: RecallRequest, verdict: Verdict, fingerprint: str, *, guard: int
    ) -> Proposal:
        """Stage a recall. Who asked asks again once it was approved."""
        request = (await self._secrets.checked(principal.tenant)).waiting(request)
        proposal = self._proposal(principal, request, [verdict], {"fingerprint": fingerprint})
        await self._parts.ledger.commit(self._held(proposal, None), guard=guard)
        return proposal

    def staging(
        self,
        principal: Principal,
        asked: Write,
        verdict: Verdict,
        answer: Callable[[Proposal], A],
        *,
        staged: Write | None = None,
        more: JsonObject | None = None,
    ) -> tuple[Commit, A]:
        """How a write is staged, and what is answered once it is."""
        proposal = self._proposal(principal, staged or asked, [verdict], more)
        told = answer(proposal)
        named = () if proposal.record_id is None else (proposal.record_id,)
        once = answers.once(principal, asked, self._parts.canonical, told, named)
        return self._held(proposal, once), told

    def _proposal(
        self,
        principal: Principal,
        request: Waiting,
        verdicts: Sequence[Verdict],
        more: JsonObject | None = None,
    ) -> Proposal:
        now = self._parts.clock()
        # An erasure finds the staged copy by the record it would make or change.
        record_id = None
        if isinstance(request, RememberRequest | RestoreRequest):
            record_id = self._parts.mint_id("mem") if request.id is None else request.id
        reasons = dict.fromkeys(verdict.reason for verdict in verdicts if verdict.reason)
        return Proposal(
            id=self._parts.mint_id("prp"),
            tenant=principal.tenant,
            operation=staging.operation_of(request),
            agent_id=request.agent_id,
            request=plain(request),
            writer=principal.name,
            held_by=tuple(dict.fromkeys(verdict.rule for verdict in verdicts)),
            status="pending",
            created_at=now,
            lapses_at=now + self._parts.proposal_life_ms,
            record_id=record_id,
            approvals=max(verdict.approvals for verdict in verdicts),
            because=" ".join(reasons) or None,
            salt=self._parts.mint_salt(),
            traits={**learning.traits(request), **(more or {})},
        )

    def _held(self, proposal: Proposal, once: Once | None) -> Commit:
        """The commit that stages a proposal, and names the rules that held it."""
        draft = Draft(
            op=Op.HOLD,
            actor=proposal.writer,
            at=proposal.created_at,
            agent=proposal.agent_id,
            detail=staging.told(proposal, self._parts.canonical),
        )
        return Commit(tenant=proposal.tenant, draft=draft, changes=(_stage(proposal),), once=once)

    async def proposals(self, principal: Principal, status: str | None = None) -> tuple[Proposal, ...]:
        """What waits, and what was decided, as far as the reviewer may see the agents."""
        self._access.authorise(principal, Permission.REVIEW)
        found = await self._parts.ledger.proposals(principal.tenant, status)
        return tuple(
            [staging.shown(proposal) for proposal in found if await self.sight.sees(principal, proposal)]
        )

    async def page(self, principal: Principal, request: ProposalsRequest) -> ProposalPage:
        """A page of them, oldest first unless the newest are wanted first."""
        self._access.authorise(principal, Permission.REVIEW, request.agent_id)
        if not 1 <= request.limit <= self._parts.limits.page:
            raise InvalidError.at(
                "/limit",
                "bad_value",
                "A page is not that long.",
                accepted=[f"from 1 to {self._parts.limits.page}"],
            )
        after = None if request.cursor is None else _place(request.cursor)
        found: list[Proposal] = []
        async for proposal in self._walk(principal.tenant, request, after):
            if _is_wanted(proposal, request) and await self.sight.sees(principal, proposal):
                found.append(staging.shown(proposal))
                if len(found) > request.limit:
                    break
        page = found[: request.limit]
        return ProposalPage(
            proposals=tuple(page), next_cursor=_cursor(page[-1]) if len(found) > len(page) else None
        )

    async def _walk(
        self, tenant: str, request: ProposalsRequest, after: tuple[int, str] | None = None
    ) -> AsyncIterator[Proposal]:
        """All of them from a place on, read a page at a time."""
        while True:
            wanted = Proposals(
                operation=request.operation,
                agent_id=request.agent_id,
                writer=request.writer,
                rule=request.rule,
                is_of_imports=request.import_id is not None,
                after=after,
                limit=_PAGE,
                is_newest_first=request.is_newest_first,
            )
            page = await self._parts.ledger.proposals(tenant, request.status, wanted)
            for proposal in page:
                yield proposal
            if len(page) < _PAGE:
                return
            after = (page[-1].created_at, page[-1].id)

    async def proposal(self, principal: Principal, proposal_id: str) -> Proposal:
        """One of them, for its reviewers and for whoever wrote it."""
        return staging.shown(await self.found(principal, proposal_id))

    async def found(self, principal: Principal, proposal_id: str) -> Proposal:
        """The same with its salt, which is nobody's business."""
        known = texts.is_keepable(proposal_id)
        proposal = await self._parts.ledger.proposal(principal.tenant, proposal_id) if known else None
        if proposal is None or not await self.sight.sees(principal, proposal):
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
        over = [
            proposal
            async for proposal in self._walk(tenant, ProposalsRequest(status="pending"))
            if proposal.lapses_at is not None and proposal.lapses_at <= now
        ]
        for proposal in over:
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
    ) -> tuple[Proposal, Waiting | None]:
        """A proposal that this reviewer may decide on now, and what it holds; a no needs nothing that can be read."""
        self._access.authorise(principal, Permission.REVIEW)
        proposal = await self.found(principal, proposal_id)
        if proposal.status != "pending":
            raise _decided()
        if approved and proposal.lapses_at is not None and proposal.lapses_at <= self._parts.clock():
            raise ConflictError("This proposal has lapsed.", reason="already_decided")
        if approved and proposal.writer == principal.name and not (principal.is_local or is_in_place):
            raise ForbiddenError("Nobody decides on their own write.", reason="self_approval")
        if approved:
            await held.check(self._parts, proposal)
            return proposal, held_request(proposal)
        try:
            return proposal, held_request(proposal)
        except (AttributeError, KeyError, TypeError, ValueError):  # it was altered from outside
            return proposal, None

    async def stage_again(self, principal: Principal, was: Proposal, again: Proposal) -> Proposal:
        """What had been decided waits again, under who wrote it; the journal says who took the decision back."""
        commit = self._held(again, None)
        detail: dict[str, Json] = {**commit.draft.detail, "was": was.id}
        draft = replace(commit.draft, actor=principal.name, detail=detail)
        change = replace(_stage(again), writer=was.writer)
        await self._parts.ledger.commit(replace(commit, draft=draft, changes=(change,)))
        return staging.shown(again)

    def settling(
        self, principal: Principal, proposal: Proposal, decision: Decision, *, closed_by: str | None = None
    ) -> Commit:
        """The commit that closes a proposal, and says what became of it."""
        detail: dict[str, Json] = {"proposal": proposal.id, "approved": decision.approved}
        if closed_by is not None:
            detail["closed_by"] = closed_by
        if decision.approved:  # a no does nothing of what a yes could have done beside
            detail |= _beside(proposal, decision)
        settle = Settle(
            proposal_id=proposal.id,
            approved=decision.approved,
            reviewer=closed_by or principal.name,
            reason=decision.reason,
            keeps=self._parts.keeps_rejected and not decision.approved and closed_by is None,
            undoable=decision.undoable and closed_by is None,
            teaches=closed_by is None
            and decision.edit is None
            and decision.merge_into is None
            and not decision.supersedes,
        )
        return self._entry(principal, proposal, Op.DECIDE, detail, settle)

    def approving(self, principal: Principal, proposal: Proposal, given: Sequence[Approval]) -> Commit:
        """The commit by which one of several says yes; the proposal goes on waiting."""
        detail: dict[str, Json] = {
            "proposal": proposal.id,
            "approvals": len(given),
            "needed": proposal.approvals,
        }
        change = Approve(proposal_id=proposal.id, given=tuple(given), former=proposal.given)
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


def _beside(proposal: Proposal, decision: Decision) -> dict[str, Json]:
    """What the journal tells of a yes that does more than was proposed, or that was not given alone."""
    detail: dict[str, Json] = {}
    if decision.edit is not None:
        detail["edited"] = [
            field.name for field in fields(Edit) if getattr(decision.edit, field.name) is not None
        ]
    if decision.merge_into is not None:
        detail["merged_into"] = decision.merge_into
    if decision.supersedes:
        detail["supersedes"] = list(decision.supersedes)
    if proposal.approvals > 1:
        detail["with"] = [one.reviewer for one in proposal.given]
    return detail


def held_request(proposal: Proposal) -> Waiting:
    """What a yes carries out. The answer that was kept under its key is the one to the held request, and stays."""
    request = staging.request_of(proposal.operation, proposal.request)
    if isinstance(request, RecallRequest):
        return replace(request, approval_required=False)
    return replace(request, approval_required=False, idempotency_key=None)


def _is_wanted(proposal: Proposal, request: ProposalsRequest) -> bool:
    return (
        request.writer in (None, proposal.writer)
        and (request.rule is None or request.rule in proposal.held_by)
        and request.import_id in (None, proposal.request.get("import_id"))
    )


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
        traits=proposal.traits,
    )


def _decided() -> ConflictError:
    return ConflictError("This proposal has been decided already.", reason="already_decided")


def _cursor(proposal: Proposal) -> str:
    return base64.urlsafe_b64encode(f"{proposal.created_at} {proposal.id}".encode()).decode().rstrip("=")


def _place(cursor: str) -> tuple[int, str]:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        created_at, _, proposal_id = text.partition(" ")
        place = int(created_at)
    except ValueError:
        place, proposal_id = INT64, ""
    if abs(place) >= INT64 or not texts.is_keepable(proposal_id):
        raise InvalidError.at("/cursor", "bad_value", "This is no cursor of ours.")
    return place, proposal_id


def _absent() -> NotFoundError:
    return NotFoundError("There is no such proposal.", reason="proposal")
