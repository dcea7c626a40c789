"""What somebody meant who misspelt a name: the known names that are the fewest slips of a finger away."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

#: Who types this much of a name and stops has begun to write it.
_BEGUN = 3


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """The nearest names, in order, all equally near; none where the word is too far from every one of them.

    Of two that are equally many slips away the one is nearer that begins alike: beginnings are seldom mistyped.
    """
    ranked = sorted((slips(word, name), -_alike(word, name), name) for name in set(known))
    if ranked and ranked[0][0] <= _bearable(word):
        return [name for *distance, name in ranked if distance == [*ranked[0][:2]]]
    return sorted(name for *_, name in ranked if len(word) >= _BEGUN and name.startswith(word))


def _alike(word: str, name: str) -> int:
    """How many letters they have in common from the beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(word, name, strict=False)))


def _bearable(word: str) -> int:
    """A short word with two slips in it is another word."""
    return 1 if len(word) <= 4 else 2


def slips(word: str, name: str) -> int:
    """How many letters are missing, too many, wrong, or swapped with their neighbour."""
    before: list[int] = []
    row = list(range(len(name) + 1))
    for i, letter in enumerate(word, start=1):
        before, above, row = row, before, [i]
        for j, wanted in enumerate(name, start=1):
            least = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == name[j - 2] and word[i - 2] == wanted:
                least = min(least, above[j - 2] + 1)
            row.append(least)
    return row[-1]
