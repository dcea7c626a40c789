"""Vectors in the form the port promises: unit length, little-endian float32, as bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def packed(vector: NDArray[np.floating]) -> bytes:
    """The unit vector of that direction, as bytes. Raises ValueError where there is no direction."""
    exact = vector.astype(np.float64)
    length = float(np.linalg.norm(exact))
    if exact.ndim != 1 or not 0.0 < length < np.inf:  # NaN fails both comparisons
        raise ValueError("a vector is one row of finite numbers that are not all zero")
    return (exact / length).astype("<f4").tobytes()


def mean(vectors: Sequence[bytes]) -> bytes:
    """The direction in the middle of unit vectors. Raises ValueError where they point away from each other."""
    rows = np.stack([np.frombuffer(vector, "<f4") for vector in vectors])
    return packed(np.asarray(rows.mean(axis=0, dtype=np.float64)))
