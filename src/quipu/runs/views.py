"""Rows of runs as they are shown."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from quipu.errors import Fault
from quipu.ledger.ledger import Ledger
from quipu.memory.scope import Scopes, reaches
from quipu.model.record import Record
from quipu.operation import Context, invalid
from quipu.runs.messages import MemoryEntry, RunError, RunEventView, RunView
from quipu.runs.model import EVENTS, VARIABLES, Run, RunEvent
from quipu.runs.rules import record_ids_in

_PAGE = 500


def run_view(run: Run, variables: Mapping[str, Any], *, replayed: bool = False) -> RunView:
    body: Mapping[str, Any] = run.body
    error: Any = run.error
    return RunView(
        id=run.id,
        workflow_id=run.workflow_id,
        status=run.status,
        driver=run.driver,
        agent_id=run.agent_id,
        user_id=run.user_id,
        opened_by=run.opened_by,
        created_at=run.created_at,
        ended_at=run.ended_at,
        snapshot=run.seen,
        snapshot_at=run.taken_at,
        last_sequence=run.last,
        writes=run.writes,
        error=None if error is None else RunError(code=error["code"], message=error["message"]),
        described_agent=body.get("agent"),
        tags=tuple(body.get("tags", ())),
        metadata=dict(body.get("metadata", {})),
        configurable=dict(body.get("configurable", {})),
        node_states=dict(run.nodes),
        variables=dict(variables),
        source_run_id=run.source_run_id,
        from_seq=run.from_seq,
        mode=run.mode,
        history_expired=run.is_expired,
        replayed=replayed,
    )


def entry_view(record: Record) -> MemoryEntry:
    return MemoryEntry(
        id=record.id,
        content=record.content,
        tags=record.tags,
        created_at=record.created_at,
        expires_at=record.expires_at,
    )


async def variables_of(ledger: Ledger, tenant: str, run_id: str) -> dict[str, Any]:
    """A run's variables. What names a memory that was erased is shown as null, whatever stands there."""
    rows = await every_row(ledger, VARIABLES, tenant, run_id)
    values: dict[str, Any] = {
        row.name: None if row.value is None else json.loads(row.value)
        for row in sorted(rows, key=lambda row: row.sequence)
    }
    named = {name: record_ids_in(value) for name, value in values.items()}
    wanted = sorted({record_id for ids in named.values() for record_id in ids})
    found = await ledger.newest_versions(tenant, wanted)
    erased = {record_id for record_id, record in found.items() if record.is_emptied}
    return {name: None if erased.intersection(named[name]) else value for name, value in values.items()}


async def every_row(ledger: Ledger, table: Any, tenant: str, run_id: str) -> list[Any]:
    """Everything of one run, however much it is."""
    rows: list[Any] = []
    after: Any = None
    while True:
        page = await ledger.page(table, tenant, {"run_id": run_id}, after, _PAGE)
        rows += page
        if len(page) < _PAGE:
            return rows
        after = table.key_of(page[-1])


async def log_of(ledger: Ledger, tenant: str, run_id: str, after: int, limit: int) -> Sequence[RunEvent]:
    """A part of a run's log."""
    return await ledger.page(EVENTS, tenant, {"run_id": run_id}, (run_id, after), limit)


async def event_views(
    ctx: Context, ledger: Ledger, scopes: Scopes, run: Run, events: Sequence[RunEvent]
) -> tuple[RunEventView, ...]:
    """Events with the tags of what was written, as far as the caller reaches that; erasing it takes them away."""
    ids = sorted({event.record_id for event in events if event.record_id is not None})
    tags: dict[tuple[str, int], tuple[str, ...]] = {}
    if ids:
        stores = await scopes.stores(ctx.tenant)
        for version in await _versions(ledger, ctx.tenant, events):
            if not version.is_emptied and reaches(ctx.principal, version, stores):
                tags[version.id, version.version] = version.tags
    return tuple(
        RunEventView(
            id=event.id,
            sequence=event.sequence,
            type=event.type,
            at=event.at,
            node_id=event.node_id,
            payload=_payload(run, event, tags.get((event.record_id or "", event.record_version or 0), ())),
            causation_id=event.causation_id,
        )
        for event in events
    )


async def _versions(ledger: Ledger, tenant: str, events: Sequence[RunEvent]) -> list[Record]:
    keys = sorted(
        {
            (event.record_id, event.record_version)
            for event in events
            if event.record_id is not None and event.record_version is not None
        }
    )
    there = await ledger.newest_versions(tenant, [record_id for record_id, _ in keys])
    known = [key for key in keys if key[0] in there and key[1] <= there[key[0]].version]
    if not known:
        return []
    return await ledger.read(tenant, lambda reader: list(reader.versions_of(known)))


def _payload(run: Run, event: RunEvent, tags: Sequence[str]) -> dict[str, Any]:
    payload: dict[str, Any] = dict(event.payload)
    if event.type == "run.started":
        payload["vendor.quipu"] = {"memorySnapshot": {"seq": run.seen, "at": run.taken_at}}
    if tags:
        payload["tags"] = list(tags)
    return payload


def number_of(cursor: str | None, parts: int) -> tuple[str, ...] | None:
    """The parts of a cursor."""
    if cursor is None:
        return None
    found = tuple(cursor.split("."))
    if len(found) != parts or not all(found) or not cursor.isascii():
        raise invalid([Fault("/cursor", "bad_value", "next_cursor of the page before")])
    return found
