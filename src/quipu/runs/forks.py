"""Forks: a replay repeats what was recorded and writes nothing; a branch goes on from a point, and sees what its source saw."""

from dataclasses import dataclass, replace

from quipu.errors import ConflictError, Fault, InvalidError
from quipu.ledger.commit import Change, Keep
from quipu.ledger.ledger import Ledger
from quipu.memory.pipeline import Guard
from quipu.operation import Context
from quipu.runs import messages as m
from quipu.runs.lookup import RunLookup, every_row
from quipu.runs.model import (
    ENDS,
    EVENTS,
    RUNS,
    VARIABLE_RECORDS,
    VARIABLES,
    Run,
    RunEvent,
    Variable,
    event_id,
)
from quipu.runs.rules import Happening, node_states, numbered
from quipu.runs.steps import Step, Steps

_TERMINAL = frozenset(ENDS.values())


@dataclass(frozen=True, slots=True)
class Forks:
    """New runs out of old ones. The order of checks is the contract's: the run, the bounds, then what it saw."""

    ledger: Ledger
    lookup: RunLookup
    steps: Steps

    async def fork(self, ctx: Context, request: m.ForkRunRequest, run_id: str) -> tuple[Run, bool]:
        """The new run, which gets this id; or the one that an equal request made before, and that it did."""

        async def plan(guard: Guard) -> Step:
            clean = guard.clean(request)
            source = await self.lookup.found(ctx, clean.run_id)
            make = self._replay if clean.mode == "replay" else self._branch
            return await make(ctx, source, clean, run_id)

        done = await self.steps.take(ctx, "fork_run", request.run_id, plan, request)
        if done is not None and (first := done.replayed) is not None:
            return replace(await self.lookup.found(ctx, str(first["run_id"])), status=first["status"]), True
        return await self.lookup.found(ctx, run_id), False

    async def _replay(self, ctx: Context, source: Run, request: m.ForkRunRequest, run_id: str) -> Step:
        if not source.is_over:
            raise ConflictError("The run is still at work.", reason="run_already_active")
        from_seq = request.from_seq or 0
        _check_bounds(source, from_seq, source.last)
        await self._check_history(source, ctx)
        now = ctx.clock()
        run = replace(
            source,
            id=run_id,
            driver="replay",
            opened_by=ctx.principal.name,
            view=source.seen,
            source_run_id=source.id,
            from_seq=from_seq,
            mode="replay",
            created_at=now,
            ended_at=now,
        )
        rows: list[RunEvent] = await every_row(self.ledger, EVENTS, ctx.tenant, source.id)
        events = [event for event in rows if event.sequence <= source.last]
        return Step(run, (Keep(RUNS, run, 0), *await self._copied(ctx, source, run_id, events)))

    async def _branch(self, ctx: Context, source: Run, request: m.ForkRunRequest, run_id: str) -> Step:
        from_seq = request.from_seq or 0
        events: list[RunEvent] = await every_row(self.ledger, EVENTS, ctx.tenant, source.id)
        end = next((event.sequence for event in events if event.type in _TERMINAL), source.last)
        _check_bounds(source, from_seq, min(end, source.last))
        await self._check_history(source, ctx)
        kept = [event for event in events if event.sequence < from_seq]
        now, overlay = ctx.clock(), request.overlay or m.Overlay()
        changed = overlay.model_dump(mode="json", exclude_none=True)
        run = Run(
            id=run_id,
            workflow_id=source.workflow_id,
            status="pending" if source.driver == "fixture" else "running",
            driver="fixture" if source.driver == "fixture" else "external",
            agent_id=source.agent_id,
            user_id=source.user_id,
            opened_by=ctx.principal.name,
            view=source.seen,
            taken_at=source.taken_at,
            body={**source.body, **changed},
            secrets=source.secrets,
            last=from_seq - 1,
            nodes=node_states(kept),
            writes=sum(event.type == "memory.written" for event in kept),
            source_run_id=source.id,
            from_seq=from_seq,
            mode="branch",
            created_at=now,
        )
        rows = await self._copied(ctx, source, run_id, kept)
        if not kept:
            run, own = numbered(run, [Happening(type="run.started")], now)
            rows += own
        return Step(run, (Keep(RUNS, run, 0), *rows))

    async def _copied(self, ctx: Context, source: Run, run_id: str, events: list[RunEvent]) -> list[Change]:
        """Events as they were, each with the one that it repeats as its cause, and the variables that they set."""
        rows: list[Change] = [
            Keep(
                EVENTS,
                replace(event, run_id=run_id, causation_id=event_id(source.id, event.sequence)),
                0,
            )
            for event in events
        ]
        last = events[-1].sequence if events else -1
        variables: list[Variable] = await every_row(self.ledger, VARIABLES, ctx.tenant, source.id)
        known = [one for one in variables if one.sequence <= last]
        names = {one.name for one in known}
        rows += [Keep(VARIABLES, replace(one, run_id=run_id), 0) for one in known]
        linked = await self.ledger.page(VARIABLE_RECORDS, ctx.tenant, {"run_id": source.id}, limit=10_000)
        rows += [
            Keep(VARIABLE_RECORDS, replace(one, run_id=run_id), 0) for one in linked if one.name in names
        ]
        return rows

    async def _check_history(self, source: Run, ctx: Context) -> None:
        """What cannot be served as it was is refused: what is there now would be something else."""
        if source.is_expired:
            raise _gone("event_log_unavailable")
        if source.seen < (await self.ledger.head(ctx.tenant)).horizon:
            raise _gone("retention_expired")


def _check_bounds(source: Run, from_seq: int, most: int) -> None:
    if from_seq > most:
        raise InvalidError(
            "The log does not go that far.",
            reason="invalid_from_seq",
            faults=[Fault("/from_seq", "invalid_from_seq", f"0 to {most}")],
        )


def _gone(reason: str) -> InvalidError:
    return InvalidError("What the run saw, or its log, is gone.", reason=reason)
