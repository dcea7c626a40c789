"""What a question means among the records in reach: whom it names, and what is left of it without names.

A name says whose records are meant, not which of them: the question is embedded without it, as the records are
(`people.py`), and keyword search keeps it.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from quipu.model.search import Candidate, WordShares
from quipu.search.people import folded_name, name_parts, without_names
from quipu.search.text import is_english, is_stop_word

#: What a name counts for that others' records have more often than those of whoever it names. It may be a word like any
#: other: "home" and "sales" are, in the memory of a household or of a company.
SHARED_NAME: Final = 0.625

_ABOUT_ONESELF = re.compile(r"\b(?:i|i'm|i've|i'd|me|my|mine|myself)\b", re.IGNORECASE)
#: What follows one of these is a place or a thing rather than a person.
_BEFORE_PLACES = frozenset(("a", "an", "at", "by", "from", "in", "into", "near", "on", "the", "to"))
#: Written with a capital, and nobody's name; April, June and August may be somebody's.
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = ("january", "february", "march", "july", "september", "october", "november", "december")
_CALENDAR = frozenset((*_WEEKDAYS, *_MONTHS, "christmas", "easter"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question after it was looked at among the records in reach."""

    text: str
    #: The position of the journal at which all this holds, and at which the search is to be made.
    seq: int
    #: The text to embed: with "someone" for names; and the words that were names.
    embedding_text: str
    people: frozenset[str]
    in_reach: int
    subjects: frozenset[str]
    #: The users that are named, where several users' records are in reach, and how many records are theirs.
    users: frozenset[str]
    theirs: int
    #: Words that name users, and those that may just as well be ordinary words.
    names: frozenset[str]
    shared_names: frozenset[str]
    #: Whether it names a person whom no record in reach mentions.
    names_unknown_person: bool
    #: Whether whoever asks speaks of themselves.
    is_about_oneself: bool


def analyse(text: str, shares: WordShares) -> Query:
    """What a question means, given whom its words name in reach."""
    called = [
        *map(folded_name, shares.names),
        *(part for name in shares.subjects for part in name_parts(name)),
    ]
    masked = without_names(text, frozenset(called))
    return Query(
        text=text,
        seq=shares.seq,
        embedding_text=masked.text,
        people=masked.names,
        in_reach=shares.in_reach,
        subjects=shares.subjects,
        users=shares.users,
        theirs=shares.theirs,
        names=shares.mentions,
        shared_names=_shared_names(shares),
        names_unknown_person=_names_unknown_person(shares),
        is_about_oneself=_ABOUT_ONESELF.search(text) is not None,
    )


def about(candidate: Candidate, users: Collection[str]) -> float:
    """How far a record is about the named users: 1 if it is their own or names them, less if it may name them, else 0."""
    if candidate.user_id in users:
        return 1.0
    return candidate.named if candidate.named >= SHARED_NAME else 0.0


# -- names ----------------------------------------------------------------------------------------------------------


def person_names(words: Sequence[str]) -> frozenset[str]:
    """The words of a text that are written as a person's name is.

    With a capital, no day or month, and neither at the beginning nor where a place or a thing stands ("in Canada", "the
    Alps"). A text that has a capital on most words has them for other reasons, and so has one that is not English: in
    German every noun has one.
    """
    capitals = frozenset(
        word
        for word in words[1:]
        if word[0].isupper() and not word.isupper() and folded_name(word) not in _CALENDAR
    )
    if 2 * len(capitals) > len(words) or not is_english(words):
        return frozenset()
    found: set[str] = set()
    is_place = False
    for before, word in pairwise(words):
        if word in capitals:
            is_place = is_place if before in capitals else before.lower() in _BEFORE_PLACES
            if not is_place:
                found.add(word)
    return frozenset(found)


def _shared_names(shares: WordShares) -> frozenset[str]:
    """Names that others' records have more often than those of whoever is called so, and not written as a person's."""
    shared = shares.names - shares.mentions
    if not shared or not shares.users:
        return frozenset()
    return shared - person_names([word for word, _ in shares.words])


def _names_unknown_person(shares: WordShares) -> bool:
    """Whether a question names somebody whom no record in reach mentions.

    It can be known only where several users' records are in reach. In one person's memory, and in one that is nobody's
    in particular, records may well be about whoever is named without ever saying the name.
    """
    if not shares.has_several_users:
        return False
    unknown = {word for word, share in shares.words if not share and not is_stop_word(word)} - shares.names
    return bool(unknown) and not unknown.isdisjoint(person_names([word for word, _ in shares.words]))
