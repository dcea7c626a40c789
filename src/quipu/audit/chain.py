"""The walk along one tenant's journal: is every entry what was written, and is everything else what the entries say?

1. The hash of an entry covers all of it and the hash before. Positions are dense from 1, and times never run back.
2. The first entry that names a version began it; what it says of `ends` and `erased` is how versions ended.
3. The digest of a row of a capability is the last one that an entry names for its key. Null means that the row is gone; a
   key that no entry names is a fault. A row that lost what an erased memory said keeps its digest, which nobody can compute
   any more; it must name such a memory.
4. What search knows of a version must follow from the version.

Nothing here reads a database, so a ledger and an exported journal are checked by the same code.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quipu.audit.model import AuditFault, Faults
from quipu.ledger.digests import entry_hash, record_digest, row_digest
from quipu.ledger.index import Space
from quipu.ledger.reader import StoredRow
from quipu.ledger.records import StoredVersion, UnreadableEntry
from quipu.ledger.table import Key, Table
from quipu.model.journal import GENESIS, Entry
from quipu.model.record import Provenance, Record
from quipu.search.terms import index_terms

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


# -- versions of memories --------------------------------------------------------------------------------------------

#: A vector is of length 1, up to what float32 rounds.
_UNIT = 1e-2
_SILENT = Provenance(written_by="")


@dataclass(frozen=True, slots=True)
class Indexed:
    """What search knows of some records."""

    #: Record → target, relation, born, died.
    links: Mapping[str, Sequence[tuple[str, str, int, int | None]]] = field(
        default_factory=dict[str, Sequence[tuple[str, str, int, int | None]]]
    )
    #: Record → version, number of the space, the numbers.
    vectors: Mapping[str, Sequence[tuple[int, int, bytes]]] = field(
        default_factory=dict[str, Sequence[tuple[int, int, bytes]]]
    )
    spaces: Mapping[int, Space] = field(default_factory=dict[int, Space])


def version_faults(stored: StoredVersion, walk: Walk, indexed: Indexed) -> Iterator[AuditFault]:
    """Is a version what the journal says, born and ended where it says, and found by what it says?"""
    life = walk.lives.life(stored.id, stored.version)
    if life is None:
        yield _fault("unjournaled_record", stored, None, "stands in no entry of the journal")
        return
    life.is_seen = True
    record = stored.record
    if record is None:
        yield _fault("altered_record", stored, life, "cannot be read")
        return
    if record.digest != life.digest:
        yield _fault("digest_differs", stored, life, "has another digest than the journal says")
    elif record.is_emptied:
        yield from _emptied_faults(stored, record, life, walk)
    elif not _has_its_digest(record):
        yield _fault("altered_record", stored, life, "is not what was written")
    elif stored.emptied is not None:
        yield _fault("altered_record", stored, life, "is said to be empty and is not")
    if stored.strays:
        columns = ", ".join(stored.strays)
        yield _fault("altered_record", stored, life, f"says something else in the columns {columns}")
    written = (record.born, record.died, record.ending, record.merged_into)
    if written != (life.born, life.died, life.ending, life.merged_into):
        until = "goes on" if life.died is None else f"ended at {life.died}"
        yield _fault("life_differs", stored, life, f"was born at {life.born} and {until} by the journal")
    yield from _index_faults(stored, record, life, walk, indexed)


def missing_fault(record_id: str, version: int, life: Life) -> AuditFault:
    """A version that the journal names and that is not there."""
    detail = f"version {version} is missing"
    return AuditFault(kind="missing_record", seq=life.born, id=record_id, detail=detail)


def may_be_empty(record_id: str, emptied: int | None, life: Life, walk: Walk) -> bool:
    """Whether an erasure or retention emptied a version at that position."""
    if emptied is None:
        return False
    if walk.erased.get(record_id) == emptied:
        return True
    horizon = walk.prunings.get(emptied)
    is_old = life.died is not None and horizon is not None and life.died <= horizon
    return is_old and life.ending == "replaced"


def _emptied_faults(stored: StoredVersion, record: Record, life: Life, walk: Walk) -> Iterator[AuditFault]:
    if not may_be_empty(record.id, stored.emptied, life, walk):
        yield _fault("emptied_record", stored, life, "was emptied, and no entry says so")
    texts = (record.content, record.metadata, record.tags, record.links, record.details)
    others = (
        *(record.session_id, record.importance, record.source, record.privacy, record.key),
        *(record.expires_at, record.valid_from, record.valid_until),
    )
    says_something = any(texts) or any(one is not None for one in others)
    if says_something or record.provenance != _SILENT or record.state != "erased" or stored.terms is not None:
        yield _fault("altered_record", stored, life, "was erased and says something")


def _has_its_digest(record: Record) -> bool:
    try:
        return record_digest(record, record.salt).hex() == record.digest
    except (ValueError, TypeError, RecursionError):  # nobody could have written such a thing
        return False


# -- what search knows ------------------------------------------------------------------------------------------------


def _index_faults(
    stored: StoredVersion, record: Record, life: Life, walk: Walk, indexed: Indexed
) -> Iterator[AuditFault]:
    if not record.is_emptied and stored.terms != index_terms(record):
        yield _fault("index_differs", stored, life, "is found by other words than its own")
    vectors = [one for one in indexed.vectors.get(stored.id, ()) if one[0] == stored.version]
    is_usable = all(_is_unit(data, indexed.spaces.get(space)) for _, space, data in vectors)
    if not is_usable or (record.is_emptied and vectors):
        yield _fault("index_differs", stored, life, "has a vector that is none of its own")
    is_erased = record.id in walk.erased
    if record.is_emptied and not is_erased:
        return  # retention leaves the links of what it empties, and nothing says any more which they were
    found = {
        (target, rel, died)
        for target, rel, born, died in indexed.links.get(stored.id, ())
        if born == life.born
    }
    expected = {
        (link.to, link.rel, life.died)
        for link in ((), record.links)[not is_erased]
        # The erasure of a memory takes the links to it.
        if walk.erased.get(link.to, 0) <= life.born
    }
    if found != expected:
        yield _fault("index_differs", stored, life, "is linked otherwise than it says")


def stray_index_faults(record_id: str, walk: Walk, indexed: Indexed) -> Iterator[AuditFault]:
    """Links and vectors of versions that never were."""
    lives = walk.lives.of(record_id)
    births = {life.born for life in lives}
    has_strays = any(born not in births for _, _, born, _ in indexed.links.get(record_id, ())) or any(
        not 0 < version <= len(lives) for version, _, _ in indexed.vectors.get(record_id, ())
    )
    if has_strays:
        detail = "search knows of a version that never was"
        yield AuditFault(kind="index_differs", id=record_id, detail=detail)


def _is_unit(data: bytes, space: Space | None) -> bool:
    if space is None or len(data) != 4 * space.dimensions:
        return False
    vector = np.frombuffer(data, "<f4")
    with np.errstate(all="ignore"):
        return bool(abs(float(np.dot(vector, vector)) - 1) < _UNIT)


def _fault(kind: str, stored: StoredVersion, life: Life | None, said: str) -> AuditFault:
    return AuditFault(
        kind=kind,
        seq=None if life is None else life.born,
        id=stored.id,
        detail=f"version {stored.version} {said}",
    )
