"""Which turn comes before and after which in a session.

Neighbours are records, not versions: which version of a neighbour counts, and whether it may be seen at all, depends on
the reader. Turns of one moment stand in the order of their ids, which rise as they are written, so that a conversation
has the same order wherever it was copied to, in whatever order it arrived.
"""

import bisect
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quipu.search.arrays import ARRAY_BYTES, OBJECT_BYTES, GrowingArray, Mask, Rows

#: So many records that cannot be seen are stepped over one by one. Mostly there is none.
_STEPS = 16


class Turns:
    """The records of each session in order of time."""

    def __init__(self) -> None:
        self._sessions: dict[int, list[tuple[int, str, int]]] = {}
        #: By record number: the record before and after it; -1 where there is none.
        self._before, self._after = GrowingArray(np.int32), GrowingArray(np.int32)

    @property
    def is_empty(self) -> bool:
        return not self._sessions

    @property
    def nbytes(self) -> int:
        """A place in its session for each record; those without a session are counted with them."""
        return self._before.nbytes + self._after.nbytes + 2 * OBJECT_BYTES * self._before.size

    def add(self, session: int, event_time: int, record_id: str, record: int) -> None:
        """Add a version. Records are numbered as they come, and only the first version gives a record its place."""
        if record < self._before.size:
            return
        before = after = -1
        if session >= 0:
            turns = self._sessions.setdefault(session, [])
            place = bisect.bisect(turns, (event_time, record_id, record))
            before = turns[place - 1][2] if place else -1
            after = turns[place][2] if place < len(turns) else -1
            turns.insert(place, (event_time, record_id, record))
        self._before.extend([before])
        self._after.extend([after])
        if before >= 0:
            self._after.view[before] = record
        if after >= 0:
            self._before.view[after] = record

    def visible(self, record_of: NDArray[np.int32], mask: Mask) -> "VisibleTurns":
        """The neighbours as a reader sees them; `record_of` gives each row's record."""
        rows = np.flatnonzero(mask)
        records = record_of[rows]
        row_of = np.full(self._before.size + 1, -1, np.int32)  # the last place stands for "no neighbour"
        row_of[records] = rows
        before, after = np.full((2, len(mask)), -1, np.int32)
        before[rows] = row_of[_nearest(records, self._before.view, row_of)]
        after[rows] = row_of[_nearest(records, self._after.view, row_of)]
        return VisibleTurns(before, after)


@dataclass(frozen=True, slots=True)
class VisibleTurns:
    """By row: the neighbour among the rows that may be seen; -1 where there is none."""

    _before: NDArray[np.int32]
    _after: NDArray[np.int32]

    @property
    def nbytes(self) -> int:
        return 2 * ARRAY_BYTES + self._before.nbytes + self._after.nbytes

    def before(self, rows: Rows) -> Rows:
        return self._before[rows].astype(np.int64)

    def after(self, rows: Rows) -> Rows:
        return self._after[rows].astype(np.int64)


def _nearest(
    records: NDArray[np.int32], following: NDArray[np.int32], row_of: NDArray[np.int32]
) -> NDArray[np.int32]:
    """The next record that may be seen, for each of these, going from one to the next in one direction.

    However many cannot be seen in between: they must not change what is found.
    """
    others = following[records]
    hidden = np.flatnonzero((row_of[others] < 0) & (others >= 0))
    for _ in range(_STEPS):
        if not len(hidden):
            return others
        others[hidden] = following[others[hidden]]
        hidden = _still_hidden(hidden, others, row_of)
    if len(hidden):
        others[hidden] = _all_nearest(following, row_of)[others[hidden]]
    return others


def _all_nearest(following: NDArray[np.int32], row_of: NDArray[np.int32]) -> NDArray[np.int32]:
    """The next that may be seen for every record. The distance doubles each time, so long ways are as quick as short ones."""
    others = following.copy()
    hidden = np.flatnonzero((row_of[others] < 0) & (others >= 0))
    while len(hidden):
        others[hidden] = others[others[hidden]]
        hidden = _still_hidden(hidden, others, row_of)
    return others


def _still_hidden(places: Rows, others: NDArray[np.int32], row_of: NDArray[np.int32]) -> Rows:
    reached = others[places]
    return places[(reached >= 0) & (row_of[reached] < 0)]
