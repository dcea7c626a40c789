"""How a new text stands to an old one: the same again, a contradiction, or merely alike."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: From here on a record is shown beside the new one, and from here on the two speak of the same thing.
ALIKE, SAME_MATTER, SAME_TEXT = 0.6, 0.7, 0.95
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
#: Words that turn a statement round, in languages people here write in.
_TURNS = frozenset(
    [
        "no",
        "not",
        "never",
        "none",
        "neither",
        "nor",
        "without",
        "cannot",
        "stopped",
        "quit",
        "former",
        "formerly",
        "nicht",
        "kein",
        "keine",
        "keinen",
        "nie",
        "ohne",
        "ne",
        "pas",
        "jamais",
        "sans",
        "nunca",
        "sin",
        "jamás",
    ]
)


def relation(new: str, old: str, similarity: float) -> str:
    """duplicate, conflict or similar. A guess that is shown to a person, never acted on by itself."""
    mine, theirs = words_of(new), words_of(old)
    if mine == theirs:
        return "duplicate"
    if similarity >= SAME_MATTER and _contradict(new, old, mine, theirs):
        return "conflict"
    return "duplicate" if similarity >= SAME_TEXT else "similar"


def _contradict(new: str, old: str, mine: Sequence[str], theirs: Sequence[str]) -> bool:
    if _NUMBER.findall(new) != _NUMBER.findall(old):
        return True
    return _turns(mine) is not _turns(theirs)


def _turns(words: Sequence[str]) -> bool:
    """Whether it says that something is not so. French says it twice, so the words are not counted."""
    return any(word in _TURNS or word.endswith(("n't", "n’t")) for word in words)


def words_of(text: str) -> list[str]:
    """The words without their case."""
    return [word.casefold() for word in _WORD.findall(text)]


def overlap(new: str, old: str) -> float:
    """The share of all their words that both have, for memories without vectors."""
    mine, theirs = set(words_of(new)), set(words_of(old))
    return len(mine & theirs) / len(mine | theirs) if mine | theirs else 0.0
