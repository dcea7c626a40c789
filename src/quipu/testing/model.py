"""What a ledger does, in a hundred lines of plain Python: the other side of a comparison, not a ledger."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from quipu.model.record import Ending, Mark, Provenance, Record, State
from quipu.testing.builders import cosine


@dataclass(slots=True)
class Version:
    """A version and what search knows of it."""

    record: Record
    vector: bytes | None = None
    is_searchable: bool = True


@dataclass(slots=True)
class ModelLedger:
    """One tenant's records. Every change is told with the position the ledger gave it."""

    versions: list[Version] = field(default_factory=list[Version])
    marks: dict[str, Mark] = field(default_factory=dict[str, Mark])
    erased: set[str] = field(default_factory=set[str])
    horizon: int = 0

    # -- changes ------------------------------------------------------------------------------------------------

    def put(self, seq: int, record: Record, vector: bytes | None, *, keeps_index: bool = False) -> None:
        """Add a version; the one before it ends, and so does a demotion."""
        is_searchable = record.state is State.LIVE
        if record.version > 1:
            before = self.newest(record.id)
            if keeps_index:
                vector, is_searchable = before.vector, before.is_searchable
            if before.record.died is None:
                before.record = replace(before.record, died=seq, ending=Ending.REPLACED)
            if record.id in self.marks:
                self.marks[record.id] = replace(self.marks[record.id], is_demoted=False)
        self.versions.append(Version(replace(record, born=seq), vector, is_searchable))

    def close(self, seq: int, record_id: str, ending: Ending, merged_into: str | None = None) -> None:
        newest = self.newest(record_id)
        newest.record = replace(newest.record, died=seq, ending=ending, merged_into=merged_into)

    def erase(self, seq: int, record_id: str) -> None:
        for version in self.of(record_id):
            died = seq if version.record.died is None else version.record.died
            version.record = replace(
                _emptied(version.record),
                died=died,
                state=State.ERASED,
                user_id=None,
                session_id=None,
                importance=None,
                confidence=0.0,
                expires_at=None,
                merged_into=None,
            )
            version.vector = None
        self.marks.pop(record_id, None)
        self.erased.add(record_id)

    def prune(self, horizon: int) -> int:
        pruned = [
            version
            for version in self.versions
            if version.record.died is not None
            and version.record.died <= horizon
            and not version.record.is_emptied
        ]
        for version in pruned:
            version.record, version.vector = _emptied(version.record), None
        self.horizon = max(self.horizon, horizon)
        return len(pruned)

    def demote(self, record_id: str) -> None:
        self.marks[record_id] = replace(self.marks.get(record_id, Mark(record_id)), is_demoted=True)

    def touch(self, record_id: str, at: int) -> None:
        if record_id not in self.erased:
            mark = self.marks.get(record_id, Mark(record_id))
            latest = max(mark.last_recalled_at or 0, at)
            self.marks[record_id] = replace(mark, last_recalled_at=latest, recall_count=mark.recall_count + 1)

    # -- reads --------------------------------------------------------------------------------------------------

    @property
    def ids(self) -> list[str]:
        return sorted({version.record.id for version in self.versions})

    def of(self, record_id: str) -> list[Version]:
        return [version for version in self.versions if version.record.id == record_id]

    def newest(self, record_id: str) -> Version:
        return self.of(record_id)[-1]

    def at(self, seq: int) -> Iterator[Version]:
        """The versions current at a position; only tombstones of them may be left."""
        for version in self.versions:
            record = version.record
            if record.born <= seq and (record.died is None or record.died > seq):
                yield version

    def visible(self, agent_id: str, seq: int, now: int, user_id: str | None = None) -> list[Version]:
        """What a reader of one agent may see at a position."""
        return [
            version
            for version in self.at(seq)
            if version.record.agent_id == agent_id
            and (user_id is None or version.record.user_id == user_id)
            and version.record.state is State.LIVE
            and not version.record.is_emptied
            and not version.record.expired(now)
        ]

    def scanned(self, states: Collection[State], now: int) -> list[str]:
        """The ids whose newest version stands in one of the states, newest first."""
        newest = [self.newest(record_id).record for record_id in reversed(self.ids)]
        return [
            record.id
            for record in newest
            if record.standing in states and not (record.standing is State.LIVE and record.expired(now))
        ]

    def nearest(self, query: bytes, among: Collection[Version], limit: int) -> list[str]:
        """Exact search by vector."""
        pairs = [(cosine(query, v.vector), v.record.id) for v in among if v.vector is not None]
        return [record_id for _, record_id in sorted(pairs, reverse=True)[:limit]]


def _emptied(record: Record) -> Record:
    return replace(
        record,
        content="",
        metadata={},
        tags=(),
        links=(),
        source=None,
        details={},
        privacy=None,
        provenance=Provenance(written_by=""),
        salt=b"",
    )
