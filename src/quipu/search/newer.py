"""Facts that say the same with another value: the newer comes first, and each names the others.

Two texts are such a pair when they begin alike, have half of their words in common, are near, and each has a word that the
other lacks (or one of them says "not"). Which of them is true is not decided here: both are shown.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from quipu.model.record import Record
from quipu.search.terms import words
from quipu.search.text import body_text, is_stop_word

#: So many of the best hits are compared.
LOOKED_AT: Final = 12
#: Texts that say the same of the same are at least so near.
NEARNESS: Final = 0.6
_COMMON_WORDS: Final = 0.5
_ABOUT_THE_PAST = re.compile(
    r"\b(?:before|earlier|first|formerly|in the past|initially|once|original(?:ly)?|previous(?:ly)?|used to)\b",
    re.IGNORECASE,
)


def is_about_the_past(question: str) -> bool:
    """Whether a question asks for what was, rather than for what is."""
    return _ABOUT_THE_PAST.search(question) is not None


def contradictions(
    question: str, pairs: Collection[tuple[str, str]], records: Mapping[str, Record]
) -> dict[str, tuple[str, ...]]:
    """For each record the others that say something else of the same; `pairs` are near each other.

    What the question itself tells apart (number 3, not number 7) is not the same.
    """
    asked = frozenset(term for _, terms in words(question) for term in terms)
    said = {name: _Said.of(record) for name, record in records.items()}
    found: dict[str, set[str]] = {}
    for one, other in pairs:
        if one in said and other in said and said[one].differs_from(said[other], asked):
            found.setdefault(one, set()).add(other)
            found.setdefault(other, set()).add(one)
    return {name: tuple(sorted(others)) for name, others in found.items()}


def newer_first(
    ids: Sequence[str], contradicting: Mapping[str, Collection[str]], records: Mapping[str, Record]
) -> list[str]:
    """The ids in their order, but for each newer fact, which stands before the first older one that it contradicts."""
    ordered: list[str] = []
    for name in ids:
        older = (
            place
            for place, other in enumerate(ordered)
            if other in contradicting.get(name, ()) and _moment(records[other]) < _moment(records[name])
        )
        ordered.insert(next(older, len(ordered)), name)
    return ordered


@dataclass(frozen=True, slots=True)
class _Said:
    """The words of a text, and the first that says something."""

    terms: frozenset[int]
    first: frozenset[int]

    @classmethod
    def of(cls, record: Record) -> "_Said":
        found = words(body_text(record))
        content: Iterator[Sequence[int]] = (terms for word, terms in found if not is_stop_word(word))
        return cls(frozenset(term for _, terms in found for term in terms), frozenset(next(content, ())))

    def differs_from(self, other: "_Said", asked: frozenset[int]) -> bool:
        common, whole = self.terms & other.terms, self.terms | other.terms
        is_same = self.first == other.first and len(common) >= _COMMON_WORDS * len(whole)
        mine, theirs = self.terms - common, other.terms - common
        is_replaced = bool(mine and theirs) and asked.isdisjoint(mine | theirs)
        is_denied = bool(mine | theirs) and mine | theirs <= _negations()
        return is_same and (is_replaced or is_denied)


@cache
def _negations() -> frozenset[int]:
    return frozenset(term for _, terms in words("no not never") for term in terms)


def _moment(record: Record) -> tuple[int, str]:
    """Since when it holds; ids rise as records are written."""
    happened_at = record.details.get("event_time")
    since = record.valid_from or (happened_at if isinstance(happened_at, int) else record.created_at)
    return (since, record.id)
