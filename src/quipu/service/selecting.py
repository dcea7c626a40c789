"""Which records a removal is about."""

from __future__ import annotations

from collections.abc import AsyncIterator

from quipu.model.record import MemoryType, Record, State
from quipu.model.search import Scope, Selection, Snapshot
from quipu.model.value import JsonObject
from quipu.ports.parts import Parts
from quipu.rules.reach import in_reach
from quipu.service.access import Access
from quipu.service.embedding import Vectors
from quipu.service.notes import ReadNotes


class Selecting:
    """Finds what is to be taken away."""

    def __init__(self, parts: Parts, access: Access, vectors: Vectors, notes: ReadNotes) -> None:
        self._parts, self._access, self._vectors, self._notes = parts, access, vectors, notes

    async def _matching(
        self,
        scope: Scope,
        states: frozenset[State],
        filter: JsonObject | None,
        now: int,
        *,
        with_expired: bool = False,
        types: frozenset[MemoryType] = frozenset(),
        created_to: int | None = None,
        confidence_below: float | None = None,
    ) -> AsyncIterator[Record]:
        selection = Selection(
            tenant=scope.tenant,
            agent_id=scope.agent_id,
            user_id=scope.user_id,
            store_id=scope.store_id,
            types=types,
            states=states,
            filter=filter,
            created_to=created_to,
            confidence_below=confidence_below,
        )
        # Erasure also reaches what has expired: a clock at the beginning of time sees everything.
        snapshot = Snapshot(None, -(1 << 62) if with_expired else now)
        async for record in self._parts.ledger.scan(selection, snapshot):
            if in_reach(record, scope):
                yield record
