"""Live memories that a new text resembles: shown to a reviewer, and asked for by rules."""

from __future__ import annotations

from quipu.model.record import Record, Sensitivity
from quipu.model.search import Context, Restriction, Scope, Search, Snapshot
from quipu.ports.parts import Parts
from quipu.rules.policy_relations import ALIKE, overlap, relation
from quipu.service.embedding import Vectors

_MOST = 5
_LOOKED_AT = 20
#: Characters of a text that are looked for where there are no vectors.
_SEARCHED = 4_000


class Resembling:
    """Finds them, of the same owner and type. What is labelled secret is not shown beside anything."""

    def __init__(self, parts: Parts, vectors: Vectors) -> None:
        self._parts, self._vectors = parts, vectors

    async def to(self, record: Record, stores: frozenset[str] | None = None) -> list[tuple[Record, float]]:
        """The nearest, with how near they are from 0 to 1: by meaning, or by shared words where there is no embedder.

        `stores`: the ids of those that are looked into; None is all.
        """
        (vector,) = await self._vectors.of_records(record.tenant, [record], [None])
        found = await self._parts.ledger.search(
            Search(
                scope=Scope(
                    tenant=record.tenant, agent_id=record.agent_id, user_id=record.user_id, stores=stores
                ),
                snapshot=Snapshot(None, self._parts.clock()),
                restriction=Restriction(
                    types=frozenset({record.type}), without_sensitivity=frozenset({Sensitivity.SECRET.value})
                ),
                text=record.content[:_SEARCHED] if vector is None else "",
                vector=vector,
                limit=_LOOKED_AT,
                model=self._vectors.model(record.tenant),
                context=Context(),
            )
        )
        cosines = {one.id: one.cosine for one in found.candidates if one.id != record.id}
        rows = await self._parts.ledger.read(record.tenant, list(cosines))
        near = [
            (row, overlap(record.content, row.content) if cosine is None else cosine)
            for name, cosine in cosines.items()
            if (row := rows.get(name)) is not None
        ]
        near = [(row, min(1.0, share)) for row, share in near if share >= ALIKE]
        return sorted(near, key=lambda both: (-both[1], both[0].id))[:_MOST]

    async def has_conflict(self, record: Record) -> bool:
        """Whether there is one that says the same, or the opposite."""
        return any(
            relation(record.content, other.content, near) != "similar"
            for other, near in await self.to(record)
        )
