"""What a reviewer sees of a held write, and what a decision carries out: effect and decision are one transaction.

What is shown is read off the very plan that an approval commits. The held request is redacted, validated and planned
again with what is known then: who wrote it stays its author, and it gets the ids that were promised.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from quipu.access.model import SECOND_REVIEWER, Token
from quipu.access.service import AccessService
from quipu.errors import (
    ConflictError,
    Fault,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    QuipuError,
    UnsupportedError,
)
from quipu.governance import diffs
from quipu.governance.gate import Gate, denial
from quipu.governance.model import (
    PROPOSALS,
    DecideRequest,
    DecideResponse,
    Edit,
    PreviewWriteRequest,
    PreviewWriteResponse,
    Proposal,
    Review,
    ReviewRequest,
)
from quipu.governance.operations import PREVIEWED
from quipu.governance.proposals import Proposals, already_decided, shown_as
from quipu.governance.reviewer_scope import ReviewerScope
from quipu.governance.similar_memories import SimilarMemories
from quipu.ledger.commit import Change, Close, Commit, Committed, Keep
from quipu.ledger.ledger import Kept, Ledger
from quipu.memory.model import ForgetRequest, MergeRequest, RememberRequest, UpdateRequest
from quipu.memory.pipeline import (
    PASSING,
    Guard,
    Pipeline,
    Plan,
    Planning,
    Write,
    naming,
    without_foreign_vector,
)
from quipu.memory.service import MemoryService
from quipu.model.journal import Draft
from quipu.model.principal import Permission, Principal
from quipu.model.record import Record
from quipu.operation import Context, Request, authorised, invalid

_RECALL = "recall"


@dataclass(frozen=True, slots=True)
class HeldWrite:
    """What waits, and what it asks for without today's secrets; a recall asks for no write."""

    kept: Kept[Proposal]
    request: Request | None
    guard: Guard

    @property
    def proposal(self) -> Proposal:
        return self.kept.value


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldWrites:
    """Reads and plans what waits."""

    pipeline: Pipeline
    memory: MemoryService
    scope: ReviewerScope
    #: Writes of other capabilities that a person may have to approve.
    others: tuple[Write[Any, Any], ...] = ()

    @property
    def writes(self) -> Mapping[str, Write[Any, Any]]:
        """Every write that may wait, by operation."""
        return {**self.memory.writes, **{write.operation: write for write in self.others}}

    async def read(self, tenant: str, kept: Kept[Proposal]) -> HeldWrite:
        """What a proposal asks for, read by its own model, and redacted with what is a secret by now."""
        proposal = kept.value
        body = proposal.request or {}
        run_id = body.get("run_id")
        guard = await self.pipeline.redactor.guard(tenant, run_id if isinstance(run_id, str) else None)
        if proposal.operation == _RECALL:
            return HeldWrite(kept, None, guard)
        write = self.writes.get(proposal.operation)
        if write is None or proposal.request is None:
            raise InvalidError("What waits here cannot be read.", reason="altered_proposal")
        request = write.request.parse(body)
        return HeldWrite(kept, without_foreign_vector(request, guard.clean(request)), guard)

    async def plan(self, ctx: Context, waiting: HeldWrite, said: DecideRequest | None = None) -> Plan[Any]:
        """What an approval does, and what the reviewer adds to it."""
        request = waiting.request
        if said is not None and said.does_more and not isinstance(request, RememberRequest | UpdateRequest):
            raise invalid(
                [Fault("/edit", "bad_value", "nothing: only a memory is edited, merged or supersedes")]
            )
        if request is None:
            return diffs.NOTHING
        if said is not None and said.edit is not None:
            request = self._edited(waiting, said.edit)
        planning = self._planning(ctx, waiting)
        plan = await self.writes[waiting.proposal.operation].plan(planning, request)
        if said is not None and said.merge_into is not None:
            plan = await self._merged(ctx, planning, request, plan, said)
        if said is not None and said.supersedes:
            plan = await self._superseding(ctx, planning, request, plan, said)
        return plan

    def _planning(self, ctx: Context, waiting: HeldWrite) -> Planning:
        """As its author, with the reach that the author had, and the ids that were promised."""
        promised = waiting.proposal.listed("makes")
        fresh = iter([name for name in promised if name not in _named(waiting.request)])

        def new_id(prefix: str) -> str:
            return (next(fresh, None) if prefix == "mem" else None) or self.pipeline.new_id(prefix)

        writer = author(ctx.tenant, waiting.proposal)
        return self.pipeline.planning(writer, ctx.clock(), waiting.guard, new_id=new_id)

    def _edited(self, waiting: HeldWrite, edit: Edit) -> Request:
        """The request with what the reviewer changed: valid, and checked again."""
        assert waiting.request is not None
        body = waiting.request.model_dump(mode="json", exclude_unset=True)
        changed = edit.model_dump(mode="json", exclude_unset=True, exclude_none=True)
        if "content" in changed:
            body.pop("embedding", None)  # a vector of the caller's is one of the caller's words
        try:
            return waiting.guard.clean(type(waiting.request).parse({**body, **changed}))
        except InvalidError as error:
            faults = [replace(fault, pointer=f"/edit{fault.pointer}") for fault in error.faults]
            raise type(error)(error.message, reason=error.reason, hint=error.hint, faults=faults) from error

    async def _merged(
        self, ctx: Context, planning: Planning, request: Request, plan: Plan[Any], said: DecideRequest
    ) -> Plan[Any]:
        """The memory goes into another instead of standing beside it."""
        assert said.merge_into is not None
        fresh = diffs.fresh_record(plan)
        if not isinstance(request, RememberRequest) or request.id is not None or fresh is None:
            raise invalid(
                [Fault("/merge_into", "bad_value", "nothing: only a new memory is merged into another")]
            )
        merge, wanted = self.memory.merge, said.merge_into
        scope = await merge.scopes.of(planning, request.agent, request.user_id)
        canonical = await merge.canonical(scope, wanted.canonical, planning.now)
        await self.scope.check_records(ctx.principal, [canonical])
        asked = MergeRequest(
            agent_id=request.agent,
            canonical=canonical.id,
            duplicates=(fresh.id,),
            strategy=wanted.strategy,
            run_id=request.run_id,
            node_id=request.node_id,
        )
        return await merge.planned(planning, asked, canonical, [fresh])

    async def _superseding(
        self, ctx: Context, planning: Planning, request: Request, plan: Plan[Any], said: DecideRequest
    ) -> Plan[Any]:
        """Other memories are forgotten with it."""
        assert isinstance(request, RememberRequest | UpdateRequest)
        wanted = ForgetRequest(
            agent_id=request.agent, user_id=request.user_id, ids=said.supersedes, reason=said.reason
        )
        forget = await self.memory.forget.plan(planning, wanted)
        closed = {
            change.id for commit in forget.commits for change in commit.changes if isinstance(change, Close)
        }
        own = {record.id for record in plan.after}
        if closed != set(said.supersedes) or closed & own:
            raise NotFoundError("There is no such memory.", reason="record")
        await self.scope.check_records(ctx.principal, forget.before)
        return replace(plan, commits=(*forget.commits, *plan.commits), before=(*forget.before, *plan.before))


def author(tenant: str, proposal: Proposal) -> Principal:
    """Who wrote it, as far as planning and rules ask."""
    traits = proposal.traits
    return Principal(
        tenant=tenant,
        name=proposal.writer,
        permissions=frozenset({Permission.ADMIN}) if traits.get("admin") else frozenset(),
        trust=traits.get("trust", "unknown"),
        review_stores=tuple(traits.get("reach", ("*",))),
    )


def _named(request: Request | None) -> set[str]:
    """The memories that a request changes by their ids."""
    items: Sequence[Any] = getattr(request, "items", None) or (request,)
    return {name for item in items if (name := getattr(item, "id", None)) is not None}


_MOST_ATTEMPTS = 64
_SECOND = f"Where Quipu runs, `{SECOND_REVIEWER}` makes one."


class _ChangedError(Exception):
    """Something has changed between reading and committing: decide again, on what is there now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviews:
    """Shows and decides."""

    ledger: Ledger
    pipeline: Pipeline
    held: HeldWrites
    access: AccessService
    gate: Gate
    proposals: Proposals
    scope: ReviewerScope
    similar: SimilarMemories

    # -- showing ------------------------------------------------------------------------------------------------------

    async def review(self, ctx: Context, request: ReviewRequest) -> Review:
        """A held write with what an approval would change now."""
        kept = await self.proposals.found(ctx, request.id)
        review = shown_as(Review, kept.value)
        # Who wrote it sees it too, but what is there only as far as they may read.
        may_look = ctx.principal.may(Permission.REVIEW) or ctx.principal.may(Permission.READ)
        if not kept.value.is_pending or not may_look:
            return review
        try:
            await self.proposals.as_held(ctx.tenant, request.id)
            waiting = await self.held.read(ctx.tenant, kept)
        except (ConflictError, InvalidError) as error:
            return review.model_copy(update={"problem": error.message})
        plan, problem = await self._shown(ctx, waiting)
        shown = await self._diff(ctx, plan, with_related=request.related)
        return review.model_copy(
            update={
                "diff": shown if problem is None else None,
                "etag": diffs.etag(kept.value.nonce or "", plan, None if problem is None else problem.reason),
                "problem": None if problem is None else problem.message,
            }
        )

    async def preview(self, ctx: Context, request: PreviewWriteRequest) -> PreviewWriteResponse:
        """What would become of a write; nothing is written, and nothing waits."""
        write = self.held.memory.writes[request.operation]
        operation = PREVIEWED[request.operation]
        given = authorised(ctx.principal, operation, operation.request.parse(request.request))
        guard = await self.pipeline.redactor.guard(ctx.tenant, getattr(given, "run_id", None))
        clean = guard.clean(given)
        plan = await write.plan(self.pipeline.planning(ctx.principal, ctx.clock(), guard), clean)

        async def planned() -> Plan[Any]:
            return plan

        verdict = await self.gate.judge(ctx, write.operation, clean, guard, planned)
        if verdict.effect == "deny":
            raise denial(verdict)
        would_hold = verdict.effect == "hold" and bool(plan.commits)
        return PreviewWriteResponse(
            would_hold=would_hold,
            held_by=verdict.rules if would_hold else (),
            because=verdict.because if would_hold else None,
            approvals=verdict.approvals,
            diff=await self._diff(ctx, plan, with_related=False),
            etag=diffs.etag(self.proposals.random(8).hex(), plan),
        )

    async def _shown(self, ctx: Context, waiting: HeldWrite) -> tuple[Plan[Any], QuipuError | None]:
        """What an approval would do; or why it cannot be done as things stand, which may change too."""
        try:
            return await self.held.plan(ctx, waiting, None), None
        except QuipuError as error:
            return diffs.NOTHING, error

    async def _diff(self, ctx: Context, plan: Plan[Any], *, with_related: bool) -> Any:
        more = await self.ledger.newest_versions(ctx.tenant, diffs.needed(plan))
        fresh = diffs.fresh_record(plan) if with_related else None
        related: Sequence[tuple[Record, float]] = ()
        if fresh is not None:
            scope = await self.scope.scopes.of(ctx.principal, fresh.agent_id, fresh.user_id)
            related = await self.similar.to(ctx.tenant, fresh, scope.stores)
        return diffs.diff(plan, more, related, masks=not ctx.principal.may(Permission.ADMIN))

    # -- deciding -----------------------------------------------------------------------------------------------------

    async def decide(self, ctx: Context, request: DecideRequest) -> DecideResponse:
        return await self._decide(ctx, request, is_in_place=False)

    async def decide_in_place(self, ctx: Context, request: DecideRequest) -> DecideResponse:
        """The same by a person at the client that wrote it: they were shown the diff that the etag names."""
        if not ctx.principal.may(Permission.REVIEW):
            raise ForbiddenError(hint=f"It needs the permission {Permission.REVIEW}.")
        if request.etag is None:
            raise invalid([Fault("/etag", "missing_field", "the etag of what the person was shown")])
        return await self._decide(ctx, request, is_in_place=True)

    async def _decide(self, ctx: Context, request: DecideRequest, *, is_in_place: bool) -> DecideResponse:
        for _ in range(_MOST_ATTEMPTS):
            try:
                return await self._decided(ctx, request, is_in_place)
            except _ChangedError:
                continue
        raise ConflictError("This keeps being changed by others.", reason="row_changed")

    async def _decided(self, ctx: Context, request: DecideRequest, is_in_place: bool) -> DecideResponse:
        now = ctx.clock()
        kept = await self.proposals.found(ctx, request.id)
        _check_waiting(kept.value, now, approves=request.approved)
        if not (await self.scope.of(ctx.principal)).decides(kept.value):
            raise ForbiddenError(
                hint=f"It needs the permission {Permission.REVIEW}, for this agent and operation."
            )
        if request.approved:
            kept = await self.proposals.as_held(ctx.tenant, request.id)
            _check_waiting(kept.value, now, approves=True)
            detail = await self._may_approve(ctx, kept.value, is_in_place)
            waiting = await self.held.read(ctx.tenant, kept)
            said = waiting.guard.clean(request)
            self.scope.check_decision(ctx.principal, said)
            return await self._approve(ctx, waiting, said, detail)
        guard = await self.pipeline.redactor.guard(ctx.tenant, None)
        said = guard.clean(request)
        rejection = await self.proposals.closing(
            ctx.tenant, kept, now, ctx.principal.name, reason=said.reason
        )
        return await self._commit(
            ctx, said, Plan(commits=(), answer=lambda _: _answer(ctx, said)), guard, rejection
        )

    async def _approve(
        self, ctx: Context, waiting: HeldWrite, said: DecideRequest, detail: dict[str, Any]
    ) -> DecideResponse:
        proposal = waiting.proposal
        etag: str | None = None
        if said.etag is not None or proposal.approvals > 1:
            plan, problem = await self._shown(ctx, waiting)
            reason = None if problem is None else problem.reason
            if said.etag is not None and not diffs.is_etag_of(said.etag, plan, reason):
                raise ConflictError(
                    "What this would change has changed since it was shown.",
                    reason="stale_proposal",
                    hint="Look at it again, then decide.",
                )
            etag = diffs.etag(proposal.nonce or "", plan, reason)
        if proposal.approvals > 1:
            others = await self._others(ctx, proposal, etag or "", said)
            if len(others) + 1 < proposal.approvals:
                return await self._agree(ctx, waiting, said, [*others, _given(ctx, etag or "")])
            detail["with"] = [one["reviewer"] for one in others]
        plan = await self.held.plan(ctx, waiting, said)
        approval = await self.proposals.closing(
            ctx.tenant,
            waiting.kept,
            ctx.clock(),
            ctx.principal.name,
            approved=True,
            reason=said.reason,
            detail={**detail, **_extra(said)},
        )

        def answer(done: Sequence[Committed]) -> DecideResponse:
            return _answer(ctx, said)

        carried_out = replace(
            plan,
            commits=_apart_from(naming(plan.commits, "proposal", proposal.id), proposal.id),
            answer=answer,
        )
        return await self._commit(ctx, said, carried_out, waiting.guard, approval)

    async def _commit(
        self, ctx: Context, said: DecideRequest, plan: Plan[Any], guard: Guard, decision: Commit
    ) -> DecideResponse:
        ctx.facts.proposal_id = said.id
        try:
            return await self.pipeline.commit(ctx, plan, guard, before=[decision])
        except ConflictError as conflict:
            if conflict.reason in PASSING:
                raise _ChangedError from conflict
            raise

    async def _may_approve(self, ctx: Context, proposal: Proposal, is_in_place: bool) -> dict[str, Any]:
        """What the entry says of who approves; ForbiddenError where it is their own write."""
        principal = ctx.principal
        if proposal.writer != principal.name:
            makers = await self.access.tokens.makers(ctx.tenant, principal.token_id)
            if proposal.writer in makers:
                raise ForbiddenError(
                    "Nobody approves what was written by who made their credential.",
                    reason="self_approval",
                    hint=f"A reviewer whose token somebody else made can approve it. {_SECOND}",
                )
            return {"in_place": True} if is_in_place else {}
        if proposal.approvals == 1 and is_in_place:
            return {"in_place": True}
        if proposal.approvals == 1 and await self.access.is_solo(ctx):
            return {"self_approved": True}
        raise ForbiddenError(
            "Nobody approves their own write.",
            reason="self_approval",
            hint=f"A reviewer whose token you did not make can approve it. {_SECOND}",
        )

    # -- several who must agree ---------------------------------------------------------------------------------------

    async def _others(
        self, ctx: Context, proposal: Proposal, etag: str, said: DecideRequest
    ) -> list[Mapping[str, Any]]:
        """Approvals of other people to what would happen now.

        One to something that has changed since does not count, nor does that of somebody who was shut out since.
        """
        if said.does_more:
            raise UnsupportedError(
                "Where several must agree, they agree to what was proposed.",
                reason="review_action",
                hint="Reject it, and have the changed one proposed.",
            )
        tokens, now = await self.access.tokens.every(ctx.tenant), ctx.clock()
        return [
            one
            for one in proposal.given
            if one["reviewer"] != ctx.principal.name and one["etag"] == etag and stands(one, tokens, now)
        ]

    async def _agree(
        self, ctx: Context, waiting: HeldWrite, said: DecideRequest, given: Sequence[Mapping[str, Any]]
    ) -> DecideResponse:
        """One of several approves; the proposal goes on waiting."""
        proposal = waiting.proposal
        left = proposal.approvals - len(given)
        draft = Draft(
            op="agree",
            actor=ctx.principal.name,
            at=ctx.clock(),
            store=proposal.store_id,
            agent=proposal.agent_id or None,
            detail={
                "proposal": proposal.id,
                "operation": proposal.operation,
                "approvals": len(given),
                "left": left,
            },
        )
        kept = Keep(PROPOSALS, replace(proposal, given=tuple(given)), waiting.kept.seq)
        commit = Commit(tenant=ctx.tenant, draft=draft, changes=(kept,))
        answer = _answer(ctx, said).model_copy(update={"approvals_left": left})
        return await self._commit(ctx, said, Plan(commits=(), answer=lambda _: answer), waiting.guard, commit)


def _check_waiting(proposal: Proposal, now: int, *, approves: bool) -> None:
    if not proposal.is_pending or (approves and proposal.has_lapsed(now)):
        raise already_decided()


def stands(given: Mapping[str, Any], tokens: Sequence[Token], now: int) -> bool:
    """Whether nobody has taken away the credential of somebody who approved before others.

    A token that was rotated goes on under the same name, and one that merely expired was good when it was used. Of who
    signs in with an identity provider nobody here knows when they are shut out, so their yes counts for as long as the
    provider has vouched for them, and has to be given again after that.
    """
    if given.get("until", now) < now:
        return False
    own = [token for token in tokens if token.name == given["reviewer"]]
    taken = [token.revoked_at for token in own if token.revoked_at is not None]
    return all(_goes_on(own, at) for at in taken if given["at"] <= at <= now)


def _goes_on(own: Sequence[Token], at: int) -> bool:
    """Whether another token of the same name was good when one was revoked."""
    return any(token.created_at <= at and token.is_good(at) for token in own)


def _given(ctx: Context, etag: str) -> dict[str, Any]:
    who = ctx.principal
    given = {"reviewer": who.name, "at": ctx.clock(), "etag": etag}
    return given if who.token_id is not None or who.expires_at is None else {**given, "until": who.expires_at}


def _extra(said: DecideRequest) -> dict[str, Any]:
    """What the journal says of an approval that does more than was proposed."""
    detail: dict[str, Any] = {}
    if said.edit is not None:
        detail["edited"] = sorted(said.edit.model_fields_set)
    if said.merge_into is not None:
        detail["merged"] = True
    if said.supersedes:
        detail["supersedes"] = list(said.supersedes)
    return detail


def _apart_from(commits: Sequence[Commit], proposal_id: str) -> tuple[Commit, ...]:
    """The same but for the proposal itself, which an erasure reaches like any other: the decision closes it."""

    def is_itself(change: Change) -> bool:
        return isinstance(change, Keep) and change.table is PROPOSALS and change.value.id == proposal_id

    return tuple(
        replace(commit, changes=tuple(change for change in commit.changes if not is_itself(change)))
        for commit in commits
    )


def _answer(ctx: Context, said: DecideRequest) -> DecideResponse:
    return DecideResponse(
        approved=said.approved, reviewer=ctx.principal.name, reviewed_at=ctx.clock(), reason=said.reason
    )
