"""Which users of a partition a text names: by their ids, and by whose records have its words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quipu.ledger.search.partition import Partition
from quipu.ledger.search.postings import Mask
from quipu.ledger.search.seen import Seen
from quipu.ledger.search.terms import Words
from quipu.rules import names
from quipu.rules.stop_words import is_stop_word

#: Of the records that have a word, about so many are looked at to see whose they are.
_LOOKED_AT = 256


@dataclass(frozen=True, slots=True)
class Named:
    """What `WordShares` tells of names."""

    names: frozenset[str] = frozenset()
    mentions: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    theirs: int = 0
    has_several_users: bool = False


def named_in_one(user_id: str, words: Words) -> Named:
    """In one user's records, what the user is called is a name."""
    called = names.parts(user_id)
    return Named(frozenset(word for word, _ in words if names.folded(word) in called))


def named(seen: Seen, words: Words) -> Named:
    """In records of several users, what one or few of them are called."""
    partition = seen.partition
    first, last = seen.users
    if first == last:
        only = partition.users.name(last)
        return Named() if only is None else named_in_one(only, words)
    mentions: dict[str, bool] = {}
    codes: set[int] = set()
    persons = names.persons([word for word, _ in words])
    for word, terms in dict(words).items():  # who repeats a word says nothing new
        if is_stop_word(word) or not terms:
            continue
        called = _called(seen, names.folded(word))
        is_person = word in persons
        rows = min((seen.rows_having(term) for term in terms), key=len)
        if not called and not names.may_name(len(rows), is_person):
            continue
        owners = _Owners.of(partition["user"], rows)
        called = called or owners.whom_it_names(seen, is_person)
        if called:
            codes.update(called)
            mentions[word] = owners.are_mostly(called)
    if not codes:
        return Named(has_several_users=True)
    return Named(
        names=frozenset(mentions),
        mentions=frozenset(word for word, is_mention in mentions.items() if is_mention),
        users=frozenset(partition.users.names[code] for code in codes),
        theirs=sum(map(seen.count_of, codes)),
        has_several_users=True,
    )


def rows_of(partition: Partition, mask: Mask, users: frozenset[str]) -> Mask:
    """The rows of these users."""
    column, codes = partition["user"], {partition.users.find(user) for user in users}
    return mask & np.logical_or.reduce([column == code for code in codes])


def _called(seen: Seen, part: str) -> list[int]:
    """The users in reach that have this in their id, if they are few."""
    few = seen.first_of(seen.partition.users.called(part), names.NAMESAKES + 1)
    return few if names.is_told_apart(len(few)) else []


@dataclass(frozen=True, slots=True)
class _Owners:
    """Whose records have a word: the users of every so-manieth record, in order."""

    codes: list[int]
    every: int

    @classmethod
    def of(cls, users: NDArray[Any], rows: NDArray[Any]) -> _Owners:
        every = max(1, len(rows) // _LOOKED_AT)
        owners = users[rows[::every]]
        return cls(sorted(owners[owners >= 0].tolist()), every)

    def are_mostly(self, users: Sequence[int]) -> bool:
        return 2 * sum(self.codes.count(code) for code in users) >= len(self.codes)

    def whom_it_names(self, seen: Seen, is_person: bool) -> list[int]:
        """The one who has most of the records stands in the middle, if anybody has most of them."""
        if not self.codes:
            return []
        code = self.codes[len(self.codes) // 2]
        theirs, having = self.codes.count(code), len(self.codes)
        if not names.is_own(theirs, having):
            return []
        of_them = 0 if is_person else seen.count_of(code)
        is_name = names.is_name_of(self.every * theirs, of_them, self.every * having, is_person)
        return [code] if is_name else []
