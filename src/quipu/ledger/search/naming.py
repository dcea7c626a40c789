"""Which users of a partition a text names: by their ids, and by whose records have its words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quipu.ledger.search.partition import Partition
from quipu.ledger.search.postings import Mask
from quipu.ledger.search.terms import Words
from quipu.rules import names
from quipu.rules.texts import is_stop_word

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


def named(partition: Partition, mask: Mask, words: Words) -> Named:
    """In records of several users, what one or few of them are called."""
    users = partition["user"]
    first, last = _ends(users if mask.all() else users[mask])
    if first == last:
        only = partition.users.name(last)
        return Named() if only is None else named_in_one(only, words)
    mentions: dict[str, bool] = {}
    codes: set[int] = set()
    persons = names.persons([word for word, _ in words])
    for word, terms in words:
        if is_stop_word(word) or not terms:
            continue
        called = _called(partition, mask, names.folded(word))
        is_person = word in persons
        rows = min((partition.postings.of(term).rows for term in terms), key=len)
        if not called and not names.may_name(len(rows), is_person):
            continue
        owners = _Owners.of(users, mask, rows)
        called = called or owners.whom_it_names(partition, mask, is_person)
        if called:
            codes.update(called)
            mentions[word] = owners.are_mostly(called)
    if not codes:
        return Named(has_several_users=True)
    return Named(
        names=frozenset(mentions),
        mentions=frozenset(word for word, is_mention in mentions.items() if is_mention),
        users=frozenset(partition.users.names[code] for code in codes),
        theirs=int(np.count_nonzero(_of(users, mask, codes))),
        has_several_users=True,
    )


def rows_of(partition: Partition, mask: Mask, users: frozenset[str]) -> Mask:
    """The rows of these users."""
    return _of(partition["user"], mask, {partition.users.find(user) for user in users})


def _of(users: NDArray[Any], mask: Mask, codes: set[int]) -> Mask:
    if not codes:
        return np.zeros(len(mask), np.bool_)
    return mask & np.logical_or.reduce([users == code for code in codes])


def _ends(users: NDArray[Any]) -> tuple[int, int]:
    """The first and the last of the users that occur; -1 when none does."""
    last = int(users.max(initial=-1))
    return (int(users.min(initial=last, where=users >= 0)), last)


def _called(partition: Partition, mask: Mask, part: str) -> list[int]:
    """The users in reach that have this in their id, if they are few."""
    codes = partition.users.called(part)
    if not codes:
        return []
    users = partition["user"]
    return (
        [code for code in codes if (mask & (users == code)).any()] if names.is_told_apart(len(codes)) else []
    )


@dataclass(frozen=True, slots=True)
class _Owners:
    """Whose records have a word: the users of every so-manieth record, in order."""

    codes: list[int]
    every: int

    @classmethod
    def of(cls, users: NDArray[Any], mask: Mask, rows: NDArray[np.int32]) -> _Owners:
        every = max(1, len(rows) // _LOOKED_AT)
        some = rows[::every]
        owners = users[some[mask[some]]]
        return cls(sorted(owners[owners >= 0].tolist()), every)

    def are_mostly(self, users: Sequence[int]) -> bool:
        return 2 * sum(self.codes.count(code) for code in users) >= len(self.codes)

    def whom_it_names(self, partition: Partition, mask: Mask, is_person: bool) -> list[int]:
        """The one who has most of the records stands in the middle, if anybody has most of them."""
        if not self.codes:
            return []
        code = self.codes[len(self.codes) // 2]
        theirs, having = self.codes.count(code), len(self.codes)
        if not names.is_own(theirs, having):
            return []
        of_them = 0 if is_person else int(np.count_nonzero(mask & (partition["user"] == code)))
        is_name = names.is_name_of(self.every * theirs, of_them, self.every * having, is_person)
        return [code] if is_name else []
