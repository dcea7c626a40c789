"""Partitions in memory: read when first searched, followed by position, dropped when memory is short."""

import threading
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager

from quipu.ledger.index import Known, News, Owner
from quipu.model.search import Scope
from quipu.search.columns import FilterColumns
from quipu.search.partition import Partition
from quipu.search.source import Source
from quipu.search.visibility import VisibleRows


class Loaded:
    """A partition and what was worked out about it. Hold the lock while reading."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        #: What it took when the cache last looked.
        self.counted_bytes = 0
        self._clear()

    def _clear(self, dimensions: int = 0) -> None:
        self.partition, self.known = Partition(dimensions), Known()
        self.partition_bytes = self.partition.nbytes
        self.forget_derived()

    def forget_derived(self) -> None:
        """Let go of what can be worked out again."""
        self.columns, self.visible_rows = FilterColumns(), VisibleRows()

    @property
    def nbytes(self) -> int:
        return self.partition_bytes + self.columns.nbytes + self.visible_rows.nbytes

    def take_in(self, news: News) -> None:
        """Bring the partition to the position of the news."""
        if news.is_whole:
            self._clear(0 if news.known.space is None else news.known.space.dimensions)
        self.visible_rows = VisibleRows()
        try:
            self.partition.extend(news.rows)
        except Exception:
            self._clear()  # or the next reader would search in what was read so far
            raise
        self.partition.end(news.deaths)
        self.partition.set_demoted(news.demoted)
        self.known = news.known
        self.partition_bytes = self.partition.nbytes


class PartitionCache:
    """The partitions of a process that were used last, within a number of bytes."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._loaded: OrderedDict[tuple[str, Owner], Loaded] = OrderedDict()
        self._lock = threading.Lock()
        #: What they take, with all that was worked out about them.
        self.nbytes = 0

    @contextmanager
    def partition(self, source: Source, scope: Scope) -> Generator[tuple[Loaded, int]]:
        """The partition of a scope, held while the caller reads, and the position that is now for the source."""
        owner = _owner_of(scope)
        key = (scope.tenant, owner)
        with self._lock:
            loaded = self._loaded.get(key)
            if loaded is None:
                loaded = self._loaded[key] = Loaded()
            self._loaded.move_to_end(key)
        with loaded.lock:
            news = source.news(owner, loaded.known)
            seq = loaded.known.seq if news is None else news.known.seq
            if news is not None and seq < loaded.known.seq:
                # A reader with a later moment was here before. The partition knows the past too, unless the source
                # says that it has to be read as a whole: then this reader gets one of its own.
                loaded = _of_its_own(news) if news.is_whole else loaded
            elif news is not None:
                loaded.take_in(news)
                self._weigh(key, loaded)
            try:
                yield loaded, seq
            finally:
                self._weigh(key, loaded)

    def is_free(self, scope: Scope, rows: int) -> bool:
        """Whether the partition of a scope is in memory, has so many rows at most, and nobody reads it just now."""
        loaded = self._loaded.get((scope.tenant, _owner_of(scope)))
        if loaded is None or len(loaded.partition) > rows or not loaded.lock.acquire(blocking=False):
            return False
        loaded.lock.release()
        return True

    def clear(self) -> None:
        with self._lock:
            self._loaded.clear()
            self.nbytes = 0

    def _weigh(self, key: tuple[str, Owner], loaded: Loaded) -> None:
        """Count what a partition takes by now (what is kept about it grows by reading), and make room if need be."""
        if loaded.nbytes == loaded.counted_bytes:
            return
        with self._lock:
            if self._loaded.get(key) is not loaded:  # dropped while it was read
                return
            self._count(loaded)
            for other in [other for other in self._loaded if other != key]:
                if self.nbytes <= self._limit:
                    return
                self.nbytes -= self._loaded.pop(other).counted_bytes
            if self.nbytes > self._limit >= loaded.partition_bytes:
                loaded.forget_derived()
                self._count(loaded)

    def _count(self, loaded: Loaded) -> None:
        nbytes = loaded.nbytes
        self.nbytes += nbytes - loaded.counted_bytes
        loaded.counted_bytes = nbytes


def _of_its_own(news: News) -> Loaded:
    loaded = Loaded()
    loaded.take_in(news)
    return loaded


def _owner_of(scope: Scope) -> Owner:
    if scope.agent_id is not None:
        return Owner(scope.agent_id, is_store=False)
    if scope.store_id is None:
        raise ValueError("a scope has an agent or a shared store")
    return Owner(scope.store_id, is_store=True)
