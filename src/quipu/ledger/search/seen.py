"""What one reader sees of a partition at one position, and what has been worked out about it.

The same readers ask again and again. As long as the partition takes in nothing new and nothing in it expires, who sees
what stays the same, and so does everything that only depends on that.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quipu.ledger.search.partition import FEW, FOREVER, Partition
from quipu.ledger.search.sizes import ARRAY, ENTRY, OBJECT
from quipu.ledger.search.turns import SeenTurns
from quipu.model.search import Context, Scope, Snapshot

#: Readers whose sight is kept, and rows of all their sights together; at least the latest is kept.
_READERS, _ROWS = 16, 200_000
#: Terms kept for one reader, at most.
_TERMS = 512
#: What a reader's sight takes besides what is in it.
_BARE = 1_536

#: The rows that have a term, and how often.
Having = tuple[NDArray[np.int64], NDArray[np.float32]]


class Seen:
    """One reader's rows."""

    def __init__(self, partition: Partition, scope: Scope, snapshot: Snapshot) -> None:
        self.partition = partition
        self.mask = partition.in_reach(scope, snapshot)
        self.mask.flags.writeable = False
        self.count = int(np.count_nonzero(self.mask))
        self.is_whole = self.count == len(self.mask)
        self.is_small = len(self.mask) <= FEW
        self._since, self._until = _lasting(partition["expires"], snapshot.now)
        self._having: dict[int, Having] = {}
        self._counts: dict[int, int] = {}
        #: What the keyword leg keeps, by how neighbours count.
        self.corpora: dict[Context, Any] = {}
        #: What all of it takes, in bytes: whoever keeps something here adds it, and takes it off again.
        self.nbytes = _BARE + self.mask.nbytes
        self._having_bytes = 0

    def holds_at(self, now: int) -> bool:
        """Whether nothing expires between the moment it was looked at and this one."""
        return self._since <= now < self._until

    @cached_property
    def has_turns(self) -> bool:
        """Whether any of the rows is a turn of a session."""
        return not self.partition.turns.is_empty and bool(
            (self.mask & (self.partition["session"] >= 0)).any()
        )

    @cached_property
    def turns(self) -> SeenTurns:
        turns = self.partition.turns.seen(self.partition["record"], self.mask)
        self.nbytes += turns.nbytes
        return turns

    @cached_property
    def users(self) -> tuple[int, int]:
        """The first and the last of the users that occur; -1 when none does."""
        users = self.partition["user"]
        users = users if self.is_whole else users[self.mask]
        last = int(users.max(initial=-1))
        return (int(users.min(initial=last, where=users >= 0)), last)

    @cached_property
    def _occurring(self) -> NDArray[np.bool_]:
        occurring = np.zeros(len(self.partition.users.names) + 1, np.bool_)  # the last place is nobody's
        occurring[self.partition["user"][self.mask]] = True
        self.nbytes += ARRAY + occurring.nbytes
        return occurring

    def first_of(self, users: Iterable[int], most: int) -> list[int]:
        """Those of these users of whom there is a row, up to so many."""
        return list(islice((user for user in users if self._occurring[user]), most))

    def count_of(self, user: int) -> int:
        """How many of the rows are a user's."""
        count = self._counts.get(user)
        if count is None:
            count = self._counts[user] = int(np.count_nonzero(self.mask & (self.partition["user"] == user)))
            self.nbytes += ENTRY
        return count

    def having(self, term: int) -> Having:
        """The rows in reach that have a term, and how often."""
        known = self._having.get(term)
        if known is None:
            known = self._looked_up(term)
            if self.is_small:
                self._keep(term, known)
        return known

    def _keep(self, term: int, having: Having) -> None:
        if len(self._having) >= _TERMS:
            self._having.clear()
            self.nbytes -= self._having_bytes
            self._having_bytes = 0
        self._having[term] = having
        rows, counts = having
        taken = ENTRY + OBJECT + 2 * ARRAY + rows.nbytes + counts.nbytes
        self._having_bytes += taken
        self.nbytes += taken

    def _looked_up(self, term: int) -> Having:
        posting = self.partition.postings.of(term)
        rows, counts = posting.rows, posting.counts
        if not self.is_whole:
            seen = self.mask[rows]
            rows, counts = rows[seen], counts[seen]
        return rows.astype(np.int64), counts.astype(np.float32)

    def rows_having(self, term: int) -> NDArray[Any]:
        """The rows in reach that have a term."""
        if self.is_small:
            return self.having(term)[0]
        rows = self.partition.postings.of(term).rows
        return rows if self.is_whole else rows[self.mask[rows]]

    def share(self, term: int) -> float:
        """The share of the rows in reach that have a term."""
        if not self.count:
            return 0.0
        if self.is_small:
            return len(self.having(term)[0]) / self.count
        rows = self.partition.postings.of(term).rows
        return (len(rows) if self.is_whole else int(np.count_nonzero(self.mask[rows]))) / self.count


class Sights:
    """What readers of one partition saw lately. It goes when the partition takes something in."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Scope, int], Seen] = OrderedDict()

    @property
    def nbytes(self) -> int:
        """What all of it takes: few readers are kept, and each knows its own."""
        return sum([seen.nbytes for seen in self._known.values()])

    def of(self, partition: Partition, scope: Scope, snapshot: Snapshot) -> Seen:
        named = Snapshot(partition.seq if snapshot.seq is None else snapshot.seq, snapshot.now)
        key = (scope, named.seq or 0)
        seen = self._known.get(key)
        if seen is None or not seen.holds_at(named.now):
            seen = self._known[key] = Seen(partition, scope, named)
            most = max(1, min(_READERS, _ROWS // max(1, len(partition))))
            while len(self._known) > most:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return seen


def _lasting(expires: NDArray[np.int64], now: int) -> tuple[int, int]:
    """From when on, and until when, the same of these rows have expired."""
    first = int(expires.min(initial=FOREVER))
    if first > now:
        return -FOREVER, first
    gone = expires <= now
    return int(expires.max(where=gone, initial=-FOREVER)), int(expires.min(where=~gone, initial=FOREVER))
