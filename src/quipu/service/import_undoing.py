"""What an import did to memory, by the journal, and the commits that make it as it was before.

What it brought is forgotten, what it changed gets the text it had, what its tombstones took away comes back. What was
erased since stays so: nothing brings it back.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass, replace

from quipu.model.change import Change, Close, Commit, Put
from quipu.model.journal import Draft, Entry, Op
from quipu.model.principal import Principal
from quipu.model.record import Ending, Record, State
from quipu.model.value import Json
from quipu.ports.parts import Parts
from quipu.rules import drafting, texts
from quipu.service.embedding import Vectors
from quipu.service.import_placing import UNDONE

#: Entries that are read together, and things done to records that are undone together.
_PAGE, STRETCH = 200, 500


@dataclass(frozen=True, slots=True)
class Trace:
    """One thing that an import did to a record."""

    id: str
    #: Where in the journal.
    seq: int
    #: The version that it wrote; None where its tombstone took the record away.
    version: int | None


async def traces(parts: Parts, tenant: str, import_id: str) -> AsyncGenerator[list[Trace]]:
    """What an import did, by the journal, in its order and a stretch at a time. The last stretch is shorter.

    An import that did nothing to a record, but kept tombstones or had all refused, gives one that is empty.
    """
    end, after = (await parts.ledger.head(tenant)).seq, 0
    stretch: list[Trace] = []
    is_known = False
    while after < end and (page := await parts.ledger.entries(tenant, after, _PAGE)):
        for entry in page:
            if entry.detail.get("import_id") != import_id:
                continue
            is_known = True
            for trace in _traced(entry):
                stretch.append(trace)
                if len(stretch) == STRETCH:
                    yield stretch
                    stretch = []
        after = page[-1].seq
    if is_known:
        yield stretch


def _traced(entry: Entry) -> Iterator[Trace]:
    if entry.op is Op.IMPORT:
        yield from (Trace(mention.id, entry.seq, mention.version) for mention in entry.records)
    elif entry.op is Op.FORGET and not entry.detail.get("rollback"):
        yield from (Trace(mention.id, entry.seq, None) for mention in entry.records)


class Undoing:
    """Makes the commits."""

    def __init__(self, parts: Parts, vectors: Vectors) -> None:
        self._parts, self._vectors = parts, vectors

    async def is_settled(self, record: Record, written: int, import_id: str) -> bool:
        """Whether what came after the version that the import wrote was the import once more, or its undoing.

        In the first case that later version is undone, in the other nothing is left to be.
        """
        for one in await self._parts.ledger.versions(record.tenant, record.id):
            if one.version <= written:
                continue
            for entry in await self._parts.ledger.entries(record.tenant, one.born - 1, 1):
                is_undoing = entry.op is Op.RESTORE and entry.detail.get("rollback")
                if entry.detail.get("import_id") == import_id and (entry.op is Op.IMPORT or is_undoing):
                    return True
        return False

    async def back(self, record: Record, import_id: str) -> Put | None:
        """The record as it was before the import changed it; None where the import made it, or that is gone."""
        if record.version == 1:
            return None
        versions = await self._parts.ledger.versions(record.tenant, record.id)
        earlier = [one for one in versions if one.provenance.import_id != import_id]
        if not earlier or earlier[-1].is_emptied or earlier[-1].ending is not Ending.REPLACED:
            return None
        was = _again(earlier[-1], record.version)
        is_searched = was.state is State.LIVE
        (vector,) = await self._vectors.of_records(record.tenant, [was], [None])
        return Put(
            record=self._sealed(was),
            expects=record.version,
            search_text=texts.search_text(was) if is_searched else None,
            vector=vector if is_searched else None,
            model=self._vectors.model(record.tenant),
        )

    def returned(self, record: Record) -> Put:
        """What a tombstone took away, as it was."""
        was = _again(record, record.version)
        is_searched = was.state is State.LIVE
        return Put(
            record=self._sealed(was),
            expects=record.version,
            search_text=texts.search_text(was) if is_searched else None,
            keeps_index=is_searched,
        )

    def _sealed(self, record: Record) -> Record:
        return drafting.sealed(record, self._parts.mint_salt(), self._parts.canonical)

    def commits(
        self,
        principal: Principal,
        gone: Sequence[Record],
        puts: Sequence[Put],
        import_id: str,
        *,
        is_last: bool,
    ) -> list[Commit]:
        """One entry for each agent and kind of change. The reason lets the same file come in again.

        All but the last ones say that there is more: whoever is stopped in between has not undone the import.
        """
        agents: dict[tuple[str, Op], list[Change]] = {}
        for record in gone:
            close = Close(record=record, ending=Ending.FORGOTTEN)
            agents.setdefault((record.agent_id, Op.FORGET), []).append(close)
        for put in puts:
            agents.setdefault((put.record.agent_id, Op.RESTORE), []).append(put)
        return [
            Commit(
                tenant=principal.tenant,
                draft=Draft(
                    op=op,
                    actor=principal.name,
                    at=self._parts.clock(),
                    agent=agent,
                    detail=_marks(import_id, is_last=is_last),
                ),
                changes=tuple(changes),
                reason=UNDONE + import_id,
            )
            for (agent, op), changes in agents.items()
        ]

    def mark(self, principal: Principal, import_id: str) -> Commit:
        """Says that all is undone, where no last change does."""
        return Commit(
            tenant=principal.tenant,
            draft=Draft(
                op=Op.FORGET,
                actor=principal.name,
                at=self._parts.clock(),
                detail=_marks(import_id, is_last=True),
            ),
        )


def _marks(import_id: str, *, is_last: bool) -> dict[str, Json]:
    return {"import_id": import_id, "rollback": True, **({} if is_last else {"more": True})}


def _again(record: Record, version: int) -> Record:
    """A version that says what this one said, and when."""
    return replace(
        record, version=version + 1, born=0, died=None, ending=None, merged_into=None, salt=b"", digest=""
    )
