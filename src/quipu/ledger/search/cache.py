"""Partitions in memory: loaded when first searched, followed by position, dropped when memory is short."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from quipu.ledger.search.columns import FilterColumns
from quipu.ledger.search.partition import Partition
from quipu.ledger.search.seen import Seen, Sights
from quipu.ledger.search.source import Known, News, Owner, Source
from quipu.model.search import Scope, Snapshot

#: Up to this many versions a search takes no longer than handing it to another thread does.
_SMALL = 2_000


@dataclass(slots=True)
class Loaded:
    """A partition and what belongs to it. Hold the lock while reading."""

    partition: Partition
    known: Known = field(default_factory=Known)
    columns: FilterColumns = field(default_factory=FilterColumns)
    sights: Sights = field(default_factory=Sights)
    #: What the partition's rows take.
    nbytes: int = 0
    #: What all of it took when the cache last looked.
    counted: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)

    def take_in(self, news: News) -> None:
        """Bring the partition to where the news were told."""
        if news.is_whole:
            dimensions = news.vectors.dimensions
            self.partition, self.columns = (
                Partition(dimensions, holds_vectors=news.holds_vectors),
                FilterColumns(),
            )
        partition, self.sights = self.partition, Sights()
        partition.extend(news.rows)
        partition.close(news.deaths)
        partition.set_demoted(news.marks)
        partition.seq, partition.last_row = news.seq, news.last_row
        self.known = replace(
            self.known,
            seq=news.seq,
            last_row=news.last_row,
            vectors=news.vectors,
            size=len(partition),
            holds_vectors=news.holds_vectors,
        )
        self.nbytes = partition.nbytes

    @property
    def kept_bytes(self) -> int:
        """What was worked out for its readers, and is kept."""
        return self.partition.kept_bytes + self.columns.nbytes + self.sights.nbytes

    def forget(self) -> None:
        """Let go of it: it is worked out again for whoever asks."""
        self.sights, self.columns = Sights(), FilterColumns()
        self.partition.forget()

    def seen(self, scope: Scope, snapshot: Snapshot) -> Seen:
        """What a reader may see of it."""
        return self.sights.of(self.partition, scope, snapshot)


class PartitionCache:
    """The partitions of a process."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._loaded: OrderedDict[Owner, Loaded] = OrderedDict()
        self._lock = threading.Lock()
        #: What they take together, with all that is kept of them.
        self.nbytes = 0
        #: Whose partition was read last.
        self._latest: tuple[str, Loaded] | None = None

    @contextmanager
    def partition(self, source: Source, scope: Scope) -> Generator[Loaded]:
        """The partition of a scope, level with the ledger, held for as long as the caller reads."""
        owner = Owner.of(scope)
        with self._lock:
            loaded = self._loaded.get(owner)
            if loaded is None:
                loaded = self._loaded[owner] = Loaded(Partition(0))
                loaded.nbytes = loaded.partition.nbytes
            self._loaded.move_to_end(owner)
        with loaded.lock:
            news = source.news(owner, loaded.known)
            if news is not None:
                loaded.take_in(news)
                self._weigh(owner, loaded)
            self._latest = (owner.tenant, loaded)
            try:
                yield loaded
            finally:
                self._weigh(owner, loaded)

    def is_at_hand(self, scope: Scope, is_level: Callable[[Known], bool]) -> bool:
        """Whether a partition is in memory, small, level with the ledger, and nobody reads it just now."""
        loaded = self._loaded.get(Owner.of(scope))
        if loaded is None or len(loaded.partition) > _SMALL or not loaded.lock.acquire(blocking=False):
            return False
        try:
            return is_level(loaded.known)
        finally:
            loaded.lock.release()

    def were_just_read(self, tenant: str, ids: Iterable[str]) -> bool:
        """Whether records are of the partition that was read last, and it is small: their rows are in memory, too."""
        if self._latest is None:
            return False
        owner, loaded = self._latest
        return (
            owner == tenant
            and len(loaded.partition) <= _SMALL
            and all(loaded.partition.rows_of(record_id) for record_id in ids)
        )

    def clear(self) -> None:
        with self._lock:
            self._loaded.clear()
            self._latest = None
            self.nbytes = 0

    def _weigh(self, owner: Owner, loaded: Loaded) -> None:
        """Count what a partition takes by now. What is kept of it grows by reading, too; mostly it does not."""
        if loaded.nbytes + loaded.kept_bytes == loaded.counted:
            return
        with self._lock:
            if self._loaded.get(owner) is not loaded:  # dropped while it was read
                return
            self._count(loaded)
            if self.nbytes > self._limit:
                self._shrink(owner, loaded)

    def _count(self, loaded: Loaded) -> None:
        taken = loaded.nbytes + loaded.kept_bytes
        self.nbytes += taken - loaded.counted
        loaded.counted = taken

    def _shrink(self, keep: Owner, loaded: Loaded) -> None:
        """Drop what was used longest ago, until the rest fits; last of all, what is kept of the one that is read."""
        while self.nbytes > self._limit:
            oldest = next((owner for owner in self._loaded if owner != keep), None)
            if oldest is None:
                break
            self.nbytes -= self._loaded.pop(oldest).counted
        if self.nbytes > self._limit >= loaded.nbytes:  # otherwise it would not fit without it either
            loaded.forget()
            self._count(loaded)
