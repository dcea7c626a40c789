"""What an operator does to a database from outside: make it, upgrade it, look at it, spread it, index it, copy it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass

from psycopg import sql

from quipu.errors import BackendUnavailableError, UnsupportedError
from quipu.ledger.postgres import migrating, portable, statements
from quipu.ledger.postgres.database import Database, Place
from quipu.ledger.postgres.faults import translated
from quipu.ledger.postgres.nearness import index_name
from quipu.ledger.postgres.portable import ServerTables
from quipu.ledger.postgres.statements import SQL, Connection
from quipu.ledger.postgres.tables import TABLES
from quipu.ledger.postgres.transaction import transaction

#: The widest vectors that pgvector indexes.
_WIDEST = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How a database stands."""

    server: str
    pgvector: str | None
    citus: str | None
    is_replica: bool
    schema: str | None
    #: None: nothing has been made yet.
    version: int | None
    newest: int
    tenants: int
    #: Bytes by table, indexes included.
    sizes: Mapping[str, int]
    distributed: Sequence[str]
    indexes: Sequence[str]


@contextlib.asynccontextmanager
async def _connected(place: Place) -> AsyncGenerator[Connection]:
    """A connection for an operator's errand."""

    async def nothing(connection: Connection) -> None:
        """Whatever is there is for the errand to judge."""

    connection = await Database(place, size=1, prepare=nothing).connect()
    try:
        with translated():
            yield connection
    finally:
        await connection.close()


async def init(place: Place, steps: Sequence[str] | None = None) -> int:
    """Make the tables where there are none; harmless where they are. Returns how many steps were taken."""
    known = migrating.migrations() if steps is None else steps
    async with _connected(place) as connection:
        return await migrating.migrate(connection, place.schema, known, may_create=True, may_upgrade=False)


async def upgrade(place: Place, steps: Sequence[str] | None = None) -> int:
    """Take the steps that are missing. Returns how many there were."""
    known = migrating.migrations() if steps is None else steps
    async with _connected(place) as connection:
        return await migrating.migrate(connection, place.schema, known, may_create=False, may_upgrade=True)


async def status(place: Place) -> Status:
    async with _connected(place) as connection:
        about = await statements.first(connection, "about")
        if about is None:
            raise BackendUnavailableError("The server does not say what it is.", reason="unreachable")
        server, is_replica, schema, pgvector, citus = about
        version = await migrating.version(connection, place.schema)
        tenants, sizes, indexes, distributed = 0, {}, [], []
        if version is not None:
            tenants = len(await statements.select(connection, "tenants"))
            sizes = {
                row[0]: row[1] for row in await statements.select(connection, "sizes", tables=list(TABLES))
            }
            indexes = [row[0] for row in await statements.select(connection, "near_indexes")]
            if citus is not None:
                distributed = [row[0] for row in await statements.select(connection, "distributed")]
        return Status(
            server=server,
            pgvector=pgvector,
            citus=citus,
            is_replica=is_replica,
            schema=schema,
            version=version,
            newest=len(migrating.migrations()),
            tenants=tenants,
            sizes=sizes,
            distributed=distributed,
            indexes=indexes,
        )


async def distribute(place: Place) -> list[str]:
    """Spread every table by tenant, side by side, so that no statement of one tenant leaves its machine."""
    async with _connected(place) as connection:
        await migrating.check(connection, place.schema, len(migrating.migrations()))
        if not await statements.scalar(connection, "can_distribute"):
            raise UnsupportedError(
                "This server has no Citus.",
                reason="no_citus",
                hint="Preload citus on every machine, then create the extension `citus` in the database.",
            )
        done: list[str] = []
        await statements.run(connection, "allow_triggers")
        async with transaction(connection):
            await statements.run(connection, "drop_truncate_trigger")
            for table in TABLES:
                if not await statements.scalar(connection, "is_distributed", table=table):
                    beside = "default" if table == TABLES[0] else TABLES[0]
                    await statements.run(connection, "distribute", table=table, beside=beside)
                    done.append(table)
        for table in reversed(TABLES):
            await statements.run(connection, "clear_local", table=table)
        await statements.run(connection, "make_truncate_trigger")
        return done


async def index(place: Place) -> list[str]:
    """An HNSW index for every width of vector that some tenant uses; others go on reading and writing meanwhile."""
    async with _connected(place) as connection:
        await migrating.check(connection, place.schema, len(migrating.migrations()))
        made: list[str] = []
        for (dimensions,) in await statements.select(connection, "widths"):
            if dimensions > _WIDEST:
                continue
            name = index_name(dimensions)
            statement = sql.SQL(SQL["make_near_index"]).format(
                name=sql.Identifier(name), dimensions=sql.Literal(dimensions)
            )
            await connection.execute(statement)
            made.append(name)
        return made


@contextlib.asynccontextmanager
async def tables(place: Place, *, is_target: bool = False) -> AsyncGenerator[ServerTables]:
    """A database as tables, in one transaction; an empty one is made ready first if it is to be filled."""

    async def prepare(connection: Connection) -> None:
        await migrating.migrate(
            connection, place.schema, migrating.migrations(), may_create=is_target, may_upgrade=False
        )

    database = Database(place, size=1, prepare=prepare)
    try:
        async with portable.tables(database, is_target=is_target) as found:
            yield found
    finally:
        await database.close()
