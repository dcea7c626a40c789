"""The walk along one tenant's journal: is every entry what was written, and what do the entries say of everything else?

1. The hash of an entry covers all of it and the hash before. Positions are dense from 1, and times never run back.
2. The first entry that names a version began it; what it says of `ends` and `erased` is how versions ended.
3. The digest of a row of a capability is the last one that an entry names for its key. Null means that the row is gone; a
   key that no entry names is a fault. A row that lost what an erased memory said keeps its digest, which nobody can compute
   any more; it must name such a memory.

Nothing here reads a database, so a ledger and an exported journal are checked by the same code.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from quipu.audit.model import AuditFault, Faults
from quipu.ledger.digests import entry_hash, row_digest
from quipu.ledger.reader import StoredRow
from quipu.ledger.records import UnreadableEntry
from quipu.ledger.table import Key, Table
from quipu.model.journal import GENESIS, Entry

#: So many versions are remembered at once; what is beyond needs another walk.
_MOST_LIVES = 200_000


# -- what the entries say --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Life:
    """What the journal says of one version."""

    digest: str
    born: int
    died: int | None = None
    ending: str | None = None
    merged_into: str | None = None
    #: Whether the version itself has been met.
    is_seen: bool = False


class Lives:
    """What the journal says of versions: of some records, or of as many as there is room for, in the order of their ids."""

    def __init__(
        self, after: str = "", *, only: Collection[str] | None = None, most: int = _MOST_LIVES
    ) -> None:
        """Of records behind an id; or of these only."""
        self.after, self._only, self._most = after, only, most
        #: Records behind this id have no room here.
        self.last: str | None = None
        self._lives: dict[str, list[Life]] = {}
        self._count = 0

    def wants(self, record_id: str) -> bool:
        if self._only is not None:
            return record_id in self._only
        return record_id > self.after and (self.last is None or record_id <= self.last)

    def of(self, record_id: str) -> Sequence[Life]:
        """The lives of its versions, the first one first."""
        return self._lives.get(record_id, ())

    def life(self, record_id: str, version: int) -> Life | None:
        lives = self.of(record_id)
        return lives[version - 1] if 0 < version <= len(lives) else None

    def begin(self, record_id: str, life: Life) -> None:
        lives = self._lives.setdefault(record_id, [])
        if lives and lives[-1].died is None:
            lives[-1].died, lives[-1].ending = life.born, "replaced"
        lives.append(life)
        self._count += 1
        if self._only is None and self._count > self._most and len(self._lives) > 1:
            self._make_room()

    def _make_room(self) -> None:
        """Keep the lower half; the others are for the next walk."""
        ids = sorted(self._lives)
        kept = ids[: len(ids) // 2]
        self.last = kept[-1]
        self._lives = {record_id: self._lives[record_id] for record_id in kept}
        self._count = sum(map(len, self._lives.values()))

    def unseen(self) -> Iterator[tuple[str, int, Life]]:
        """Versions that the journal names and nobody has met."""
        for record_id, lives in self._lives.items():
            for version, life in enumerate(lives, 1):
                if not life.is_seen:
                    yield record_id, version, life


@dataclass(slots=True)
class Side:
    """What the entries say of rows: table and key → digest, and the position that says it."""

    rows: dict[tuple[str, Key], tuple[str | None, int]] = field(
        default_factory=dict[tuple[str, Key], tuple[str | None, int]]
    )
    #: Table → the last position at which one of its rows changed.
    changed: dict[str, int] = field(default_factory=dict[str, int])

    def follow(self, entry: Entry) -> None:
        named: Any = entry.detail.get("side", ())
        for table, key, digest in named:
            self.rows[table, tuple(key)] = (digest, entry.seq)
            self.changed[table] = entry.seq

    def guarded(self, tables: Iterable[Table[Any]]) -> int:
        """The last position at which a row changed that writes are checked against."""
        return max((self.changed.get(table.name, 0) for table in tables if table.guards), default=0)

    def standing(self, table: str) -> Iterator[Key]:
        """Keys of the rows that should be there."""
        return (key for (name, key), (digest, _) in self.rows.items() if name == table and digest is not None)

    def fault(
        self, table: Table[Any], key: Key, row: StoredRow | None, erased: Collection[str]
    ) -> AuditFault | None:
        """What is wrong with a row, if anything is."""
        digest, seq = self.rows.get((table.name, key), (None, None))
        name = "/".join(map(str, key))
        if row is None:
            if digest is None:
                return None
            return AuditFault(
                kind="missing_row", seq=seq, id=name, detail=f"a row of {table.name} is missing"
            )
        if digest is None:
            said = "that no entry names" if seq is None else "that was taken away"
            return AuditFault(
                kind="unjournaled_row", seq=seq or row.seq, id=name, detail=f"{table.name} has a row {said}"
            )
        if row.digest.hex() == digest and row.seq == seq and _is_as_written(table, row, erased):
            return None
        return AuditFault(
            kind="altered_row", seq=seq, id=name, detail=f"a row of {table.name} is not what was written"
        )


def _is_as_written(table: Table[Any], row: StoredRow, erased: Collection[str]) -> bool:
    if row.salt is None:
        is_empty = all(row.columns[name] is None for name in table.erasable)
        return is_empty and bool(table.erasable) and _names_any(row.columns, table.names, erased)
    try:
        return row_digest(row.columns, row.salt) == row.digest
    except (ValueError, TypeError):  # nobody could have written such a thing
        return False


def _names_any(columns: Mapping[str, Any], names: Sequence[str], erased: Collection[str]) -> bool:
    return any(columns[name] in erased for name in names)


@dataclass(slots=True)
class Walk:
    """Follows the entries in order, and remembers what they say."""

    tenant: str
    lives: Lives = field(default_factory=Lives)
    side: Side = field(default_factory=Side)
    faults: Faults = field(default_factory=Faults)
    seq: int = 0
    hash: bytes = GENESIS
    at: int = 0
    count: int = 0
    #: Record → the position that erased it.
    erased: dict[str, int] = field(default_factory=dict[str, int])
    #: Position of a pruning → versions that were replaced by then may be empty.
    prunings: dict[int, int] = field(default_factory=dict[int, int])
    suspended_at: int | None = None
    #: The last position at which a version began or ended.
    changed: int = 0

    @property
    def horizon(self) -> int:
        return max(self.prunings.values(), default=0)

    def follow(self, entries: Iterable[Entry | UnreadableEntry]) -> None:
        for entry in entries:
            self._check_place(entry.seq)
            if isinstance(entry, UnreadableEntry):
                self.faults.add("altered_entry", f"entry {entry.seq} cannot be read", seq=entry.seq)
            else:
                self._check(entry)
                with suppress(
                    ValueError, TypeError, KeyError, AttributeError
                ):  # then its hash is wrong already
                    self._note(entry)
                self.at = max(self.at, entry.at)
            self.seq, self.hash = entry.seq, entry.hash
            self.count += 1

    def _check_place(self, seq: int) -> None:
        if seq == self.seq + 1:
            return
        wrong = "stands behind later ones" if seq <= self.seq else f"follows, {self.seq + 1} is missing"
        self.faults.add("gap", f"position {seq} {wrong}", seq=seq)

    def _check(self, entry: Entry) -> None:
        if entry.prev != self.hash:
            self.faults.add("broken_link", f"entry {entry.seq} does not follow the one before", seq=entry.seq)
        elif entry.seq == self.seq + 1 and not _has_its_hash(self.tenant, entry):
            self.faults.add("altered_entry", f"entry {entry.seq} is not what was written", seq=entry.seq)
        if entry.at < self.at:
            self.faults.add("time_runs_back", f"entry {entry.seq} is older than one before it", seq=entry.seq)

    def _note(self, entry: Entry) -> None:
        detail: Any = entry.detail
        for mention in entry.records:
            if not self.lives.wants(mention.id):
                continue
            known = len(self.lives.of(mention.id))
            if mention.version == known + 1:
                self.lives.begin(mention.id, Life(mention.digest, entry.seq))
                self.changed = entry.seq
        for record_id, version, ending, merged_into in detail.get("ends", ()):
            self.changed = entry.seq
            self._end(self.lives.life(record_id, version), entry.seq, ending, merged_into)
        for record_id in detail.get("erased", ()):
            self.changed = entry.seq
            self.erased.setdefault(record_id, entry.seq)
            for life in self.lives.of(record_id):
                self._end(life, entry.seq, "forgotten", None)
        if entry.op == "prune":
            self.prunings[entry.seq] = int(detail["horizon"])
        if "suspended_at" in detail:
            self.suspended_at = detail["suspended_at"]
        self.side.follow(entry)

    @staticmethod
    def _end(life: Life | None, seq: int, ending: str, merged_into: str | None) -> None:
        if life is not None and life.died is None:
            life.died, life.ending, life.merged_into = seq, ending, merged_into


def _has_its_hash(tenant: str, entry: Entry) -> bool:
    try:
        return entry_hash(tenant, entry) == entry.hash
    except (ValueError, TypeError, RecursionError):  # nobody could have hashed such a thing
        return False
