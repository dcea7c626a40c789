"""Reading from a replica, where it has got as far as the reader has."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from quipu.errors import BackendUnavailableError
from quipu.ledger.postgres import statements
from quipu.ledger.postgres.database import Database

T = TypeVar("T")
_log = logging.getLogger("quipu.ledger")
#: A replica that does not answer is left alone for so long.
_REST_S = 5.0


class Readers:
    """The primary, and perhaps a replica beside it."""

    def __init__(self, primary: Database, replica: Database | None) -> None:
        self._primary, self._replica = primary, replica
        #: The furthest position of each tenant that this process has written or read.
        self._seen: dict[str, int] = {}
        #: Tenants whose chains have grown by somebody's hand, nobody here knows how far.
        self._heard: set[str] = set()
        self._rests_until = 0.0

    def note(self, tenant: str, seq: int) -> None:
        """Nobody here is shown anything older from now on."""
        if self._replica is not None:
            self._seen[tenant] = max(seq, self._seen.get(tenant, 0))

    def heard(self, tenants: frozenset[str]) -> None:
        """Somebody has written, perhaps erased: how far their chains have come is asked before they are read again."""
        if self._replica is not None:
            self._heard |= tenants

    async def choose(self, tenant: str, seq: int | None = None) -> Database:
        """Where to read: the replica if it has reached the position, and all this process knows of; else the primary."""
        replica = self._replica
        if replica is None or time.monotonic() < self._rests_until:
            return self._primary
        if tenant in self._heard:
            self._heard.discard(tenant)
            try:
                await self._ask_how_far(tenant)
            except BaseException:
                self._heard.add(tenant)
                raise
        try:
            head = await replica.run(lambda connection: statements.first(connection, "head", tenant=tenant))
        except BackendUnavailableError as error:
            self._leave_alone(error)
            return self._primary
        if head is None or head[0] < max(seq or 0, self._seen.get(tenant, 0)):
            return self._primary
        return replica

    async def _ask_how_far(self, tenant: str) -> None:
        head = await self._primary.run(lambda connection: statements.first(connection, "head", tenant=tenant))
        if head is not None:
            self.note(tenant, head[0])

    async def read(self, tenant: str, seq: int | None, work: Callable[[Database], Awaitable[T]]) -> T:
        """What is read near; a replica that breaks it off (it may, to get on with its own work) is made up for."""
        near = await self.choose(tenant, seq)
        try:
            return await work(near)
        except BackendUnavailableError as error:
            if near is self._primary:
                raise
            self._leave_alone(error)
        return await work(self._primary)

    def _leave_alone(self, error: BackendUnavailableError) -> None:
        self._rests_until = time.monotonic() + _REST_S
        _log.warning("the replica does not answer, reading from the primary: %s", error.message)

    async def close(self) -> None:
        if self._replica is not None:
            await self._replica.close()
