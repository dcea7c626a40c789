"""Background jobs of a server: each by itself, again and again, none in the way of another or of a request."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
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


class Failure(str):
    """What went wrong with a job, as a stable word. It has been logged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """How a job goes."""

    name: str
    every_s: float
    is_running: bool = False
    #: When it last came to an end, well or not.
    ended_at: int | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class JobLog:
    """How the jobs of this process go. A program without a server has none."""

    clock: Callable[[], int]
    states: dict[str, JobState] = field(default_factory=dict[str, JobState])

    def knows(self, job: Job) -> None:
        self.states[job.name] = JobState(name=job.name, every_s=job.every_s)

    def began(self, job: Job) -> None:
        self.states[job.name] = replace(self.states[job.name], is_running=True)

    def ended(self, job: Job, failure: Failure | None) -> None:
        self.states[job.name] = replace(
            self.states[job.name], is_running=False, ended_at=self.clock(), failure=failure
        )


class Jobs:
    """Does jobs while it is open: `async with Jobs(...)`."""

    def __init__(
        self,
        jobs: Iterable[Job],
        log: JobLog | None = None,
        *,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`pause` waits; tests hand in one that does not."""
        self._jobs, self._pause = tuple(jobs), pause
        self._log = log or JobLog(lambda: 0)
        for job in self._jobs:
            if job.every_s > 0:
                self._log.knows(job)
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
            self._log.began(job)
            self._log.ended(job, await _quietly(job.name, job.work))

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

    async def done() -> Failure | None:
        places = asyncio.Semaphore(_AT_ONCE)

        async def one(tenant: str) -> Failure | None:
            async with places:
                return await _quietly(name, lambda: work(tenant))

        went = await asyncio.gather(*[one(tenant) for tenant in await tenants()])
        return next((failure for failure in went if failure is not None), None)

    return done


async def _quietly(name: str, work: Callable[[], Awaitable[object]]) -> Failure | None:
    """What goes wrong is logged by kind: it is tried again, and the server goes on."""
    try:
        done = await work()
    except QuipuError as error:
        _log.warning("The job %s failed: %s %s", name, error.code, error.reason or "")
        return Failure(error.reason or error.code)
    except Exception as error:  # noqa: BLE001  one job that is broken must not end the others
        _log.warning("The job %s failed: %s", name, type(error).__name__)
        return Failure("internal_error")
    return done if isinstance(done, Failure) else None
