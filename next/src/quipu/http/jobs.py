"""Background jobs of a server: each by itself, again and again, none in the way of another or of a request."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self

from quipu.errors import QuipuError

_log = logging.getLogger("quipu.jobs")
#: So many tenants are worked on at the same time.
_AT_ONCE = 16
#: So long the last run of a job may take.
_LAST_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Something to do every so often."""

    name: str
    #: Seconds from the end of one run to the next; 0: only at the end, if then.
    every_s: float
    work: Callable[[], Awaitable[object]]
    #: Whether it is done a last time when the server ends: a journal is signed to its last entry.
    is_last: bool = False


class Jobs:
    """Does jobs while it is open: `async with Jobs(...)`."""

    def __init__(
        self, jobs: Iterable[Job], *, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        """`pause` waits; tests hand in one that does not."""
        self._jobs, self._pause = tuple(jobs), pause
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [
            asyncio.create_task(self._repeated(job), name=job.name) for job in self._jobs if job.every_s > 0
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        for job in self._jobs:
            if job.is_last:
                await self._last(job)

    async def _repeated(self, job: Job) -> None:
        while True:
            await self._pause(job.every_s)
            await _quietly(job.name, job.work)

    async def _last(self, job: Job) -> None:
        try:
            async with asyncio.timeout(_LAST_S):
                await _quietly(job.name, job.work)
        except TimeoutError:
            _log.warning("The job %s was not done a last time: there was no time left.", job.name)


def for_each_tenant(
    name: str, tenants: Callable[[], Awaitable[Iterable[str]]], work: Callable[[str], Awaitable[Any]]
) -> Callable[[], Awaitable[object]]:
    """The work of a job over all tenants, side by side: one that is slow or broken keeps no other waiting."""

    async def done() -> None:
        places = asyncio.Semaphore(_AT_ONCE)

        async def one(tenant: str) -> None:
            async with places:
                await _quietly(name, lambda: work(tenant))

        await asyncio.gather(*[one(tenant) for tenant in await tenants()])

    return done


async def _quietly(name: str, work: Callable[[], Awaitable[object]]) -> None:
    """What goes wrong is logged by kind: it is tried again, and the server goes on."""
    try:
        await work()
    except QuipuError as error:
        _log.warning("The job %s failed: %s %s", name, error.code, error.reason or "")
    except Exception as error:  # noqa: BLE001  one job that is broken must not end the others
        _log.warning("The job %s failed: %s", name, type(error).__name__)
