"""Runs and their logs, read alike by every ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quipu.ledger import rows, runs
from quipu.model.record import Record
from quipu.model.runs import KeptVariable, MintedRef, Run, RunEvent
from quipu.model.search import Scope, Snapshot

#: Above every id, and above every position.
_TOP = "\U0010ffff"
_NOW = 1 << 62
#: So many records are looked at by one statement.
_AT_ONCE = 1_000


class RunReads:
    """The reads of the runs' port. The ledger that inherits them says how a statement is run."""

    async def _select(self, statement: str, /, **values: Any) -> list[rows.Row]:
        raise NotImplementedError

    async def _altered(self, statement: str, /, **values: Any) -> list[rows.Row]:
        """Rows that a statement has changed, outside any commit."""
        raise NotImplementedError

    async def run(self, tenant: str, run_id: str) -> Run | None:
        found = await self._select("run", tenant=tenant, id=run_id)
        return runs.run_of(found[0]) if found else None

    async def runs(
        self, tenant: str, *, below: str | None = None, workflow_id: str | None = None, limit: int = 50
    ) -> Sequence[Run]:
        found = await self._select(
            "run_page", tenant=tenant, below=below or _TOP, workflow_id=workflow_id, limit=limit
        )
        return [runs.run_of(row) for row in found]

    async def unfinished_runs(self, tenant: str, now: int) -> Sequence[Run]:
        return [runs.run_of(row) for row in await self._select("unfinished_runs", tenant=tenant, now=now)]

    async def noting_runs(self, tenant: str) -> Sequence[Run]:
        return [runs.run_of(row) for row in await self._select("noting_runs", tenant=tenant)]

    async def hold_run(self, tenant: str, run_id: str, keeper: str, until: int | None) -> None:
        holder = None if until is None else keeper
        await self._altered(
            "hold_run", tenant=tenant, id=run_id, keeper=keeper, holder=holder, until=until or 0
        )

    async def ended_runs(self, tenant: str, before: int, limit: int = 500) -> Sequence[Run]:
        found = await self._select("ended_runs", tenant=tenant, before=before, limit=limit)
        return [runs.run_of(row) for row in found]

    async def run_events(
        self, tenant: str, run_id: str, after: int = -1, limit: int = 500
    ) -> Sequence[RunEvent]:
        found = await self._select("run_events", tenant=tenant, run_id=run_id, after=after, limit=limit)
        return [runs.event_of(row) for row in found]

    async def run_variables(self, tenant: str, run_id: str) -> Sequence[KeptVariable]:
        return runs.variables_of(await self._select("run_variables", tenant=tenant, run_id=run_id))

    async def run_notes(self, tenant: str, run_id: str, backend: str) -> Sequence[str]:
        found = await self._select("run_notes", tenant=tenant, run_id=run_id, backend=backend)
        return [row[0] for row in found]

    async def run_note_count(self, tenant: str, run_id: str, backend: str) -> int:
        found = await self._select("run_note_count", tenant=tenant, run_id=run_id, backend=backend)
        return int(found[0][0])

    async def minted_ref(self, tenant: str, ref: str) -> MintedRef | None:
        found = await self._select("minted_ref", tenant=tenant, ref=ref)
        return runs.ref_of(found[0]) if found else None

    async def ref_minted_for(self, tenant: str, agent_id: str, store_id: str) -> MintedRef | None:
        found = await self._select("ref_minted_for", tenant=tenant, agent_id=agent_id, store_id=store_id)
        return runs.ref_of(found[0]) if found else None

    async def newest_entries(
        self,
        scope: Scope,
        snapshot: Snapshot,
        *,
        until: int | None = None,
        tag: str | None = None,
        limit: int = 100,
    ) -> Sequence[Record]:
        found = await self._select(
            "newest_entries",
            tenant=scope.tenant,
            agent_id=scope.agent_id,
            user_id=scope.user_id,
            store_id=scope.store_id,
            seq=_NOW if snapshot.seq is None else snapshot.seq,
            now=snapshot.now,
            # What was there then was created by then, but for what `ahead` knows of.
            until=_NOW if until is None else until,
            tag=tag,
            limit=limit,
        )
        return [rows.record_of(row) for row in found]

    async def derived_from(self, tenant: str, ids: Sequence[str]) -> Sequence[str]:
        made: dict[str, None] = {}
        for start in range(0, len(ids), _AT_ONCE):
            wanted = rows.encoded(list(ids[start : start + _AT_ONCE]))
            made |= dict.fromkeys(
                row[0] for row in await self._select("derived_from", tenant=tenant, ids=wanted)
            )
        return list(made)
