"""The ledger port on one SQLite file."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

from quipu.errors import BackendUnavailableError, ConflictError, NotFoundError, TamperedError
from quipu.ledger.sqlite import file, rows, statements
from quipu.ledger.sqlite.apply import Transaction
from quipu.ledger.sqlite.terms import Tokenizer
from quipu.ledger.sqlite.upkeep import Keeper
from quipu.ledger.sqlite.writer import Writer
from quipu.model.change import Change, Commit, Committed, Erase, OpenStore, Proposal, Settle
from quipu.model.journal import Checkpoint, Draft, Entry, Head, Op
from quipu.model.outcomes import Fault
from quipu.model.record import Mark, Record, State
from quipu.model.search import Found, Neighbours, Scope, Search, Selection, Snapshot, WordShares
from quipu.model.store import MAIN, Store
from quipu.ports.ledger import Indexed, Space
from quipu.ports.surroundings import Canonical, Clock, MintId
from quipu.rules import filters

if TYPE_CHECKING:
    from quipu.ledger.sqlite.finding import Finder

T = TypeVar("T")

_READERS = 4
_PAGE = 500
#: How long an erasure waits for readers that still hold on to old pages.
_PATIENCE_MS = 5_000
#: Above every id.
_TOP = "\U0010ffff"


class SqliteLedger:
    """Records, journal and index in one file, safe with several threads and several processes."""

    def __init__(
        self,
        path: Path | None,
        *,
        clock: Clock,
        mint_id: MintId,
        canonical: Canonical,
        name: str = "sqlite",
        mirrors: Sequence[str] = (),
        cache_bytes: int = 1 << 30,
        steps: Sequence[str] | None = None,
    ) -> None:
        """Open the file, or with None one that is gone when the ledger is closed."""
        self._folder = None if path else Path(tempfile.mkdtemp(prefix="quipu-"))
        self.path = path or (self._folder or Path()) / "memory.db"
        self.name = name
        self._clock, self._mint_id, self._canonical, self._mirrors = clock, mint_id, canonical, tuple(mirrors)
        is_durable = path is not None
        file.prepare(self.path, steps if steps is not None else file.migrations(), is_durable=is_durable)
        self._cache_bytes = cache_bytes
        self._local = threading.local()
        self._open_connections: list[apsw.Connection] = []
        self._readers = ThreadPoolExecutor(_READERS, "quipu-reader")
        self._writer = Writer(file.connect(self.path, is_durable=is_durable))
        self._writer_tokenizer = Tokenizer()
        self._keeper = Keeper(self.path)
        self._opened: set[str] = set()
        self._is_closed = False
        self._owes_flush = False

    # -- opening and closing ------------------------------------------------------------------------------------

    async def open(self, tenant: str) -> None:
        if tenant in self._opened:
            return
        at = self._clock()

        def job(connection: apsw.Connection) -> None:
            if statements.first(connection, "head", tenant=tenant):
                return
            statements.run(connection, "open_tenant", tenant=tenant, at=at)
            store = Store(tenant=tenant, id=self._mint_id("ms"), name=MAIN, created_at=at)
            draft = Draft(op=Op.GENESIS, actor="system", at=at, store=store.id)
            self._transaction(connection).apply(
                Commit(tenant=tenant, draft=draft, changes=(OpenStore(store=store),))
            )

        await self._write(job)
        self._opened.add(tenant)

    async def close(self) -> None:
        self._is_closed = True
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _close(self) -> None:
        self._writer.close()
        self._readers.shutdown(wait=True)
        for connection in self._open_connections:
            connection.close()
        self._open_connections.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    # -- threads ------------------------------------------------------------------------------------------------

    def _reader(self) -> tuple[apsw.Connection, Tokenizer]:
        """This thread's own connection."""
        mine: tuple[apsw.Connection, Tokenizer] | None = getattr(self._local, "mine", None)
        if mine is None:
            connection = file.connect(self.path, is_reader=True)
            mine = self._local.mine = (connection, Tokenizer())
            self._open_connections.append(connection)
        return mine

    async def _read(self, work: Callable[[apsw.Connection, Tokenizer], T]) -> T:
        if self._is_closed:
            raise BackendUnavailableError("The ledger is closed.", reason="closed")

        def run() -> T:
            with file.translated():
                return work(*self._reader())

        return await asyncio.get_running_loop().run_in_executor(self._readers, run)

    async def _select(self, statement: str, /, **values: rows.Value) -> list[rows.Row]:
        return await self._read(lambda connection, _: statements.select(connection, statement, **values))

    async def _write(self, job: Callable[[apsw.Connection], T], *, alone: bool = False) -> T:
        return await self._writer.run(job, alone=alone)

    def _transaction(self, connection: apsw.Connection) -> Transaction:
        return Transaction(connection, self._writer_tokenizer, self._canonical)

    # -- records ------------------------------------------------------------------------------------------------

    async def commit(self, *commits: Commit) -> Sequence[Committed]:
        def job(connection: apsw.Connection) -> list[Committed]:
            transaction = self._transaction(connection)
            return [transaction.apply(commit, self._mirrors) for commit in commits]

        done = await self._write(job)
        if any(_erases(change) for commit in commits for change in commit.changes):
            await self._flush_erased()
        elif self._owes_flush:
            await self._flush_erased(patience_ms=0)
        return done

    async def _flush_erased(self, patience_ms: int = _PATIENCE_MS) -> None:
        """What a slow reader keeps from being flushed now is flushed after a later write."""
        self._owes_flush = True
        flushed = await self._write(lambda c: self._keeper.flush_erased(c, patience_ms), alone=True)
        self._owes_flush = not flushed

    async def read(self, tenant: str, ids: Sequence[str], seq: int | None = None) -> Mapping[str, Record]:
        def work(connection: apsw.Connection, _: Tokenizer) -> dict[str, Record]:
            found: dict[str, Record] = {}
            with connection:  # one moment for all of them: no half of a commit is seen
                for record_id in dict.fromkeys(ids):
                    if seq is None:
                        row = statements.first(connection, "record_newest", tenant=tenant, id=record_id)
                    else:
                        row = statements.first(connection, "record_at", tenant=tenant, id=record_id, seq=seq)
                    if row is not None:
                        found[record_id] = rows.record_of(row)
            return found

        return await self._read(work)

    async def versions(self, tenant: str, record_id: str) -> Sequence[Record]:
        found = await self._select("record_versions", tenant=tenant, id=record_id)
        return [rows.record_of(row) for row in found]

    async def scan(self, selection: Selection, snapshot: Snapshot) -> AsyncIterator[Record]:
        left = selection.limit
        below = selection.below or _TOP
        names = {store.id: store.name for store in await self.stores(selection.tenant)}
        tree = None if selection.filter is None else filters.compiled(selection.filter)
        while left is None or left > 0:
            page = await self._page(selection, snapshot, below)
            for record in page:
                if _selected(record, selection, snapshot) and (
                    tree is None or filters.passes(tree, record, names.get(record.store_id, ""))
                ):
                    yield record
                    if left is not None and (left := left - 1) <= 0:
                        return
            if len(page) < _PAGE:
                return
            below = page[-1].id

    async def _page(self, selection: Selection, snapshot: Snapshot, below: str) -> Sequence[Record]:
        """A stretch of the walk, before what narrows it. Forgotten records are only found by their newest version."""
        by_newest = bool(selection.states & {State.FORGOTTEN, State.ERASED}) and snapshot.seq is None
        values: dict[str, rows.Value] = {"tenant": selection.tenant, "below": below, "limit": _PAGE}
        name = "page_of_newest" if by_newest else "page_at"
        if selection.agent_id is not None:
            name = "page_of_agent_newest" if by_newest else "page_of_agent_at"
            values["agent_id"] = selection.agent_id
        if not by_newest:
            values["seq"] = (1 << 62) if snapshot.seq is None else snapshot.seq
        return [rows.record_of(row) for row in await self._select(name, **values)]

    async def every_version(self, tenant: str) -> AsyncIterator[Record]:
        after = 0
        while True:
            page = await self._select("versions_after", tenant=tenant, after=after, limit=_PAGE)
            for row in page:
                yield _record_or_fault(row)
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    async def due(self, tenant: str, now: int, limit: int = 1000) -> Sequence[Record]:
        return [rows.record_of(row) for row in await self._select("due", tenant=tenant, now=now, limit=limit)]

    async def marks(self, tenant: str, ids: Sequence[str]) -> Mapping[str, Mark]:
        def work(connection: apsw.Connection, _: Tokenizer) -> dict[str, Mark]:
            found: dict[str, Mark] = {}
            for record_id in ids:
                row = statements.first(connection, "mark", tenant=tenant, id=record_id)
                if row is not None:
                    found[record_id] = Mark(row[0], row[1], row[2], bool(row[3]))
            return found

        return await self._read(work)

    async def reasons(self, tenant: str, record_id: str) -> Mapping[int, str]:
        found = await self._select("reasons", tenant=tenant, id=record_id)
        return {row[0]: row[1] for row in found}

    async def stores(self, tenant: str) -> Sequence[Store]:
        return [rows.store_of(tenant, row) for row in await self._select("stores", tenant=tenant)]

    async def proposals(self, tenant: str, status: str | None = None) -> Sequence[Proposal]:
        return [
            rows.proposal_of(row) for row in await self._select("proposals", tenant=tenant, status=status)
        ]

    # -- journal ------------------------------------------------------------------------------------------------

    async def head(self, tenant: str) -> Head:
        found = await self._select("head", tenant=tenant)
        if not found:
            raise NotFoundError("There is no such tenant.", reason="tenant")
        seq, digest, at, horizon, *_ = found[0]
        return Head(seq=seq, hash=digest.hex(), at=at, horizon=horizon)

    async def entries(self, tenant: str, after: int = 0, limit: int = 1000) -> Sequence[Entry]:
        found = await self._select("entries", tenant=tenant, after=after, limit=limit)
        return [_entry_or_fault(row) for row in found]

    async def position_at(self, tenant: str, moment: int) -> int:
        def work(connection: apsw.Connection, _: Tokenizer) -> int:
            head = statements.first(connection, "head", tenant=tenant)
            if head is None:
                raise NotFoundError("There is no such tenant.", reason="tenant")
            low, high = 0, int(head[0])
            while low < high:  # times never run back along the chain
                middle = (low + high + 1) // 2
                at = statements.scalar(connection, "entry_time", tenant=tenant, seq=middle)
                low, high = (middle, high) if at <= moment else (low, middle - 1)
            return low

        return await self._read(work)

    async def checkpoints(self, tenant: str) -> Sequence[Checkpoint]:
        return [rows.checkpoint_of(row) for row in await self._select("checkpoints", tenant=tenant)]

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

    @cached_property
    def _finder(self) -> Finder:
        """Search, and numpy with it, is loaded when it is first needed: most commands never do."""
        from quipu.ledger.sqlite.cache import PartitionCache
        from quipu.ledger.sqlite.finding import Finder

        return Finder(PartitionCache(self._cache_bytes))

    # -- finding ------------------------------------------------------------------------------------------------

    async def search(self, search: Search) -> Found:
        return await self._read(lambda c, tokenizer: self._finder.search(c, tokenizer, search))

    async def word_shares(self, scope: Scope, snapshot: Snapshot, text: str) -> WordShares:
        return await self._read(
            lambda c, tokenizer: self._finder.word_shares(c, tokenizer, scope, snapshot, text)
        )

    async def neighbours(self, scope: Scope, snapshot: Snapshot, ids: Sequence[str]) -> Neighbours:
        return await self._read(lambda c, _: self._finder.neighbours(c, scope, snapshot, ids))

    # -- upkeep -------------------------------------------------------------------------------------------------

    async def space(self, tenant: str) -> Space | None:
        return await self._read(lambda c, _: self._keeper.space(c, tenant))

    async def adopt_space(self, tenant: str, space: Space) -> None:
        await self._write(lambda connection: self._keeper.adopt_space(connection, tenant, space))

    async def without_vector(self, tenant: str, space: Space, limit: int) -> Sequence[Record]:
        return await self._write(
            lambda connection: self._keeper.without_vector(connection, tenant, space, limit)
        )

    async def add_vectors(self, tenant: str, space: Space, vectors: Sequence[tuple[Record, bytes]]) -> int:
        return await self._write(
            lambda connection: self._keeper.add_vectors(connection, tenant, space, vectors)
        )

    async def index_faults(self, tenant: str, expected: Sequence[Indexed]) -> Sequence[Fault]:
        return await self._read(
            lambda c, tokenizer: self._keeper.index_faults(c, tokenizer, tenant, expected)
        )

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
            done = self._transaction(connection).apply(Commit(tenant=tenant, draft=draft))
            return self._keeper.prune(connection, tenant, horizon, done.seq)

        pruned = await self._write(job)
        await self._flush_erased()
        return pruned

    async def compact(self) -> None:
        await self._write(self._keeper.compact, alone=True)

    async def statistics(self, tenant: str) -> Mapping[str, int]:
        return await self._read(lambda c, _: self._keeper.statistics(c, tenant))


def _erases(change: Change) -> bool:
    """Whether nothing of something may be left in the file, or in its log: a rejected write is gone like an erased one."""
    return isinstance(change, Erase) or (isinstance(change, Settle) and not change.approved)


def _selected(record: Record, selection: Selection, snapshot: Snapshot) -> bool:
    """What narrows a walk, beside the filter."""
    state = record.standing if snapshot.seq is None or record.is_emptied else record.state
    if state is State.LIVE and record.expired(snapshot.now):
        return False
    return (
        state in selection.states
        and (selection.user_id is None or record.user_id == selection.user_id)
        and (selection.session_id is None or record.session_id == selection.session_id)
        and (selection.store_id is None or record.store_id == selection.store_id)
        and (not selection.types or record.type in selection.types)
        and (selection.ids is None or record.id in selection.ids)
    )


def _entry_or_fault(row: Any) -> Entry:
    try:
        return rows.entry_of(row)
    except (ValueError, TypeError, AttributeError) as error:
        raise TamperedError(f"Journal entry {row[1]} cannot be read.", reason="altered_entry") from error


def _record_or_fault(row: Any) -> Record:
    try:
        return rows.record_of(row)
    except (ValueError, TypeError, AttributeError) as error:
        raise TamperedError(
            f"A version of record {row[2]} cannot be read.", reason="altered_record"
        ) from error
