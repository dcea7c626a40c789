"""Who comes before and after whom in a session.

Neighbours are records, not versions: which version of a neighbour counts, and whether it may be seen at all, is
settled for each reader by what is in their reach.
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
#: A neighbour that is out of reach is stepped over, this many times at most.
_STEPS = 3


class Turns:
    """The records of each session in order of time."""

    def __init__(self) -> None:
        self._sessions: dict[int, list[tuple[int, int]]] = {}
        self._before, self._after = Column(np.int32), Column(np.int32)

    @property
    def is_empty(self) -> bool:
        return not self._sessions

    @property
    def nbytes(self) -> int:
        """A place in its session for each record; those without one are counted with them."""
        return self._before.nbytes + self._after.nbytes + 2 * OBJECT * self._before.size

    def add(self, session: int, moment: int, record: int) -> None:
        """Note a version; only the first of a record gives it its place."""
        if record < self._before.size:
            return
        left = right = -1
        if session >= 0:
            turns = self._sessions.setdefault(session, [])
            place = bisect.bisect(turns, (moment, record))
            left = turns[place - 1][1] if place else -1
            right = turns[place][1] if place < len(turns) else -1
            turns.insert(place, (moment, record))
        self._before.extend(np.array([left], np.int32))
        self._after.extend(np.array([right], np.int32))
        if left >= 0:
            self._after.view[left] = record
        if right >= 0:
            self._before.view[right] = record

    def seen(self, record_of: NDArray[np.int32], mask: Mask) -> SeenTurns:
        """Neighbours as a reader sees them."""
        rows = np.flatnonzero(mask)
        row_of = np.full(self._before.size + 1, -1, np.int64)  # the last place answers for "no neighbour"
        row_of[record_of[rows]] = rows
        return SeenTurns(record_of, row_of, self._before.view, self._after.view)


@dataclass(frozen=True, slots=True)
class SeenTurns:
    """Neighbours of rows among the rows in reach; -1 where there is none."""

    _record_of: NDArray[np.int32]
    _row_of: Rows
    _before: NDArray[np.int32]
    _after: NDArray[np.int32]

    @property
    def nbytes(self) -> int:
        """What is this reader's own of it."""
        return ARRAY + self._row_of.nbytes

    def before(self, rows: Rows) -> Rows:
        return self._step(rows, self._before)

    def after(self, rows: Rows) -> Rows:
        return self._step(rows, self._after)

    def _step(self, rows: Rows, links: NDArray[np.int32]) -> Rows:
        others = links[self._record_of[rows]]
        found = self._row_of[others]
        for _ in range(_STEPS):
            hidden = (found < 0) & (others >= 0)
            if not hidden.any():
                break
            others = np.where(hidden, links[others], others)
            found = self._row_of[others]
        return found
