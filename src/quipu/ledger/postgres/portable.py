"""A database as tables: read at one moment, or filled in one transaction."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import LiteralString

from psycopg import sql

from quipu.ledger.postgres.database import Database
from quipu.ledger.postgres.statements import Connection
from quipu.ledger.postgres.transaction import moment, transaction
from quipu.ledger.postgres.turn import VECTOR_TYPES
from quipu.ledger.postgres.types import Vector
from quipu.ledger.queries import queries
from quipu.ledger.rows import Row
from quipu.ledger.transfer import TABLES

_SQL = queries("quipu.ledger.postgres", "portable.sql")
_PAGE = 2_000


class ServerTables:
    """The tables of one database, in the transaction of one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def _statement(self, name: str, table: LiteralString) -> sql.Composed:
        shape = TABLES[table]
        return sql.SQL(_SQL[name]).format(
            table=sql.Identifier("embedding" if table == "vector" else table),
            columns=sql.SQL(", ").join(map(sql.Identifier, shape.columns)),
            order=sql.SQL(", ").join(map(sql.Identifier, shape.order)),
        )

    async def tenants(self) -> Sequence[str]:
        found = await self._connection.execute(_SQL["tenant_names"])
        return [row[0] for row in await found.fetchall()]

    async def count(self, table: LiteralString, tenant: str) -> int:
        found = await self._connection.execute(self._statement("count", table), {"tenant": tenant})
        row = await found.fetchone()
        return 0 if row is None else row[0]

    async def dump(self, table: LiteralString, tenant: str) -> AsyncIterator[Sequence[Row]]:
        async with self._connection.cursor(name=f"dump_{table}", binary=True) as cursor:
            await cursor.execute(self._statement("dump", table), {"tenant": tenant})
            while page := await cursor.fetchmany(_PAGE):
                yield page

    async def restore(self, table: LiteralString, tenant: str, page: Sequence[Row]) -> None:
        is_vectors = table == "vector"
        statement = _SQL["restore_vectors"] if is_vectors else self._statement("restore", table)
        async with self._connection.cursor().copy(statement) as copy:
            if is_vectors:
                copy.set_types(VECTOR_TYPES)
            for row in page:
                await copy.write_row(_carried(table, row))

    async def finish(self, tenant: str) -> None:
        await self._connection.execute(_SQL["finish"], {"tenant": tenant})


def _carried(table: LiteralString, row: Row) -> Sequence[object]:
    """A row in the types of this database."""
    if table == "vector":
        return (*row[:3], Vector(row[3]))
    if table == "mark":
        place = TABLES["mark"].columns.index("demoted")
        return (*row[:place], bool(row[place]), *row[place + 1 :])
    return row


@contextlib.asynccontextmanager
async def tables(database: Database, *, is_target: bool = False) -> AsyncGenerator[ServerTables]:
    """All of it at one moment; or to be filled, and committed when nothing failed."""
    async with database.connection() as connection, (transaction if is_target else moment)(connection):
        await connection.execute(_SQL["unhurried"])
        if is_target:
            await connection.execute(_SQL["alone"])
        yield ServerTables(connection)
