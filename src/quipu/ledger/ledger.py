"""The system of record. It keeps, finds and never decides.

Work that needs several reads is one `read`, on a worker thread; a few rows of a file are read where they are asked for.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from quipu.errors import BackendUnavailableError, ConflictError, QuipuError
from quipu.ledger import state as states
from quipu.ledger.commit import KEY_LIFE_MS, Commit, Committed, Drop, Erase, Keep
from quipu.ledger.copy import copy
from quipu.ledger.decide import Caller, Random
from quipu.ledger.driver import Cursor, Driver
from quipu.ledger.groups import Groups, closed
from quipu.ledger.index import Space, VersionKey
from quipu.ledger.queries import SQL, schema_statements
from quipu.ledger.reader import AgentCount, JournalQuery, Kept, Reader, Summary
from quipu.ledger.table import Key, Table
from quipu.model.journal import Checkpoint, Draft, Entry, Head
from quipu.model.record import Mark, Record
from quipu.model.search import Scope, Selection, Snapshot

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["AgentCount", "Health", "JournalQuery", "Kept", "Ledger", "Summary", "Tenant"]

R = TypeVar("R")
T = TypeVar("T", bound="DataclassInstance")
#: A tenant, its new position, and what was committed; None: another process committed it.
CommitListener = Callable[[str, int, Sequence[Commit] | None], None]
_PAGE = 500
#: So long an erasure waits for readers before its bytes leave the log; what is left is done later.
_SCRUB_PATIENCE_MS = 5_000


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant of this ledger."""

    tenant: str
    created_at: int
    #: While set, none of its credentials is good.
    suspended_at: int | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the ledger can be read and written now, and if not, why."""

    kind: str
    writable: bool
    reason: str | None = None


def erasable(tables: Sequence[Table[Any]]) -> tuple[str, ...]:
    """The tables from which an erasure takes something: the ledger's own, and those of rooms whose rows name records."""
    own = ("record", "vector", "link", "mark", "reason", "answer", "answer_record")
    return (*own, *(table.name for table in tables if table.names))


class Ledger:
    """One implementation over a driver."""

    def __init__(self, driver: Driver, tables: Sequence[Table[Any]], *, random: Random = os.urandom) -> None:
        """Blocks: it makes the tables of a new database. Closes the driver when it is closed, or cannot be opened.

        tables: What capabilities declare; looked at by an erasure and a verification only.
        """
        self._driver, self.tables = driver, tables
        try:
            driver.create(schema_statements(driver.dialect), lambda: erasable(self.tables))
        except BaseException:
            driver.close()
            raise
        self._listeners: list[CommitListener] = []
        self._groups = Groups(driver, self.tables, random, self._committed)
        self._threads = ThreadPoolExecutor(driver.readers, "ledger-reader")
        self._is_closed = False

    @property
    def name(self) -> str:
        return self._driver.name

    async def close(self) -> None:
        self._is_closed = True
        await self._groups.close()
        self._threads.shutdown()
        self._driver.close()

    def on_commit(self, listener: CommitListener) -> None:
        """Call it after each commit, on the event loop; of other processes' commits without what was committed."""
        self._listeners.append(listener)

    def listen(self) -> None:
        """Begin to hear of other processes' commits. Called on the event loop that listeners are called on."""
        loop = asyncio.get_running_loop()

        def heard(tenant: str | None) -> None:
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(self._announced, tenant)

        self._driver.listen(heard)

    def _announced(self, tenant: str | None) -> None:
        for listener in self._listeners:
            listener(tenant or "", 0, None)

    def _committed(self, tenant: str, seq: int, commits: Sequence[Commit]) -> None:
        self._driver.announce(tenant, seq)
        for listener in self._listeners:
            listener(tenant, seq, commits)

    # -- writing ------------------------------------------------------------------------------------------------------

    async def commit(self, *commits: Commit, checked_at: int | None = None) -> Sequence[Committed]:
        """All or none of them, durable when it returns. Refused when secrets or rules moved since `checked_at`."""
        if not commits:
            raise ValueError("nothing to commit")
        done = await self._groups.commit(commits[0].tenant, Caller(commits, checked_at))
        if any(isinstance(change, Erase) for commit in commits for change in commit.changes):
            await self.scrub()
        return done

    async def locked(self, tenant: str, work: Callable[[Reader], tuple[R, Sequence[Commit]]]) -> R:
        """Ask under the head's lock; what `work` answers beside its result is committed before anybody else writes."""
        return await self._groups.locked(tenant, work)

    async def replayed(
        self, tenant: str, principal: str, operation: str, key: str, fingerprint: str, now: int
    ) -> Committed | None:
        return await self.read(
            tenant, lambda reader: reader.replayed(principal, operation, key, fingerprint, now), is_brief=True
        )

    async def update(self, tenant: str, table: Table[T], *values: T, drop: Sequence[Key] = ()) -> None:
        """Write operational rows: positions, leases, sessions. They stand in no entry."""
        if table.is_journaled:
            raise ValueError(f"{table.name} is journaled: use Keep")

        def work() -> None:
            with self._driver.writing(self._driver.lane(tenant)) as cursor:
                for key in drop:
                    cursor.run(table.delete, tenant=tenant, **table.named(key))
                cursor.run_many(table.upsert, [{"tenant": tenant, **table.row(value)} for value in values])

        await self._on_writer(work)

    async def revise(
        self, tenant: str, table: Table[T], work: Callable[[Reader], tuple[R, Sequence[T]]]
    ) -> R:
        """Read operational rows and write them anew, with the tenant locked: nobody changes them in between."""

        def revising(reader: Reader) -> tuple[R, Sequence[Keep | Drop]]:
            result, values = work(reader)
            return result, [Keep(table, value) for value in values]

        return await self.settle(tenant, revising)

    async def settle(self, tenant: str, work: Callable[[Reader], tuple[R, Sequence[Keep | Drop]]]) -> R:
        """The same for operational rows of several tables, and for some that go."""

        def settling() -> R:
            with self._driver.writing(self._driver.lane(tenant)) as cursor:
                states.locked_head(cursor, tenant)
                result, changes = work(Reader(cursor, tenant))
                for change in changes:
                    table = change.table
                    if table.is_journaled:
                        raise ValueError(f"{table.name} is journaled: commit it")
                    if isinstance(change, Keep):
                        cursor.run(table.upsert, tenant=tenant, **table.row(change.value))
                    else:
                        cursor.run(table.delete, tenant=tenant, **table.named(change.key))
                return result

        return await self._on_writer(settling, may_repeat=False)

    async def claim(self, table: Table[T], tenant: str, key: Key, holder: str, now: int, until: int) -> bool:
        """Take a row for a while, unless somebody else has it. The table has `holder` and `held_until`."""

        def work() -> bool:
            with self._driver.writing(self._driver.lane(tenant)) as cursor:
                touched = cursor.run(
                    table.claim, tenant=tenant, holder=holder, now=now, until=until, **table.named(key)
                )
                return touched > 0

        return await self._on_writer(work)

    # -- any capability's rows ------------------------------------------------------------------------------------------

    async def get(self, table: Table[T], tenant: str, *key: Any) -> T | None:
        return await self.read(tenant, lambda reader: reader.get(table, *key), is_brief=True)

    async def kept(self, table: Table[T], tenant: str, *key: Any) -> Kept[T] | None:
        """A journaled row with the position that `Keep.expects` asks for."""
        return await self.read(tenant, lambda reader: reader.kept(table, *key), is_brief=True)

    async def page(
        self,
        table: Table[T],
        tenant: str,
        equal: Mapping[str, Any] | None = None,
        after: Key | None = None,
        limit: int = 100,
        newest_first: bool = False,
    ) -> Sequence[T]:
        rows = await self.kept_page(table, tenant, equal, after, limit, newest_first)
        return [row.value for row in rows]

    async def kept_page(
        self,
        table: Table[T],
        tenant: str,
        equal: Mapping[str, Any] | None = None,
        after: Key | None = None,
        limit: int = 100,
        newest_first: bool = False,
    ) -> Sequence[Kept[T]]:
        return await self.read(tenant, lambda reader: reader.rows(table, equal, after, limit, newest_first))

    async def matching(self, table: Table[T], tenant: str, column: str, values: Sequence[Any]) -> Sequence[T]:
        rows = await self.read(tenant, lambda reader: reader.matching(table, column, values))
        return [row.value for row in rows]

    async def count(self, table: Table[T], tenant: str, equal: Mapping[str, Any] | None = None) -> int:
        return await self.read(tenant, lambda reader: reader.count(table, equal))

    async def side_rows(
        self, tenant: str, table: Table[T]
    ) -> AsyncIterator[tuple[T, bytes | None, bytes, int]]:
        """Every row of a journaled table with salt, digest and position, for verification and copying."""
        after: Key | None = None
        while True:
            start = after

            def work(reader: Reader, start: Key | None = start) -> list[tuple[Any, ...]]:
                query = table.page((), is_first=start is None)
                place = {} if start is None else {f"after_{n}": v for n, v in table.named(start).items()}
                return reader.cursor.rows(query, tenant=tenant, limit=_PAGE, **place)

            rows = await self.read(tenant, work)
            for row in rows:
                *_, salt, digest, seq = row
                yield table.value(row), None if salt is None else bytes(salt), bytes(digest), seq
            if len(rows) < _PAGE:
                return
            after = table.key_of(table.value(rows[-1]))

    # -- records ----------------------------------------------------------------------------------------------------------

    async def read(
        self, tenant: str, work: Callable[[Reader], R], reached: int | None = None, *, is_brief: bool = False
    ) -> R:
        """Run several reads of one moment on a worker thread.

        reached: A replica may answer that has come to that position and to all that this process has seen; only for what
            the journal's position dates: records, not operational rows.
        is_brief: It is done in the time in which a thread is woken, and waits for nobody: of a file it runs right here.
        """

        def reading(at: int | None) -> R:
            with self._driver.reading(tenant, at) as cursor:
                return work(Reader(cursor, tenant))

        if is_brief and self._driver.is_near:
            if self._is_closed:
                raise closed()
            found = reading(reached)
            await asyncio.sleep(0)  # whoever reads on and on lets others have their turn
            return found
        try:
            return await self._on(self._threads, lambda: reading(reached))
        except BackendUnavailableError as error:
            if reached is None and error.reason != "unreachable":
                raise
        # A replica may break off a read, and a server that was restarted has cut every connection: once more.
        return await self._on(self._threads, lambda: reading(None))

    async def records(self, tenant: str, ids: Sequence[str], seq: int | None = None) -> Mapping[str, Record]:
        """The versions that are current, or were at a position."""
        if not ids:
            return {}
        return await self.read(tenant, lambda reader: reader.records(ids, seq), reached=seq or 0)

    async def newest_versions(self, tenant: str, ids: Sequence[str]) -> Mapping[str, Record]:
        """The newest version of each, whatever became of it."""
        return await self.read(tenant, lambda reader: reader.newest_versions(ids)) if ids else {}

    async def versions(self, tenant: str, record_id: str) -> Sequence[Record]:
        return await self.read(tenant, lambda reader: reader.versions(record_id))

    async def scan(self, selection: Selection, snapshot: Snapshot) -> AsyncIterator[Record]:
        """Records of a selection, newest id first: all of them, page by page, at one position."""
        tenant, below = selection.tenant, selection.below
        while True:
            start = below
            page = await self.read(
                tenant,
                lambda reader, at=start: reader.page(selection, snapshot, at, _PAGE),
                reached=snapshot.seq or 0,
            )
            for record in page:
                is_state = (record.standing if snapshot.seq is None else record.state) in selection.states
                is_live = record.state == "archived" or not record.is_expired(snapshot.now)
                if record.is_emptied or not is_state or not is_live:
                    continue
                if selection.types and record.type not in selection.types:
                    continue
                if selection.matches is None or selection.matches(record):
                    yield record
            if len(page) < _PAGE:
                return
            below = page[-1].id

    async def newest(
        self, scope: Scope, snapshot: Snapshot, below: tuple[int, int, str] | None = None
    ) -> AsyncIterator[Record]:
        """Live records of an agent in the order of their creation, newest first, as of one position.

        `below`: behind the one that was created then, born there and is called so. An emptied version is left out:
        nobody knows any more what it said.
        """
        while True:
            start = below
            page = await self.read(
                scope.tenant,
                lambda reader, at=start: reader.newest(scope, snapshot, at, _PAGE),
                reached=snapshot.seq or 0,
            )
            for record in page:
                if not record.is_emptied and (scope.stores is None or record.store_id in scope.stores):
                    yield record
            if len(page) < _PAGE:
                return
            below = (page[-1].created_at, page[-1].born, page[-1].id)

    async def changed(
        self, tenant: str, agent_id: str, after: int, until: int, below: str, limit: int
    ) -> Sequence[str]:
        return await self.read(tenant, lambda reader: reader.changed(agent_id, after, until, below, limit))

    async def every_version(self, tenant: str) -> AsyncIterator[Record]:
        """All versions in the order of id and version."""
        after = ("", 0)
        while True:
            start = after

            def work(reader: Reader, start: tuple[str, int] = start) -> list[Record]:
                return reader.every_version(start, _PAGE)

            page = await self.read(tenant, work)
            for record in page:
                yield record
            if len(page) < _PAGE:
                return
            after = (page[-1].id, page[-1].version)

    async def facts(
        self, tenant: str, agent_id: str, user_id: str | None, store_id: str, key: str
    ) -> Sequence[Record]:
        return await self.read(tenant, lambda reader: reader.facts(agent_id, user_id, store_id, key))

    async def due(self, tenant: str, now: int, limit: int = 1000) -> Sequence[Record]:
        """What has expired and still stands."""
        return await self.read(tenant, lambda reader: reader.due(now, limit))

    async def derived(self, tenant: str, ids: Sequence[str]) -> Sequence[str]:
        return await self.read(tenant, lambda reader: reader.derived(ids)) if ids else ()

    async def made_of(self, tenant: str, ids: Sequence[str]) -> Sequence[str]:
        return await self.read(tenant, lambda reader: reader.made_of(ids)) if ids else ()

    async def marks(self, tenant: str, ids: Sequence[str]) -> Mapping[str, Mark]:
        return await self.read(tenant, lambda reader: reader.marks(ids)) if ids else {}

    async def reasons(self, tenant: str, record_id: str) -> Mapping[int, str]:
        return await self.read(tenant, lambda reader: reader.reasons(record_id))

    async def summary(self, scope: Scope, snapshot: Snapshot) -> Summary:
        return await self.read(scope.tenant, lambda reader: reader.summary(scope, snapshot))

    async def counts(self, tenant: str, user_id: str | None, now: int) -> Sequence[AgentCount]:
        """How many memories stand now, by agent, store and kind."""
        return await self.read(tenant, lambda reader: reader.counts(user_id, now))

    # -- journal ----------------------------------------------------------------------------------------------------------

    async def tenants(self, after: str = "", limit: int = 1000) -> Sequence[Tenant]:
        def work(reader: Reader) -> list[Tenant]:
            rows = reader.cursor.rows(SQL["tenants"], tenant=after, limit=limit)
            return [Tenant(name, at, Reader(reader.cursor, name).head().suspended_at) for name, at in rows]

        return await self.read("", work)

    async def journaled_tenants(self) -> AsyncIterator[str]:
        """Everybody who has a journal, listed or not."""
        name: str | None = ""
        while True:
            row = await self.read(
                name or "",
                lambda reader: reader.cursor.row(SQL["next_journaled_tenant"], tenant=reader.tenant),
            )
            name = None if row is None else row[0]
            if name is None:
                return
            yield name

    async def tenant(self, tenant: str) -> Tenant | None:
        """None: there is no such tenant."""

        def work(reader: Reader) -> Tenant | None:
            created_at = reader.created_at()
            return None if created_at is None else Tenant(tenant, created_at, reader.head().suspended_at)

        return await self.read(tenant, work)

    async def open_tenant(self, tenant: str, now: int) -> None:
        """Make a tenant; one that is there stays as it is."""

        def work() -> None:
            with self._driver.writing(self._driver.lane(tenant)) as cursor:
                states.locked_head(cursor, tenant, now)

        await self._on_writer(work)

    async def head(self, tenant: str) -> Head:
        return await self.read(tenant, Reader.head, is_brief=True)

    async def entries(self, tenant: str, query: JournalQuery) -> Sequence[Entry]:
        return await self.read(tenant, lambda reader: reader.entries(query))

    async def position_at(self, tenant: str, moment: int) -> int:
        """The last position that was written by then."""
        return await self.read(tenant, lambda reader: reader.position_at(moment))

    async def checkpoints(self, tenant: str, after: int = 0, limit: int = 1000) -> Sequence[Checkpoint]:
        """Signed positions behind another, in order."""
        return await self.read(tenant, lambda reader: reader.checkpoints(after, limit))

    async def last_checkpoint(self, tenant: str) -> Checkpoint | None:
        return await self.read(tenant, Reader.last_checkpoint)

    async def add_checkpoint(
        self, tenant: str, sign: Callable[[Head], Checkpoint], entry: Callable[[Checkpoint], Draft]
    ) -> Checkpoint:
        """Keep what `sign` makes of the head, with an entry behind it that names it: one that is taken away is missed."""

        def work(reader: Reader) -> tuple[Checkpoint, Sequence[Commit]]:
            checkpoint = sign(reader.head())
            reader.cursor.run(
                SQL["add_checkpoint"],
                tenant=tenant,
                seq=checkpoint.seq,
                hash=checkpoint.hash,
                at=checkpoint.at,
                key_id=checkpoint.key_id,
                signature=checkpoint.signature,
            )
            return checkpoint, [Commit(tenant=tenant, draft=entry(checkpoint))]

        return await self.locked(tenant, work)

    # -- vectors and terms --------------------------------------------------------------------------------------------------

    async def space(self, tenant: str) -> Space | None:
        return await self.read(tenant, Reader.space, is_brief=True)

    async def settle_space(self, tenant: str, space: Space) -> Space:
        """The tenant's space; of two who come at once one decides it."""

        def work() -> Space:
            with self._driver.writing(self._driver.lane(tenant)) as cursor:
                states.locked_head(cursor, tenant)
                known = Reader(cursor, tenant).space()
                if known is not None:
                    return known
                spaces = cursor.rows(SQL["spaces"], tenant=tenant)
                number = _number(spaces, space) or _add_space(cursor, tenant, spaces, space)
                cursor.run(SQL["use_space"], tenant=tenant, number=number)
                return space

        return await self._on_writer(work)

    async def adopt_space(self, tenant: str, space: Space) -> None:
        """Search in this space from now on; the vectors of any other one go."""

        def work() -> None:
            with self._driver.writing(self._driver.lane(tenant)) as cursor:
                states.locked_head(cursor, tenant)
                spaces = cursor.rows(SQL["spaces"], tenant=tenant)
                if len(spaces) == 1 and Reader(cursor, tenant).space() == space:
                    return
                number = _number(spaces, space)
                if number is None:  # nothing was there to be embedded
                    number = _add_space(cursor, tenant, spaces, space)
                cursor.run(SQL["use_space"], tenant=tenant, number=number)
                cursor.run(SQL["drop_other_vectors"], tenant=tenant, number=number)
                cursor.run(SQL["drop_other_spaces"], tenant=tenant, number=number)

        await self._on_writer(work)

    async def without_vector(self, tenant: str, space: Space, limit: int) -> Sequence[Record]:
        """Versions that have no vector in a space yet."""
        return await self.read(tenant, lambda reader: reader.without_vector(space, limit))

    async def add_vectors(
        self, tenant: str, space: Space, vectors: Sequence[tuple[VersionKey, bytes]]
    ) -> None:
        def work() -> None:
            with self._driver.writing(self._driver.lane(tenant)) as cursor:
                states.locked_head(cursor, tenant)
                spaces = cursor.rows(SQL["spaces"], tenant=tenant)
                number = _number(spaces, space)
                if number is None:
                    if len(spaces) > 1:  # only two have room
                        raise ConflictError(
                            "Somebody else is moving this memory to another embedder.",
                            reason="embedding_mismatch",
                            hint="Let them finish; or give that up with `quipu reindex` under the embedder that is in use.",
                        )
                    number = _add_space(cursor, tenant, spaces, space)
                there = Reader(cursor, tenant).not_emptied([key for key, _ in vectors])
                cursor.run_many(
                    SQL["add_vector"],
                    [
                        {"tenant": tenant, "id": key[0], "version": key[1], "space": number, "data": data}
                        for key, data in vectors
                        if key in there
                    ],
                )
                cursor.run(SQL["refilled"], tenant=tenant)

        await self._on_writer(work)

    async def vectors(self, tenant: str, keys: Sequence[VersionKey]) -> Mapping[VersionKey, bytes]:
        return await self.read(tenant, lambda reader: reader.vectors(keys))

    async def set_terms(self, tenant: str, terms: Sequence[tuple[VersionKey, bytes | None]]) -> None:
        """Other words to find versions by: after the rules by which words are cut have changed."""

        def work() -> None:
            with self._driver.writing(self._driver.lane(tenant)) as cursor:
                states.locked_head(cursor, tenant)
                cursor.run_many(
                    SQL["set_terms"],
                    [
                        {"tenant": tenant, "id": key[0], "version": key[1], "terms": blob}
                        for key, blob in terms
                    ],
                )
                cursor.run(SQL["refilled"], tenant=tenant)

        await self._on_writer(work)

    # -- upkeep -----------------------------------------------------------------------------------------------------------

    async def health(self) -> Health:
        """Whether it can be read, and whether the last write worked."""
        try:
            await self.read("", lambda reader: reader.cursor.row(SQL["head"], tenant=""))
        except QuipuError as error:
            return Health(
                self.name, writable=False, reason=self._driver.writable() or error.reason or error.code
            )
        reason = self._driver.writable()
        return Health(self.name, writable=reason is None, reason=reason)

    async def scrub(self) -> bool:
        """Take erased bytes out of log and dead rows; False: readers were in the way, and it is done later."""
        return await self._on(self._threads, lambda: self._driver.scrub(_SCRUB_PATIENCE_MS))

    async def prune(self, tenant: str, horizon: int, actor: str, now: int) -> int:
        """Retention: versions that were replaced before a position lose what they said. Returns of how many records."""
        emptied = 0
        while True:

            def work(reader: Reader) -> tuple[int, Sequence[Commit]]:
                cursor = reader.cursor
                ids = [
                    row[0]
                    for row in cursor.rows(SQL["ended_before"], tenant=tenant, horizon=horizon, limit=_PAGE)
                ]
                seq = reader.head().seq + 1
                if ids:
                    place: dict[str, Any] = {"tenant": tenant, "ids": ids}
                    cursor.run(
                        SQL["empty_old_versions"],
                        **place,
                        seq=seq,
                        horizon=horizon,
                        provenance='{"written_by":""}',
                    )
                    cursor.run(SQL["drop_old_vectors"], **place, seq=seq)
                cursor.run(SQL["raise_horizon"], tenant=tenant, horizon=horizon)
                cursor.run(SQL["old_answers"], tenant=tenant, before=now - KEY_LIFE_MS)
                draft = Draft(
                    op="prune", actor=actor, at=now, detail={"horizon": horizon, "records": len(ids)}
                )
                return len(ids), [Commit(tenant=tenant, draft=draft)]

            count = await self.locked(tenant, work)
            emptied += count
            if count < _PAGE:
                break
        await self.scrub()
        return emptied

    async def statistics(self, tenant: str) -> Mapping[str, int]:
        """How much a tenant has: counts, and the bytes of what is in them, without what an engine needs around it."""

        def work(reader: Reader) -> dict[str, int]:
            versions, live, record_bytes = reader.cursor.rows(SQL["count_records"], tenant=tenant)[0]
            (entries, entry_bytes) = reader.cursor.rows(SQL["count_entries"], tenant=tenant)[0]
            (vectors, vector_bytes) = reader.cursor.rows(SQL["count_vectors"], tenant=tenant)[0]
            return {
                "versions": versions,
                "records": int(live or 0),
                "entries": entries,
                "vectors": vectors,
                "bytes": int(record_bytes or 0) + int(entry_bytes or 0) + int(vector_bytes or 0),
            }

        return await self.read(tenant, work)

    async def totals(self) -> Mapping[str, int]:
        """How much there is of all tenants together, for who watches the server."""
        names = ("tenants", "live_records", "journal_entries", "pending_proposals", "owed_copies")

        def work(reader: Reader) -> dict[str, int]:
            return dict(zip(names, reader.cursor.rows(SQL["totals"], tenant="")[0], strict=True))

        return await self.read("", work)

    async def sizes(self) -> Mapping[str, int]:
        """Bytes on disk, of the whole database."""
        return await self._on(self._threads, self._driver.sizes)

    async def integrity_faults(self) -> Sequence[str]:
        return await self._on(self._threads, self._driver.integrity_faults)

    async def schema_faults(self) -> Sequence[str]:
        """Tables, indexes and triggers that are not as they were made."""
        return await self._on(
            self._threads, lambda: self._driver.schema_faults(schema_statements(self._driver.dialect))
        )

    async def backup(self, target: Path, progress: Callable[[int, int], None] | None = None) -> None:
        """A whole copy of all tenants as of one moment, as a SQLite file."""
        await self._on(self._threads, lambda: self._driver.backup(target, progress))

    async def copy_to(
        self,
        other: "Ledger",
        tenants: Sequence[str] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Mapping[str, int]:
        """Copy tenants, or all of them, into a ledger that has none of them; how many rows each has."""
        return await self._on(self._threads, lambda: copy(self._driver, other._driver, tenants, progress))

    async def compact(self) -> None:
        """Give back the room of what is gone."""
        await self._on_writer(self._driver.compact)

    async def _on_writer(self, work: Callable[[], R], *, may_repeat: bool = True) -> R:
        """Write outside of a group: short work of its own. `may_repeat`: doing it twice is doing it once."""
        return await self._on(self._groups.threads, lambda: self._groups.alone(work, may_repeat=may_repeat))

    async def _on(self, threads: ThreadPoolExecutor, work: Callable[[], R]) -> R:
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, work)
        except RuntimeError as error:
            if "shutdown" in str(error):
                raise closed() from error
            raise


def _number(spaces: Sequence[tuple[Any, ...]], space: Space) -> int | None:
    return next((n for n, model, size in spaces if (model, size) == (space.model, space.dimensions)), None)


def _add_space(cursor: Cursor, tenant: str, spaces: Sequence[tuple[Any, ...]], space: Space) -> int:
    number = max((row[0] for row in spaces), default=0) + 1
    cursor.run(SQL["add_space"], tenant=tenant, number=number, model=space.model, dimensions=space.dimensions)
    return number
