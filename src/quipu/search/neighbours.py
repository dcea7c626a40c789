"""The rows whose vectors are nearest to the query's: every row is compared, in float32."""

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from quipu.model.search import SessionContext
from quipu.search.arrays import Floats, Mask, Rows, best
from quipu.search.partition import Partition
from quipu.search.turns import VisibleTurns

#: When less than one in so many rows may be seen, they are taken out before anything is computed.
_SPARSE = 3
#: When more than one in so many rows are compared, comparing all is faster than taking them out.
_DENSE = 2
#: With turns, this many times the limit are looked at before their neighbours decide.
_WIDER = 2

#: None for a row without a vector.
Optional: TypeAlias = list[float | None]


@dataclass(slots=True)
class VectorScores:
    """Nearness to the query's vector, a share of a turn's neighbours included."""

    partition: Partition
    query: Floats
    turns: VisibleTurns | None
    context: SessionContext
    #: The cosines of all rows, once they were needed.
    _all: Floats | None = field(default=None, init=False)

    def nearest(self, mask: Mask, limit: int) -> Rows:
        """The nearest rows of the mask, best first. By cosine; where there are turns, with their neighbours' share among
        those that are near and those next to them."""
        mask = mask & self.partition["has_vector"]
        if self.turns is None:
            return self._nearest_by_cosine(mask, limit)
        near = self._nearest_by_cosine(mask, limit * _WIDER)
        around = np.concatenate([near, self.turns.before(near), self.turns.after(near)])
        rows = np.unique(around[around >= 0])
        rows = rows[mask[rows]]
        return rows[best(self._with_context(rows, self.cosines(rows)), limit)]

    def judged(self, rows: Rows) -> tuple[Optional, Optional]:
        """Cosines, and cosines with the neighbours' share."""
        cosines = self.cosines(rows)
        near = self._with_context(rows, cosines)
        has_vector = self.partition["has_vector"][rows].tolist()
        return _where(has_vector, cosines.tolist()), _where(has_vector, near.tolist())

    def cosines(self, rows: Rows) -> Floats:
        """The cosine of each row; anything where there is no vector or no row (-1)."""
        if self._all is None and len(self.partition) > _DENSE * len(rows):
            return np.vecdot(self.partition.vectors.take(rows, 0), self.query)
        return self._all_cosines()[rows]

    def _all_cosines(self) -> Floats:
        """Row by row (`vecdot`), so that a row's cosine depends on no other row, to the last bit.

        It is also faster than a product with the whole matrix: up to twice, and far more where other threads compute.
        """
        every = self._all
        if every is None:
            every = self._all = np.vecdot(self.partition.vectors, self.query)
        return every

    def _with_context(self, rows: Rows, cosines: Floats) -> Floats:
        if self.turns is None:
            return cosines
        near = cosines.copy()
        for share, others in (
            (self.context.previous_vector, self.turns.before(rows)),
            (self.context.next_vector, self.turns.after(rows)),
        ):
            near += np.float32(share) * np.where(others >= 0, self.cosines(others), 0)
        return near

    def _nearest_by_cosine(self, mask: Mask, limit: int) -> Rows:
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
