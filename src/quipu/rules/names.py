"""Whom a text names.

1. A word names a user that has it in its id, and one whose records have it while hardly anybody else's do: what people
   are called is told by what is kept about them.
2. A name says whose records are meant, not which of them. So a question is compared without it: "someone" stands for
   the name in the query's vector.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from itertools import pairwise

from quipu.model.search import Candidate
from quipu.rules.stop_words import is_english

#: Stands for a name where a query is embedded.
SOMEONE = "someone"
#: A name is a word that so large a share of one user's records have, and at least so many of them ...
_OFTEN, _AT_LEAST = 0.3, 3
#: ... of all that have it.
_OWN = 0.8
#: A part of an id that more users than this have in theirs names none of them.
NAMESAKES = 3
#: What a name counts for that others' records have more often than those of whoever it names. It may be a word like any
#: other: "home" and "sales" are, in the memory of a household or of a company.
SHARED = 0.625
#: What follows one of these is a place or a thing rather than a person.
_BEFORE_PLACES = frozenset(("a", "an", "at", "by", "from", "in", "into", "near", "on", "the", "to"))
#: Written with a capital, and nobody's name; April, June and August may be somebody's.
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = ("january", "february", "march", "july", "september", "october", "november", "december")
_CALENDAR = frozenset((*_WEEKDAYS, *_MONTHS, "christmas", "easter"))
_POSSESSIVE = re.compile("['\u2019]s$")
#: A number, or one with letters in it, is not what anybody is called.
_NAME = re.compile(r"(?<![^\W_])[^\W\d_]{2,}(?![^\W_])")
_REPEATED = re.compile(rf"\b{SOMEONE}(?: {SOMEONE})+\b")


def folded(word: str) -> str:
    """A word as names are compared: without case, accents and a possessive s."""
    bare = word if word.isalnum() else _POSSESSIVE.sub("", word)
    if bare.isascii():
        return bare.lower()
    marked = unicodedata.normalize("NFKD", bare.casefold())
    return "".join(char for char in marked if not unicodedata.combining(char))


def parts(user_id: str) -> frozenset[str]:
    """What an id says somebody is called: the words in it, of an address those before the @."""
    called = unicodedata.normalize("NFC", user_id.partition("@")[0])
    return frozenset(folded(part) for part in _NAME.findall(called))


def once(text: str) -> str:
    """First and last name stand for one person."""
    return _REPEATED.sub(SOMEONE, text)


def is_name_of(theirs: int, of_them: int, having: int, is_person: bool) -> bool:
    """Whether a word is what a user is called: `theirs` of the `having` records with it are the user's, who has `of_them`.

    One record is enough for a word that is written as a person's name.
    """
    return is_own(theirs, having) and (is_person or theirs >= max(_AT_LEAST, _OFTEN * of_them))


def is_own(theirs: int, having: int) -> bool:
    """Whether hardly anybody else's records have the word."""
    return theirs > 0 and theirs >= _OWN * having


def may_name(having: int, is_person: bool) -> bool:
    """Whether a word that so many records have could be anybody's name at all."""
    return having >= (1 if is_person else _AT_LEAST)


def is_told_apart(namesakes: int) -> bool:
    """Whether a part of an id that so many users have in theirs still names somebody."""
    return 0 < namesakes <= NAMESAKES


def persons(words: Sequence[str]) -> frozenset[str]:
    """The words of a text that are written as a person's name is.

    With a capital, no day or month, and neither at the beginning nor where a place or a thing stands ("in Canada", "the
    Alps"). A text that has a capital on most words has them for other reasons, and so has one that is not English: in
    German every noun has one.
    """
    capitals = frozenset(
        word
        for word in words[1:]
        if word[0].isupper() and not word.isupper() and folded(word) not in _CALENDAR
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


def about(candidate: Candidate, users: Collection[str]) -> float:
    """How far a record is about the named users: 1 if it is their own or names them, less if it may name them, else 0."""
    if candidate.user_id in users:
        return 1.0
    return candidate.named if candidate.named >= SHARED else 0.0
