"""Taking dead rows away after an erasure: beside everybody's work, and soon rather than whenever the server gets to it."""

from __future__ import annotations

import asyncio
import logging

from psycopg import sql
from psycopg.errors import Diagnostic, InsufficientPrivilege

from quipu.errors import QuipuError
from quipu.ledger.postgres.database import Database
from quipu.ledger.postgres.statements import Connection
from quipu.ledger.postgres.tables import ERASABLE, over

_log = logging.getLogger("quipu.ledger")
#: How long closing the ledger waits for it; what is left is done by the server's own vacuum.
_PATIENCE_S = 10.0


async def vacuum(connection: Connection, statement: sql.Composed) -> None:
    """Vacuum tables. Where they are not the user's, the server passes them over with a remark: here that is an error."""
    passed_over = False

    def heed(remark: Diagnostic) -> None:
        nonlocal passed_over
        passed_over = passed_over or remark.severity_nonlocalized == "WARNING"

    connection.add_notice_handler(heed)
    try:
        await connection.execute(statement)
    finally:
        connection.remove_notice_handler(heed)
    if passed_over:
        raise InsufficientPrivilege


class Tidier:
    """Vacuums what an erasure has touched, one run at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._is_owed = False
        self._running: asyncio.Task[None] | None = None

    def soon(self) -> None:
        """Something was erased."""
        self._is_owed = True
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while self._is_owed:
            self._is_owed = False
            try:
                await self._database.run(lambda connection: vacuum(connection, over("tidy", ERASABLE)))
            except QuipuError as error:
                _log.warning("erased rows are left to the server's own vacuum: %s", error.message)

    async def close(self) -> None:
        if self._running is not None:
            await asyncio.wait([self._running], timeout=_PATIENCE_S)
            self._running.cancel()
