"""The ledger port on a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from psycopg import IntegrityError
from psycopg.errors import DataCorrupted

from quipu.errors import BackendUnavailableError, ConflictError, InternalError, UnsupportedError
from quipu.ledger import rows, transfer
from quipu.ledger.governing import Governing
from quipu.ledger.postgres import checking, migrating, portable, statements, upkeep
from quipu.ledger.postgres.announcing import Announcer
from quipu.ledger.postgres.beside import replayed
from quipu.ledger.postgres.database import Database, Place
from quipu.ledger.postgres.grants import PostgresLending
from quipu.ledger.postgres.groups import Groups
from quipu.ledger.postgres.indexing import Indexing
from quipu.ledger.postgres.outbox import PostgresOutbox
from quipu.ledger.postgres.portable import ServerTables
from quipu.ledger.postgres.replica import Readers
from quipu.ledger.postgres.searching import Searching
from quipu.ledger.postgres.statements import Connection
from quipu.ledger.postgres.tables import TABLES, over
from quipu.ledger.postgres.tidying import Tidier, vacuum
from quipu.ledger.postgres.transaction import transaction
from quipu.ledger.postgres.turn import Job, Turn
from quipu.ledger.postgres.working import answers
from quipu.ledger.reads import Reads
from quipu.ledger.run_reads import RunReads
from quipu.ledger.search.terms import RULES
from quipu.ledger.transfer import Tables
from quipu.model.change import Change, Commit, Committed, Erase, Once, OpenStore, Put, Settle
from quipu.model.journal import Checkpoint, Draft, Head, Op
from quipu.model.outcomes import Fault
from quipu.model.record import Mark, Record
from quipu.model.search import (
    Found,
    Neighbours,
    Scope,
    Search,
    SharedWord,
    Snapshot,
    WordShares,
)
from quipu.model.store import MAIN, Store
from quipu.ports.announcing import Told, Written
from quipu.ports.ledger import Space
from quipu.ports.surroundings import Canonical, Clock, MintId

if TYPE_CHECKING:
    pass

T = TypeVar("T")
#: Makes a portable file, complete or not at all.
Archive: TypeAlias = Callable[[Path], AbstractAsyncContextManager[Tables]]


class PostgresLedger(Reads, Governing, RunReads, Indexing):
    """Records, journal and index in one database, shared by any number of processes."""

    def __init__(
        self,
        place: Place,
        *,
        clock: Clock,
        mint_id: MintId,
        canonical: Canonical,
        name: str = "postgresql",
        cache_bytes: int = 1 << 30,
        held_bytes: int | None = None,
        pool_size: int = 8,
        replica: Place | None = None,
        archive: Archive | None = None,
        steps: Sequence[str] | None = None,
    ) -> None:
        """Nothing is connected before it is needed.

        Vectors of a partition stay in the database where they would take more than `held_bytes`: half the cache, if
        nothing else is said.
        """
        self.name, self.place = name, place
        self._clock, self._mint_id, self._canonical = clock, mint_id, canonical
        self._steps = list(migrating.migrations() if steps is None else steps)
        self._archive = archive
        self._database = Database(place, size=pool_size, prepare=self._prepare)
        self._groups = Groups(self._database, canonical, self._follow)
        self._opened: set[str] = set()
        self._is_closed = False
        self._announcer = Announcer(self._database)
        #: Whether anybody listens to what is announced.
        self._is_heard = False
        self._written: list[Written] = []
        self._tidier = Tidier(self._database)
        self.lending = PostgresLending(self._read, self._tidier.soon)
        self.outbox = PostgresOutbox(self._read)
        copy = None
        if replica is not None:
            copy = Database(replica, size=pool_size, prepare=self._check, patience_s=0)
        self._readers = Readers(self._database, copy)
        self._searching = Searching(self._readers, cache_bytes, held_bytes)

    async def _check(self, connection: Connection) -> None:
        await migrating.check(connection, self.place.schema, len(self._steps))

    async def _prepare(self, connection: Connection) -> None:
        """An empty database becomes ours; an older one waits for its operator."""
        await migrating.migrate(
            connection, self.place.schema, self._steps, may_create=True, may_upgrade=False
        )

    # -- opening and closing ------------------------------------------------------------------------------------

    async def open(self, tenant: str) -> None:
        self._announcer.begin(tenant)
        if tenant in self._opened:
            return
        at = self._clock()

        async def work(connection: Connection) -> None:
            if await statements.first(connection, "tenant", tenant=tenant):
                return
            async with transaction(connection):
                await statements.run(connection, "open_tenant", tenant=tenant, at=at, terms=RULES)
                turn = await Turn.take(connection, tenant, self._canonical)
                if not turn.working.head.seq:
                    store = Store(tenant=tenant, id=self._mint_id("ms"), name=MAIN, created_at=at)
                    draft = Draft(op=Op.GENESIS, actor="system", at=at, store=store.id)
                    job = Job([Commit(tenant=tenant, draft=draft, changes=(OpenStore(store=store),))])
                    try:
                        await turn.apply(job)
                        if job.failure is not None:
                            raise job.failure
                    except (IntegrityError, ConflictError) as error:
                        # Something of the tenant is there, and what is written first of every tenant is not.
                        raise DataCorrupted from error

        await self._read(work)
        self._opened.add(tenant)

    async def close(self) -> None:
        self._is_closed = True
        await self._groups.close()
        await self._announcer.close()
        await self._tidier.close()
        await self._searching.close()
        await self._readers.close()
        await self._database.close()

    # -- reading and writing ------------------------------------------------------------------------------------

    async def _read(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        if self._is_closed:
            raise BackendUnavailableError("The ledger is closed.", reason="closed")
        return await self._database.run(work)

    async def _select(self, statement: str, /, **values: Any) -> list[rows.Row]:
        return await self._read(lambda connection: statements.select(connection, statement, **values))

    async def _altered(self, statement: str, /, **values: Any) -> list[rows.Row]:
        return await self._select(statement, **values)

    async def _flush_erased(self) -> None:
        self._tidier.soon()

    async def _select_near(
        self, statement: str, seq: int, /, *, tenant: str, **values: Any
    ) -> list[rows.Row]:
        """Rows as of a position, from wherever it has been reached."""

        async def read(near: Database) -> list[rows.Row]:
            return await near.run(
                lambda connection: statements.select(connection, statement, tenant=tenant, seq=seq, **values)
            )

        return await self._readers.read(tenant, seq, read)

    async def _take_turn(self, tenant: str, work: Callable[[Turn], Awaitable[T]]) -> T:
        """Work under the tenant's lock, in one transaction. It may be done again when the server goes away."""

        async def locked(connection: Connection) -> T:
            async with transaction(connection):
                return await work(await Turn.take(connection, tenant, self._canonical))

        return await self._read(locked)

    # -- records ------------------------------------------------------------------------------------------------

    async def commit(self, *commits: Commit, guard: int | None = None) -> Sequence[Committed]:
        if self._is_closed:
            raise BackendUnavailableError("The ledger is closed.", reason="closed")
        tenants = {commit.tenant for commit in commits}
        if len(tenants) > 1:
            raise InternalError("Commits that stand or fall together are one tenant's.", reason="ledger")
        if not commits:
            return ()
        job = Job(commits, guard, await self._searching.terms(_texts(commits)))
        (tenant,) = tenants
        self._announcer.begin(tenant)
        return await self._groups.commit(tenant, job)

    def _follow(self, tenant: str, job: Job) -> None:
        """What a commit brings with it, though its caller may have gone away."""
        seq = job.done[-1].seq
        self._readers.note(tenant, seq)
        self._announcer.tell(tenant, seq)
        for written in self._written:
            written(job.commits)
        if any(_erases(change) for commit in job.commits for change in commit.changes):
            self._tidier.soon()

    def on_commit(self, told: Told) -> None:
        """Also tells of what other processes commit."""
        if not self._is_heard:
            self._is_heard = True
            self._announcer.on_commit(self._readers.heard)
        self._announcer.on_commit(told)

    def on_written(self, told: Written) -> None:
        self._written.append(told)

    async def answered(self, tenant: str, once: Once, now: int) -> Committed | None:
        key = (once.principal, once.operation, once.key)
        found = await self._read(lambda connection: answers(connection, tenant, [key]))
        return replayed(found, once, now)

    async def read(self, tenant: str, ids: Sequence[str], seq: int | None = None) -> Mapping[str, Record]:
        wanted = list(dict.fromkeys(ids))
        if seq is None:
            found = await self._select("record_newest", tenant=tenant, ids=wanted)
        else:
            found = await self._select_near("record_at", seq, tenant=tenant, ids=wanted)
        records = {row[2]: rows.record_of(row) for row in found}
        return {record_id: records[record_id] for record_id in wanted if record_id in records}

    async def marks(self, tenant: str, ids: Sequence[str]) -> Mapping[str, Mark]:
        found = {row[0]: Mark(*row) for row in await self._select("mark", tenant=tenant, ids=list(ids))}
        return {record_id: found[record_id] for record_id in ids if record_id in found}

    # -- journal ------------------------------------------------------------------------------------------------

    async def head(self, tenant: str) -> Head:
        head = await super().head(tenant)
        self._readers.note(tenant, head.seq)
        return head

    async def position_at(self, tenant: str, moment: int) -> int:
        low, high = 0, (await self.head(tenant)).seq

        async def work(connection: Connection) -> int:
            first, last = low, high
            while first < last:  # times never run back along the chain
                middle = (first + last + 1) // 2
                at = await statements.scalar(connection, "entry_time", tenant=tenant, seq=middle)
                if at is None:
                    raise rows.lost_entry(middle)
                first, last = (middle, last) if at <= moment else (first, middle - 1)
            return first

        return await self._read(work)

    async def add_checkpoint(self, checkpoint: Checkpoint) -> None:
        values: dict[str, rows.Value] = {
            "tenant": checkpoint.tenant,
            "seq": checkpoint.seq,
            "hash": bytes.fromhex(checkpoint.hash),
            "at": checkpoint.at,
            "key_id": checkpoint.key_id,
            "signature": checkpoint.signature,
        }
        await self._read(lambda connection: statements.run(connection, "add_checkpoint", **values))

    # -- finding ------------------------------------------------------------------------------------------------

    async def search(self, search: Search) -> Found:
        return await self._searching.find(
            search.scope,
            search.snapshot,
            lambda finder, source, words: finder.search(source, words, search),
        )

    async def word_shares(self, scope: Scope, snapshot: Snapshot, text: str) -> WordShares:
        return await self._searching.find(
            scope,
            snapshot,
            lambda finder, source, words: finder.word_shares(source, words, scope, snapshot, text),
        )

    async def neighbours(self, scope: Scope, snapshot: Snapshot, ids: Sequence[str]) -> Neighbours:
        return await self._searching.find(
            scope, snapshot, lambda finder, source, _: finder.neighbours(source, scope, snapshot, ids)
        )

    async def shared_words(
        self, scope: Scope, snapshot: Snapshot, leaders: Sequence[str], members: Sequence[str], text: str
    ) -> Sequence[SharedWord]:
        wanted = leaders, members, text
        return await self._searching.find(
            scope,
            snapshot,
            lambda finder, source, words: finder.shared_words(source, words, scope, snapshot, *wanted),
        )

    # -- upkeep -------------------------------------------------------------------------------------------------

    async def space(self, tenant: str) -> Space | None:
        return await self._read(lambda connection: upkeep.space(connection, tenant))

    async def settle_space(self, tenant: str, space: Space) -> Space:
        return await self._take_turn(tenant, lambda turn: upkeep.settle_space(turn, space))

    async def adopt_space(self, tenant: str, space: Space) -> None:
        await self._take_turn(tenant, lambda turn: upkeep.adopt_space(turn, space))

    async def without_vector(self, tenant: str, space: Space, limit: int) -> Sequence[Record]:
        return await self._take_turn(tenant, lambda turn: upkeep.without_vector(turn, space, limit))

    async def add_vectors(self, tenant: str, space: Space, vectors: Sequence[tuple[Record, bytes]]) -> int:
        return await self._take_turn(tenant, lambda turn: upkeep.add_vectors(turn, space, vectors))

    async def vectors(self, tenant: str, records: Sequence[Record]) -> Mapping[str, bytes]:
        return await self._read(lambda connection: upkeep.vectors(connection, tenant, records))

    async def integrity_faults(self) -> Sequence[Fault]:
        return await self._read(checking.integrity_faults)

    async def backup(self, target: Path, progress: Callable[[int, int], None] | None = None) -> None:
        """A file of the embedded ledger: it can be opened, searched and verified anywhere."""
        if self._archive is None:
            raise UnsupportedError("This ledger was given no way to write files.", reason="backup")
        async with self._archive(target) as copy, self.tables() as mine:
            await transfer.copy(mine, copy, self._canonical, progress)

    def tables(self, *, is_target: bool = False) -> AbstractAsyncContextManager[ServerTables]:
        """The ledger as tables, in one transaction."""
        return portable.tables(self._database, is_target=is_target)

    async def prune(self, tenant: str, horizon: int) -> int:
        draft = Draft(op=Op.PRUNE, actor="system", at=self._clock(), detail={"horizon": horizon})
        pruned, seq = await self._take_turn(tenant, lambda turn: upkeep.prune(turn, draft, horizon))
        # A commit like any other: nobody goes on with what was pruned.
        self._readers.note(tenant, seq)
        self._announcer.tell(tenant, seq)
        self._tidier.soon()
        return pruned

    async def compact(self) -> None:
        async def work(connection: Connection) -> None:
            await statements.run(connection, "drop_orphan_vectors")
            await vacuum(connection, over("rewrite", TABLES))

        await self._read(work)

    async def statistics(self, tenant: str) -> Mapping[str, int]:
        return await self._read(lambda connection: upkeep.statistics(connection, tenant))


def _texts(commits: Sequence[Commit]) -> set[str]:
    """Every text that is to be found by its words."""
    return {
        change.search_text
        for commit in commits
        for change in commit.changes
        if isinstance(change, Put) and change.search_text is not None
    }


def _erases(change: Change) -> bool:
    """Whether nothing of something may be left in the tables: a rejected write is gone like an erased one."""
    return isinstance(change, Erase) or (isinstance(change, Settle) and not change.approved)
