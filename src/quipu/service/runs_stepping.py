"""Runs one step at a time: what every driver of a run does, and how a run ends."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from quipu.errors import ConflictError, QuipuError
from quipu.model.change import Commit, Committed, Once
from quipu.model.journal import Draft, Op
from quipu.model.principal import Principal
from quipu.model.record import State
from quipu.model.runs import (
    EventType,
    Happening,
    OpenRun,
    Run,
    RunError,
    RunEvent,
    RunStatus,
    RunStep,
    Variable,
)
from quipu.model.value import Json, JsonObject
from quipu.ports.parts import Parts
from quipu.rules import runs_authority, runs_refs, runs_states, runs_wire
from quipu.rules.runs_options import NewEntry
from quipu.service.runs_memory import RunMemory
from quipu.service.secrets import Secrets

_log = logging.getLogger("quipu.runs")
_PAGE = 500


class Stepping:
    """Commits what happens in runs."""

    def __init__(self, parts: Parts, memory: RunMemory, secrets: Secrets) -> None:
        self._parts, self._memory, self._secrets = parts, memory, secrets

    async def opened(
        self, principal: Principal, change: OpenRun, once: Once | None = None, guard: int | None = None
    ) -> Committed:
        """Begin a run: it sees memory as it is at this very commit. `guard`: what its texts were checked against."""
        draft = Draft(op=Op.OPEN_RUN, actor=principal.name, at=self._parts.clock(), run=change.run.id)
        commit = Commit(tenant=principal.tenant, draft=draft, changes=(change,), once=once)
        return (await self._parts.ledger.commit(commit, guard=guard))[0]

    async def step(self, tenant: str, actor: str, change: RunStep, guard: int | None = None) -> None:
        """Something happens."""
        node = next((event.node_id for event in change.events if event.node_id is not None), None)
        detail: dict[str, Json] = {"events": [event.type.value for event in change.events]}
        draft = Draft(
            op=Op.STEP_RUN, actor=actor, at=self._parts.clock(), run=change.run_id, node=node, detail=detail
        )
        await self._parts.ledger.commit(Commit(tenant=tenant, draft=draft, changes=(change,)), guard=guard)

    async def run(self, tenant: str, run_id: str) -> Run:
        """The run, if it is the tenant's."""
        run = await self._parts.ledger.run(tenant, run_id) if run_id.isprintable() else None
        if run is None:
            raise runs_states.no_run()
        return run

    async def log(self, tenant: str, run_id: str) -> list[RunEvent]:
        """All that happened."""
        events: list[RunEvent] = []
        while True:
            page = await self._parts.ledger.run_events(tenant, run_id, len(events) - 1, _PAGE)
            events.extend(page)
            if len(page) < _PAGE:
                return events

    async def end(
        self,
        run: Run,
        actor: str,
        status: RunStatus,
        *,
        error: RunError | None = None,
        variables: Sequence[Variable] = (),
        worker: str | None = None,
        guard: int | None = None,
    ) -> Run:
        """The summary, then the last event. Of a run that is being cancelled only cancelling is left."""
        now = (await self.run(run.tenant, run.id)).status
        if now.is_over:
            raise runs_states.run_over(now)
        if now is RunStatus.CANCELLING and error is None:
            status = RunStatus.CANCELLED
        for ending in (status, RunStatus.CANCELLED):
            await self._summarise(run, ending)
            payload: JsonObject = {} if error is None else runs_wire.failure(error.code, error.message)
            last = Happening(type=runs_states.TERMINAL[ending], payload=payload)
            change = RunStep(
                run_id=run.id,
                events=(*changed(variables), last),
                variables=tuple(variables),
                status=ending,
                error=error,
                worker=worker,
            )
            try:
                await self.step(run.tenant, actor, change, guard)
            except ConflictError as conflict:
                if conflict.reason == "run_over":  # somebody was faster: it is their end that is summed up
                    await self._summarise(run, (await self.run(run.tenant, run.id)).status)
                if conflict.reason != "run_cancelling" or ending is RunStatus.CANCELLED:
                    raise
                error, variables = None, ()
            else:
                break
        self._secrets.end_run(run.tenant, run.id)
        return await self.run(run.tenant, run.id)

    async def _summarise(self, run: Run, status: RunStatus) -> None:
        """One entry about each run. Whatever keeps it from being written does not change how the run ends.

        One that tells of another end, which then was not to be, is put right; the log has told of it already.
        """
        record_id = runs_refs.summary_id(run.id)
        try:
            known = (await self._parts.ledger.read(run.tenant, [record_id])).get(record_id)
            if known is not None and (
                known.standing is not State.LIVE or known.content.startswith(_end_of(run, status))
            ):
                return
            events = await self.log(run.tenant, run.id)
            others = [event for event in events if event.payload.get("memoryId") != record_id]
            entry = NewEntry(content=_summary(run, status, others), tags=("source:run-summary",))
            host, told = runs_authority.host(run.tenant), run if known is None else None
            await self._memory.put(
                host, runs_refs.SUMMARIES, entry, run=told, record_id=record_id, replaces=known
            )
        except QuipuError as failure:
            _log.warning("No summary of run %s: %s", run.id, failure.code)


def changed(variables: Sequence[Variable]) -> tuple[Happening, ...]:
    """`variable.changed`: the name, never the value."""
    return tuple(
        Happening(type=EventType.VARIABLE_CHANGED, payload={"name": variable.name}) for variable in variables
    )


def _summary(run: Run, status: RunStatus, events: Sequence[RunEvent]) -> str:
    """What became of it, without its inputs."""
    nodes = sum(event.type is EventType.NODE_COMPLETED for event in events)
    written = sum(event.type is EventType.MEMORY_WRITTEN for event in events)
    return f"{_end_of(run, status)} nodes completed: {nodes}, memories written: {written}."


def _end_of(run: Run, status: RunStatus) -> str:
    return f"Run {run.id} of workflow {run.workflow_id} {status.value}:"
