"""Connections to one database: a pool that is opened when it is first used and outlives restarts of the server."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from psycopg import AsyncConnection, sql
from psycopg.adapt import AdaptersMap
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types import TypeInfo
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from quipu.errors import BackendUnavailableError
from quipu.ledger.postgres import statements
from quipu.ledger.postgres.faults import may_be_repeated, translated
from quipu.ledger.postgres.statements import Connection
from quipu.ledger.postgres.types import adapted

T = TypeVar("T")
#: What is done with a connection.
Work = Callable[[Connection], Awaitable[T]]

#: How long a write waits for the tenant's turn, and how long a transaction of ours may stand still.
LOCK_PATIENCE_MS = 30_000
_IDLE_MS = 60_000
#: How long a server that went away is waited for.
RETURN_PATIENCE_S = 15.0
_OLDEST_SERVER: Final = 14
_OLDEST_PGVECTOR: Final = (0, 8)
_CONNECT_S = 10
#: A server whose machine has gone without a word is noticed in half a minute; by itself TCP takes a quarter of an hour,
#: and who only listens never notices. What an address says about it wins.
_NOTICED: Final = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
#: How texts travel, whatever the environment or the database is set to.
_TEXTS: Final = "utf8"
#: How long the pool is asked before somebody looks whether the server is there at all.
_SOON_S = 1.0


@dataclass(frozen=True, slots=True)
class Place:
    """Which database, and which schema in it (None: the user's own search path)."""

    conninfo: str
    schema: str | None = None

    @property
    def search_path(self) -> str | None:
        # Other extensions live in `public` unless somebody moved them; where pgvector lives is asked for.
        return None if self.schema is None else f"{sql.Identifier(self.schema).as_string(None)}, public"


class Database:
    """One database and the connections to it."""

    def __init__(
        self, place: Place, *, size: int, prepare: Work[None], patience_s: float = RETURN_PATIENCE_S
    ) -> None:
        """`prepare` is done once, on the first connection, before anything else."""
        self._patience_s = patience_s
        self.place = place
        self._size = size
        self._prepare = prepare
        self._pool: AsyncConnectionPool[Connection] | None = None
        self._opening = asyncio.Lock()
        self._is_closed = False
        self._in_use = 0
        self._adapters: AdaptersMap | None = None

    # -- connections --------------------------------------------------------------------------------------------

    async def connect(
        self, connect_timeout: int = _CONNECT_S, context: AdaptersMap | None = None
    ) -> Connection:
        """A connection of one's own, outside the pool; says clearly why there is none."""
        with translated():
            address = _with(self.place.conninfo, connect_timeout=connect_timeout, **_NOTICED)
            connection = await AsyncConnection.connect(
                address, autocommit=True, client_encoding=_TEXTS, context=context
            )
            try:
                check_server(connection.info.server_version)
                check_encoding(connection.info.parameter_status("server_encoding"))
                await self._configure(connection)
            except BaseException:
                await connection.close()
                raise
            return connection

    async def _configure(self, connection: Connection) -> None:
        await statements.run(
            connection,
            "session",
            patience=f"{LOCK_PATIENCE_MS}ms",
            idle=f"{_IDLE_MS}ms",
            path=self.place.search_path,
        )

    async def _opened(self) -> AsyncConnectionPool[Connection]:
        if self._is_closed:
            raise BackendUnavailableError("The ledger is closed.", reason="closed")
        if self._pool is None:
            async with self._opening:
                if self._pool is None:
                    self._pool = await self._open()
        return self._pool

    async def _open(self) -> AsyncConnectionPool[Connection]:
        connection = await self.connect()
        try:
            with translated():
                await self._prepare(connection)
                vector = await TypeInfo.fetch(connection, "vector")
        finally:
            await connection.close()
        if vector is None:
            raise no_pgvector()
        self._adapters = adapted(vector)
        pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            _with(self.place.conninfo, **_NOTICED),
            kwargs={"autocommit": True, "client_encoding": _TEXTS, "context": self._adapters},
            min_size=min(2, self._size),
            max_size=self._size,
            configure=self._configure,
            open=False,
            name="quipu",
        )
        await pool.open()
        return pool

    async def close(self) -> None:
        self._is_closed = True
        async with self._opening:
            if self._pool is not None:
                await self._pool.close()

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection]:
        """One of the pool's."""
        pool = await self._opened()
        with translated():
            connection, is_own = await self._given(pool)
            self._in_use += 1
            try:
                yield connection
            finally:
                self._in_use -= 1
                if is_own:
                    await connection.close()
                else:
                    # To its end, though the caller may be cancelled meanwhile: else the pool is one short for good.
                    await asyncio.shield(pool.putconn(connection))

    async def _given(self, pool: AsyncConnectionPool[Connection]) -> tuple[Connection, bool]:
        """A connection of the pool's; or one of one's own, while the pool has not noticed yet that the server is back."""
        until = time.monotonic() + self._patience_s
        while True:
            try:
                return await pool.getconn(timeout=_SOON_S), False
            except PoolTimeout as error:
                if self._in_use < self._size:
                    return await self.connect(connect_timeout=2, context=self._adapters), True
                if time.monotonic() > until:
                    raise BackendUnavailableError(
                        "Every connection of this process is at work, and none came back in time.",
                        reason="too_many_connections",
                        hint="Try again; if it happens often, raise QUIPU_POOL_SIZE or run another server.",
                    ) from error

    async def run(self, work: Work[T]) -> T:
        """Work that may be done again: when the server has gone away it is repeated once it is back."""
        until = time.monotonic() + self._patience_s
        while True:
            try:
                async with self.connection() as connection:
                    return await work(connection)
            except BackendUnavailableError as error:
                # A server that never answered is not waited for: most likely the address is wrong.
                if self._pool is None or not may_be_repeated(error) or time.monotonic() > until:
                    raise
                await self.wait_for_return()

    async def wait_for_return(self) -> None:
        """Throw away connections that are dead, so that the next one is not."""
        if self._pool is not None and not self._is_closed:
            # To its end as well: it has all idle connections in hand.
            await asyncio.shield(self._pool.check())
            await asyncio.sleep(0.05)


def _with(address: str, **wanted: int) -> str:
    """The address, with settings that it does not have itself."""
    given = conninfo_to_dict(address)
    return make_conninfo(address, **{name: value for name, value in wanted.items() if name not in given})


def check_server(version: int) -> None:
    """Refuse a server that lacks what the statements use; its version as it tells it itself, 140005 for 14.5."""
    if version < _OLDEST_SERVER * 10_000:
        raise BackendUnavailableError(
            f"The server runs PostgreSQL {version // 10_000}; {_OLDEST_SERVER} or newer is needed.",
            reason="old_server",
            hint="Upgrade the server. The database was not touched.",
        )


def check_encoding(encoding: str | None) -> None:
    """Refuse a database that cannot keep every text; its encoding as the server tells it, if it does."""
    if encoding not in (None, "UTF8"):
        raise BackendUnavailableError(
            f"The database keeps texts as {encoding}; UTF8 is needed.",
            reason="not_utf8",
            hint="Make one with `createdb --encoding=UTF8 --template=template0`. This one was not touched.",
        )


def check_pgvector(version: str | None) -> None:
    """Refuse an extension that cannot search with restrictions."""
    if version is None:
        raise no_pgvector()
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if numbers < _OLDEST_PGVECTOR:
        raise BackendUnavailableError(
            f"The database has pgvector {version}; {'.'.join(map(str, _OLDEST_PGVECTOR))} or newer is needed.",
            reason="old_pgvector",
            hint="Install a newer one, then run `ALTER EXTENSION vector UPDATE` in the database.",
        )


def no_pgvector() -> BackendUnavailableError:
    return BackendUnavailableError(
        "This database has no pgvector.",
        reason="no_pgvector",
        hint="Install it on the server; then let somebody who may create the extension `vector` in the database.",
    )
