"""One vector for a text of any length: windows that cover it, and the direction of their mean."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

S = TypeVar("S", str, Sequence[int])


def well_formed(text: str) -> str:
    """The text with lone surrogates replaced: JSON can carry them, and UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")


def windows(tokens: S, size: int, overlap: int, most: int) -> list[S]:
    """Stretches of at most `size` tokens, or characters, that overlap and cover them all; one empty one for none.

    A text that would need more than `most` is sampled evenly, its beginning and its end included.
    """
    if len(tokens) <= size:
        return [tokens]
    starts = range(0, len(tokens) - overlap, size - overlap)
    if len(starts) > most:
        last = len(starts) - 1
        starts = [starts[place * last // (most - 1)] for place in range(most)]
    return [tokens[start : start + size] for start in starts]


def normalised(vector: NDArray[np.floating[Any]]) -> bytes:
    """The unit vector of that direction, as little-endian float32. Raises ValueError where there is no direction."""
    exact = vector.astype(np.float64)
    length = float(np.linalg.norm(exact))
    if exact.ndim != 1 or not 0.0 < length < np.inf:  # NaN fails both comparisons
        raise ValueError("a vector is one row of finite numbers that are not all zero")
    return (exact / length).astype("<f4").tobytes()
