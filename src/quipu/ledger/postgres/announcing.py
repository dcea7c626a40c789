"""Telling other processes that a tenant's chain has grown, and hearing it from them (NOTIFY and LISTEN).

1. An announcement is a hint: tenant and position, nothing else. Whoever hears it looks at the journal.
2. It is sent after the commit, apart from it: inside, it would make the commits of all tenants wait for one another.
3. Several commits of a tenant within a moment are announced once. One that is lost is made up for by the next, and by
   whoever looks at the journal now and then.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging

import psycopg
from psycopg import sql

from quipu.errors import QuipuError
from quipu.ledger.postgres import statements
from quipu.ledger.postgres.database import Database, Work
from quipu.ledger.postgres.statements import SQL
from quipu.ports.announcing import Told

_log = logging.getLogger("quipu.ledger")
#: Commits within so many seconds are told together.
_MOMENT_S = 0.02
_RETRY_S = (0.1, 5.0)
_CLOSE_S = 2.0


class Announcer:
    """Speaks and listens for one process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        schema = (database.place.schema or "").encode("utf-8")
        self.channel = f"quipu_{hashlib.sha256(schema).hexdigest()[:12]}"
        self._told: list[Told] = []
        self._grown: dict[str, int] = {}
        self._known: set[str] = set()
        self._telling: asyncio.Task[None] | None = None
        self._hearing: asyncio.Task[None] | None = None

    def on_commit(self, told: Told) -> None:
        """Call this one for every commit heard of, from now on."""
        self._told.append(told)

    def begin(self, tenant: str) -> None:
        """Start to listen, once somebody wants to know, on the loop that is running."""
        self._known.add(tenant)
        if self._told and self._hearing is None:
            self._hearing = asyncio.create_task(self._hear())

    def tell(self, tenant: str, seq: int) -> None:
        """A chain of ours has grown."""
        self._call(frozenset({tenant}))
        self._grown[tenant] = max(seq, self._grown.get(tenant, 0))
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell())

    async def close(self) -> None:
        """Say what is still to be said, then be quiet."""
        if self._telling is not None:
            await asyncio.wait([self._telling], timeout=_CLOSE_S)
        for task in (self._telling, self._hearing):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    def _call(self, tenants: frozenset[str]) -> None:
        for told in self._told:
            told(tenants)

    # -- telling ------------------------------------------------------------------------------------------------

    async def _tell(self) -> None:
        await asyncio.sleep(_MOMENT_S)
        while self._grown:
            payloads = [json.dumps({"tenant": tenant, "seq": seq}) for tenant, seq in self._grown.items()]
            self._grown.clear()
            try:
                await self._database.run(_announcing(self.channel, payloads))
            except QuipuError as error:
                _log.debug("a commit was not announced: %s", error.message)

    # -- hearing ------------------------------------------------------------------------------------------------

    async def _hear(self) -> None:
        """Listen for as long as the ledger is open; a broken line is taken up again."""
        wait = _RETRY_S[0]
        while True:
            try:
                connection = await self._database.connect()
                try:
                    await connection.execute(
                        sql.SQL(SQL["listen"]).format(channel=sql.Identifier(self.channel))
                    )
                    wait = _RETRY_S[0]
                    # Nobody knows what was said while nobody listened.
                    self._call(frozenset(self._known))
                    async for notice in connection.notifies():
                        self._heard(notice.payload)
                finally:
                    await connection.close()
            except (QuipuError, psycopg.Error):
                _log.debug("listening was broken off; trying again in %.1f s", wait)
            await asyncio.sleep(wait)
            wait = min(2 * wait, _RETRY_S[1])

    def _heard(self, payload: str) -> None:
        try:
            tenant = json.loads(payload)["tenant"]
        # Somebody else's, or nonsense, however deep: anybody who may connect may notify.
        except (ValueError, KeyError, TypeError, RecursionError):
            return
        if isinstance(tenant, str):
            self._call(frozenset({tenant}))


def _announcing(channel: str, payloads: list[str]) -> Work[int]:
    return lambda connection: statements.run(connection, "announce", channel=channel, payloads=payloads)
