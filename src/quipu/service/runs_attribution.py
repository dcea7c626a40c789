"""Telling a run of what was written in it: the entry and its event are one commit, neither without the other."""

from __future__ import annotations

from dataclasses import replace

from quipu.model.operations import RememberRequest
from quipu.model.outcomes import RememberResponse
from quipu.model.record import Record
from quipu.model.runs import RunStep
from quipu.ports.parts import Parts
from quipu.rules import runs_wire
from quipu.service.committing import Plan


async def steps(parts: Parts, request: RememberRequest, record: Record) -> tuple[RunStep, ...]:
    """`memory.written`, where the write names a run of the tenant that is not over."""
    if request.run_id is None or not parts.host.tells_writes:
        return ()
    run = await parts.ledger.run(record.tenant, request.run_id)
    if run is None or run.status.is_over:
        return ()  # a name that means nothing here, or a write that was approved when the run had ended
    # Without another name, memory goes by that of its agent.
    told = runs_wire.written(record, request.memory_ref or record.agent_id, request.node_id)
    return (RunStep(run_id=run.id, events=(told,)),)


async def attributed(
    parts: Parts, request: RememberRequest, record: Record, plan: Plan[RememberResponse]
) -> Plan[RememberResponse]:
    """A plan that also tells the run."""
    if plan.commit is None:
        return plan
    told = await steps(parts, request, record)
    if not told:
        return plan
    return replace(plan, commit=replace(plan.commit, changes=(*plan.commit.changes, *told)))
