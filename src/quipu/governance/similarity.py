"""How a new text stands to an old one: the same again, a contradiction, or merely alike. Pure."""

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

from quipu.search.people import name_the_same

Relation: TypeAlias = Literal["duplicate", "conflict", "similar"]

#: From here on a record is shown beside the new one; the two speak of the same thing; they say the same.
ALIKE, SAME_MATTER, SAME_TEXT = 0.6, 0.7, 0.95
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
#: Words that turn a statement round, in languages people here write in.
_TURNS = frozenset(
    """no not never none neither nor without cannot stopped quit former formerly nicht kein keine keinen nie ohne ne pas
    jamais sans nunca sin jamás""".split()  # noqa: SIM905  words read better as a text than as many literals
)


def relation(new: str, old: str, similarity: float) -> Relation:
    """A guess that is shown to a person, never acted on by itself."""
    mine, theirs = words_of(new), words_of(old)
    if mine == theirs:
        return "duplicate"
    if not name_the_same(new, old):
        return "similar"
    if similarity >= SAME_MATTER and _contradict(new, old, mine, theirs):
        return "conflict"
    return "duplicate" if similarity >= SAME_TEXT else "similar"


def _contradict(new: str, old: str, mine: Sequence[str], theirs: Sequence[str]) -> bool:
    if _NUMBER.findall(new) != _NUMBER.findall(old):
        return True
    return _turns(mine) is not _turns(theirs)


def _turns(words: Sequence[str]) -> bool:
    """Whether it says that something is not so. French says it twice, so the words are not counted."""
    return any(word in _TURNS or word.endswith(("n't", "n\u2019t")) for word in words)


def words_of(text: str) -> list[str]:
    """The words without their case."""
    return [word.casefold() for word in _WORD.findall(text)]


def overlap(new: str, old: str) -> float:
    """The share of all their words that both have, for memories without vectors."""
    mine, theirs = set(words_of(new)), set(words_of(old))
    return len(mine & theirs) / len(mine | theirs) if mine | theirs else 0.0
