"""Telling what the host does by itself, in a run of its own: a change and its event are one transaction.

1. The run is opened with the first change that it tells of: what changes nothing leaves no run.
2. Work that is cut off leaves its run open, with the events of all that was done. An engine ends it later.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from quipu.errors import InternalError
from quipu.model.change import Commit, Put
from quipu.model.journal import Draft, Op
from quipu.model.principal import Principal
from quipu.model.record import Record
from quipu.model.runs import Driver, Happening, OpenRun, Run, RunStatus, RunStep
from quipu.ports.parts import Parts
from quipu.rules import runs_authority, runs_workflows
from quipu.service.committing import Plan
from quipu.service.runs_stepping import Stepping

R = TypeVar("R")
#: How long nobody ends a run whose process may have died: longer than any one change takes.
_LEASE_MS = 300_000


class Telling:
    """The run in which one pass of the host tells what it does. `worker` is the name of this process."""

    def __init__(self, parts: Parts, principal: Principal, worker: str) -> None:
        self._parts, self._actor, self._worker = parts, principal.name, worker
        self._run = Run(
            tenant=principal.tenant,
            id=parts.mint_id("run"),
            workflow_id=runs_workflows.UPKEEP,
            driver=Driver.ENGINE,
            status=RunStatus.RUNNING,
            authority=runs_authority.kept(principal),
            worker=worker,
            created_at=parts.clock(),
        )

    async def commit(self, events: Sequence[Happening], at: int) -> Commit:
        """What is committed together with the change that the events tell of."""
        until = at + _LEASE_MS
        step = RunStep(run_id=self._run.id, events=tuple(events), worker=self._worker, lease_until=until)
        is_open = await self._opened() is not None
        opening = () if is_open else (OpenRun(run=replace(self._run, lease_until=until)),)
        draft = Draft(
            op=Op.STEP_RUN if is_open else Op.OPEN_RUN,
            actor=self._actor,
            at=at,
            run=self._run.id,
            detail={"events": [event.type.value for event in events]},
        )
        return Commit(tenant=self._run.tenant, draft=draft, changes=(*opening, step))

    async def end(self, stepping: Stepping) -> Run | None:
        """The run, complete; None where there was nothing to tell."""
        run = await self._opened()
        if run is None:
            return None
        return await stepping.end(run, self._actor, RunStatus.COMPLETED, worker=self._worker)

    async def _opened(self) -> Run | None:
        return await self._parts.ledger.run(self._run.tenant, self._run.id)


@dataclass(frozen=True, slots=True)
class Told:
    """What a change makes happen, read off the very commit that makes it, and what else is written with it."""

    telling: Telling
    events: Callable[[Commit], Sequence[Happening]]
    beside: Callable[[Commit], Awaitable[Sequence[Commit]]] | None = None

    async def planned(self, plan: Plan[R]) -> Plan[R]:
        """The plan, with all of it in one transaction."""
        if plan.commit is None:
            return plan
        told = await self.telling.commit(self.events(plan.commit), plan.commit.draft.at)
        others = () if self.beside is None else await self.beside(plan.commit)
        return replace(plan, ahead=(*plan.ahead, told, *others))


def made(commit: Commit) -> Record:
    """The version that a commit writes."""
    for change in commit.changes:
        if isinstance(change, Put):
            return change.record
    raise InternalError("A commit was told of that writes no version.")
