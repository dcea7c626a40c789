"""The rows whose vectors are nearest to the query's: every row is compared, in float32.

A long text has a vector for each passage. The nearest passage speaks for it, and what ranks is less by a little for every
doubling of their number: many passages are many chances.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from quipu.model.search import SessionContext
from quipu.search.arrays import Floats, Mask, Rows, best
from quipu.search.partition import Partition
from quipu.search.visibility import Visible

#: When less than one in so many rows may be seen, they are taken out before anything is computed.
_SPARSE = 3
#: When more than one in so many rows are compared, comparing all is faster than taking them out.
_DENSE = 2
#: With turns, this many times the limit are looked at before their neighbours decide.
_WIDER = 2
#: What e times as many passages cost.
_LENGTH_COST = np.float32(0.12)

#: Rows that are compared with all others in one product: more take more memory, and are no faster.
_BLOCK = 64

#: None for a row without a vector.
Optional: TypeAlias = list[float | None]


@dataclass(slots=True)
class VectorScores:
    """Nearness to the query's vector, a share of a turn's neighbours included."""

    visible: Visible
    query: Floats
    context: SessionContext
    #: The cosines of all rows, once they were needed.
    _all: Floats | None = field(default=None, init=False)
    #: The cosines of all further passages, once they were needed.
    _later: Floats | None = field(default=None, init=False)

    @property
    def _has_turns(self) -> bool:
        return self.visible.has_turns and not self.context.is_empty

    def nearest(self, mask: Mask, limit: int) -> Rows:
        """The nearest rows of the mask, best first. By cosine; where there are turns, with their neighbours' share among
        those that are near and those next to them."""
        mask = mask & self.visible.partition["has_vector"]
        if not self._has_turns:
            return self._nearest(mask, limit)
        near, turns = self._nearest(mask, limit * _WIDER), self.visible.turns
        around = np.concatenate([near, turns.before(near), turns.after(near)])
        rows = np.unique(around[around >= 0])
        rows = rows[mask[rows]]
        return rows[best(self._ranked(rows, self.cosines(rows)), limit)]

    def judged(self, rows: Rows) -> tuple[Optional, Optional, list[int]]:
        """Cosines, what ranks, and which passage is nearest."""
        cosines = self.cosines(rows)
        has_vector = self.visible.partition["has_vector"][rows].tolist()
        return (
            _where(has_vector, cosines.tolist()),
            _where(has_vector, self._ranked(rows, cosines).tolist()),
            self._passages(rows, cosines),
        )

    def cosines(self, rows: Rows) -> Floats:
        """The cosine of each row's nearest passage; anything where there is no vector or no row (-1)."""
        partition = self.visible.partition
        if self._all is not None or len(partition) <= _DENSE * len(rows):
            return self._all_cosines()[rows]
        found = np.vecdot(partition.vectors.take(rows, 0), self.query)
        long = np.flatnonzero(partition["passages"][rows] > 1)
        if len(long):
            owners, nearest = self._later_nearest()
            found[long] = np.maximum(found[long], nearest[np.searchsorted(owners, rows[long])])
        return found

    def _all_cosines(self) -> Floats:
        """Row by row (`vecdot`), so that a row's cosine depends on no other row, to the last bit.

        It is also faster than a product with the whole matrix: up to twice, and far more where other threads compute.
        """
        every = self._all
        if every is None:
            partition = self.visible.partition
            every = self._all = np.vecdot(partition.vectors, self.query)
            owners, nearest = self._later_nearest()
            every[owners] = np.maximum(every[owners], nearest)
        return every

    def _later_nearest(self) -> tuple[Rows, Floats]:
        """The rows that have further passages, and the cosine of the nearest of those."""
        owners = self.visible.partition.later_passages[1]
        if not len(owners):
            return owners, np.empty(0, np.float32)
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        return owners[starts], np.maximum.reduceat(self._later_cosines(), starts)

    def _later_cosines(self) -> Floats:
        later = self._later
        if later is None:
            later = self._later = np.vecdot(self.visible.partition.later_passages[0], self.query)
        return later

    def _passages(self, rows: Rows, cosines: Floats) -> list[int]:
        found = [0] * len(rows)
        partition = self.visible.partition
        owners = partition.later_passages[1]
        for place in np.flatnonzero(partition["passages"][rows] > 1).tolist():
            start = int(np.searchsorted(owners, int(rows[place])))
            count = int(partition["passages"][rows[place]]) - 1
            later = self._later_cosines()[start : start + count]
            if later.max() >= cosines[place]:
                found[place] = 1 + int(later.argmax())
        return found

    def _ranked(self, rows: Rows, cosines: Floats) -> Floats:
        partition = self.visible.partition
        ranked = cosines - _LENGTH_COST * np.log(partition["passages"][rows].astype(np.float32))
        if not self._has_turns:
            return ranked
        brevity, turns = self.visible.brevity[rows], self.visible.turns
        for share, others in (
            (self.context.previous_vector, turns.before(rows)),
            (self.context.next_vector, turns.after(rows)),
        ):
            # Where there is no neighbour, the turn stands for it: it must not lose by being the first or the last.
            neighbours = np.where(others >= 0, self.cosines(others), cosines)
            ranked += np.float32(share) * brevity * neighbours
        return ranked

    def _nearest(self, mask: Mask, limit: int) -> Rows:
        count = int(np.count_nonzero(mask))
        if count > len(mask) // _SPARSE:
            # Taking out most rows costs more than passing over the others.
            return best(np.where(mask, self._all_cosines(), np.float32(-np.inf)), min(limit, count))
        rows = np.flatnonzero(mask)
        return rows[best(self.cosines(rows), limit)]


def _where(has_vector: list[bool], values: list[float]) -> Optional:
    if all(has_vector):
        return [*values]
    return [value if is_there else None for is_there, value in zip(has_vector, values, strict=True)]


def alike(
    partition: Partition, mask: Mask, rows: Rows, nearness: float, most: int
) -> list[tuple[int, int, float]]:
    """Row, other row and their cosine: for each of the rows up to `most` others of the mask, of the same user, agent and
    type, whose vectors are at least so near. A row without a vector is near to none."""
    mask = mask & partition["has_vector"]
    rows = rows[mask[rows]]
    same = [partition[column] for column in ("user", "agent", "type")]
    found: list[tuple[int, int, float]] = []
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        cosines = partition.vectors[block] @ partition.vectors.T
        for row, near in zip(block.tolist(), cosines, strict=True):
            others = np.flatnonzero(near >= nearness)
            is_mate = mask[others] & (others != row)
            for column in same:
                is_mate &= column[others] == column[row]
            others = others[is_mate]
            nearest = others[best(near[others], most)]
            found.extend((row, other, float(near[other])) for other in nearest.tolist())
    return found
