"""Search on threads of its own; what it needs of the database is asked for on the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from quipu.errors import BackendUnavailableError
from quipu.ledger.postgres.database import Database
from quipu.ledger.postgres.replica import Readers
from quipu.ledger.search.terms import Tokenizer
from quipu.model.search import Scope, Snapshot

if TYPE_CHECKING:
    from quipu.ledger.postgres.source import ServerSource
    from quipu.ledger.search.finding import Finder

T = TypeVar("T")
_SEARCHERS = 4
#: Texts beyond this many characters are split into words on a thread.
_LONG = 20_000


class Searching:
    """The partitions of a process, and the threads that search them."""

    def __init__(self, readers: Readers, cache_bytes: int, held_bytes: int | None) -> None:
        self._readers = readers
        self._cache_bytes = cache_bytes
        self._held_bytes = cache_bytes // 2 if held_bytes is None else held_bytes
        self._threads = ThreadPoolExecutor(_SEARCHERS, "quipu-search")
        self._local = threading.local()
        self._is_closed = False

    async def close(self) -> None:
        self._is_closed = True
        await asyncio.to_thread(self._threads.shutdown)

    @property
    def tokenizer(self) -> Tokenizer:
        """This thread's own."""
        mine: Tokenizer | None = getattr(self._local, "tokenizer", None)
        if mine is None:
            mine = self._local.tokenizer = Tokenizer()
        return mine

    async def terms(self, texts: Collection[str]) -> Mapping[str, bytes]:
        """Search terms by text."""

        def split() -> Mapping[str, bytes]:
            tokenizer = self.tokenizer
            return {text: tokenizer.terms(text) for text in texts}

        if sum(map(len, texts)) < _LONG:
            return split()
        return await asyncio.get_running_loop().run_in_executor(self._threads, split)

    @cached_property
    def finder(self) -> Finder:
        """Search, and numpy with it, is loaded when it is first needed: most commands never do."""
        from quipu.ledger.search.cache import PartitionCache
        from quipu.ledger.search.finding import Finder

        return Finder(PartitionCache(self._cache_bytes))

    async def find(
        self, scope: Scope, snapshot: Snapshot, work: Callable[[Finder, ServerSource, Tokenizer], T]
    ) -> T:
        """Search at a snapshot, in what a database that has reached it knows."""
        if self._is_closed:
            raise BackendUnavailableError("The ledger is closed.", reason="closed")
        from quipu.ledger.postgres.source import ServerSource

        loop = asyncio.get_running_loop()
        finder = self.finder

        async def search(near: Database) -> T:
            source = ServerSource(near, loop, self._held_bytes, self._readers.note)
            return await loop.run_in_executor(self._threads, lambda: work(finder, source, self.tokenizer))

        return await self._readers.read(scope.tenant, snapshot.seq, search)
