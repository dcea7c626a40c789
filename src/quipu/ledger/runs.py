"""Runs on their way into a ledger and out of it, the same for every one: what to write is decided here, once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from quipu.errors import ConflictError
from quipu.ledger.rows import Row, Value, decoded, encoded
from quipu.model.runs import (
    Driver,
    EventType,
    ExpireRun,
    ForkMode,
    Happening,
    KeepRef,
    KeptVariable,
    MintedRef,
    OpenRun,
    Run,
    RunError,
    RunEvent,
    RunStatus,
    RunStep,
    View,
)
from quipu.rules import runs_states
from quipu.rules.runs_wire import stamp

#: A named statement and its values.
Statement: TypeAlias = tuple[str, Mapping[str, Value]]


@dataclass(frozen=True, slots=True)
class RunHead:
    """What a step has to know of its run."""

    status: RunStatus
    last: int
    worker: str | None
    lease_until: int
    secrets: tuple[str, ...]

    @classmethod
    def of(cls, row: Row) -> RunHead:
        status, last, worker, lease_until, secrets = row
        return cls(RunStatus(status), last, worker, lease_until, tuple(decoded(secrets)))


def opened(change: OpenRun, seq: int, at: int) -> tuple[RunHead, list[Statement]]:
    """A run begins: with a log that was recorded, or with `run.started` and a view of memory as it is now."""
    run = change.run
    if run.view is None:
        run = replace(run, view=View(seq, at))
    if change.recorded:
        events = [_event(run, replace(event, run_id=run.id, position=seq)) for event in change.recorded]
        run = replace(run, last=len(change.recorded) - 1)
    else:
        view = run.view or View(seq, at)
        events = [_numbered(run, 0, runs_states.started(view, stamp(view.at)), seq, at)]
        run = replace(run, last=0)
    head = RunHead(run.status, run.last, run.worker, run.lease_until, run.secrets)
    variables = [piece for variable in change.variables for piece in _variable(run, variable)]
    return head, [("open_run", _values(run)), *events, *variables]


def stepped(
    change: RunStep, tenant: str, head: RunHead | None, seq: int, at: int
) -> tuple[RunHead, list[Statement]]:
    """Something happens in a run."""
    if head is None:
        raise runs_states.no_run()
    status = runs_states.moved(head.status, change.status)
    worker, lease_until = head.worker, head.lease_until
    if change.worker is not None:
        if head.worker not in (None, change.worker) and head.lease_until > at:
            raise ConflictError("Another process has taken the run over.", reason="run_taken")
        worker, lease_until = change.worker, change.lease_until
    elif change.keeper is not None and (head.worker in (None, change.keeper) or head.lease_until <= at):
        worker, lease_until = change.keeper, change.lease_until
    run = Run(tenant=tenant, id=change.run_id, workflow_id="", driver=Driver.ENGINE, created_at=at)
    last = head.last
    made: list[Statement] = []
    for happening in change.events:
        last += 1
        made.append(_numbered(run, last, happening, seq, at))
    for variable in change.variables:
        kept = KeptVariable(variable.name, variable.value, last, variable.record_ids)
        made.extend(_variable(run, kept))
    # Notes that nobody holds are found by a keeper, but not by an engine, which only begins now.
    is_taken_over = worker != head.worker and (head.worker is not None or change.worker is not None)
    made.extend(_notes(change, tenant, seq, drops=status.is_over or is_taken_over))
    secrets = tuple(dict.fromkeys((*head.secrets, *change.secrets)))
    made.append(
        (
            "step_run",
            {
                "tenant": tenant,
                "id": change.run_id,
                "status": status.value,
                "last": last,
                "worker": worker,
                "lease_until": lease_until,
                "secrets": encoded(list(secrets)),
                "error": _error(change.error),
                "ended_at": at if status.is_over else None,
            },
        )
    )
    return RunHead(status, last, worker, lease_until, secrets), made


def _notes(change: RunStep, tenant: str, seq: int, *, drops: bool) -> list[Statement]:
    """Notes come and go. Whoever takes a run over begins without any: those of a process that died die with it."""
    key: dict[str, Value] = {"tenant": tenant, "id": change.run_id}
    made: list[Statement] = [("drop_run_notes", key)] if drops else []
    if change.clears is not None:
        made.append(("clear_run_notes", {**key, "backend": change.clears}))
    if change.note is not None:
        note = change.note
        values = {"tenant": tenant, "run_id": change.run_id, "position": seq}
        made.append(("add_run_note", {**values, "backend": note.backend, "text": note.text}))
    return made


def expired(change: ExpireRun, tenant: str, head: RunHead | None) -> list[Statement]:
    """The history of a run that is over goes."""
    if head is None:
        raise runs_states.no_run()
    if not head.status.is_over:
        raise ConflictError("The run is not over.", reason="run_active")
    key: dict[str, Value] = {"tenant": tenant, "id": change.run_id}
    names = ("drop_run_events", "drop_run_variables", "drop_run_variable_records", "expire_run")
    return [(name, key) for name in names]


def kept_ref(change: KeepRef) -> Statement:
    ref = change.ref
    values: dict[str, Value] = {
        "tenant": ref.tenant,
        "ref": ref.ref,
        "agent_id": ref.agent_id,
        "store_id": ref.store_id,
        "created_at": ref.created_at,
    }
    return "keep_ref", values


def _numbered(run: Run, sequence: int, happening: Happening, seq: int, at: int) -> Statement:
    return _event(
        run,
        RunEvent(
            run_id=run.id,
            sequence=sequence,
            type=happening.type,
            payload=happening.payload,
            node_id=happening.node_id,
            at=at,
            position=seq,
        ),
    )


def _event(run: Run, event: RunEvent) -> Statement:
    return "add_event", {
        "tenant": run.tenant,
        "run_id": run.id,
        "sequence": event.sequence,
        "type": event.type.value,
        "node_id": event.node_id,
        "payload": encoded(event.payload),
        "at": event.at,
        "causation_id": event.causation_id,
        "position": event.position,
    }


def _variable(run: Run, variable: KeptVariable) -> list[Statement]:
    key: dict[str, Value] = {
        "tenant": run.tenant,
        "run_id": run.id,
        "name": variable.name,
        "sequence": variable.sequence,
    }
    return [
        ("set_variable", {**key, "value": encoded(variable.value)}),
        *(("set_variable_record", {**key, "record_id": name}) for name in dict.fromkeys(variable.record_ids)),
    ]


def _error(error: RunError | None) -> str | None:
    return None if error is None else encoded({"code": error.code, "message": error.message})


def _values(run: Run) -> dict[str, Value]:
    view = run.view
    return {
        "tenant": run.tenant,
        "id": run.id,
        "workflow_id": run.workflow_id,
        "status": run.status.value,
        "driver": run.driver.value,
        "position": 0 if view is None else view.seq,
        "taken_at": 0 if view is None else view.at,
        "authority": encoded(run.authority),
        "inputs": encoded(run.inputs),
        "configurable": encoded(run.configurable),
        "metadata": encoded(run.metadata),
        "tags": encoded(list(run.tags)),
        "agent": None if run.agent is None else encoded(run.agent),
        "secrets": encoded(list(run.secrets)),
        "worker": run.worker,
        "lease_until": run.lease_until,
        "last": run.last,
        "source_run_id": run.source_run_id,
        "from_seq": run.from_seq,
        "mode": None if run.mode is None else run.mode.value,
        "created_at": run.created_at,
        "ended_at": run.ended_at,
        "error": _error(run.error),
    }


def run_of(row: Row) -> Run:
    """A run from `SELECT * FROM run`."""
    (
        tenant, run_id, workflow_id, status, driver, position, taken_at, authority, inputs, configurable, metadata,
        tags, agent, secrets, worker, lease_until, last, source_run_id, from_seq, mode, created_at, ended_at, error,
        is_expired,
    ) = row  # fmt: skip
    failure: Any = decoded(error) if error else None
    return Run(
        tenant=tenant,
        id=run_id,
        workflow_id=workflow_id,
        status=RunStatus(status),
        driver=Driver(driver),
        view=View(position, taken_at),
        authority=decoded(authority),
        inputs=decoded(inputs),
        configurable=decoded(configurable),
        metadata=decoded(metadata),
        tags=tuple(decoded(tags)),
        agent=decoded(agent) if agent else None,
        secrets=tuple(decoded(secrets)),
        worker=worker,
        lease_until=lease_until,
        last=last,
        source_run_id=source_run_id,
        from_seq=from_seq,
        mode=None if mode is None else ForkMode(mode),
        created_at=created_at,
        ended_at=ended_at,
        error=None if failure is None else RunError(failure["code"], failure["message"]),
        is_expired=bool(is_expired),
    )


def event_of(row: Row) -> RunEvent:
    run_id, sequence, kind, node_id, payload, at, causation_id, position = row
    return RunEvent(
        run_id=run_id,
        sequence=sequence,
        type=EventType(kind),
        node_id=node_id,
        payload=decoded(payload),
        at=at,
        causation_id=causation_id,
        position=position,
    )


def variables_of(found: Sequence[Row]) -> tuple[KeptVariable, ...]:
    """Variables in the order they were set; each row names one record that it repeats, or none."""
    kept: dict[tuple[str, int], KeptVariable] = {}
    for name, sequence, value, record_id in found:
        known = kept.get((name, sequence)) or KeptVariable(name, decoded(value), sequence)
        ids = known.record_ids if record_id is None else (*known.record_ids, record_id)
        kept[name, sequence] = replace(known, record_ids=ids)
    return tuple(kept.values())


def ref_of(row: Row) -> MintedRef:
    tenant, ref, agent_id, store_id, created_at = row
    return MintedRef(tenant=tenant, ref=ref, agent_id=agent_id, store_id=store_id, created_at=created_at)
