"""One agent's records in memory, as arrays that search reads: derived from the ledger, followed by position.

Every version is a row. Small arrays beside the vectors say when it was born and died, whose it is and what it is, so
that scope, filters, snapshot and expiry are one vectorised comparison each, before the best are chosen.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from quipu.errors import TamperedError
from quipu.ledger.rows import altered_record
from quipu.ledger.search.codes import Codes, Subjects, Users
from quipu.ledger.search.column import Array, Column
from quipu.ledger.search.postings import Mask, Postings
from quipu.ledger.search.sizes import ARRAY, ENTRY, OBJECT
from quipu.ledger.search.turns import Turns
from quipu.model.record import MemoryType, State
from quipu.model.search import Restriction, Scope, Snapshot
from quipu.rules.reach import may_share

#: Plain values, a sequence for each thing that is told.
Told: TypeAlias = tuple[Sequence[Any], ...]

FOREVER = int(np.iinfo(np.int64).max)
#: Up to this many rows in reach, nearness is exact whatever the vectors are like. Beyond, the rows to compare exactly
#: are chosen by bits: ten times faster, and as good as exact for vectors that form clusters; not for random ones, nor for
#: rows packed tightly around the query.
BITS_FROM = 150_000
#: Up to so many rows, what one search has worked out about them is kept for the next.
FEW = 4096

#: What a partition takes without a row, what a row takes besides its arrays (its place by its id and by its row in the
#: ledger), and what is told of it.
_BARE, _PER_ROW, _TOLD = 120 * ARRAY, 2 * ENTRY + 2 * OBJECT, 3 * OBJECT

_TYPES = {kind.value: code for code, kind in enumerate(MemoryType)}
_STATES = {state.value: code for code, state in enumerate(State)}
_LIVE = _STATES[State.LIVE.value]
#: Where these stand in a row as it is loaded.
_TERMS, _VECTOR = 16, 17


class Partition:
    """The rows of one owner (an agent, or a store that agents share)."""

    def __init__(self, dimensions: int, *, holds_vectors: bool = True) -> None:
        """Vectors that are too many to be held stay in the ledger; then it is only known which rows have one."""
        self.dimensions = dimensions
        #: Position and row this partition has followed the ledger to.
        self.seq = 0
        self.last_row = 0
        self.ids: list[str] = []
        self.users = Users()
        self.subjects = Subjects()
        self.stores, self.sessions = Codes(), Codes()
        self.levels, self.agents, self.shares, self.records = (Codes() for _ in range(4))
        self._columns = {
            "row": Column(np.int64),
            "version": Column(np.int32),
            "born": Column(np.int64),
            "died": Column(np.int64),
            "expires": Column(np.int64),
            "created": Column(np.int64),
            "user": Column(np.int32),
            "store": Column(np.int32),
            "session": Column(np.int32),
            "type": Column(np.int8),
            "state": Column(np.int8),
            "confidence": Column(np.float32),
            "subject": Column(np.int32),
            "level": Column(np.int16),
            "agent": Column(np.int32),
            "share": Column(np.int32),
            "moment": Column(np.int64),
            "length": Column(np.int32),
            "demoted": Column(np.bool_),
            "embedded": Column(np.bool_),
            "asks": Column(np.bool_),
            "record": Column(np.int32),
        }
        self._vectors = Column(np.float32, dimensions) if dimensions and holds_vectors else None
        #: One column per word of the bit codes: comparing goes word by word over all rows.
        self._bits = [Column(np.uint64) for _ in range((dimensions + 63) // 64)]
        self.postings = Postings()
        self._row_index: dict[int, int] = {}
        self._id_rows: dict[str, list[int]] = {}
        self._demoted_ids: set[str] = set()
        self.turns = Turns()
        self._told: Told | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, name: str) -> Array:
        return self._columns[name].view

    @property
    def vectors(self) -> NDArray[np.float32] | None:
        return None if self._vectors is None else self._vectors.view

    @property
    def bits(self) -> list[NDArray[np.uint64]]:
        return [column.view for column in self._bits]

    @property
    def nbytes(self) -> int:
        """What its rows take. Worked out when it has taken something in; what is kept of it comes on top."""
        wide = (
            0 if self._vectors is None else self._vectors.nbytes + sum(column.nbytes for column in self._bits)
        )
        codes = (self.users, self.subjects, self.stores, self.sessions)
        codes += (self.levels, self.agents, self.shares, self.records)
        return (
            _BARE
            + wide
            + sum(column.nbytes for column in self._columns.values())
            + sum(coded.nbytes for coded in codes)
            + self.postings.nbytes
            + self.turns.nbytes
            + _PER_ROW * len(self)
        )

    @property
    def kept_bytes(self) -> int:
        """What was worked out about its rows and is kept, whoever the reader is."""
        return self.postings.kept_bytes + (0 if self._told is None else _TOLD * len(self))

    def forget(self) -> None:
        """Let go of it."""
        self._told = None
        self.postings.forget()

    def rows_of(self, record_id: str) -> Sequence[int]:
        return self._id_rows.get(record_id, ())

    def told(self, rows: NDArray[np.int64]) -> Told:
        """What search tells of each of these rows, whatever it was asked: id, version, session, subject, confidence,
        demotion, creation, length, whether it asks, user.
        """
        if len(self) > FEW:
            return self._plain(rows)
        every = self._told
        if every is None:
            every = self._told = self._plain(np.arange(len(self)))
        places = rows.tolist()
        if len(places) > 1:
            return tuple(map(itemgetter(*places), every))
        return tuple([values[place] for place in places] for values in every)

    def _plain(self, rows: NDArray[np.int64]) -> Told:
        session, subject, user = self.sessions.name, self.subjects.name, self.users.name
        return (
            [self.ids[row] for row in rows.tolist()],
            self["version"][rows].tolist(),
            [session(number) for number in self["session"][rows].tolist()],
            [subject(number) for number in self["subject"][rows].tolist()],
            self["confidence"][rows].tolist(),
            self["demoted"][rows].tolist(),
            self["created"][rows].tolist(),
            self["length"][rows].tolist(),
            self["asks"][rows].tolist(),
            [user(number) for number in self["user"][rows].tolist()],
        )

    # -- following the ledger -----------------------------------------------------------------------------------

    def extend(self, rows: Sequence[Sequence[Any]]) -> None:
        """Add versions in the order of their rows, as the `load_…` and `follow_…` queries give them.

        A row that cannot be read is told, and nothing of the others is added: who asks again is told again.
        """
        if not rows:
            return
        try:
            arrays, block = self._arrays(rows), self._block([row[_VECTOR] for row in rows])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise (altered_record(rows[0][1]) if len(rows) == 1 else self._first_unreadable(rows)) from error
        self._told = None
        first = len(self)
        self.ids.extend(row[1] for row in rows)
        for name, array in arrays.items():
            self._columns[name].extend(array)
        self._extend_vectors(block)
        self.postings.add(first, [row[_TERMS] for row in rows])
        self._note_places(first)

    def _first_unreadable(self, rows: Sequence[Sequence[Any]]) -> TamperedError:
        """Which of these cannot be taken in alone."""
        for row in rows:
            try:
                Partition(self.dimensions, holds_vectors=self._vectors is not None).extend([row])
            except TamperedError as error:
                return error
        return altered_record(rows[0][1])

    def _arrays(self, rows: Sequence[Sequence[Any]]) -> dict[str, Array]:
        (row, ids, version, born, died, expires, created, user, store, session, kind, state, confidence, subject,
         level, moment, terms, vectors, agent, share, asks) = zip(*rows, strict=True)  # fmt: skip
        for names in {*share} - {None}:
            tuple(json.loads(names))
        coded = {
            name: np.fromiter(map(codes.add, values), np.int32, len(rows))
            for name, codes, values in (
                ("user", self.users, user),
                ("store", self.stores, store),
                ("session", self.sessions, session),
                ("subject", self.subjects, subject),
                ("level", self.levels, level),
                ("agent", self.agents, agent),
                ("share", self.shares, share),
                ("record", self.records, ids),
            )
        }
        return coded | {
            "row": np.array(row, np.int64),
            "version": np.array(version, np.int32),
            "born": np.array(born, np.int64),
            "died": _or_forever(died),
            "expires": _or_forever(expires),
            "created": np.array(created, np.int64),
            "type": np.array([_TYPES[value] for value in kind], np.int8),
            "state": np.array([_STATES[value] for value in state], np.int8),
            "confidence": np.array(confidence, np.float32),
            "moment": np.array(moment, np.int64),
            "length": np.array([_length(blob) for blob in terms], np.int32),
            "demoted": np.array([record_id in self._demoted_ids for record_id in ids], np.bool_),
            "embedded": np.array([data is not None for data in vectors], np.bool_),
            "asks": np.array(asks, np.bool_),
        }

    def _block(self, blobs: Sequence[bytes | None]) -> NDArray[np.float32] | None:
        if self._vectors is None:
            return None
        blank = bytes(4 * self.dimensions)
        joined = b"".join(blank if blob is None else blob for blob in blobs)
        return np.frombuffer(joined, "<f4").reshape(len(blobs), self.dimensions)

    def _extend_vectors(self, block: NDArray[np.float32] | None) -> None:
        if self._vectors is None or block is None:
            return
        self._vectors.extend(block)
        for column, words in zip(self._bits, bit_codes(block).T, strict=True):
            column.extend(words)

    def _note_places(self, first: int) -> None:
        places = zip(
            self["row"][first:].tolist(),
            self["session"][first:].tolist(),
            self["moment"][first:].tolist(),
            self["record"][first:].tolist(),
            strict=True,
        )
        for index, (row, session, moment, record) in enumerate(places, start=first):
            record_id = self.ids[index]
            self._row_index[row] = index
            self._id_rows.setdefault(record_id, []).append(index)
            self.turns.add(session, moment, record_id, record)

    def close(self, deaths: Iterable[tuple[int, int]]) -> None:
        """Versions that ended, by row of the ledger."""
        died = self["died"]
        for row, seq in deaths:
            index = self._row_index.get(row)
            if index is not None:
                died[index] = seq

    def set_demoted(self, marks: Iterable[tuple[str, int]]) -> None:
        demoted = self["demoted"]
        self._told = None
        for record_id, is_demoted in marks:
            (self._demoted_ids.add if is_demoted else self._demoted_ids.discard)(record_id)
            for index in self.rows_of(record_id):
                demoted[index] = bool(is_demoted)

    # -- what a reader may see ----------------------------------------------------------------------------------

    def in_reach(self, scope: Scope, snapshot: Snapshot) -> Mask:
        """Live at the snapshot, not expired, and the scope's own."""
        seq = self.seq if snapshot.seq is None else snapshot.seq
        mask = (self["born"] <= seq) & (self["died"] > seq)
        mask &= self["expires"] > snapshot.now
        mask &= self["state"] == _LIVE
        if scope.user_id is not None:
            mask &= self["user"] == self.users.find(scope.user_id)
        if scope.store_id is not None:
            mask &= self["store"] == self.stores.find(scope.store_id)
        if scope.stores is not None:
            mask &= np.isin(self["store"], [self.stores.find(name) for name in scope.stores])
        if scope.agent_id is None:
            mask &= self._shared_with(scope.reader)
        return mask

    def _shared_with(self, reader: str | None) -> Mask:
        """The reader's own records, and those of others that may be shared with it."""
        lists: list[tuple[str, ...] | None] = [tuple(json.loads(names)) for names in self.shares.names]
        allowed = np.array([may_share(names, reader) for names in [*lists, None]], np.bool_)
        own = self["agent"] == (-2 if reader is None else self.agents.find(reader))
        return own | allowed[self["share"]]

    def narrowed(self, mask: Mask, by: Restriction) -> Mask:
        """The restrictions that have an array of their own; the filter is the caller's."""
        if by.session_id is not None:
            mask = mask & (self["session"] == self.sessions.find(by.session_id))
        if by.types:
            mask = mask & np.isin(self["type"], [_TYPES[kind.value] for kind in by.types])
        if by.created_from is not None:
            mask = mask & (self["created"] >= by.created_from)
        for level in by.without_sensitivity:
            mask = mask & (self["level"] != self.levels.find(level))
        if by.ids is not None:
            wanted = np.zeros(len(mask), bool)
            for record_id in by.ids:
                wanted[list(self.rows_of(record_id))] = True
            mask = mask & wanted
        return mask


def bit_codes(vectors: NDArray[np.float32]) -> NDArray[np.uint64]:
    """One bit per dimension: its sign. Padded to whole words."""
    packed = np.packbits(vectors > 0, axis=1)
    missing = -packed.shape[1] % 8
    if missing:
        packed = np.pad(packed, ((0, 0), (0, missing)))
    return np.ascontiguousarray(packed).view(np.uint64)


def _or_forever(values: Sequence[int | None]) -> NDArray[np.int64]:
    return np.array([FOREVER if value is None else value for value in values], np.int64)


def _length(blob: bytes | None) -> int:
    count, rest = divmod(len(blob or b""), 5)
    if rest:
        raise ValueError("every term has a count")
    return sum(blob[4 * count :]) if blob else 0
