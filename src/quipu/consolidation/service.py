"""Passes over short-term memory: what weighs enough is written as long-term memory, what is old and light is forgotten.

Both are ordinary writes: redacted, judged, held, journaled. A promotion and the end of what it was made of are one
transaction, at the very versions that were weighed, so of two passes, in this process or in another, one does it.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from quipu.consolidation import operations as ops
from quipu.consolidation.extraction import Extraction
from quipu.consolidation.model import ConsolidateRequest, ConsolidateResponse, Outcome
from quipu.consolidation.report import CHANGED, Report
from quipu.consolidation.rules import (
    CONSOLIDATION,
    Planned,
    Scorer,
    Thresholds,
    is_known,
    key_of,
    planned,
    promoted_type,
    promotion,
    score,
    trust_of,
)
from quipu.consolidation.windows import Windows
from quipu.errors import ConflictError, ForbiddenError, QuipuError
from quipu.governance.model import PROPOSALS
from quipu.governance.similar_memories import SimilarMemories
from quipu.ledger.commit import Close, Commit
from quipu.ledger.ledger import Ledger
from quipu.memory.drafts import sources_of
from quipu.memory.model import ForgetRequest, RememberRequest, WriteResponse
from quipu.memory.pipeline import Pipeline, Plan, Planning, naming
from quipu.memory.service import MemoryService
from quipu.model.journal import Draft
from quipu.model.principal import Permission, Principal, local
from quipu.model.record import Record
from quipu.operation import AnyBinding, Binding, Context, dispatch

#: So many are forgotten at once.
_TOGETHER = 500
_MOST_DENIED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidation:
    """Makes passes."""

    ledger: Ledger
    pipeline: Pipeline
    memory: MemoryService
    windows: Windows
    similar: SimilarMemories
    extraction: Extraction | None = None
    scorer: Scorer = score
    #: One pass of a tenant at a time in this process: two would only get into each other's way.
    _turns: dict[str, asyncio.Lock] = field(default_factory=dict[str, asyncio.Lock], init=False)
    #: What a rule forbade, and the position of the rules that did: nobody asks again before they have changed.
    _denied: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int], init=False)

    @property
    def bindings(self) -> tuple[AnyBinding, ...]:
        return (Binding(ops.CONSOLIDATE, self.consolidate),)

    @property
    def thresholds(self) -> Thresholds:
        return self.windows.thresholds

    async def consolidate(self, ctx: Context, request: ConsolidateRequest) -> ConsolidateResponse:
        """One pass over the windows that are meant."""
        if not ctx.principal.may(Permission.WRITE):
            raise ForbiddenError(hint=f"It needs the permission {Permission.WRITE}.")
        if request.all_agents and not ctx.principal.is_whole:
            raise ForbiddenError(hint="It needs a credential without limits to agents, users or stores.")
        agent_id = None if request.all_agents else request.agent
        async with self._turns.setdefault(ctx.tenant, asyncio.Lock()):
            await self.memory.read_log.flush()  # what was recalled just now weighs more
            windows = await self.windows.found(ctx.principal, agent_id, request.user_id, ctx.clock())
            report = Report(
                pass_id=self.pipeline.new_id("pass"),
                begun_at=(await self.ledger.head(ctx.tenant)).seq,
                dry_run=request.dry_run,
                asked=await self.windows.asked(ctx.tenant, [one for window in windows for one in window]),
            )
            for window in windows:
                await self._decide(ctx, window, report)
            for source, into in report.promoted:
                await self._extract(ctx, source, into, report)
            if report.has_acted:
                await self._note(ctx, request, report, len(windows))
        return report.answer(len(windows))

    async def work(self, tenant: str, context: Callable[[Principal], Context]) -> None:
        """What a server does by itself: a pass over everything of a tenant. `context` makes one of a principal."""
        principal = replace(local(tenant), name="system")
        await dispatch(context(principal), ops.CONSOLIDATE, ConsolidateRequest(all_agents=True))

    # -- one window ---------------------------------------------------------------------------------------------------

    async def _decide(self, ctx: Context, window: Sequence[Record], report: Report) -> None:
        items, similar = await self.windows.weighed(ctx.tenant, window)
        report.similar += similar
        asked, evicted = report.asked, list[Planned]()
        for plan in planned(items, ctx.clock(), self.thresholds, asked.refusals, self.scorer):
            waiting = next((asked.waiting[name] for name in plan.ids if name in asked.waiting), None)
            if waiting is not None:
                report.add(plan, "held", waiting)
            elif plan.outcome == "kept":
                report.stays(plan, is_refused=plan.is_refused)
            elif plan.outcome == "promoted":
                with report.failing([plan]):
                    await self._promote(ctx, plan, report)
            elif report.dry_run:
                report.add(plan, plan.outcome)
            else:
                evicted.append(plan)
        for start in range(0, len(evicted), _TOGETHER):
            some = evicted[start : start + _TOGETHER]
            with report.failing(some):
                await self._remove(ctx, some, "evicted", "Consolidation: of little weight.", report)

    async def _promote(self, ctx: Context, plan: Planned, report: Report) -> None:
        known = await self._known(ctx.tenant, plan.records)
        if known is not None and not report.asked.refusals.removal.isdisjoint(plan.ids):
            report.stays(plan, is_refused=True)
        elif report.dry_run:
            report.add(plan, "promoted" if known is None else "known", known)
        elif known is not None:
            reason = f"Consolidation: {known} says the same."
            await self._remove(ctx, [plan], "known", reason, report, into=known)
        else:
            await self._write(ctx, plan, report)

    async def _known(self, tenant: str, records: Sequence[Record]) -> str | None:
        """A long-term memory that says exactly what each of them says, or that they became already."""
        ids = {record.id for record in records}
        made = await self.ledger.records(tenant, await self.ledger.derived(tenant, sorted(ids)))
        for other in made.values():
            is_promotion = other.tier == "long_term" and other.source == CONSOLIDATION
            if is_promotion and other.standing == "live" and ids <= sources_of(other):
                return other.id
        newest = records[0]
        like = replace(newest, id="", type=promoted_type(newest.type))
        for other, _ in await self.similar.to(tenant, like):
            is_theirs = other.tier == "long_term" and other.user_id == newest.user_id
            if is_theirs and all(is_known(record, other) for record in records):
                return other.id
        return None

    # -- writes -------------------------------------------------------------------------------------------------------

    async def _write(self, ctx: Context, plan: Planned, report: Report) -> None:
        """The new memory and the end of what it was made of, in one transaction."""
        records = plan.records
        newest = records[0]
        content = json.loads(newest.content) if newest.type == "procedural" else newest.content
        request = promotion(records, content).model_copy(
            update={"idempotency_key": self._key("promote", records, report)}
        )

        async def planned(planning: Planning, request: RememberRequest) -> Plan[Any]:
            await self._check_unchanged(planning.tenant, records, planning.now)
            made = await self.memory.remember.plan(planning, request)
            closing = Commit(
                tenant=planning.tenant,
                draft=Draft(
                    op="forget",
                    actor=planning.author,
                    at=planning.now,
                    store=newest.store_id,
                    agent=newest.agent_id,
                ),
                changes=tuple(Close(id=one.id, expects=one.version, ending="forgotten") for one in records),
                reason=f"Consolidation: it became {made.after[0].id}.",
            )
            commits = _of_pass((*made.commits, closing), report.pass_id, [plan])
            return replace(made, commits=commits, before=records)

        who = replace(ctx, principal=replace(ctx.principal, trust=trust_of(records)))
        write = replace(self.memory.remember.write, plan=planned)
        answer = await self._allowed(who, write, request)
        outcome, into = await self._became(ctx.tenant, answer, "promoted", answer.id)
        report.add(plan, outcome, into)
        report.has_acted |= not answer.replayed
        if outcome == "promoted" and self.extraction is not None:
            report.promoted.append((newest, answer.id))

    async def _remove(
        self,
        ctx: Context,
        plans: Sequence[Planned],
        outcome: Outcome,
        reason: str,
        report: Report,
        into: str | None = None,
    ) -> None:
        """An ordinary forgetting, all at once. What has changed since it was weighed stays."""
        records = [record for plan in plans for record in plan.records]
        request = ForgetRequest(
            agent_id=records[0].agent_id,
            user_id=records[0].user_id,
            ids=tuple(record.id for record in records),
            reason=reason,
            idempotency_key=self._key("forget", records, report),
        )
        gone: set[str] = set()

        async def planned(planning: Planning, request: ForgetRequest) -> Plan[Any]:
            gone.clear()
            gone.update(await self._unchanged(planning.tenant, records, planning.now))
            ids = tuple(name for name in request.ids if name in gone)
            if not ids:
                raise _changed()
            made = await self.memory.forget.plan(planning, request.model_copy(update={"ids": ids}))
            weighed = {record.id: record.version for record in records}
            if any(record.version != weighed[record.id] for record in made.before):
                raise ConflictError("It was changed by somebody else.", reason="version_mismatch")
            return replace(made, commits=_of_pass(made.commits, report.pass_id, plans))

        answer = await self._allowed(ctx, replace(self.memory.forget.write, plan=planned), request)
        became, where = await self._became(ctx.tenant, answer, outcome, into)
        report.has_acted |= not answer.replayed
        for plan in plans:
            is_done = became == "held" or gone.issuperset(plan.ids)
            report.add(plan, became if is_done else "kept", where if is_done else None)

    async def _allowed(self, ctx: Context, write: Any, request: Any) -> Any:
        """The answer to a write, unless a rule has forbidden the very same and the rules are still the same."""
        place = (ctx.tenant, request.idempotency_key)
        guarded = (await self.ledger.head(ctx.tenant)).guarded
        if self._denied.get(place) == guarded:
            raise ForbiddenError("A rule forbids this.", reason="denied")
        try:
            return await self.pipeline.write(ctx, write, request)
        except ForbiddenError as error:
            if error.reason == "denied":
                while len(self._denied) >= _MOST_DENIED:
                    del self._denied[next(iter(self._denied))]
                self._denied[place] = guarded
            raise

    async def _became(
        self, tenant: str, answer: WriteResponse, outcome: Outcome, into: str | None
    ) -> tuple[Outcome, str | None]:
        """What an answer says. One that was given before is another process's: it has done it, or asked about it."""
        if not answer.pending_approval:
            return ("kept", None) if answer.replayed else (outcome, into)
        proposal = await self.ledger.get(PROPOSALS, tenant, answer.proposal_id)
        return ("held", answer.proposal_id) if proposal and proposal.is_pending else ("kept", None)

    def _key(self, what: str, records: Sequence[Record], report: Report) -> str:
        """Names it so that two processes do it once; what nobody decided on may be asked once more."""
        undecided = [one for record in records for one in report.asked.undecided.get(record.id, ())]
        return key_of(what, records, *sorted(set(undecided)))

    async def _unchanged(self, tenant: str, records: Sequence[Record], now: int) -> set[str]:
        """Those that are still the live version that was weighed."""
        found = await self.ledger.records(tenant, [record.id for record in records])
        return {
            record.id
            for record in records
            if (newest := found.get(record.id)) is not None
            and newest.version == record.version
            and newest.standing == "live"
            and not newest.is_expired(now)
        }

    async def _check_unchanged(self, tenant: str, records: Sequence[Record], now: int) -> None:
        if len(await self._unchanged(tenant, records, now)) < len(records):
            raise _changed()

    # -- afterwards ---------------------------------------------------------------------------------------------------

    async def _extract(self, ctx: Context, source: Record, into: str, report: Report) -> None:
        """Facts that a model finds in what was promoted wait for a person. It is promoted all the same."""
        if self.extraction is None:
            return
        try:
            report.proposed += await self.extraction.propose(ctx, source, into)
        except QuipuError:
            report.unread += 1

    async def _note(self, ctx: Context, request: ConsolidateRequest, report: Report, windows: int) -> None:
        """The journal says that there was a pass, and what came of it, in numbers."""
        detail = {
            "pass_id": report.pass_id,
            "after": report.begun_at,
            "windows": windows,
            "counts": dict(sorted(report.counts.items())),
        }
        draft = Draft(
            op="consolidate",
            actor=ctx.principal.name,
            at=ctx.clock(),
            agent=None if request.all_agents else request.agent,
            detail=detail,
        )
        await self.ledger.commit(Commit(tenant=ctx.tenant, draft=draft))


def _changed() -> ConflictError:
    return ConflictError("It was changed while it was weighed.", reason=CHANGED)


def _of_pass(commits: Sequence[Commit], pass_id: str, plans: Sequence[Planned]) -> tuple[Commit, ...]:
    """The journal says which pass it was, and what the memories that go weighed, in their order, in thousandths."""
    scores = {name: round(1000 * plan.score) for plan in plans for name in plan.ids}

    def weighed(commit: Commit) -> Commit:
        closed = [scores[change.id] for change in commit.changes if isinstance(change, Close)]
        detail = {**commit.draft.detail, **({"scores": closed} if closed else {})}
        return replace(commit, draft=replace(commit.draft, detail=detail))

    return tuple(weighed(commit) for commit in naming(commits, "pass_id", pass_id))
