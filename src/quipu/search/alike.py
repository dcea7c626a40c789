"""Rows that say much the same, found for many rows at once."""

import numpy as np

from quipu.search.arrays import Mask, Rows, best
from quipu.search.partition import Partition

#: Rows that are compared with all others in one product: more take more memory, and are no faster.
_BLOCK = 64


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
