"""Which rows of a partition a reader may see, and which of those a restriction leaves."""

import json
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quipu.model.search import Restriction, Scope
from quipu.search.arrays import ARRAY_BYTES, Floats, Mask, Rows
from quipu.search.partition import FOREVER, STATES, TYPES, Partition
from quipu.search.turns import VisibleTurns

#: How many readers' rows are kept, and how many rows of all of them together; the latest is kept in any case.
_MOST_KEPT, _MOST_ROWS = 16, 200_000
_BARE_BYTES = 10 * ARRAY_BYTES
#: Turns of so many words on average are half way between short and long.
_SHORT_TURN = 80
#: As how many rows the entry of a term counts, besides its own.
_LEAST_HELD = 32


def may_share(share_with: Sequence[str] | None, reader: str | None) -> bool:
    """May somebody else's record in a shared store be read by this agent? Without a list it may."""
    return share_with is None or "*" in share_with or (reader is not None and reader in share_with)


def in_reach(partition: Partition, scope: Scope, seq: int, now: int) -> Mask:
    """Live at the position, not expired, and the scope's own. Statistics are taken over exactly these rows."""
    mask = (partition["born"] <= seq) & (partition["died"] > seq)
    mask &= partition["expires_at"] > now
    mask &= partition["state"] == STATES["live"]
    if scope.user_id is not None:
        mask &= partition["user"] == partition.users.find(scope.user_id)
    if scope.store_id is not None:
        mask &= partition["store"] == partition.stores.find(scope.store_id)
    if scope.stores is not None:
        mask &= np.isin(partition["store"], [partition.stores.find(name) for name in scope.stores])
    if scope.agent_id is None:
        mask &= _shared_with(partition, scope.reader)
    return mask


def narrowed(partition: Partition, mask: Mask, by: Restriction, now: int) -> Mask:
    """The rows that a restriction leaves, but for its filter."""
    if by.session_id is not None:
        mask = mask & (partition["session"] == partition.sessions.find(by.session_id))
    if by.types:
        mask = mask & np.isin(partition["type"], [TYPES[kind] for kind in by.types])
    if by.created_from is not None:
        mask = mask & (partition["created_at"] >= by.created_from)
    if by.without_superseded and (is_over := partition["valid_until"] <= now).any():
        mask = mask & ~is_over
    for sensitivity in by.without_sensitivity:
        mask = mask & (partition["sensitivity"] != partition.sensitivities.find(sensitivity))
    if by.ids is not None:
        wanted = np.zeros(len(mask), np.bool_)
        for record_id in by.ids:
            wanted[list(partition.rows_of(record_id))] = True
        mask = mask & wanted
    return mask


def _shared_with(partition: Partition, reader: str | None) -> Mask:
    """The reader's own records, and those of others that may be shared with it."""
    lists: list[list[str] | None] = [json.loads(names) for names in partition.share_lists.names]
    allowed = np.array([may_share(names, reader) for names in [*lists, None]], np.bool_)
    own = partition["agent"] == (-2 if reader is None else partition.agents.find(reader))
    return own | allowed[partition["share_with"]]


class Visible:
    """The rows of a partition in reach of one reader at one position, and what is known about them."""

    def __init__(self, partition: Partition, scope: Scope, seq: int, now: int) -> None:
        self.partition = partition
        self.mask = in_reach(partition, scope, seq, now)
        self.mask.flags.writeable = False
        self.count = int(np.count_nonzero(self.mask))
        self.is_whole = self.count == len(self.mask)
        #: What was last asked of terms, and how many rows that takes: fewer than there are.
        self._having: dict[int, tuple[Rows, Floats]] = {}
        self._held = 0
        self._since, self._until = _same_expired(partition["expires_at"], now)

    @property
    def nbytes(self) -> int:
        """Turns and terms are counted before they are needed, and mostly they are."""
        return _BARE_BYTES + self.mask.nbytes * (37 if self.has_turns else 25)

    def holds_at(self, now: int) -> bool:
        """Whether nothing expires between the time it was made for and this one."""
        return self._since <= now < self._until

    @cached_property
    def has_turns(self) -> bool:
        """Whether any of the rows is a turn of a session."""
        partition = self.partition
        return not partition.turns.is_empty and bool((self.mask & (partition["session"] >= 0)).any())

    @cached_property
    def turns(self) -> VisibleTurns:
        return self.partition.turns.visible(self.partition["record"], self.mask)

    @cached_property
    def mean_length(self) -> float:
        """How many words a row has."""
        lengths = self.partition["length"]
        return float((lengths if self.is_whole else lengths[self.mask]).mean())

    @cached_property
    def brevity(self) -> Floats:
        """Of each row, from 1 to 0, how short the turns of its session are on average; 0 for what is no turn.

        Short turns are understood by what stands around them; long ones speak for themselves.
        """
        sessions = self.partition["session"]
        rows = np.flatnonzero(self.mask & (sessions >= 0))
        found = np.zeros(len(self.mask), np.float32)
        if len(rows):
            of_rows = sessions[rows]
            words = np.bincount(of_rows, self.partition["length"][rows])
            means = words / np.maximum(np.bincount(of_rows), 1)
            found[rows] = (1 / (1 + (means / _SHORT_TURN) ** 4))[of_rows]
        return found

    def having(self, term: int) -> tuple[Rows, Floats]:
        """The rows that have a term, and how often."""
        found = self._having.get(term)
        if found is not None:
            return found
        rows, counts = self.partition.postings.of(term)
        if not self.is_whole:
            seen = self.mask[rows]
            rows, counts = rows[seen], counts[seen]
        found = rows.astype(np.int64), counts.astype(np.float32)
        if self._held > len(self.mask):
            self._having, self._held = {}, 0
        self._having[term] = found
        self._held += len(rows) + _LEAST_HELD
        return found

    def share(self, term: int) -> float:
        """The share of the rows that have a term."""
        return len(self.having(term)[0]) / self.count if self.count else 0.0

    def row_of(self, record_id: str) -> int | None:
        """The row of a record's version in reach, if there is one."""
        return next((row for row in self.partition.rows_of(record_id) if self.mask[row]), None)

    # -- users --------------------------------------------------------------------------------------------------

    @cached_property
    def users(self) -> tuple[int, int]:
        """The smallest and the largest number of a user that occurs; -1 when none does."""
        users = self.partition["user"]
        users = users if self.is_whole else users[self.mask]
        last = int(users.max(initial=-1))
        return (int(users.min(initial=last, where=users >= 0)), last)

    @cached_property
    def _occurring_users(self) -> Mask:
        occurring = np.zeros(len(self.partition.users.names) + 1, np.bool_)  # the last place is nobody's
        occurring[self.partition["user"][self.mask]] = True
        return occurring

    def occurring(self, users: Iterable[int], most: int) -> list[int]:
        """Those of these users that have a row, up to so many."""
        return list(islice((user for user in users if self._occurring_users[user]), most))

    def count_of(self, user: int) -> int:
        """How many rows are a user's."""
        return int(np.count_nonzero(self.mask & (self.partition["user"] == user)))


class VisibleRows:
    """What readers of one partition saw lately: the same ones ask again, and nothing has changed for them.

    As long as the partition takes in nothing new and nothing in it expires, who sees what stays the same.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Scope, int], Visible] = OrderedDict()

    @property
    def nbytes(self) -> int:
        return sum(visible.nbytes for visible in self._kept.values())

    def of(self, partition: Partition, scope: Scope, seq: int, now: int) -> Visible:
        visible = self._kept.get((scope, seq))
        if visible is None or not visible.holds_at(now):
            visible = self._kept[scope, seq] = Visible(partition, scope, seq, now)
        self._kept.move_to_end((scope, seq))
        while len(self._kept) > max(1, min(_MOST_KEPT, _MOST_ROWS // max(1, len(partition)))):
            self._kept.popitem(last=False)
        return visible


def _same_expired(expires_at: NDArray[Any], now: int) -> tuple[int, int]:
    """From when on, and until when, exactly the same of these rows have expired."""
    first = int(expires_at.min(initial=FOREVER))
    if first > now:
        return -FOREVER, first
    expired = expires_at <= now
    return (
        int(expires_at.max(where=expired, initial=-FOREVER)),
        int(expires_at.min(where=~expired, initial=FOREVER)),
    )
