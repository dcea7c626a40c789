"""The schema: made, brought up to date under a lock, and never touched when it is somebody else's or newer."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import LiteralString, cast

from psycopg import errors, sql

from quipu.errors import BackendUnavailableError
from quipu.ledger.postgres import statements
from quipu.ledger.postgres.database import check_pgvector, no_pgvector
from quipu.ledger.postgres.statements import SQL, Connection
from quipu.ledger.postgres.tables import TABLES
from quipu.ledger.postgres.transaction import transaction


def migrations() -> list[str]:
    """The steps from an empty schema to the current one; step n makes schema version n."""
    folder = files("quipu.ledger.postgres").joinpath("migrations")
    return [
        item.read_text("utf-8") for item in sorted(folder.iterdir(), key=str) if item.name.endswith(".sql")
    ]


async def version(connection: Connection, schema: str | None) -> int | None:
    """The version of the schema; None where there is nothing yet. Somebody else's is refused."""
    exists, is_ours, tables, is_open = await statements.first(connection, "nature", schema=schema) or (
        False,
        False,
        0,
        True,
    )
    if not is_open:
        raise errors.InsufficientPrivilege
    if is_ours:
        return int(await statements.scalar(connection, "schema_version"))
    if exists and tables:
        raise BackendUnavailableError(
            "This schema holds tables of another program.",
            reason="not_a_database",
            hint="Choose another one with `?schema=quipu` in the address. Nothing was touched.",
        )
    return None


async def check(connection: Connection, schema: str | None, known: int) -> None:
    """Refuse a schema that this program does not speak."""
    found = await version(connection, schema)
    if found is None:
        raise BackendUnavailableError(
            "There is no Quipu in this database yet.", reason="no_schema", hint="Run `quipu db init`."
        )
    if found > known:
        raise newer(found, known)
    if found < known:
        raise BackendUnavailableError(
            f"The database has schema {found}; this Quipu needs {known}.",
            reason="older_schema",
            hint="Run `quipu db migrate` once every server has been upgraded or stopped.",
        )
    if lost := await statements.select(connection, "untaken", schema=schema, tables=list(TABLES)):
        raise BackendUnavailableError(
            f"Part of the database's schema is missing: {lost[0][0]}.",
            reason="half_migrated",
            hint="It was restored or upgraded in part. Restore it from a backup; nothing was touched.",
        )
    check_pgvector(await statements.scalar(connection, "pgvector"))


def newer(found: int, known: int) -> BackendUnavailableError:
    return BackendUnavailableError(
        f"The database was upgraded by a newer Quipu (schema {found}; this one knows {known}).",
        reason="newer_schema",
        hint="Upgrade quipu-memory. The database was not touched.",
    )


async def migrate(
    connection: Connection, schema: str | None, steps: Sequence[str], *, may_create: bool, may_upgrade: bool
) -> int:
    """Take the steps that are missing, all or none, one process at a time; returns how many were taken."""
    found = await version(connection, schema)
    if found is not None and (found == len(steps) or not may_upgrade):
        await check(connection, schema, len(steps))
        return 0
    async with transaction(connection):
        await statements.run(connection, "lock_schema", schema=schema)
        # Another process may have done the work while this one waited for the lock.
        found = await version(connection, schema)
        if found is None and not may_create:
            await check(connection, schema, len(steps))
        if found is not None and (found >= len(steps) or not may_upgrade):
            await check(connection, schema, len(steps))
            return 0
        if found is None and schema is not None:
            await connection.execute(sql.SQL(SQL["make_schema"]).format(schema=sql.Identifier(schema)))
        await _take(connection, steps, found or 0)
        return len(steps) - (found or 0)


async def _take(connection: Connection, steps: Sequence[str], taken: int) -> None:
    if not taken:
        await _see_to_pgvector(connection)
    for number, step in enumerate(steps[taken:], start=taken + 1):
        await connection.execute(cast("LiteralString", step))  # ships with the package
        await statements.run(connection, "note_step", number=number)


async def _see_to_pgvector(connection: Connection) -> None:
    is_there, is_available = await statements.first(connection, "extension") or (False, False)
    if not is_there and not is_available:
        raise no_pgvector()
    if not is_there:
        try:
            async with connection.transaction():  # a savepoint: the transaction itself goes on
                await statements.run(connection, "add_extension")
        except errors.InsufficientPrivilege as error:
            raise no_pgvector() from error
