"""Forks: a replay repeats what was recorded and writes nothing; a branch begins anew and sees what its source saw."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from quipu.errors import ConflictError, InvalidError
from quipu.model.change import Once
from quipu.model.principal import Principal
from quipu.model.runs import Driver, EventType, ForkMode, OpenRun, Run, RunStatus
from quipu.model.value import Json, JsonObject
from quipu.ports.parts import Parts
from quipu.rules import runs_authority
from quipu.service.runs_stepping import Stepping


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkRequest:
    """Which run, from where, and what is to be different."""

    run_id: str
    mode: ForkMode
    from_seq: int = 0
    inputs: JsonObject | None = None
    configurable: JsonObject | None = None


class Forking:
    """New runs out of old ones. The order of checks is the contract's: the run, the bounds, then memory."""

    def __init__(self, parts: Parts, stepping: Stepping) -> None:
        self._parts, self._stepping = parts, stepping

    async def fork(
        self, principal: Principal, request: ForkRequest, once: Once | None, run_id: str, guard: int
    ) -> Run:
        """`guard`: what the texts of the request were checked against."""
        source = await self._stepping.run(principal.tenant, request.run_id)
        if request.from_seq > source.last:
            raise InvalidError.at(
                "/fromSeq", "from_seq", "The log does not go that far.", accepted=[f"0 to {source.last}"]
            )
        await self._check_history(source)
        if request.mode is ForkMode.REPLAY:
            change = await self._replay(principal, source, request, run_id)
        else:
            change = await self._branch(principal, source, request, run_id)
        done = await self._stepping.opened(principal, change, once, guard)
        told = run_id if done.replayed is None else str(done.replayed["runId"])
        return await self._stepping.run(principal.tenant, told)

    async def _check_history(self, source: Run) -> None:
        """What cannot be served as it was is refused; what is there now would be something else."""
        if source.is_expired:
            raise ConflictError("The run's history is gone.", reason="event_log_unavailable")
        head = await self._parts.ledger.head(source.tenant)
        if source.view is None or source.view.seq < head.horizon:
            raise ConflictError("Memory at the fork point is gone.", reason="retention_expired")

    async def _replay(self, principal: Principal, source: Run, request: ForkRequest, run_id: str) -> OpenRun:
        if not source.status.is_over:
            raise ConflictError("The run is still at work.", reason="run_active")
        events = await self._stepping.log(source.tenant, source.id)
        recorded = tuple(replace(event, causation_id=event.id) for event in events)
        run = replace(
            source,
            id=run_id,
            driver=Driver.REPLAY,
            authority=runs_authority.kept(principal),
            source_run_id=source.id,
            from_seq=request.from_seq,
            mode=ForkMode.REPLAY,
            created_at=self._parts.clock(),
            ended_at=self._parts.clock(),
            worker=None,
            lease_until=0,
        )
        variables = await self._parts.ledger.run_variables(source.tenant, source.id)
        return OpenRun(run=run, recorded=recorded, variables=tuple(variables))

    async def _branch(self, principal: Principal, source: Run, request: ForkRequest, run_id: str) -> OpenRun:
        """Nodes that were done before the fork point stay done, with their results; all others are done anew."""
        events = await self._stepping.log(source.tenant, source.id)
        done = [
            event.node_id
            for event in events
            if event.sequence < request.from_seq and event.type is EventType.NODE_COMPLETED
        ]
        # What a branch came with was done before its log begins.
        inherited = cast("list[str]", source.authority.get("skips", [])) if request.from_seq > 0 else []
        skips: list[Json] = [*inherited, *done]
        known = await self._parts.ledger.run_variables(source.tenant, source.id)
        kept = tuple(
            replace(variable, sequence=0) for variable in known if variable.sequence < request.from_seq
        )
        run = Run(
            tenant=source.tenant,
            id=run_id,
            workflow_id=source.workflow_id,
            driver=Driver.EXTERNAL if source.driver is Driver.EXTERNAL else Driver.ENGINE,
            status=RunStatus.PENDING,
            view=source.view,
            authority={**runs_authority.kept(principal), "skips": skips},
            inputs=source.inputs if request.inputs is None else request.inputs,
            configurable=source.configurable if request.configurable is None else request.configurable,
            metadata=source.metadata,
            tags=source.tags,
            agent=source.agent,
            source_run_id=source.id,
            from_seq=request.from_seq,
            mode=ForkMode.BRANCH,
            created_at=self._parts.clock(),
        )
        return OpenRun(run=run, variables=kept)
