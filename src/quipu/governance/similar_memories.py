"""Memories that a text resembles: shown to a reviewer, and asked for by rules."""

from dataclasses import dataclass

from quipu.governance.similarity import ALIKE, overlap, relation
from quipu.ledger.ledger import Ledger
from quipu.memory.embedding import Embedding
from quipu.model.record import Record
from quipu.model.search import Restriction, Scope, Search, SessionContext, Snapshot
from quipu.operation import Clock
from quipu.search.engine import SearchEngine
from quipu.search.text import is_long

_MOST = 5
_LOOKED_AT = 20
#: Characters of a text that are looked for where there are no vectors.
_SEARCHED = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarMemories:
    """Finds those of the same owner and type that a text resembles. What is labelled secret is not shown beside anything."""

    ledger: Ledger
    embedding: Embedding
    engine: SearchEngine
    clock: Clock

    async def to(
        self, tenant: str, record: Record, stores: frozenset[str] | None = None
    ) -> list[tuple[Record, float]]:
        """The nearest, with how near they are from 0 to 1: by meaning, or by shared words where there are no vectors.

        stores: The ids of the stores that are looked into; None: all.
        """
        vector = None
        if not is_long(record):
            (vector,) = await self.embedding.of_records(tenant, [record], [None])
        search = Search(
            scope=Scope(tenant=tenant, agent_id=record.agent_id, user_id=record.user_id, stores=stores),
            snapshot=Snapshot(None, self.clock()),
            restriction=Restriction(
                types=frozenset({record.type}), without_sensitivity=frozenset({"secret"})
            ),
            text=record.content[:_SEARCHED] if vector is None else "",
            vector=vector,
            model=self.embedding.model(tenant),
            limit=_LOOKED_AT,
            context=SessionContext(),
        )
        found = await self.ledger.read(tenant, lambda reader: self.engine.find(reader, search))
        cosines = {one.id: one.cosine for one in found.candidates if one.id != record.id}
        rows = await self.ledger.records(tenant, list(cosines))
        near = [
            (row, min(1.0, overlap(record.content, row.content) if cosine is None else cosine))
            for name, cosine in cosines.items()
            if (row := rows.get(name)) is not None
        ]
        near = [(row, share) for row, share in near if share >= ALIKE]
        return sorted(near, key=lambda both: (-both[1], both[0].id))[:_MOST]

    async def has_conflict(self, tenant: str, record: Record) -> bool:
        """Whether there is one that says the same, or the opposite."""
        return any(
            relation(record.content, other.content, near) != "similar"
            for other, near in await self.to(tenant, record)
        )
