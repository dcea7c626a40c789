"""Who comes before and after whom in a session.

Neighbours are records, not versions: which version of a neighbour counts, and whether it may be seen at all, is
settled for each reader by what is in their reach. Turns of one moment stand in the order of their ids, which rise as
they are kept, so that a conversation has the same order wherever it was moved, in whatever order it arrived.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quipu.ledger.search.column import Column
from quipu.ledger.search.postings import Mask
from quipu.ledger.search.sizes import ARRAY, OBJECT

Rows = NDArray[np.int64]
#: So many records out of reach are stepped over one by one. Mostly there is none.
_STEPS = 16


class Turns:
    """The records of each session in order of time."""

    def __init__(self) -> None:
        self._sessions: dict[int, list[tuple[int, str, int]]] = {}
        self._before, self._after = Column(np.int32), Column(np.int32)

    @property
    def is_empty(self) -> bool:
        return not self._sessions

    @property
    def nbytes(self) -> int:
        """A place in its session for each record; those without one are counted with them."""
        return self._before.nbytes + self._after.nbytes + 2 * OBJECT * self._before.size

    def add(self, session: int, moment: int, record_id: str, record: int) -> None:
        """Note a version; only the first of a record gives it its place."""
        if record < self._before.size:
            return
        left = right = -1
        if session >= 0:
            turns = self._sessions.setdefault(session, [])
            place = bisect.bisect(turns, (moment, record_id, record))
            left = turns[place - 1][2] if place else -1
            right = turns[place][2] if place < len(turns) else -1
            turns.insert(place, (moment, record_id, record))
        self._before.extend(np.array([left], np.int32))
        self._after.extend(np.array([right], np.int32))
        if left >= 0:
            self._after.view[left] = record
        if right >= 0:
            self._before.view[right] = record

    def seen(self, record_of: NDArray[np.int32], mask: Mask) -> SeenTurns:
        """Neighbours as a reader sees them."""
        rows = np.flatnonzero(mask)
        records = record_of[rows]
        row_of = np.full(self._before.size + 1, -1, np.int32)  # the last place answers for "no neighbour"
        row_of[records] = rows
        before, after = np.full((2, len(mask)), -1, np.int32)
        before[rows] = row_of[_nearest(records, self._before.view, row_of)]
        after[rows] = row_of[_nearest(records, self._after.view, row_of)]
        return SeenTurns(before, after)


@dataclass(frozen=True, slots=True)
class SeenTurns:
    """By row, the neighbour among the rows in reach; -1 where there is none."""

    _before: NDArray[np.int32]
    _after: NDArray[np.int32]

    @property
    def nbytes(self) -> int:
        return 2 * ARRAY + self._before.nbytes + self._after.nbytes

    def before(self, rows: Rows) -> Rows:
        return self._before[rows].astype(np.int64)

    def after(self, rows: Rows) -> Rows:
        return self._after[rows].astype(np.int64)


def _nearest(
    records: NDArray[np.int32], links: NDArray[np.int32], row_of: NDArray[np.int32]
) -> NDArray[np.int32]:
    """The next record in reach along the links, for each of these.

    However many are out of reach in between: what a reader may not see must not change what is found.
    """
    others = links[records]
    waiting = np.flatnonzero((row_of[others] < 0) & (others >= 0))
    for _ in range(_STEPS):
        if not len(waiting):
            return others
        others[waiting] = links[others[waiting]]
        waiting = _out_of_reach(waiting, others, row_of)
    if len(waiting):
        others[waiting] = _onwards(links, row_of)[others[waiting]]
    return others


def _onwards(links: NDArray[np.int32], row_of: NDArray[np.int32]) -> NDArray[np.int32]:
    """The next in reach for every record. The way doubles each time, so that long ones take no longer than short ones."""
    others = links.copy()
    waiting = np.flatnonzero((row_of[others] < 0) & (others >= 0))
    while len(waiting):
        others[waiting] = others[others[waiting]]
        waiting = _out_of_reach(waiting, others, row_of)
    return others


def _out_of_reach(places: Rows, others: NDArray[np.int32], row_of: NDArray[np.int32]) -> Rows:
    """Those of these places where there is a record that cannot be seen."""
    named = others[places]
    return places[(named >= 0) & (row_of[named] < 0)]
