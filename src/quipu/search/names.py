"""Which users a text names: by their ids, and by whose records have its words.

A word names a user that has it in its id, and one whose records have it while hardly anybody else's do: what people are
called is known from what is kept about them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quipu.search.arrays import Mask
from quipu.search.partition import Partition
from quipu.search.people import folded_name, name_parts
from quipu.search.query import person_names
from quipu.search.terms import Words
from quipu.search.text import is_stop_word
from quipu.search.visibility import Visible

#: A name is a word that so large a share of one user's records have, and at least so many of them ...
_OFTEN, _AT_LEAST = 0.3, 3
#: ... of all that have it.
_OWN = 0.8
#: A part of an id that more users than this have in theirs names none of them.
_MOST_NAMESAKES = 3
#: Of the records that have a word, about so many are looked at to see whose they are.
_SAMPLE = 256


@dataclass(frozen=True, slots=True)
class Named:
    """What `WordShares` says of names."""

    names: frozenset[str] = frozenset()
    mentions: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    theirs: int = 0
    has_several_users: bool = False


def named_in_one(user_id: str, words: Words) -> Named:
    """In one user's records, what the user is called is a name."""
    called = name_parts(user_id.partition("@")[0])
    return Named(frozenset(word for word, _ in words if folded_name(word) in called))


def named(visible: Visible, words: Words) -> Named:
    """In records of several users, what one or few of them are called."""
    partition = visible.partition
    first, last = visible.users
    if last < 0:
        return Named()
    if first == last:
        return named_in_one(partition.users.names[last], words)
    mentions: dict[str, bool] = {}
    numbers: set[int] = set()
    persons = person_names([word for word, _ in words])
    for word, terms in dict(words).items():  # a word that is repeated says nothing new
        if is_stop_word(word) or not terms:
            continue
        called = _called(visible, folded_name(word))
        is_person = word in persons
        rows = min((visible.having(term)[0] for term in terms), key=len)
        if not called and len(rows) < (1 if is_person else _AT_LEAST):
            continue
        owners = _Owners.of(partition["user"], rows)
        called = called or owners.whom_it_names(visible, is_person)
        if called:
            numbers.update(called)
            mentions[word] = owners.are_mostly(called)
    return Named(
        names=frozenset(mentions),
        mentions=frozenset(word for word, is_mention in mentions.items() if is_mention),
        users=frozenset(partition.users.names[number] for number in numbers),
        theirs=sum(map(visible.count_of, numbers)),
        has_several_users=True,
    )


def rows_of_users(partition: Partition, mask: Mask, users: frozenset[str]) -> Mask:
    """The rows of these users."""
    numbers = [partition.users.find(user) for user in users]
    return mask & np.isin(partition["user"], numbers)


def is_own(theirs: int, having: int) -> bool:
    """Whether hardly anybody else's records have a word: `theirs` of the `having` records with it are one user's."""
    return theirs > 0 and theirs >= _OWN * having


def is_name_of(theirs: int, of_them: int, having: int, is_person: bool) -> bool:
    """Whether a word is what a user is called, who has `of_them` records.

    One record is enough for a word that is written as a person's name.
    """
    return is_own(theirs, having) and (is_person or theirs >= max(_AT_LEAST, _OFTEN * of_them))


def _called(visible: Visible, part: str) -> list[int]:
    """The users in reach that have this in their id, if they are few."""
    found = visible.occurring(visible.partition.users.named(part), _MOST_NAMESAKES + 1)
    return found if len(found) <= _MOST_NAMESAKES else []


@dataclass(frozen=True, slots=True)
class _Owners:
    """Whose records have a word: the users of a sample of them, in order."""

    numbers: list[int]
    #: One in so many of the records is in the sample.
    every: int

    @classmethod
    def of(cls, users: NDArray[Any], rows: NDArray[Any]) -> "_Owners":
        every = max(1, len(rows) // _SAMPLE)
        owners = users[rows[::every]]
        return cls(sorted(owners[owners >= 0].tolist()), every)

    def are_mostly(self, users: Sequence[int]) -> bool:
        return 2 * sum(map(self.numbers.count, users)) >= len(self.numbers)

    def whom_it_names(self, visible: Visible, is_person: bool) -> list[int]:
        """The one who has most of the records stands in the middle, if anybody has most of them."""
        if not self.numbers:
            return []
        user = self.numbers[len(self.numbers) // 2]
        theirs, having = self.numbers.count(user), len(self.numbers)
        if not is_own(theirs, having):
            return []
        of_them = 0 if is_person else visible.count_of(user)
        return [user] if is_name_of(self.every * theirs, of_them, self.every * having, is_person) else []
