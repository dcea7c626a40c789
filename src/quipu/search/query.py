"""What a question means among the records in reach: which of its words say something, and whom it names.

1. Words that a large share of the records have (names above all) say nothing about which record is meant, and pull every
   record that has them near. The question is embedded without them; keyword search keeps them.
2. A name says whose records are meant, not which of them. So "someone" stands for it in the text that is embedded.
"""

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from quipu.model.search import Candidate, WordShares
from quipu.search.text import is_english, is_stop_word

#: Stands for a name where a question is embedded.
SOMEONE: Final = "someone"
#: What a name counts for that others' records have more often than those of whoever it names. It may be a word like any
#: other: "home" and "sales" are, in the memory of a household or of a company.
SHARED_NAME: Final = 0.625

#: What follows one of these is a place or a thing rather than a person.
_BEFORE_PLACES = frozenset(("a", "an", "at", "by", "from", "in", "into", "near", "on", "the", "to"))
#: Written with a capital, and nobody's name; April, June and August may be somebody's.
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = ("january", "february", "march", "july", "september", "october", "november", "december")
_CALENDAR = frozenset((*_WEEKDAYS, *_MONTHS, "christmas", "easter"))
_POSSESSIVE = re.compile("['\u2019]s$")
#: A number, or a word with digits in it, is not what anybody is called.
_NAME = re.compile(r"(?<![^\W_])[^\W\d_]{2,}(?![^\W_])")
_REPEATED = re.compile(rf"\b{SOMEONE}(?: {SOMEONE})+\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question after it was looked at among the records in reach."""

    text: str
    #: The position of the journal at which all this holds, and at which the search is to be made.
    seq: int
    #: The text to embed: without common words, with "someone" for names.
    embedding_text: str
    #: Whether words were left out of the text to embed.
    is_shortened: bool
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


def analyse(text: str, shares: WordShares, common_from: float, *, has_own_vector: bool = False) -> Query:
    """What a question means, given how common its words are in reach.

    `common_from` is the share of records from which on a word is common. A caller that brings the question's vector
    (`has_own_vector`) has it embedded in full.
    """
    content = [(word, share) for word, share in shares.words if not is_stop_word(word)]
    particular = frozenset(
        word
        for word, share in content
        if word not in shares.names and not is_common(share * shares.in_reach, shares.in_reach, common_from)
    )
    is_shortened = 0 < sum(word in particular for word, _ in content) < len(content)
    return Query(
        text=text,
        seq=shares.seq,
        embedding_text=_stripped(shares, particular) if particular else text,
        is_shortened=is_shortened and not has_own_vector,
        in_reach=shares.in_reach,
        subjects=shares.subjects,
        users=shares.users,
        theirs=shares.theirs,
        names=shares.mentions,
        shared_names=_shared_names(shares),
        names_unknown_person=_names_unknown_person(shares),
    )


def is_common(having: float, in_reach: int, common_from: float) -> bool:
    """Whether a word that so many of the records have is common. Two are not many, however few records there are."""
    return having > max(2.0, common_from * in_reach)


def about(candidate: Candidate, users: Collection[str]) -> float:
    """How far a record is about the named users: 1 if it is their own or names them, less if it may name them, else 0."""
    if candidate.user_id in users:
        return 1.0
    return candidate.named if candidate.named >= SHARED_NAME else 0.0


# -- names ----------------------------------------------------------------------------------------------------------


def folded_name(word: str) -> str:
    """A word as names are compared: without case, accents and a possessive s."""
    bare = word if word.isalnum() else _POSSESSIVE.sub("", word)
    if bare.isascii():
        return bare.lower()
    marked = unicodedata.normalize("NFKD", bare.casefold())
    return "".join(char for char in marked if not unicodedata.combining(char))


def name_parts(user_id: str) -> frozenset[str]:
    """What an id says somebody is called: the words in it; of an e-mail address those before the @."""
    called = unicodedata.normalize("NFC", user_id.partition("@")[0])
    return frozenset(folded_name(part) for part in _NAME.findall(called))


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


def _stripped(shares: WordShares, particular: frozenset[str]) -> str:
    """The question without its common words; a first and a last name stand for one person."""
    kept: list[str] = []
    for word, _ in shares.words:
        if is_stop_word(word) or word in particular:
            kept.append(word)
        elif word in shares.names:
            kept.append(SOMEONE)
    return _REPEATED.sub(SOMEONE, " ".join(kept))


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
