"""The database's own check of what it keeps, as far as the server offers one."""

from __future__ import annotations

import psycopg
from psycopg import errors

from quipu.ledger.postgres import statements
from quipu.ledger.postgres.statements import Connection
from quipu.ledger.postgres.tables import TABLES, of
from quipu.model.outcomes import Fault

#: What a server says when what it reads cannot be right.
_DAMAGE = (errors.DataCorrupted, errors.IndexCorrupted, errors.IoError, errors.InternalError_)


async def integrity_faults(connection: Connection) -> list[Fault]:
    """Read every page (the server checks their sums), check the indexes where `amcheck` is installed, look for orphans."""
    faults: list[Fault] = []
    for table in TABLES:
        try:
            if table == "embedding":
                await statements.run(connection, "read_vectors")
            else:
                await connection.execute(of("read_whole", table))
        except _DAMAGE:
            faults.append(Fault(kind="damaged_file", detail=f"table {table} cannot be read whole"))
    try:
        if await statements.scalar(connection, "checker"):
            await statements.run(connection, "check_indexes", tables=list(TABLES))
    except _DAMAGE:
        faults.append(Fault(kind="damaged_file", detail="an index does not agree with its table"))
    except psycopg.errors.InsufficientPrivilege:
        pass  # the check is the operator's to allow; the pages were read all the same
    orphans = await statements.scalar(connection, "orphan_vectors")
    if orphans:
        detail = f"{orphans} vectors belong to no version; `quipu vacuum` drops them"
        faults.append(Fault(kind="index_differs", detail=detail))
    return faults
