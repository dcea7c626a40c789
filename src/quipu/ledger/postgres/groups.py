"""Group commit: callers that wait for the same tenant's turn share it, and one flush to disk serves them all.

1. A caller hears nothing before the transaction is durable, and hears an error if it did not become so.
2. A caller that goes away does not take back what was already handed over, nor what a commit brings with it.
3. When the server goes away before the commit, the turn is taken again. When it goes away during it, the chain itself
   is asked whether the knot was tied: nobody is told the wrong thing.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from quipu.errors import BackendUnavailableError
from quipu.ledger.postgres import statements
from quipu.ledger.postgres.database import RETURN_PATIENCE_S, Database
from quipu.ledger.postgres.faults import may_be_repeated
from quipu.ledger.postgres.statements import Connection
from quipu.ledger.postgres.transaction import transaction
from quipu.ledger.postgres.turn import Job, Turn
from quipu.ledger.postgres.working import Head
from quipu.model.change import Committed
from quipu.ports.surroundings import Canonical

_GROUP = 512


@dataclass(slots=True)
class _Waiting:
    job: Job
    future: asyncio.Future[Sequence[Committed]]


class Groups:
    """Callers waiting for turns, tenant by tenant."""

    def __init__(
        self, database: Database, canonical: Canonical, followed: Callable[[str, Job], None]
    ) -> None:
        """`followed` is told of every job that is durable, before its caller is."""
        self._database, self._canonical, self._followed = database, canonical, followed
        self._waiting: dict[str, deque[_Waiting]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def commit(self, tenant: str, job: Job) -> Sequence[Committed]:
        """What became of the job, once it is durable."""
        if self._is_closed:
            raise BackendUnavailableError("The ledger is closed.", reason="closed")
        waiting = _Waiting(job, asyncio.get_running_loop().create_future())
        queue = self._waiting.get(tenant)
        if queue is None:
            self._waiting[tenant] = deque([waiting])
            running = asyncio.create_task(self._serve(tenant))
            self._running.add(running)
            running.add_done_callback(self._running.discard)
        else:
            queue.append(waiting)
        return await waiting.future

    async def close(self) -> None:
        """Finish what waits, then take no more."""
        self._is_closed = True
        await asyncio.gather(*self._running)

    async def _serve(self, tenant: str) -> None:
        queue = self._waiting[tenant]
        while queue:
            group = [queue.popleft() for _ in range(min(len(queue), _GROUP))]
            await self._settle(tenant, group)
        del self._waiting[tenant]

    async def _settle(self, tenant: str, group: Sequence[_Waiting]) -> None:
        try:
            await self._committed(tenant, [waiting.job for waiting in group])
        except Exception as error:  # noqa: BLE001  told to every caller of the group
            for waiting in group:
                waiting.job.failure = waiting.job.failure or error
        loop = asyncio.get_running_loop()
        for waiting in group:
            if waiting.job.failure is None:
                loop.call_soon(self._followed, tenant, waiting.job)
            if waiting.future.done():
                continue  # the caller has gone away
            if waiting.job.failure is not None:
                waiting.future.set_exception(waiting.job.failure)
            else:
                waiting.future.set_result(waiting.job.done)

    async def _committed(self, tenant: str, jobs: Sequence[Job]) -> None:
        """All in one transaction; where the database refuses something nobody foresaw, each in its own."""
        try:
            await self._attempt(tenant, jobs)
        except BackendUnavailableError:
            raise
        except Exception:
            if len(jobs) == 1:
                raise
            for job in jobs:
                job.failure = None
                try:
                    await self._attempt(tenant, [job])
                except Exception as own:  # noqa: BLE001  told to this caller alone
                    job.failure = own

    async def _attempt(self, tenant: str, jobs: Sequence[Job]) -> None:
        until = time.monotonic() + RETURN_PATIENCE_S
        while True:
            tied: Head | None = None
            try:
                async with self._database.connection() as connection, transaction(connection):
                    turn = await Turn.take(connection, tenant, self._canonical)
                    await turn.apply(*jobs)
                    tied = turn.working.head
            except BackendUnavailableError as error:
                if not may_be_repeated(error) or (tied is None and time.monotonic() > until):
                    raise
                await self._database.wait_for_return()
                # However long it took: who was cut off during the commit is told how it ended.
                if tied is not None and await self._is_tied(tenant, tied):
                    return
                if time.monotonic() > until:
                    raise
                for job in jobs:
                    job.failure = None
            else:
                return

    async def _is_tied(self, tenant: str, tied: Head) -> bool:
        """Whether a commit nobody heard the end of was made. The lock makes sure that it has ended."""

        async def ask(connection: Connection) -> bool:
            async with transaction(connection):
                await statements.first(connection, "lock_head", tenant=tenant)
                found = await statements.scalar(connection, "entry_hash", tenant=tenant, seq=tied.seq)
                return found == tied.hash

        try:
            return await self._database.run(ask)
        except BackendUnavailableError as error:
            raise BackendUnavailableError(
                "The database went away during the commit; whether it was kept is not known.",
                reason="outcome_unknown",
                hint="Repeat the request with the same idempotency key.",
            ) from error
