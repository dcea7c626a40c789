"""Runs: opened, driven from outside, ended, cancelled, forked, looked at. Read `finish`: every end goes through it."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from quipu.errors import Fault, ForbiddenError, NotFoundError, QuipuError, SecretLeakageError
from quipu.ledger.commit import Change, Committed, Drop, Keep
from quipu.ledger.ledger import Ledger
from quipu.memory.change_feed import CommitSignal
from quipu.memory.model import RememberRequest, RememberResponse
from quipu.memory.pipeline import Guard, Pipeline, Plan, Planning, naming
from quipu.memory.read_log import RecallBudget
from quipu.memory.remember import Remember
from quipu.memory.scope import Scopes
from quipu.memory.service import MemoryService
from quipu.model.principal import Permission, Principal, local
from quipu.operation import AnyBinding, Binding, Context
from quipu.runs import messages as m
from quipu.runs import operations as ops
from quipu.runs.adapter import Adapter
from quipu.runs.attribution import OWN
from quipu.runs.compare import Comparison
from quipu.runs.conformance import LOST_MS, FixturePlayer
from quipu.runs.forks import Forks
from quipu.runs.lookup import RunLookup, event_views, every_row, run_view, variables_of
from quipu.runs.model import (
    ENDS,
    EVENTS,
    NOTES,
    RUNS,
    VARIABLE_RECORDS,
    VARIABLES,
    Driver,
    EventType,
    Note,
    Run,
    RunStatus,
)
from quipu.runs.rules import (
    SUMMARIES,
    SUMMARY_TAG,
    Happening,
    RunOverError,
    failure,
    is_reserved,
    moved,
    numbered,
    reaches_run,
    reserved,
    set_variables,
    summary_id,
    summary_text,
    variable_rows,
)
from quipu.runs.steps import RunSecrets, Step, Steps
from quipu.runs.streams import RunFollower

_PAGE = 500
_NODE_EVENTS: Mapping[str, EventType] = {
    "started": "node.started",
    "completed": "node.completed",
    "failed": "node.failed",
}
_UNFINISHED: tuple[RunStatus, ...] = ("pending", "running", "cancelling")
#: What goes with the history of a run, and what its row still says of it then.
_HISTORY = (EVENTS, VARIABLES, VARIABLE_RECORDS, NOTES)
_STAYS = ("tags", "agent")
_log = logging.getLogger("quipu.runs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """What is done with runs."""

    ledger: Ledger
    lookup: RunLookup
    steps: Steps
    pipeline: Pipeline
    remember: Remember
    scopes: Scopes
    adapter: Adapter
    player: FixturePlayer
    signal: CommitSignal
    #: How long a history is kept once its run has ended; 0: for good.
    history_ms: int

    @property
    def follower(self) -> RunFollower:
        return RunFollower(ledger=self.ledger, signal=self.signal, events=self.events)

    @property
    def bindings(self) -> tuple[AnyBinding, ...]:
        adapter = self.adapter
        return (
            Binding(ops.OPEN_RUN, self.open),
            Binding(ops.GET_WORKFLOW, self.workflow),
            Binding(ops.GET_RUN, self.get),
            Binding(ops.LIST_RUNS, self.listed),
            Binding(ops.RECORD_NODE, self.record_node),
            Binding(ops.END_RUN, self.end),
            Binding(ops.CANCEL_RUN, self.cancel),
            Binding(ops.FORK_RUN, self.fork),
            Binding(ops.COMPARE_RUNS, Comparison(self.ledger, self.lookup, adapter).compare),
            Binding(ops.LIST_RUN_EVENTS, self.events),
            Binding(ops.RUN_NOTES, self.notes),
            Binding(ops.MINT_MEMORY_REF, adapter.mint),
            Binding(ops.LIST_ENTRIES, adapter.list_entries),
            Binding(ops.GET_ENTRY, adapter.get_entry),
            Binding(ops.PUT_ENTRY, adapter.put_entry),
            Binding(ops.DELETE_ENTRY, adapter.delete_entry),
        )

    # -- opening and looking ------------------------------------------------------------------------------------------

    async def open(self, ctx: Context, request: m.OpenRunRequest) -> m.RunView:
        """What the run sees is the position of this very commit."""
        if is_reserved(request.agent):
            raise reserved()
        if ctx.principal.has_review_limits:
            raise ForbiddenError(hint="A run needs a credential without limits to stores and operations.")
        run_id = self.pipeline.new_id("run")
        driver: Driver = "fixture" if request.workflow_id in self.player.workflows else "external"

        async def plan(guard: Guard) -> Step:
            clean = guard.clean(request)
            agent, now = clean.described_agent, ctx.clock()
            run, rows = numbered(
                Run(
                    id=run_id,
                    workflow_id=clean.workflow_id,
                    status="running" if driver == "external" else "pending",
                    driver=driver,
                    agent_id=clean.agent,
                    user_id=clean.user_id,
                    opened_by=ctx.principal.name,
                    taken_at=now,
                    body={
                        "inputs": clean.inputs,
                        "configurable": clean.configurable,
                        "metadata": clean.metadata,
                        "tags": list(clean.tags),
                        "agent": None if agent is None else agent.model_dump(exclude_none=True),
                    },
                    created_at=now,
                ),
                [Happening(type="run.started")],
                now,
            )
            return Step(run, (Keep(RUNS, run, 0), *rows))

        done = await self.steps.take(ctx, ops.OPEN_RUN.name, run_id, plan, request)
        if done is not None and (first := done.replayed) is not None:
            run = await self.lookup.found(ctx, str(first["run_id"]))
            return run_view(replace(run, status=first["status"]), {}, replayed=True)
        run = await self.lookup.found(ctx, run_id)
        if driver == "fixture":
            self.player.start(ctx, run, self)
        return run_view(run, {})

    async def workflow(self, ctx: Context, request: m.GetWorkflowRequest) -> m.WorkflowView:
        found = self.player.workflows.get(request.workflow_id)
        if found is None:
            raise NotFoundError("There is no such workflow.", reason="workflow")
        return m.WorkflowView(workflow=dict(found))

    async def get(self, ctx: Context, request: m.GetRunRequest) -> m.RunView:
        return await self._shown(ctx, await self.lookup.found(ctx, request.run_id), None)

    async def _shown(self, ctx: Context, run: Run, done: Committed | None) -> m.RunView:
        """A run with its variables, as the answer to what was done."""
        variables = await variables_of(self.ledger, ctx.tenant, run.id)
        return run_view(run, variables, replayed=_is_again(done))

    async def listed(self, ctx: Context, request: m.ListRunsRequest) -> m.ListRunsResponse:
        """Those of the caller's; what is not is passed over."""
        names = ("workflow_id", "agent_id", "status", "source_run_id")
        equal: dict[str, Any] = {
            name: value for name in names if (value := getattr(request, name)) is not None
        }
        if ctx.principal.user_id is not None:
            equal["user_id"] = ctx.principal.user_id
        after = None if request.cursor is None else (request.cursor,)
        shown: list[Run] = []
        while len(shown) <= request.limit:
            page = await self.ledger.page(RUNS, ctx.tenant, equal, after, _PAGE, newest_first=True)
            shown += [run for run in page if reaches_run(ctx.principal, run)]
            if len(page) < _PAGE:
                break
            after = (page[-1].id,)
        found = shown[: request.limit]
        return m.ListRunsResponse(
            runs=tuple(run_view(run, {}) for run in found),
            next_cursor=found[-1].id if len(shown) > len(found) else None,
        )

    async def events(self, ctx: Context, request: m.ListRunEventsRequest) -> m.ListRunEventsResponse:
        run = await self.lookup.found(ctx, request.run_id)
        after = (run.id, request.after)
        events = await self.ledger.page(EVENTS, ctx.tenant, {"run_id": run.id}, after, request.limit)
        seen = events[-1].sequence if events else request.after
        return m.ListRunEventsResponse(
            events=await event_views(ctx, self.ledger, self.scopes, run, events),
            is_complete=run.is_over and (run.is_expired or seen >= run.last),
        )

    # -- driving ------------------------------------------------------------------------------------------------------

    async def record_node(self, ctx: Context, request: m.RecordNodeRequest) -> m.RunView:
        async def plan(guard: Guard) -> Step:
            clean = _checked(guard, request)
            kept = await self.lookup.unfinished(ctx, clean.run_id)
            error = clean.error or (m.Failure(code="failed") if clean.status == "failed" else None)
            payload = {} if error is None else {"error": failure(error.code, error.message)}
            node = Happening(type=_NODE_EVENTS[clean.status], node_id=clean.node_id, payload=payload)
            results, is_first = set_variables(clean.variables, clean.node_id), clean.status == "started"
            run, changes = moved(kept, [node, *results] if is_first else [*results, node], ctx.clock())
            rows = variable_rows(run.id, kept.value.last + 1 + is_first, clean.variables)
            return Step(run, (*changes, *rows), clean.node_id)

        done = await self.steps.take(ctx, ops.RECORD_NODE.name, request.run_id, plan, request)
        run = await self.lookup.found(ctx, request.run_id)
        if done is not None and done.replayed is not None:
            run = replace(run, status=done.replayed["status"])
        return await self._shown(ctx, run, done)

    async def end(self, ctx: Context, request: m.EndRunRequest) -> m.RunView:
        async def plan(guard: Guard) -> Step | None:
            clean = _checked(guard, request)
            kept = await self.lookup.unfinished(ctx, clean.run_id)
            if kept.value.ending is not None:
                return None  # somebody has ended it: it only remains to be said
            given = clean.error or m.Failure(code="failed")
            error = failure(given.code, given.message) if clean.status == "failed" else None
            run, changes = moved(
                kept, set_variables(clean.variables), ctx.clock(), ending=clean.status, error=error
            )
            rows = variable_rows(run.id, kept.value.last + 1, clean.variables)
            return Step(run, (*changes, *rows))

        done = await self.steps.take(ctx, ops.END_RUN.name, request.run_id, plan, request)
        run = await self.finish(ctx, request.run_id)
        if done is None:
            raise RunOverError(run)
        return await self._shown(ctx, run, done)

    async def cancel(self, ctx: Context, request: m.CancelRunRequest) -> m.RunView:
        """Whoever cancels before an end was decided, wins."""

        async def plan(guard: Guard) -> Step | None:
            guard.clean(request)
            kept = await self.lookup.unfinished(ctx, request.run_id)
            if kept.value.ending is not None:
                return None
            run, changes = moved(kept, (), ctx.clock(), status="cancelling", ending="cancelled")
            return Step(run, tuple(changes))

        done = await self.steps.take(ctx, ops.CANCEL_RUN.name, request.run_id, plan, request)
        self.player.stop(request.run_id)
        run = await self.finish(ctx, request.run_id)
        if done is None and run.status != "cancelled":
            raise RunOverError(run)
        return await self._shown(ctx, run, done)

    async def fork(self, ctx: Context, request: m.ForkRunRequest) -> m.ForkRunResponse:
        run, is_again = await Forks(self.ledger, self.lookup, self.steps).fork(
            ctx, request, self.pipeline.new_id("run")
        )
        if run.driver == "fixture" and not is_again:
            self.player.start(ctx, run, self)
        return m.ForkRunResponse(
            run=run_view(run, await variables_of(self.ledger, ctx.tenant, run.id)),
            source_run_id=request.run_id,
            from_seq=request.from_seq or 0,
            mode=request.mode,
            replayed=is_again,
        )

    # -- notes --------------------------------------------------------------------------------------------------------

    async def notes(self, ctx: Context, request: m.RunNotesRequest) -> m.RunNotesResponse:
        """They are of the run alone: redacted, in no recall, and gone with its last step."""

        async def plan(guard: Guard) -> Step:
            clean = guard.clean(request)
            kept = await self.lookup.unfinished(ctx, clean.run_id)
            changes: list[Change] = []
            if clean.action == "add":
                note = Note(
                    run_id=clean.run_id,
                    backend=clean.backend,
                    id=self.pipeline.new_id("note"),
                    text=clean.content or "",
                )
                changes.append(Keep(NOTES, note, 0))
            else:
                rows = await every_row(self.ledger, NOTES, ctx.tenant, clean.run_id)
                changes += [Drop(NOTES, NOTES.key_of(row)) for row in rows if row.backend == clean.backend]
            return Step(kept.value, (Keep(RUNS, kept.value, kept.seq), *changes))

        done = None
        if request.action != "list":
            done = await self.steps.take(ctx, ops.RUN_NOTES.name, request.run_id, plan, request)
        run = await self.lookup.found(ctx, request.run_id)
        rows = await every_row(self.ledger, NOTES, ctx.tenant, run.id)
        return m.RunNotesResponse(
            notes=tuple(
                m.NoteView(id=row.id, text=row.text) for row in rows if row.backend == request.backend
            ),
            replayed=_is_again(done),
        )

    # -- the end ------------------------------------------------------------------------------------------------------

    async def finish(self, ctx: Context, run_id: str) -> Run:
        """Once an end was decided: remember a summary, then say it. Whoever comes first does it, also after a crash."""
        run = await self.lookup.found(ctx, run_id)
        if run.is_over or run.ending is None:
            return run
        try:
            await self._summarise(ctx, run)
        except QuipuError as error:  # a summary is a courtesy: it changes nothing about the end
            _log.info("a run's summary was not kept: %s", error.code)

        async def plan(guard: Guard) -> Step | None:
            kept = await self.lookup.kept(ctx, run_id)
            now, ending = ctx.clock(), kept.value.ending
            if kept.value.is_over or ending is None:
                return None
            said = Happening(
                type=ENDS[ending], payload={} if kept.value.error is None else {"error": kept.value.error}
            )
            last, changes = moved(kept, [said], now, status=ending, ended_at=now)
            notes = await every_row(self.ledger, NOTES, ctx.tenant, run_id)
            return Step(last, (*changes, *(Drop(NOTES, NOTES.key_of(note)) for note in notes)))

        await self.steps.take(ctx, "finish_run", run_id, plan)
        self.steps.secrets.end_run(ctx.tenant, run_id)
        return await self.lookup.found(ctx, run_id)

    async def fail(self, ctx: Context, run_id: str, code: str, message: str) -> None:
        """End a run that this server can no longer go on with."""

        async def plan(guard: Guard) -> Step | None:
            kept = await self.lookup.kept(ctx, run_id)
            if kept.value.is_over or kept.value.ending is not None:
                return None
            run, changes = moved(kept, (), ctx.clock(), ending="failed", error=failure(code, message))
            return Step(run, tuple(changes))

        await self.steps.take(ctx, ops.END_RUN.name, run_id, plan)
        await self.finish(ctx, run_id)

    async def _summarise(self, ctx: Context, run: Run) -> None:
        host = Principal(
            tenant=ctx.tenant, name="quipu", permissions=frozenset({Permission.WRITE}), trust="operator"
        )
        own = Context(host, ctx.clock, ctx.services)
        request = RememberRequest(
            agent_id=SUMMARIES,
            user_id=run.user_id,
            content=summary_text(run, run.ending or run.status),
            tags=(SUMMARY_TAG,),
            run_id=run.id,
        )
        record_id = summary_id(ctx.tenant, run.id)

        async def plan(planning: Planning, request: RememberRequest) -> Plan[RememberResponse]:
            if await self.ledger.newest_versions(ctx.tenant, [record_id]):
                there = RememberResponse(id=record_id, stored_at=planning.now)
                return Plan(commits=(), answer=lambda _: there)
            planned = await self.remember.plan(replace(planning, new_id=_always(record_id)), request)
            return replace(planned, commits=naming(planned.commits, OWN, "summary"))

        await self.pipeline.write(own, replace(self.remember.write, plan=plan), request)

    # -- what a server does by itself ---------------------------------------------------------------------------------

    async def work(self, tenant: str, context: Callable[[Principal], Context]) -> None:
        """Fail runs whose server has gone, and drop histories that have had their time."""
        ctx = context(replace(local(tenant), name="system"))
        await self._lose_overdue(ctx)
        if self.history_ms:
            await self.drop_histories(ctx)

    async def _lose_overdue(self, ctx: Context) -> None:
        """Fixture runs that were at work on a server that has gone, and ends that were decided and never said."""
        until = ctx.clock() - LOST_MS
        for status in _UNFINISHED:
            after: tuple[str] | None = None
            while page := await self.ledger.page(RUNS, ctx.tenant, {"status": status}, after, _PAGE):
                for run in page:
                    if run.created_at > until or self.player.is_playing(run.id):
                        continue
                    if run.ending is not None:
                        await self.finish(ctx, run.id)
                    elif run.driver == "fixture":
                        await self.fail(ctx, run.id, "host_lost", "The server that carried it out has gone.")
                after = (page[-1].id,)

    async def drop_histories(self, ctx: Context) -> int:
        """The row of a run stays, so that it is known that there was one. Returns how many histories went."""
        until, count = ctx.clock() - self.history_ms, 0
        after: tuple[str] | None = None
        while page := await self.ledger.page(RUNS, ctx.tenant, {"is_expired": 0}, after, _PAGE):
            for run in page:
                if run.ended_at is not None and run.ended_at <= until:
                    await self._drop_history(ctx, run.id)
                    count += 1
            if page[-1].created_at > until:
                break  # ids are in the order of opening: what was opened since has not been over for long enough
            after = (page[-1].id,)
        return count

    async def _drop_history(self, ctx: Context, run_id: str) -> None:
        async def plan(guard: Guard) -> Step | None:
            kept = await self.ledger.kept(RUNS, ctx.tenant, run_id)
            if kept is None or kept.value.is_expired:
                return None
            body = {name: value for name, value in kept.value.body.items() if name in _STAYS}
            last = replace(kept.value, is_expired=True, body=body, nodes={})
            rows = [
                Drop(table, table.key_of(row))
                for table in _HISTORY
                for row in await every_row(self.ledger, table, ctx.tenant, run_id)
            ]
            return Step(last, (Keep(RUNS, last, kept.seq), *rows))

        await self.steps.take(ctx, "drop_run_history", run_id, plan)


def runs_service(
    *,
    ledger: Ledger,
    pipeline: Pipeline,
    secrets: RunSecrets,
    memory: MemoryService,
    scopes: Scopes,
    budget: RecallBudget,
    signal: CommitSignal,
    is_conformance: bool,
    history_ms: int,
) -> Runs:
    """Everything of runs, from its parts."""
    lookup, steps = RunLookup(ledger), Steps(ledger=ledger, secrets=secrets)
    adapter = Adapter(
        ledger=ledger,
        lookup=lookup,
        pipeline=pipeline,
        remember=memory.remember,
        forget=memory.forget,
        scopes=scopes,
        snapshots=memory.read.snapshots,
        read_log=memory.read_log,
        budget=budget,
    )
    return Runs(
        ledger=ledger,
        lookup=lookup,
        steps=steps,
        pipeline=pipeline,
        remember=memory.remember,
        scopes=scopes,
        adapter=adapter,
        player=FixturePlayer(steps=steps, adapter=adapter, is_on=is_conformance),
        signal=signal,
        history_ms=history_ms,
    )


def _always(record_id: str) -> Callable[[str], str]:
    return lambda prefix: record_id


def _is_again(done: Committed | None) -> bool:
    """Whether it was done before, under the same key."""
    return done is not None and done.replayed is not None


def _checked(guard: Guard, request: Any) -> Any:
    """The request without secrets. Names of results mean something to whoever gave them: one in them is refused."""
    clean = guard.clean(request)
    if list(clean.variables) != list(request.variables):
        raise SecretLeakageError(faults=[Fault("/variables", "secret_found", "names without a secret")])
    return clean
