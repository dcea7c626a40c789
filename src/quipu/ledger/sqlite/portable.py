"""A file as tables: read at one moment, or written as a whole and put in place when it is complete."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import LiteralString, TypeVar, cast

import apsw

from quipu.ledger.queries import queries
from quipu.ledger.rows import Row
from quipu.ledger.sqlite import drafts, file
from quipu.ledger.transfer import TABLES

T = TypeVar("T")
_SQL = queries("quipu.ledger.sqlite", "portable.sql")
_PAGE = 2_000


class FileTables:
    """The tables of one file, on a connection that nobody else uses."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._offsets: dict[str, int] = {}

    async def _run(self, work: Callable[[], T]) -> T:
        def translated() -> T:
            with file.translated():
                return work()

        return await asyncio.to_thread(translated)

    async def tenants(self) -> Sequence[str]:
        found = await self._run(lambda: self._connection.execute(_SQL["tenant_names"]).fetchall())
        return [str(row[0]) for row in found]

    async def count(self, table: LiteralString, tenant: str) -> int:
        statement = _SQL["count_dumped_vectors"] if table == "vector" else _SQL["count"].format(table=table)
        found = await self._run(lambda: self._connection.execute(statement, {"tenant": tenant}).fetchall())
        return cast("int", found[0][0])

    async def dump(self, table: LiteralString, tenant: str) -> AsyncIterator[Sequence[Row]]:
        shape = TABLES[table]
        statement = (
            _SQL["dump_vectors"]
            if table == "vector"
            else _SQL["dump"].format(
                table=table, columns=", ".join(shape.columns), order=", ".join(shape.order)
            )
        )
        cursor = self._connection.cursor()
        await self._run(lambda: cursor.execute(statement, {"tenant": tenant}))
        while page := await self._run(lambda: list(islice(cursor, _PAGE))):
            yield page

    async def restore(self, table: LiteralString, tenant: str, page: Sequence[Row]) -> None:
        await self._run(lambda: self._insert(table, tenant, page))

    def _insert(self, table: LiteralString, tenant: str, page: Sequence[Row]) -> None:
        if table in ("record", "vector") and tenant not in self._offsets:
            self._offsets[tenant] = cast("int", self._connection.execute(_SQL["row_offset"]).fetchall()[0][0])
        if table == "vector":
            offset = self._offsets[tenant]
            slots = [(2 * (row + offset) + space % 2, space, data) for _, row, space, data in page]
            self._connection.executemany(_SQL["restore_vector"], slots)
            return
        columns = TABLES[table].columns
        statement = _SQL["restore"].format(
            table=table, columns=", ".join(columns), values=", ".join(["?"] * len(columns))
        )
        if table == "record":
            page = [(row[0] + self._offsets[tenant], *row[1:]) for row in page]
        self._connection.executemany(statement, [tuple(row) for row in page])

    async def finish(self, tenant: str) -> None:
        """Nothing is left to do in a file."""


@contextlib.asynccontextmanager
async def reading(path: Path) -> AsyncGenerator[FileTables]:
    """A file as it is at this moment; others may go on writing."""
    await asyncio.to_thread(file.prepare, path, file.migrations())
    connection = file.connect(path, is_reader=True)
    try:
        with file.translated():
            connection.execute("BEGIN")
        yield FileTables(connection)
    finally:
        connection.close()


@contextlib.asynccontextmanager
async def archive(path: Path) -> AsyncGenerator[FileTables]:
    """A new file, which is there once everything is in it, and not at all when something fails."""
    draft: Path | None = None
    try:
        draft = await asyncio.to_thread(_begun, path)
        connection = await asyncio.to_thread(_opened, draft)
        try:
            yield FileTables(connection)
            await asyncio.to_thread(_ended, connection)
        finally:
            connection.close()
        await asyncio.to_thread(drafts.put, draft, path)
    except (OSError, apsw.Error) as error:
        raise drafts.refusal("The copy could not be written to", path, error) from error
    finally:
        if draft is not None:
            await asyncio.to_thread(drafts.cleared, draft)


def _begun(path: Path) -> Path:
    drafts.check_free(path)
    return drafts.begun(path)


def _opened(draft: Path) -> apsw.Connection:
    file.prepare(draft, file.migrations(), is_durable=False)
    connection = file.connect(draft, is_durable=False)
    connection.execute("BEGIN IMMEDIATE")
    return connection


def _ended(connection: apsw.Connection) -> None:
    """Everything in one plain file, on disk."""
    connection.execute("COMMIT")
    connection.pragma("synchronous", "FULL")
    connection.pragma("journal_mode", "delete")
