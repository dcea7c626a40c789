"""How much text fits a token budget: whole texts in order, one token per four characters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

CHARACTERS_PER_TOKEN: Final = 4


@dataclass(frozen=True, slots=True)
class Passage:
    """A text that wants to be returned. One that is not `can_be_cut` (a procedure) is whole or absent."""

    text: str
    can_be_cut: bool = True


@dataclass(frozen=True, slots=True)
class Fitted:
    """The positions that fit, in order. `cut` is the shortened text of the first of them, None when it is whole."""

    kept: tuple[int, ...]
    cut: str | None = None


def tokens(text: str) -> int:
    """What a text costs."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def fitted(passages: Sequence[Passage], max_tokens: int | None) -> Fitted:
    """The passages that fit, best first, up to the first that does not.

    Something is always returned: a first text that is too long is cut. One that must not be cut is
    dropped instead, and the next takes its place as the first.
    """
    if max_tokens is None:
        return Fitted(tuple(range(len(passages))))
    kept: list[int] = []
    left = max_tokens
    for index, passage in enumerate(passages):
        left -= tokens(passage.text)
        if left >= 0:
            kept.append(index)
        elif kept:
            break
        elif passage.can_be_cut:
            return Fitted((index,), passage.text[: max_tokens * CHARACTERS_PER_TOKEN])
        else:
            left = max_tokens
    return Fitted(tuple(kept))
