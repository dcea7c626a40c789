"""Transactions that end as they say: psycopg's own ends in silence when the line has gone dead meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager

import psycopg

from quipu.ledger.postgres.statements import SQL, Connection


def transaction(connection: Connection) -> AbstractAsyncContextManager[None]:
    """All or nothing; leaving it without an error means that it is durable."""
    return _between(connection, "begin")


def moment(connection: Connection) -> AbstractAsyncContextManager[None]:
    """Reads, all of one moment."""
    return _between(connection, "begin_moment")


@contextlib.asynccontextmanager
async def _between(connection: Connection, begin: str) -> AsyncGenerator[None]:
    await connection.execute(SQL[begin], prepare=False)
    try:
        yield
    except BaseException:
        with contextlib.suppress(psycopg.Error):  # the reason is the one that is told
            await connection.rollback()
        raise
    ended = await connection.execute(SQL["commit"], prepare=False)
    if ended.statusmessage != "COMMIT":
        raise psycopg.errors.InFailedSqlTransaction
