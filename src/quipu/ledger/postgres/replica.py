"""Reading from a replica, where it has got as far as the reader has.

A replica that is away, or answers nobody, holds up those who ask just then, once and for seconds. From then on the primary
answers, until somebody who looks now and then, for nobody in particular, finds it there again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from quipu.errors import BackendUnavailableError
from quipu.ledger.postgres import statements
from quipu.ledger.postgres.database import Database

T = TypeVar("T")
_log = logging.getLogger("quipu.ledger")
#: How long a replica may take to say how far it is, and how long one that does not is left alone.
_PATIENCE_S = 3.0
_REST_S = 5.0


class Readers:
    """The primary, and perhaps a replica beside it."""

    def __init__(self, primary: Database, replica: Database | None) -> None:
        self._primary, self._replica = primary, replica
        #: The furthest position of each tenant that this process has written or read.
        self._seen: dict[str, int] = {}
        #: Tenants whose chains have grown by somebody's hand, nobody here knows how far.
        self._heard: set[str] = set()
        self._is_away, self._rests_until = False, 0.0
        self._looking: asyncio.Task[None] | None = None

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
        if replica is None:
            return self._primary
        if self._is_away:
            self._look_again(replica, tenant)
            return self._primary
        if tenant in self._heard:
            self._heard.discard(tenant)
            try:
                await self._ask_how_far(tenant)
            except BaseException:
                self._heard.add(tenant)
                raise
        try:
            head = await self._how_far(replica, tenant)
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

    @staticmethod
    async def _how_far(replica: Database, tenant: str) -> Sequence[Any] | None:
        """The head as the replica has it. One that does not answer in time is not waited for, not even to be cancelled."""
        asking = asyncio.ensure_future(
            replica.run(lambda connection: statements.first(connection, "head", tenant=tenant))
        )
        try:
            await asyncio.wait({asking}, timeout=_PATIENCE_S)
        finally:
            if not asking.done():
                asking.cancel()
                asking.add_done_callback(lambda task: task.cancelled() or task.exception())
        if asking.done():
            return asking.result()
        raise BackendUnavailableError("The replica did not answer in time.", reason="unreachable")

    def _leave_alone(self, error: BackendUnavailableError) -> None:
        if not self._is_away:
            _log.warning("the replica does not answer, reading from the primary: %s", error.message)
        self._is_away, self._rests_until = True, time.monotonic() + _REST_S

    def _look_again(self, replica: Database, tenant: str) -> None:
        """Whether it is there again; nobody waits for that."""
        is_at_it = self._looking is not None and not self._looking.done()
        if not is_at_it and time.monotonic() >= self._rests_until:
            self._looking = asyncio.create_task(self._looked(replica, tenant))

    async def _looked(self, replica: Database, tenant: str) -> None:
        try:
            await self._how_far(replica, tenant)
        except BackendUnavailableError as error:
            self._leave_alone(error)
        else:
            self._is_away = False
            _log.warning("the replica answers again")

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        if self._replica is not None:
            await self._replica.close()
