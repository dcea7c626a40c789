"""What happens to a text before a model sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

S = TypeVar("S", str, Sequence[int])


def well_formed(text: str) -> str:
    """The text with lone surrogates replaced: JSON can smuggle them in, and they cannot be written as UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")


def windows(tokens: S, size: int, overlap: int, most: int) -> list[S]:
    """Stretches of at most `size` tokens, or characters, that overlap and cover them all; one empty stretch for none.

    A text that would need more than `most` is sampled evenly, its beginning and its end included.
    """
    if len(tokens) <= size:
        return [tokens]
    starts = range(0, len(tokens) - overlap, size - overlap)
    if len(starts) > most:
        last = len(starts) - 1
        starts = [starts[place * last // (most - 1)] for place in range(most)]
    return [tokens[start : start + size] for start in starts]
