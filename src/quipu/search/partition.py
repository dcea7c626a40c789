"""One owner's versions in memory, as arrays: derived from the ledger and followed by position.

Every version is a row. Small arrays beside the vectors say when it was born and died, whose it is and what it is, so
that scope, restrictions, snapshot and expiry are one comparison of arrays each, before the best are chosen.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from quipu.errors import TamperedError
from quipu.ledger.index import IndexRow, VersionKey
from quipu.model.record import MemoryType, State
from quipu.search.arrays import (
    ARRAY_BYTES,
    ENTRY_BYTES,
    OBJECT_BYTES,
    TEXT_BYTES,
    Codes,
    Floats,
    GrowingArray,
    Rows,
)
from quipu.search.people import name_parts
from quipu.search.postings import Postings
from quipu.search.text import spaced_words
from quipu.search.turns import Turns

#: Plain values of some rows, one sequence for each thing that is said of a candidate.
Described: TypeAlias = tuple[Sequence[Any], ...]

FOREVER = int(np.iinfo(np.int64).max)
TYPES: dict[str, int] = {name: code for code, name in enumerate(get_args(MemoryType))}
STATES: dict[str, int] = {name: code for code, name in enumerate(get_args(State))}

_COLUMNS: dict[str, Any] = {
    "record": np.int32,
    "version": np.int32,
    "born": np.int64,
    "died": np.int64,
    "expires_at": np.int64,
    "created_at": np.int64,
    "valid_until": np.int64,
    "event_time": np.int64,
    "user": np.int32,
    "store": np.int32,
    "session": np.int32,
    "subject": np.int32,
    "sensitivity": np.int32,
    "agent": np.int32,
    "share_with": np.int32,
    "type": np.int8,
    "state": np.int8,
    "confidence": np.float32,
    "length": np.int32,
    "is_demoted": np.bool_,
    "has_vector": np.bool_,
    "asks": np.bool_,
    "by_assistant": np.bool_,
    "passages": np.int16,
}
#: What a partition takes without a row, and what a row takes besides its arrays.
_BARE_BYTES, _ROW_BYTES = 100 * ARRAY_BYTES, 2 * OBJECT_BYTES


class Users(Codes):
    """Users, also found by a part of their id."""

    def __init__(self) -> None:
        super().__init__()
        self._by_part: dict[str, list[int]] = {}

    def named(self, part: str) -> Sequence[int]:
        return self._by_part.get(part, ())

    def _added(self, name: str, number: int) -> None:
        for part in name_parts(name.partition("@")[0]):
            self._by_part.setdefault(part, []).append(number)
            self.nbytes += ENTRY_BYTES + OBJECT_BYTES + TEXT_BYTES + len(part)


class Subjects(Codes):
    """Subjects, with their words as they are looked for in a text."""

    def __init__(self) -> None:
        super().__init__()
        self._words: list[str] = []

    def named_in(self, text: str) -> list[int]:
        """The subjects that a text names, as whole words."""
        if not self.names:
            return []
        said = spaced_words(text)
        return [number for number, words in enumerate(self._words) if words in said and words.strip()]

    def _added(self, name: str, number: int) -> None:
        words = spaced_words(name)
        self._words.append(words)
        self.nbytes += TEXT_BYTES + len(words)


class Partition:
    """The rows of one owner, in the order (born, id, version)."""

    def __init__(self, dimensions: int = 0) -> None:
        self.dimensions = dimensions
        #: The position of the journal it has followed the ledger to.
        self.seq = 0
        self.records, self.users, self.subjects = Codes(), Users(), Subjects()
        self.stores, self.sessions, self.sensitivities = Codes(), Codes(), Codes()
        self.agents, self.share_lists = Codes(), Codes()
        self._columns = {name: GrowingArray(dtype) for name, dtype in _COLUMNS.items()}
        self._vectors = GrowingArray(np.float32, dimensions)
        #: The further passages of long texts, and whose each is, in the order of rows.
        self._later = GrowingArray(np.float32, dimensions)
        self._later_rows = GrowingArray(np.int64)
        self.postings = Postings()
        self.turns = Turns()
        #: By record number.
        self._rows_of_record: list[list[int]] = []
        self._demoted_ids: set[str] = set()

    def __len__(self) -> int:
        return self._columns["record"].size

    def __getitem__(self, column: str) -> NDArray[Any]:
        return self._columns[column].view

    @property
    def vectors(self) -> Floats:
        """One for each row, of the text or its first passage; zeros where there is none."""
        return self._vectors.view

    @property
    def later_passages(self) -> tuple[Floats, Rows]:
        """The vectors of all further passages, and the row of each, ascending."""
        return self._later.view, self._later_rows.view

    @property
    def nbytes(self) -> int:
        codes = (self.records, self.users, self.subjects, self.stores, self.sessions)
        codes += (self.sensitivities, self.agents, self.share_lists)
        return (
            _BARE_BYTES
            + self._vectors.nbytes
            + self._later.nbytes
            + self._later_rows.nbytes
            + sum(column.nbytes for column in self._columns.values())
            + sum(coded.nbytes for coded in codes)
            + self.postings.nbytes
            + self.turns.nbytes
            + _ROW_BYTES * len(self)
        )

    def rows_of(self, record_id: str) -> Sequence[int]:
        """The rows of a record's versions."""
        record = self.records.find(record_id)
        return self._rows_of_record[record] if record >= 0 else ()

    def keys(self, rows: Rows | slice) -> list[VersionKey]:
        names, records = self.records.names, self["record"][rows].tolist()
        versions = self["version"][rows].tolist()
        return [(names[record], version) for record, version in zip(records, versions, strict=True)]

    def described(self, rows: Rows) -> Described:
        """Of each row: id, version, session, subject, confidence, demotion, creation, length, whether it asks, whether an
        assistant said it, user."""
        names = self.records.names
        return (
            [names[record] for record in self["record"][rows].tolist()],
            self["version"][rows].tolist(),
            self.sessions.decoded(self["session"][rows]),
            self.subjects.decoded(self["subject"][rows]),
            self["confidence"][rows].tolist(),
            self["is_demoted"][rows].tolist(),
            self["created_at"][rows].tolist(),
            self["length"][rows].tolist(),
            self["asks"][rows].tolist(),
            self["by_assistant"][rows].tolist(),
            self.users.decoded(self["user"][rows]),
        )

    # -- following the ledger -----------------------------------------------------------------------------------

    def extend(self, rows: Sequence[IndexRow]) -> None:
        """Add versions in the order (born, id, version).

        A row that cannot be read is an error that names its record, and the partition is not to be used any further:
        leaving the row out would make a record disappear without a word.
        """
        if not rows:
            return
        try:
            arrays, vectors, later = self._arrays(rows), *self._vectors_of(rows)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise _first_unreadable(rows, self.dimensions) from error
        first = len(self)
        for name, array in arrays.items():
            self._columns[name].extend(array)
        self._vectors.extend(vectors)
        self._later.extend(later)
        self._later_rows.extend(np.repeat(np.arange(first, first + len(rows)), arrays["passages"] - 1))
        self.postings.add(first, [row.terms for row in rows])
        sessions: list[int] = arrays["session"].tolist()
        records: list[int] = arrays["record"].tolist()
        for number, (row, session, record) in enumerate(
            zip(rows, sessions, records, strict=True), start=first
        ):
            if record < len(self._rows_of_record):
                self._rows_of_record[record].append(number)
            else:
                self._rows_of_record.append([number])
            self.turns.add(session, row.event_time, row.id, record)

    def end(self, deaths: Iterable[tuple[str, int, int]]) -> None:
        """Versions that ended: id, version and position."""
        died, versions = self["died"], self["version"]
        for record_id, version, seq in deaths:
            for row in self.rows_of(record_id):
                if versions[row] == version:
                    died[row] = seq

    def set_demoted(self, changes: Iterable[tuple[str, bool]]) -> None:
        """Records that are demoted now, or no longer are. A later version of one that is demoted is demoted too."""
        demoted = self["is_demoted"]
        for record_id, is_demoted in changes:
            (self._demoted_ids.add if is_demoted else self._demoted_ids.discard)(record_id)
            demoted[list(self.rows_of(record_id))] = is_demoted

    def _arrays(self, rows: Sequence[IndexRow]) -> dict[str, NDArray[Any]]:
        for share_with in {row.share_with for row in rows} - {None}:
            tuple(json.loads(share_with or ""))
        plain: dict[str, list[Any]] = {
            "version": [row.version for row in rows],
            "born": [row.born for row in rows],
            "died": [FOREVER if row.died is None else row.died for row in rows],
            "expires_at": [FOREVER if row.expires_at is None else row.expires_at for row in rows],
            "created_at": [row.created_at for row in rows],
            "valid_until": [FOREVER if row.valid_until is None else row.valid_until for row in rows],
            "event_time": [row.event_time for row in rows],
            "type": [TYPES[row.type] for row in rows],
            "state": [STATES[row.state] for row in rows],
            "confidence": [row.confidence for row in rows],
            "length": [_length(row.terms) for row in rows],
            "is_demoted": [row.id in self._demoted_ids for row in rows],
            "has_vector": [row.vector is not None for row in rows],
            "asks": [row.asks for row in rows],
            "by_assistant": [row.by_assistant for row in rows],
            "passages": [max(1, len(row.vector or b"") // max(1, 4 * self.dimensions)) for row in rows],
        }
        coded: dict[str, tuple[Codes, list[Any]]] = {
            "record": (self.records, [row.id for row in rows]),
            "user": (self.users, [row.user_id for row in rows]),
            "store": (self.stores, [row.store_id for row in rows]),
            "session": (self.sessions, [row.session_id for row in rows]),
            "subject": (self.subjects, [row.subject for row in rows]),
            "sensitivity": (self.sensitivities, [row.sensitivity for row in rows]),
            "agent": (self.agents, [row.agent_id for row in rows]),
            "share_with": (self.share_lists, [row.share_with for row in rows]),
        }
        arrays = {name: np.array(values, _COLUMNS[name]) for name, values in plain.items()}
        for name, (codes, values) in coded.items():
            arrays[name] = np.fromiter(map(codes.add, values), np.int32, len(rows))
        return arrays

    def _vectors_of(self, rows: Sequence[IndexRow]) -> tuple[Floats, Floats]:
        """Of each row the vector of its first passage, and those of all further ones."""
        size = 4 * self.dimensions
        blobs = [row.vector or bytes(size) for row in rows]
        if any(len(blob) < size or (size and len(blob) % size) for blob in blobs):
            raise ValueError("every vector is of the tenant's space")
        first, later = (
            np.frombuffer(b"".join(parts), "<f4").reshape(-1, self.dimensions)
            if size
            else np.empty((len(rows) if place == 0 else 0, 0), np.float32)
            for place, parts in enumerate(([blob[:size] for blob in blobs], [blob[size:] for blob in blobs]))
        )
        if not (np.isfinite(first).all() and np.isfinite(later).all()):
            raise ValueError("a vector without a direction is near to nothing and hides what is")
        return first, later


def _first_unreadable(rows: Sequence[IndexRow], dimensions: int) -> TamperedError:
    """Which of these cannot be read alone."""
    if len(rows) > 1:
        for row in rows:
            try:
                Partition(dimensions).extend([row])
            except TamperedError as error:
                return error
    return TamperedError(
        f"A version of record {rows[0].id} cannot be read.",
        reason="altered_record",
        hint="It was changed outside of Quipu. `quipu verify` says what; `quipu reindex` makes its index anew.",
    )


def _length(terms: bytes | None) -> int:
    """How many words a blob of terms stands for."""
    count, rest = divmod(len(terms or b""), 5)
    if rest:
        raise ValueError("every term has a count")
    return sum(terms[4 * count :]) if terms else 0
