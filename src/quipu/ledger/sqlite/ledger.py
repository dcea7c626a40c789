"""The ledger port on one SQLite file."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import apsw

from quipu.errors import BackendUnavailableError, ConflictError, QuipuError
from quipu.ledger import rows
from quipu.ledger.governing import Governing
from quipu.ledger.reads import Reads
from quipu.ledger.run_reads import RunReads
from quipu.ledger.search.terms import RULES, Tokenizer
from quipu.ledger.sqlite import adding, file, looking, statements
from quipu.ledger.sqlite.answers import answered
from quipu.ledger.sqlite.apply import Transaction
from quipu.ledger.sqlite.erasures import Erasures
from quipu.ledger.sqlite.indexing import Indexing
from quipu.ledger.sqlite.log import Log
from quipu.ledger.sqlite.outbox import SqliteOutbox
from quipu.ledger.sqlite.source import FileSource
from quipu.ledger.sqlite.upkeep import Keeper, erase
from quipu.ledger.sqlite.writer import Writer
from quipu.model.change import Commit, Committed, Once, OpenStore
from quipu.model.journal import Checkpoint, Draft, Op
from quipu.model.outcomes import Fault
from quipu.model.record import Mark, Record
from quipu.model.search import Found, Neighbours, Restriction, Scope, Search, SharedWord, Snapshot, WordShares
from quipu.model.store import MAIN, Store
from quipu.ports.announcing import Told, Written
from quipu.ports.ledger import Guard, Space
from quipu.ports.surroundings import Canonical, Clock, MintId

if TYPE_CHECKING:
    from quipu.ledger.search.finding import Finder
    from quipu.ledger.sqlite.grants import SqliteLending

T = TypeVar("T")

_READERS = 4
#: How long an erasure waits for readers that still hold on to old pages.
_PATIENCE_MS = 5_000


class SqliteLedger(Reads, Governing, RunReads, Indexing):
    """Records, journal and index in one file, safe with several threads and several processes."""

    def __init__(
        self,
        path: Path | None,
        *,
        clock: Clock,
        mint_id: MintId,
        canonical: Canonical,
        name: str = "sqlite",
        cache_bytes: int = 1 << 30,
        steps: Sequence[str] | None = None,
    ) -> None:
        """Open the file, or with None one that is gone when the ledger is closed."""
        self._folder = None if path else _fleeting_folder(self)
        self.path = path or (self._folder or Path()) / "memory.db"
        self.name = name
        self._clock, self._mint_id = clock, mint_id
        is_durable = path is not None
        file.prepare(self.path, steps if steps is not None else file.migrations(), is_durable=is_durable)
        self._cache_bytes = cache_bytes
        self._local = threading.local()
        self._open_connections: weakref.WeakSet[apsw.Connection] = weakref.WeakSet()
        self._readers = ThreadPoolExecutor(_READERS, "quipu-reader")
        connection = file.connect(self.path, is_durable=is_durable)
        self._transaction = Transaction(connection, Tokenizer(), canonical)
        log = Log(self.path, is_durable=is_durable)
        self._keeper = Keeper(self.path)
        self._erasures = Erasures(self._keeper)
        self._writer = Writer(connection, log, self._forget, self._transaction.flush)
        self._opened: set[str] = set()
        self._guards: dict[str, Guard] = {}
        self._is_closed, self._process = False, os.getpid()
        self._told: list[Told] = []
        self._written: list[Written] = []
        self.outbox = SqliteOutbox(self._read, self._write)

    # -- opening and closing ------------------------------------------------------------------------------------

    async def open(self, tenant: str) -> None:
        if tenant in self._opened:
            return
        at = self._clock()

        def job(connection: apsw.Connection) -> None:
            if statements.first(connection, "head", tenant=tenant):
                return
            statements.run(connection, "open_tenant", tenant=tenant, at=at, terms=RULES)
            store = Store(tenant=tenant, id=self._mint_id("ms"), name=MAIN, created_at=at)
            draft = Draft(op=Op.GENESIS, actor="system", at=at, store=store.id)
            try:
                self._transaction.apply(Commit(tenant=tenant, draft=draft, changes=(OpenStore(store=store),)))
                self._transaction.flush()
            except (apsw.ConstraintError, ConflictError) as error:
                # Something of the tenant is there, and what is written first of every tenant is not.
                raise apsw.CorruptError("a tenant without its head") from error

        if not await self._select("head", tenant=tenant):  # who reads waits for no lock of somebody else's
            await self._write(job)
        self._opened.add(tenant)

    async def close(self) -> None:
        if os.getpid() != self._process:  # it is the parent's to close
            return
        if self._erasures.are_owed:
            with contextlib.suppress(QuipuError):  # whoever writes next does it
                await self._flush_erased(patience_ms=0)
        self._is_closed = True
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _close(self) -> None:
        self._writer.close()
        self._readers.shutdown(wait=True)
        for connection in list(self._open_connections):
            connection.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    # -- threads ------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._is_closed:
            raise BackendUnavailableError("The ledger is closed.", reason="closed")
        if os.getpid() != self._process:
            # A forked child has none of the threads, and may not use the connections.
            raise BackendUnavailableError(
                "The ledger was opened before this process was forked.",
                reason="closed",
                hint="Open it after the fork, in each process for itself.",
            )

    def _reader(self) -> tuple[apsw.Connection, Tokenizer]:
        """This thread's own connection, which goes with the thread."""
        mine: tuple[apsw.Connection, Tokenizer] | None = getattr(self._local, "mine", None)
        if mine is None:
            connection = file.connect(self.path, is_reader=True)
            mine = self._local.mine = (connection, Tokenizer())
            self._open_connections.add(connection)
        return mine

    async def _read(self, work: Callable[[apsw.Connection, Tokenizer], T]) -> T:
        self._check_open()

        def run() -> T:
            with file.translated():
                return work(*self._reader())

        return await asyncio.get_running_loop().run_in_executor(self._readers, run)

    async def _select(self, statement: str, /, **values: rows.Value) -> list[rows.Row]:
        return await self._read(lambda connection, _: statements.select(connection, statement, **values))

    async def _glance(self, statement: str, /, **values: rows.Value) -> list[rows.Row]:
        """On the caller's own thread: it is done sooner than another thread would have begun."""
        self._check_open()
        with file.translated():
            return statements.select(self._reader()[0], statement, **values)

    def _forget(self) -> None:
        self._transaction.forget()
        self._erasures.forget()

    async def _write(self, job: Callable[[apsw.Connection], T], *, alone: bool = False) -> T:
        def run(connection: apsw.Connection) -> T:
            self._transaction.flush()  # it reads what the commits before it in the same transaction have written
            done = job(connection)
            self._transaction.flush()
            self._transaction.forget()  # the commits behind it in the same transaction read what it has written
            return done

        self._check_open()
        return await self._writer.run(run, alone=alone)

    async def _altered(self, statement: str, /, **values: rows.Value) -> list[rows.Row]:
        return await self._write(lambda connection: statements.select(connection, statement, **values))

    # -- records ------------------------------------------------------------------------------------------------

    async def commit(self, *commits: Commit, guard: int | None = None) -> Sequence[Committed]:
        if erase(commits):  # a caller that goes away leaves nothing of it in the log either
            return await asyncio.shield(self._commit(commits, guard, is_erasure=True))
        return await self._commit(commits, guard)

    async def _commit(
        self, commits: Sequence[Commit], guard: int | None, *, is_erasure: bool = False
    ) -> Sequence[Committed]:
        def job(connection: apsw.Connection) -> list[Committed]:
            self._erasures.look(connection, commits)
            done = [self._transaction.apply(commit, guard) for commit in commits]
            self._erasures.are_owed |= is_erasure
            return done

        self._check_open()
        done = await self._writer.run(job, is_small=adding.is_small(commits))
        if self._told:
            tenants = frozenset(commit.tenant for commit in commits)
            for told in self._told:
                told(tenants)
        for written in self._written:
            written(commits)
        if is_erasure:
            await self._flush_erased()
        elif self._erasures.are_owed:
            await self._flush_erased(patience_ms=0)
        return done

    def on_commit(self, told: Told) -> None:
        self._told.append(told)

    def on_written(self, told: Written) -> None:
        self._written.append(told)

    async def answered(self, tenant: str, once: Once, now: int) -> Committed | None:
        return await self._read(lambda connection, _: answered(connection, tenant, once, now))

    async def _flush_erased(self, patience_ms: int = _PATIENCE_MS) -> None:
        """What a slow reader keeps from being flushed now is flushed after a later write."""
        self._erasures.are_owed = True
        await self._write(lambda connection: self._erasures.cut(connection, patience_ms), alone=True)

    async def read(self, tenant: str, ids: Sequence[str], seq: int | None = None) -> Mapping[str, Record]:
        if self._can_find and self._finder.were_just_read(tenant, ids):
            with file.translated():
                return looking.records(self._reader()[0], tenant, ids, seq)
        return await self._read(lambda connection, _: looking.records(connection, tenant, ids, seq))

    async def marks(self, tenant: str, ids: Sequence[str]) -> Mapping[str, Mark]:
        return await self._read(lambda connection, _: looking.marks(connection, tenant, ids))

    # -- journal ------------------------------------------------------------------------------------------------

    async def position_at(self, tenant: str, moment: int) -> int:
        return await self._read(lambda connection, _: looking.position_at(connection, tenant, moment))

    async def add_checkpoint(self, checkpoint: Checkpoint) -> None:
        values: dict[str, rows.Value] = {
            "tenant": checkpoint.tenant,
            "seq": checkpoint.seq,
            "hash": bytes.fromhex(checkpoint.hash),
            "at": checkpoint.at,
            "key_id": checkpoint.key_id,
            "signature": checkpoint.signature,
        }
        await self._write(lambda connection: statements.run(connection, "add_checkpoint", **values))

    # -- registry -----------------------------------------------------------------------------------------------

    async def guard(self, tenant: str) -> Guard:
        """Every recall asks, and mostly nothing has changed: that is told on the caller's own thread."""
        known = self._guards.get(tenant)
        if known is not None:
            found = await self._glance("guarded", tenant=tenant)
            if found and found[0][0] == known.position:
                return known
        fresh = self._guards[tenant] = await super().guard(tenant)
        return fresh

    @property
    def lending(self) -> SqliteLending:
        """What it keeps about lending memory to others."""
        return self._lending

    @cached_property
    def _lending(self) -> SqliteLending:
        """Loaded when somebody first lends or borrows: most processes never do."""
        from quipu.ledger.sqlite.grants import SqliteLending

        return SqliteLending(self._read, self._write, self._flush_erased)

    @cached_property
    def _finder(self) -> Finder:
        """Search, and numpy with it, is loaded when it is first needed: most commands never do."""
        from quipu.ledger.search.cache import PartitionCache
        from quipu.ledger.search.finding import Finder

        return Finder(PartitionCache(self._cache_bytes))

    @property
    def _can_find(self) -> bool:
        """Whether something has been searched already, and nobody has closed the ledger."""
        return "_finder" in self.__dict__ and not self._is_closed and os.getpid() == self._process

    # -- finding ------------------------------------------------------------------------------------------------

    async def search(self, search: Search) -> Found:
        return await self._find(
            search.scope, search.text, lambda s, t: self._finder.search(s, t, search), search.restriction
        )

    async def word_shares(self, scope: Scope, snapshot: Snapshot, text: str) -> WordShares:
        return await self._find(
            scope, text, lambda s, t: self._finder.word_shares(s, t, scope, snapshot, text)
        )

    async def _find(
        self,
        scope: Scope,
        text: str,
        work: Callable[[FileSource, Tokenizer], T],
        by: Restriction | None = None,
    ) -> T:
        """On the caller's own thread where that is done sooner than another thread would have begun."""
        if self._can_find:
            with file.translated():
                connection, tokenizer = self._reader()
                source = FileSource(connection)
                if self._finder.is_at_hand(
                    scope, text, by, lambda known: source.is_level(scope.tenant, known)
                ):
                    return work(source, tokenizer)
        return await self._read(lambda c, tokenizer: work(FileSource(c), tokenizer))

    async def neighbours(self, scope: Scope, snapshot: Snapshot, ids: Sequence[str]) -> Neighbours:
        return await self._read(lambda c, _: self._finder.neighbours(FileSource(c), scope, snapshot, ids))

    async def shared_words(
        self, scope: Scope, snapshot: Snapshot, leaders: Sequence[str], members: Sequence[str], text: str
    ) -> Sequence[SharedWord]:
        wanted = leaders, members, text
        return await self._find(
            scope, text, lambda s, t: self._finder.shared_words(s, t, scope, snapshot, *wanted)
        )

    # -- upkeep -------------------------------------------------------------------------------------------------

    async def space(self, tenant: str) -> Space | None:
        return await self._read(lambda c, _: self._keeper.space(c, tenant))

    async def settle_space(self, tenant: str, space: Space) -> Space:
        return await self._write(lambda c: self._keeper.settle_space(c, tenant, space))

    async def adopt_space(self, tenant: str, space: Space) -> None:
        await self._write(lambda c: self._keeper.adopt_space(c, tenant, space))

    async def without_vector(self, tenant: str, space: Space, limit: int) -> Sequence[Record]:
        return await self._write(lambda c: self._keeper.without_vector(c, tenant, space, limit))

    async def add_vectors(self, tenant: str, space: Space, vectors: Sequence[tuple[Record, bytes]]) -> int:
        return await self._write(lambda c: self._keeper.add_vectors(c, tenant, space, vectors))

    async def vectors(self, tenant: str, records: Sequence[Record]) -> Mapping[str, bytes]:
        return await self._read(lambda c, _: self._keeper.vectors(c, tenant, records))

    async def integrity_faults(self) -> Sequence[Fault]:
        return await self._read(lambda c, _: self._keeper.integrity_faults(c))

    async def backup(self, target: Path, progress: Callable[[int, int], None] | None = None) -> None:
        await self._read(lambda c, _: self._keeper.backup(c, target, progress))

    async def prune(self, tenant: str, horizon: int) -> int:
        head = await self.head(tenant)
        if horizon > head.seq:
            raise ConflictError("The horizon lies beyond the end of the journal.", reason="horizon")
        draft = Draft(op=Op.PRUNE, actor="system", at=self._clock(), detail={"horizon": horizon})

        def job(connection: apsw.Connection) -> int:
            done = self._transaction.apply(Commit(tenant=tenant, draft=draft))
            self._erasures.are_owed = True
            return self._keeper.prune(connection, tenant, horizon, done.seq)

        pruned = await self._write(job)
        await self._flush_erased()
        return pruned

    async def compact(self) -> None:
        await self._write(self._keeper.compact, alone=True)

    async def statistics(self, tenant: str) -> Mapping[str, int]:
        return await self._read(lambda c, _: self._keeper.statistics(c, tenant))


def _fleeting_folder(owner: object) -> Path:
    # Who has a file does not load this.
    from quipu.ledger.sqlite import fleeting

    return fleeting.folder(owner)
