"""Runs as they are found and shown. `RunLookup` is the only door to one: what is not the caller's is as if it were not there."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from quipu.ledger.commit import Change, Keep
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Kept, Reader
from quipu.memory.forget import Reached
from quipu.memory.scope import Scopes, reaches
from quipu.model.record import Record
from quipu.model.search import Scope, Snapshot
from quipu.operation import Context
from quipu.runs.messages import MemoryEntry, RunError, RunEventView, RunView
from quipu.runs.model import RUNS, VARIABLE_RECORDS, VARIABLES, Run, RunEvent
from quipu.runs.rules import RunOverError, no_run, reaches_run, record_ids_in

_PAGE = 500


@dataclass(frozen=True, slots=True)
class RunLookup:
    """Finds runs for whoever may see them."""

    ledger: Ledger

    async def kept(self, ctx: Context, run_id: str) -> Kept[Run]:
        """A run of the caller's, with the position that its next step expects."""
        found = await self.ledger.kept(RUNS, ctx.tenant, run_id)
        if found is None or not reaches_run(ctx.principal, found.value):
            raise no_run()
        return found

    async def found(self, ctx: Context, run_id: str) -> Run:
        return (await self.kept(ctx, run_id)).value

    async def unfinished(self, ctx: Context, run_id: str) -> Kept[Run]:
        """One in which something may still happen."""
        kept = await self.kept(ctx, run_id)
        if kept.value.is_over:
            raise RunOverError(kept.value)
        return kept

    async def snapshot(self, ctx: Context, run_id: str) -> Snapshot | None:
        """What a run sees, by today's clock: expiry beats a snapshot. None: there is no such run."""
        run = await self.ledger.get(RUNS, ctx.tenant, run_id)
        if run is None or not reaches_run(ctx.principal, run):
            return None
        return Snapshot(run.seen, ctx.clock())


@dataclass(frozen=True, slots=True)
class VariablesReach:
    """Erasing a memory empties the variables that repeat it."""

    ledger: Ledger

    async def reached(
        self, tenant: str, scope: Scope, asked: Sequence[str], erased: Sequence[str]
    ) -> Reached:
        def work(reader: Reader) -> list[Change]:
            named = reader.matching(VARIABLE_RECORDS, "record_id", list(erased))
            places = sorted({(row.value.run_id, row.value.name) for row in named})
            return [
                Keep(VARIABLES, replace(kept.value, value=None), kept.seq)
                for place in places
                if (kept := reader.kept(VARIABLES, *place)) is not None and kept.value.value is not None
            ]

        return Reached(changes=tuple(await self.ledger.read(tenant, work)) if erased else ())


# -- rows as they are shown -------------------------------------------------------------------------------------------


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
