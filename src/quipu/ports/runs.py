"""Runs and their logs in the system of record, and entries by the time they were made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from quipu.model.record import Record
    from quipu.model.runs import KeptVariable, MintedRef, Run, RunEvent
    from quipu.model.search import Scope, Snapshot


class Runs(Protocol):
    """Runs, what happened in them, and refs that were given out."""

    async def run(self, tenant: str, run_id: str) -> Run | None: ...

    async def runs(
        self, tenant: str, *, below: str | None = None, workflow_id: str | None = None, limit: int = 50
    ) -> Sequence[Run]:
        """Newest first, below an id."""
        ...

    async def unfinished_runs(self, tenant: str, now: int) -> Sequence[Run]:
        """Runs of the engine that are not over and that no engine is at work on."""
        ...

    async def noting_runs(self, tenant: str) -> Sequence[Run]:
        """Runs that are driven from outside, are at work and have noted something."""
        ...

    async def hold_run(self, tenant: str, run_id: str, keeper: str, until: int | None) -> None:
        """Keep a run's notes alive until a moment, unless another keeper does; None lets go of them."""
        ...

    async def ended_runs(self, tenant: str, before: int, limit: int = 500) -> Sequence[Run]:
        """Runs that ended before the moment and whose history is still there."""
        ...

    async def run_events(
        self, tenant: str, run_id: str, after: int = -1, limit: int = 500
    ) -> Sequence[RunEvent]:
        """A stretch of a run's log, in order."""
        ...

    async def run_variables(self, tenant: str, run_id: str) -> Sequence[KeptVariable]:
        """Every variable each time it was set, in that order."""
        ...

    async def run_notes(self, tenant: str, run_id: str, backend: str) -> Sequence[str]:
        """What a run at work has noted for itself in one place, in order; nothing once it has ended."""
        ...

    async def run_note_count(self, tenant: str, run_id: str, backend: str) -> int: ...

    async def minted_ref(self, tenant: str, ref: str) -> MintedRef | None: ...

    async def ref_minted_for(self, tenant: str, agent_id: str, store_id: str) -> MintedRef | None:
        """The ref that was given out for an agent's memory in a store."""
        ...

    async def newest_entries(
        self,
        scope: Scope,
        snapshot: Snapshot,
        *,
        until: int | None = None,
        tag: str | None = None,
        limit: int = 100,
    ) -> Sequence[Record]:
        """One agent's live records, the newest by creation first; of equals the one born last.

        As of a position that has been pruned there are none. `until` is the time of the position, where it is known:
        what was committed later need not be looked at.
        """
        ...

    async def derived_from(self, tenant: str, ids: Sequence[str]) -> Sequence[str]:
        """Records that were made here out of these, by compaction, consolidation or a model, at whatever time."""
        ...
