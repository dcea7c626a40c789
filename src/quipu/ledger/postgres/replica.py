"""Reading from a replica, where it has got as far as the reader has."""

from __future__ import annotations

import logging
import time

from quipu.errors import BackendUnavailableError
from quipu.ledger.postgres import statements
from quipu.ledger.postgres.database import Database

_log = logging.getLogger("quipu.ledger")
#: A replica that does not answer is left alone for so long.
_REST_S = 5.0


class Readers:
    """The primary, and perhaps a replica beside it."""

    def __init__(self, primary: Database, replica: Database | None) -> None:
        self._primary, self._replica = primary, replica
        #: The furthest position of each tenant that this process has written or read.
        self._seen: dict[str, int] = {}
        self._rests_until = 0.0

    def note(self, tenant: str, seq: int) -> None:
        """Nobody here is shown anything older from now on."""
        if self._replica is not None:
            self._seen[tenant] = max(seq, self._seen.get(tenant, 0))

    async def choose(self, tenant: str, seq: int | None = None) -> Database:
        """Where to read: the replica if it has reached the position, and all this process knows of; else the primary."""
        replica = self._replica
        if replica is None or time.monotonic() < self._rests_until:
            return self._primary
        try:
            head = await replica.run(lambda connection: statements.first(connection, "head", tenant=tenant))
        except BackendUnavailableError as error:
            self._rests_until = time.monotonic() + _REST_S
            _log.warning("the replica does not answer, reading from the primary: %s", error.message)
            return self._primary
        if head is None or head[0] < max(seq or 0, self._seen.get(tenant, 0)):
            return self._primary
        return replica

    async def close(self) -> None:
        if self._replica is not None:
            await self._replica.close()
