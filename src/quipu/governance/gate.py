"""The pipeline's govern step: every write is judged here, whatever path it came by, before anything of it is done.

So is every recall, before anything is found; one that has to wait is let through once, when a person has said yes.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from quipu.errors import ForbiddenError
from quipu.governance.diffs import NOTHING
from quipu.governance.model import PROPOSALS, Proposal, Rule
from quipu.governance.proposals import Proposals, removed_count
from quipu.governance.reviewer_scope import ReviewerScope
from quipu.governance.rule_list import Rules
from quipu.governance.rules import Facts, Question, Subject, decided, strictest
from quipu.governance.similar_memories import SimilarMemories
from quipu.governance.text_classes import all_words, said
from quipu.ledger.commit import Commit, Once
from quipu.ledger.ledger import Ledger
from quipu.memory.drafts import trust_of
from quipu.memory.embedding import Embedding
from quipu.memory.model import RecallRequest, RememberManyRequest, RememberRequest
from quipu.memory.pipeline import Guard, Held, Plan, Redactor, Verdict
from quipu.memory.scope import Scopes
from quipu.model.journal import Draft
from quipu.model.principal import Permission, Principal
from quipu.model.record import Record, State
from quipu.model.search import Selection, Snapshot
from quipu.operation import Clock, Context, Request
from quipu.search.engine import SearchEngine

_EVER: frozenset[State] = frozenset({"live", "archived", "forgotten"})
#: A recall that was approved is let through once, to whoever asked, within so long of the yes.
RECALL_LIFE_MS = 15 * 60 * 1000
#: So many of a writer's recalls are looked through for the one that was approved.
_MOST_RECALLS = 200
#: What takes memories away, or changes what several say: rules look at what there is before it.
_REMOVING = frozenset({"forget", "merge", "expire"})

Planned = Callable[[], Awaitable[Plan[Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Asks the rules, and looks up only what they ask for."""

    ledger: Ledger
    redactor: Redactor
    rules: Rules
    proposals: Proposals
    similar: SimilarMemories
    scopes: Scopes
    #: Whether a secret was masked in a text.
    is_marked: Callable[[str], bool]

    async def judge(
        self, ctx: Context, operation: str, request: Request, guard: Guard, plan: Planned
    ) -> Verdict:
        rules = await self.rules.in_force(ctx.tenant, guard.checked_at)
        caller_asks = _asks(request)
        if not rules and not caller_asks and self.rules.default == "allow":
            return Verdict()
        facts = self.facts(ctx.principal, operation, request)
        return await self.verdict(ctx, rules, facts, plan, caller_asks=caller_asks)

    async def judge_each(
        self, ctx: Context, request: RememberManyRequest, guard: Guard, plan: Planned
    ) -> Sequence[Verdict]:
        """The same for new memories of which each stands for itself, in their order."""
        rules = await self.rules.in_force(ctx.tenant, guard.checked_at)
        if not rules and not _asks(request) and self.rules.default == "allow":
            return [Verdict()] * len(request.items)
        facts = self.facts(ctx.principal, "remember_many", request)
        return [
            await self._said(ctx, rules, one, plan, caller_asks=item.approval_required)
            for one, item in zip(facts.apart(), request.items, strict=True)
        ]

    async def verdict(
        self,
        ctx: Context,
        rules: Sequence[Rule],
        facts: Facts,
        plan: Planned,
        *,
        caller_asks: bool = False,
    ) -> Verdict:
        """What these rules say. Memories that are written strictest are judged each for itself."""
        if facts.subjects is None and facts.operation == "remember_many":
            facts = await self._looked_up(ctx, Question.PLAN, facts, plan)
        verdicts = [await self._said(ctx, rules, one, plan, caller_asks=caller_asks) for one in facts.apart()]
        return verdicts[0] if len(verdicts) == 1 else strictest(verdicts)

    async def _said(
        self, ctx: Context, rules: Sequence[Rule], known: Facts, plan: Planned, *, caller_asks: bool
    ) -> Verdict:
        now, default = ctx.clock(), self.rules.default
        verdict = decided(rules, known, now, caller_asks=caller_asks, default=default)
        while isinstance(verdict, Question):
            known = await self._looked_up(ctx, verdict, known, plan)
            verdict = decided(rules, known, now, caller_asks=caller_asks, default=default)
        return verdict

    async def hold(
        self, ctx: Context, operation: str, request: Request, plan: Plan[Any], verdict: Verdict
    ) -> tuple[Commit, Held]:
        return self.proposals.hold(ctx, operation, request, plan, verdict)

    async def denied(self, ctx: Context, operation: str, request: Request, verdict: Verdict) -> None:
        await self._note_denied(ctx, operation, getattr(request, "agent_id", None), verdict)

    async def _note_denied(self, ctx: Context, operation: str, agent: str | None, verdict: Verdict) -> None:
        detail = {"operation": operation, "rules": list(verdict.rules)}
        draft = Draft(op="deny", actor=ctx.principal.name, at=ctx.clock(), agent=agent, detail=detail)
        await self.ledger.commit(Commit(tenant=ctx.tenant, draft=draft))

    # -- recalls ------------------------------------------------------------------------------------------------------

    async def check_recall(self, ctx: Context, request: RecallRequest, checked_at: int) -> Held | None:
        """None: go ahead. Raises ForbiddenError where a rule denies it."""
        facts = Facts(
            operation="recall",
            agent_id=request.agent,
            principal=ctx.principal.name,
            is_admin=ctx.principal.may(Permission.ADMIN),
        )
        rules = await self.rules.in_force(ctx.tenant, checked_at)
        verdict = decided(rules, facts, ctx.clock(), caller_asks=request.approval_required)
        # A rule that names recalls asks for nothing that takes looking up.
        assert not isinstance(verdict, Question)
        if verdict.effect == "allow":
            return None
        if verdict.effect == "deny":
            # Nobody has checked the name of the agent for secrets, so the entry leaves it out.
            await self._note_denied(ctx, "recall", None, verdict)
            raise denial(verdict)
        approved = await self._same_recall(ctx, request, "approved")
        if approved is not None and await self._use_up(ctx, approved):
            return None
        waiting = await self._same_recall(ctx, request, "pending")
        return (
            await self._hold_recall(ctx, request, verdict)
            if waiting is None
            else self.proposals.held(waiting)
        )

    async def _hold_recall(self, ctx: Context, request: RecallRequest, verdict: Verdict) -> Held:
        guard = await self.redactor.guard(ctx.tenant, None)
        clean = guard.clean(request)
        nonce = self.proposals.random(8).hex()
        more = {"nonce": nonce, "fingerprint": _fingerprint(ctx, request, nonce)}
        commit, held = self.proposals.hold(ctx, "recall", clean, NOTHING, verdict, more)
        await self.ledger.commit(commit, checked_at=guard.checked_at)
        return held

    async def _same_recall(self, ctx: Context, request: RecallRequest, status: str) -> Proposal | None:
        equal = {"status": status, "operation": "recall", "writer": ctx.principal.name}
        page = await self.ledger.page(PROPOSALS, ctx.tenant, equal, limit=_MOST_RECALLS, newest_first=True)
        now = ctx.clock()
        for proposal in page:
            nonce = proposal.traits.get("nonce")
            is_same = proposal.traits.get("fingerprint") == _fingerprint(ctx, request, str(nonce))
            if is_same and _is_fresh(proposal, now):
                return proposal
        return None

    async def _use_up(self, ctx: Context, approved: Proposal) -> bool:
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

    # -- facts --------------------------------------------------------------------------------------------------------

    def facts(self, principal: Principal, operation: str, request: Request) -> Facts:
        """What is known without looking. A new memory is known from its request: most writes need no plan for it."""
        items: Sequence[Request] = request.items if isinstance(request, RememberManyRequest) else (request,)
        fresh = [item for item in items if isinstance(item, RememberRequest) and item.id is None]
        is_known = operation in ("remember", "remember_many") and len(fresh) == len(items)
        return Facts(
            operation=operation,
            agent_id=getattr(request, "agent_id", None),
            principal=principal.name,
            is_admin=principal.may(Permission.ADMIN),
            is_hard=bool(getattr(request, "hard_delete", False)),
            is_forgetting=operation == "expire" and getattr(request, "action", None) == "forget",
            subjects=tuple(self._of_request(principal, item, place) for place, item in enumerate(fresh))
            if is_known
            else None,
            count=len(items) if is_known else None,
        )

    def _of_request(self, principal: Principal, item: RememberRequest, place: int) -> Subject:
        privacy = item.privacy_intent
        words = all_words(item.content, item.tags or (), item.source, item.metadata or {}, item.details)
        is_imported = getattr(item, "import_id", None) is not None
        return Subject(
            agent_id=item.agent_id or "",
            store=item.store,
            type=item.type,
            tags=item.tags or (),
            user_id=item.user_id,
            source=item.source,
            trust=trust_of(principal.trust, item.source, is_imported=is_imported),
            sensitivity=(privacy.sensitivity if privacy is not None else None) or "internal",
            confidence=1.0 if item.confidence is None else item.confidence,
            text=item.content
            if isinstance(item.content, str)
            else json.dumps(item.content, ensure_ascii=False),
            words=words,
            is_imported=is_imported,
            has_secret=self.is_marked(words),
            place=place,
        )

    def subject(self, record: Record, place: int) -> Subject:
        """A version as rules see it."""
        words, privacy = said(record), record.privacy
        return Subject(
            agent_id=record.agent_id,
            store=record.store_id,
            type=record.type,
            tags=record.tags,
            user_id=record.user_id,
            source=record.source,
            trust=record.provenance.trust,
            sensitivity=(privacy.sensitivity if privacy is not None else None) or "internal",
            confidence=record.confidence,
            text=record.content,
            words=words,
            is_imported=record.provenance.import_id is not None,
            has_secret=self.is_marked(words),
            place=place,
            record=record,
        )

    async def _looked_up(self, ctx: Context, question: Question, facts: Facts, plan: Planned) -> Facts:
        match question:
            case Question.STORES:
                return replace(facts, stores=await self.scopes.stores(ctx.tenant))
            case Question.PLAN:
                planned = await plan()
                return await self._planned(facts, planned)
            case Question.NEW_SOURCE:
                record = await self._record(facts, plan)
                return replace(facts, is_new_source=record is not None and await self._is_new(ctx, record))
            case Question.CONFLICTS:
                record = await self._record(facts, plan)
                has_conflict = record is not None and await self.similar.has_conflict(ctx.tenant, record)
                return replace(facts, has_conflict=has_conflict)

    async def _planned(self, facts: Facts, plan: Plan[Any]) -> Facts:
        """What would be written; of a removal, what would go."""
        if facts.kind in _REMOVING:
            records = plan.before
            count = max(removed_count(plan), len(records))
        else:
            records = _written(plan)
            count = len(records)
        if facts.operation == "remember_many" and facts.subjects is not None:  # judged apart: its own version
            place = facts.subjects[0].place
            records, count = records[place : place + 1], facts.count or count
        agent_id = facts.agent_id or (records[0].agent_id if records else "")
        subjects = tuple(self.subject(record, place) for place, record in enumerate(records))
        return replace(facts, agent_id=agent_id, subjects=subjects, count=count)

    async def _record(self, facts: Facts, plan: Planned) -> Record | None:
        """The new version that a question about its neighbours is about."""
        if facts.kind not in ("remember", "restore"):
            return None
        known = facts.subjects[0].record if facts.subjects else None
        if known is not None:
            return known
        looked_up = await self._planned(facts, await plan())
        return looked_up.subjects[0].record if looked_up.subjects else None

    async def _is_new(self, ctx: Context, record: Record) -> bool:
        """Whether nothing of the agent's has come from there before; what names no source has none that is new."""
        if record.source is None:
            return False
        selection = Selection(
            tenant=ctx.tenant,
            agent_id=record.agent_id,
            states=_EVER,
            matches=lambda other: other.source == record.source and other.id != record.id,
        )
        async for _ in self.ledger.scan(selection, Snapshot(None, ctx.clock())):
            return False
        return True


def gate(
    *,
    ledger: Ledger,
    redactor: Redactor,
    rules: Rules,
    scopes: Scopes,
    embedding: Embedding,
    engine: SearchEngine,
    clock: Clock,
    new_id: Callable[[str], str],
    random: Callable[[int], bytes],
    is_marked: Callable[[str], bool],
    public_url: str | None = None,
    keeps_rejected: bool = False,
) -> Gate:
    """What the pipeline asks: needed before memory, which is built over it."""
    proposals = Proposals(
        ledger=ledger,
        scope=ReviewerScope(ledger=ledger, scopes=scopes),
        new_id=new_id,
        random=random,
        public_url=None if public_url is None else public_url.rstrip("/"),
        keeps_rejected=keeps_rejected,
    )
    return Gate(
        ledger=ledger,
        redactor=redactor,
        rules=rules,
        proposals=proposals,
        similar=SimilarMemories(ledger=ledger, embedding=embedding, engine=engine, clock=clock),
        scopes=scopes,
        is_marked=is_marked,
    )


def _asks(request: Request) -> bool:
    """Whether the caller wants a person to look at it; of what is written strictest, at any of it."""
    items: Sequence[Request] = request.items if isinstance(request, RememberManyRequest) else (request,)
    return any(getattr(item, "approval_required", False) for item in items)


def _written(plan: Plan[Any]) -> Sequence[Record]:
    """The new versions, without those that only say that an older fact has ended."""
    before = {record.id for record in plan.before}
    fresh = [record for record in plan.after if record.version == 1 or record.id in before]
    return fresh or plan.after[:1]


def denial(verdict: Verdict) -> ForbiddenError:
    """What a write or a recall is answered with that a rule denies."""
    return ForbiddenError(
        f"A rule forbids this: {', '.join(verdict.rules)}.", reason="denied", hint=verdict.because
    )


def _fingerprint(ctx: Context, request: RecallRequest, nonce: str) -> str:
    """The same request of the same principal, named without its words."""
    asked = request.model_dump(mode="json", exclude={"approval_required"})
    text = json.dumps([nonce, ctx.tenant, ctx.principal.name, asked], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _is_fresh(proposal: Proposal, now: int) -> bool:
    """Whether it can still be approved, or used."""
    if proposal.is_pending:
        return not proposal.has_lapsed(now)
    return (proposal.reviewed_at or 0) > now - RECALL_LIFE_MS
