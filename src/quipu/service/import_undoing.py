"""What an import did to memory, by the journal, and the commits that make it as it was before.

What it brought is forgotten, what it changed gets the text it had, what its tombstones took away comes back. What was
erased since stays so: nothing brings it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from quipu.model.change import Change, Close, Commit, Put
from quipu.model.journal import Draft, Entry, Op
from quipu.model.principal import Principal
from quipu.model.record import Ending, Record, State
from quipu.ports.parts import Parts
from quipu.rules import drafting, texts
from quipu.service.embedding import Vectors
from quipu.service.import_placing import UNDONE

_PAGE = 1_000


@dataclass(slots=True)
class Traces:
    """What an import did."""

    #: Ids that it wrote, each with the version that it wrote last.
    brought: dict[str, int] = field(default_factory=dict[str, int])
    #: Ids that its tombstones took away, and where in the journal.
    taken: dict[str, int] = field(default_factory=dict[str, int])
    #: Whether it did anything at all, if only keep tombstones.
    is_known: bool = False

    def note(self, entry: Entry) -> None:
        """One more entry of it."""
        self.is_known = True
        if entry.op is Op.IMPORT:
            self.brought |= {mention.id: mention.version for mention in entry.records}
        elif entry.op is Op.FORGET and not entry.detail.get("rollback"):
            self.taken |= {mention.id: entry.seq for mention in entry.records}


async def traces(parts: Parts, tenant: str, import_id: str) -> Traces:
    """The journal is the witness."""
    found = Traces()
    after = 0
    while page := await parts.ledger.entries(tenant, after, _PAGE):
        for entry in page:
            if entry.detail.get("import_id") == import_id:
                found.note(entry)
        after = page[-1].seq
    return found


class Undoing:
    """Makes the commits."""

    def __init__(self, parts: Parts, vectors: Vectors) -> None:
        self._parts, self._vectors = parts, vectors

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
    ) -> list[Commit]:
        """One entry for each agent and kind of change. The reason lets the same file come in again."""
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
                    detail={"import_id": import_id, "rollback": True},
                ),
                changes=tuple(changes),
                reason=UNDONE + import_id,
            )
            for (agent, op), changes in agents.items()
        ]


def _again(record: Record, version: int) -> Record:
    """A version that says what this one said, and when."""
    return replace(
        record, version=version + 1, born=0, died=None, ending=None, merged_into=None, salt=b"", digest=""
    )
