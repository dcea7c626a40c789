"""How a new text stands to those that are there: the same again, a contradiction, or merely alike."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from quipu.ledger.ledger import Ledger
from quipu.memory.embedding import Embedding
from quipu.model.record import Record
from quipu.model.search import Restriction, Scope, Search, SessionContext, Snapshot
from quipu.operation import Clock
from quipu.search.engine import SearchEngine

Relation: TypeAlias = Literal["duplicate", "conflict", "similar"]

#: From here on a record is shown beside the new one; the two speak of the same thing; they say the same.
ALIKE, SAME_MATTER, SAME_TEXT = 0.6, 0.7, 0.95
_MOST = 5
_LOOKED_AT = 20
#: Characters of a text that are looked for where there are no vectors.
_SEARCHED = 4_000
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
#: Words that turn a statement round, in languages people here write in.
_TURNS = frozenset(
    """no not never none neither nor without cannot stopped quit former formerly nicht kein keine keinen nie ohne ne pas
    jamais sans nunca sin jamás""".split()  # noqa: SIM905  words read better as a text than as many literals
)


def relation(new: str, old: str, similarity: float) -> Relation:
    """A guess that is shown to a person, never acted on by itself."""
    mine, theirs = words_of(new), words_of(old)
    if mine == theirs:
        return "duplicate"
    if similarity >= SAME_MATTER and _contradict(new, old, mine, theirs):
        return "conflict"
    return "duplicate" if similarity >= SAME_TEXT else "similar"


def _contradict(new: str, old: str, mine: Sequence[str], theirs: Sequence[str]) -> bool:
    if _NUMBER.findall(new) != _NUMBER.findall(old):
        return True
    return _turns(mine) is not _turns(theirs)


def _turns(words: Sequence[str]) -> bool:
    """Whether it says that something is not so. French says it twice, so the words are not counted."""
    return any(word in _TURNS or word.endswith(("n't", "n\u2019t")) for word in words)


def words_of(text: str) -> list[str]:
    """The words without their case."""
    return [word.casefold() for word in _WORD.findall(text)]


def overlap(new: str, old: str) -> float:
    """The share of all their words that both have, for memories without vectors."""
    mine, theirs = set(words_of(new)), set(words_of(old))
    return len(mine & theirs) / len(mine | theirs) if mine | theirs else 0.0


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
