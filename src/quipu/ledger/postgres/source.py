"""PostgreSQL as a source of partitions: search runs on threads, the database answers on the event loop.

A partition is read in one REPEATABLE READ transaction, so that all of it is of one moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from quipu.ledger import rows
from quipu.ledger.postgres import statements
from quipu.ledger.postgres.database import Database, Work
from quipu.ledger.postgres.nearness import Lookup, ServerNearness
from quipu.ledger.postgres.statements import Connection
from quipu.ledger.postgres.transaction import moment
from quipu.ledger.search.legs import Floats, Nearness
from quipu.ledger.search.partition import Partition
from quipu.ledger.search.source import Known, News, Owner, Vectors
from quipu.model.record import Record
from quipu.model.value import Json

T = TypeVar("T")
#: Takes note that a tenant's chain was seen to reach a position.
Note: TypeAlias = Callable[[str, int], None]
#: Rows, deaths, marks.
_Read: TypeAlias = tuple[list[rows.Row], list[Any], list[Any]]


class ServerSource:
    """Asks one database, for threads of one event loop."""

    def __init__(
        self, database: Database, loop: asyncio.AbstractEventLoop, held_bytes: int, note: Note
    ) -> None:
        """Partitions whose vectors take more than `held_bytes` leave them in the database."""
        self._note = note
        self._database = database
        self._loop = loop
        self._held_bytes = held_bytes

    def ask(self, work: Work[T]) -> T:
        """The answer, on the thread that asks; the loop does the talking."""
        return asyncio.run_coroutine_threadsafe(self._database.run(work), self._loop).result()

    def _select(self, statement: str, /, **values: Any) -> list[rows.Row]:
        return self.ask(lambda connection: statements.select(connection, statement, **values))

    # -- partitions ---------------------------------------------------------------------------------------------

    def news(self, owner: Owner, known: Known) -> News | None:
        return self.ask(lambda connection: self._news(connection, owner, known))

    async def _news(self, connection: Connection, owner: Owner, known: Known) -> News | None:
        if known.is_level(await statements.first(connection, "head", tenant=owner.tenant)):
            return None
        async with moment(connection):
            head = await statements.first(connection, "head", tenant=owner.tenant)
            if head is None or known.is_level(head):
                return None
            self._note(owner.tenant, head[0])
            changed, vectors = head[4], Vectors.of(head)
            last_row = await statements.scalar(connection, "last_row", tenant=owner.tenant)
            is_held = known.holds_vectors
            is_whole = known.must_be_read_anew(vectors, last_row) or await _is_emptied(
                connection, owner, known.seq
            )
            if not is_whole and is_held:
                is_whole = not self._may_hold(known.size, vectors)
            if is_whole:
                is_held = self._may_hold(await _count(connection, owner), vectors)
                read = await _load(connection, owner, vectors, is_held=is_held)
            else:
                read = await _follow(connection, owner, known)
            return News(changed, last_row, vectors, is_whole, *read, holds_vectors=is_held)

    def _may_hold(self, versions: int, vectors: Vectors) -> bool:
        return versions * 4 * vectors.dimensions <= self._held_bytes

    # -- rows ---------------------------------------------------------------------------------------------------

    def store_names(self, tenant: str) -> Mapping[str, str]:
        return {row[0]: row[1] for row in self._select("stores", tenant=tenant)}

    def metadata(self, tenant: str, rows: Sequence[int]) -> Iterable[Mapping[str, Json]]:
        found: dict[int, str | None] = {
            row[0]: row[1] for row in self._select("metadata_row", tenant=tenant, rows=list(rows))
        }
        return [_object(found[row]) for row in rows]

    def records(self, tenant: str, rows: Sequence[int]) -> Iterable[Record]:
        found = {row[0]: row for row in self._select("record_row", tenant=tenant, rows=list(rows))}
        return [_record(found[row]) for row in rows]

    def linked(self, tenant: str, ids: Sequence[str], seq: int) -> Mapping[str, set[str]]:
        edges: dict[str, set[str]] = {}
        for here, there in self._select("links_at", tenant=tenant, ids=list(ids), seq=seq):
            edges.setdefault(here, set()).add(there)
        return edges

    def nearness(self, tenant: str, partition: Partition, vectors: Vectors, query: Floats) -> Nearness:
        lookup = Lookup(self.ask, tenant, vectors.space or 0, vectors.dimensions)
        return ServerNearness(partition, query, lookup)


async def _is_emptied(connection: Connection, owner: Owner, after: int) -> bool:
    """Whether something has been erased or pruned since; a partition that held it must not any more."""
    return await statements.first(connection, "emptied_since", tenant=owner.tenant, after=after) is not None


async def _count(connection: Connection, owner: Owner) -> int:
    name = "count_of_store" if owner.is_store else "count_of_agent"
    return int(await statements.scalar(connection, name, tenant=owner.tenant, owner=owner.name))


async def _load(connection: Connection, owner: Owner, vectors: Vectors, *, is_held: bool) -> _Read:
    found = await statements.select(
        connection,
        "load_store" if owner.is_store else "load_agent",
        tenant=owner.tenant,
        owner=owner.name,
        space=vectors.space,
        held=is_held,
    )
    marks = await statements.select(connection, "demoted_since", tenant=owner.tenant, after=0)
    return found, [], marks


async def _follow(connection: Connection, owner: Owner, known: Known) -> _Read:
    follow, died = ("follow_store", "died_of_store") if owner.is_store else ("follow_agent", "died_of_agent")
    found = await statements.select(
        connection,
        follow,
        tenant=owner.tenant,
        owner=owner.name,
        space=known.vectors.space,
        held=known.holds_vectors,
        after=known.last_row,
    )
    deaths = await statements.select(connection, died, tenant=owner.tenant, owner=owner.name, after=known.seq)
    marks = await statements.select(connection, "demoted_since", tenant=owner.tenant, after=known.seq)
    return found, deaths, marks


def _object(text: str | None) -> Mapping[str, Json]:
    return rows.decoded(text) if text else {}


def _record(row: rows.Row) -> Record:
    return rows.record_of(row)
