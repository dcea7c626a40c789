"""Group commit: callers of one lane share a transaction, and one flush to disk serves them all.

1. A caller hears nothing before the transaction is durable, and hears an error if it did not become so.
2. A caller that goes away takes nothing back of what it handed in.
3. One caller's refusal leaves the others whole. Where the database itself refuses, each goes alone.
4. If the connection breaks during COMMIT, the chain is asked whether the entry is there: nobody gets a wrong answer.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from quipu.errors import BackendUnavailableError, QuipuError
from quipu.ledger import state as states
from quipu.ledger.commit import Commit
from quipu.ledger.decide import Caller, Random, decide
from quipu.ledger.driver import Driver, OutcomeUnknownError
from quipu.ledger.queries import SQL
from quipu.ledger.reader import Reader
from quipu.ledger.table import Table
from quipu.model.journal import Head

_GROUP = 256
#: So long a write is tried again while the database cannot be reached.
_PATIENCE_S = 10.0
_PAUSE_S = 0.05

R = TypeVar("R")
Work: TypeAlias = Callable[[Reader], tuple[Any, Sequence[Commit]]]
#: Tenant, its new position, and what was committed.
Durable: TypeAlias = Callable[[str, int, Sequence[Commit]], None]


@dataclass(slots=True, eq=False)
class Job:
    """One caller: its commits, or work that reads under the lock and answers the commits."""

    tenant: str
    future: asyncio.Future[Any]
    caller: Caller
    work: Work | None = None
    done: Any = None
    failure: Exception | None = None
    #: What was committed, once it is durable.
    commits: Sequence[Commit] = ()
    position: int = 0


class Groups:
    """The writers of one ledger."""

    def __init__(
        self, driver: Driver, tables: Sequence[Table[Any]], random: Random, durable: Durable
    ) -> None:
        self._driver, self._tables, self._random, self._durable = driver, tables, random, durable
        self.threads = ThreadPoolExecutor(driver.writers, "ledger-writer")
        self._lanes: dict[str, deque[Job]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def commit(self, tenant: str, caller: Caller) -> Any:
        return await self._handed_in(Job(tenant, asyncio.get_running_loop().create_future(), caller))

    async def locked(self, tenant: str, work: Work) -> Any:
        job = Job(tenant, asyncio.get_running_loop().create_future(), Caller(()), work=work)
        return await self._handed_in(job)

    async def close(self) -> None:
        """Finish what waits, then take no more."""
        self._is_closed = True
        await asyncio.gather(*self._running)
        self.threads.shutdown()

    async def _handed_in(self, job: Job) -> Any:
        if self._is_closed:
            raise closed()
        lane = self._driver.lane(job.tenant)
        if lane in self._lanes:
            self._lanes[lane].append(job)
        else:
            self._lanes[lane] = deque([job])
            task = asyncio.create_task(self._serve(lane))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return await job.future

    async def _serve(self, lane: str) -> None:
        queue = self._lanes[lane]
        while queue:
            group = [queue.popleft()]
            # Work reads the database, where its group's earlier writes do not stand yet: it goes alone.
            while queue and len(group) < _GROUP and group[0].work is None and queue[0].work is None:
                group.append(queue.popleft())
            try:
                await asyncio.get_running_loop().run_in_executor(self.threads, self._settle, lane, group)
            except RuntimeError:  # the program is ending, and Python starts no threads any more
                for job in group:
                    job.failure = closed()
            for job in group:
                if job.failure is None and job.commits:
                    self._durable(job.tenant, job.position, job.commits)
                if job.future.done():
                    continue
                if job.failure is None:
                    job.future.set_result(job.done)
                else:
                    job.future.set_exception(job.failure)
                    job.future.exception()  # a caller that has gone away leaves no warning behind
        del self._lanes[lane]

    # On a worker thread.

    def _settle(self, lane: str, group: Sequence[Job]) -> None:
        try:
            self._attempt(lane, group)
        except Exception as error:  # noqa: BLE001  handed to the callers
            if len(group) == 1 or isinstance(error, QuipuError):
                for (
                    job
                ) in group:  # a conflict among them was decided on writes that are not kept, so it is no news
                    job.failure = error
            else:
                for job in group:
                    self._settle(lane, [job])

    def _attempt(self, lane: str, group: Sequence[Job]) -> None:
        until = time.monotonic() + _PATIENCE_S
        while True:
            tied: dict[str, Head] = {}
            try:
                self._write(lane, group, tied)
            except OutcomeUnknownError as error:
                if self._is_durable(lane, tied, until):
                    return
                if time.monotonic() > until:
                    raise BackendUnavailableError(reason="unreachable") from error
            except BackendUnavailableError as error:
                if error.reason not in ("busy", "unreachable") or time.monotonic() > until:
                    raise
                time.sleep(_PAUSE_S)
            else:
                return

    def _write(self, lane: str, group: Sequence[Job], tied: dict[str, Head]) -> None:
        """One transaction. A file's group may hold several tenants; each has a chain of its own."""
        with self._driver.writing(lane) as cursor:
            for tenant in {job.tenant: None for job in group}:
                jobs = [job for job in group if job.tenant == tenant]
                callers = [job.caller for job in jobs]
                results: list[Any] = [None] * len(jobs)
                if work := jobs[0].work:
                    states.locked_head(cursor, tenant)
                    results[0], commits = work(Reader(cursor, tenant))
                    callers[0] = Caller(commits)
                wanted = [commit for caller in callers for commit in caller.commits]
                state = states.read_state(cursor, tenant, wanted, self._tables)
                outcomes = decide(state, callers, self._random)
                for job, caller, result, outcome in zip(jobs, callers, results, outcomes, strict=True):
                    job.failure = outcome if isinstance(outcome, Exception) else None
                    job.done = result if job.work else outcome
                    is_new = not isinstance(outcome, Exception) and any(
                        one.replayed is None for one in outcome
                    )
                    job.commits, job.position = (caller.commits if is_new else ()), state.head.seq
                if state.writes:
                    states.write(cursor, state)
                    tied[tenant] = state.head

    def alone(self, work: Callable[[], R], *, may_repeat: bool) -> R:
        """Short work outside of a group, on the thread that asks; tried again while the database cannot be reached."""
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return work()
            except OutcomeUnknownError as error:
                if not may_repeat or time.monotonic() > until:
                    raise _outcome_unknown() from error
            except BackendUnavailableError as error:
                if error.reason not in ("busy", "unreachable") or time.monotonic() > until:
                    raise
                time.sleep(_PAUSE_S)

    def _is_durable(self, lane: str, tied: dict[str, Head], until: float) -> bool:
        """How a commit ended that nobody heard the end of. Getting the head's lock means that it has ended."""
        while True:
            try:
                with self._driver.writing(lane) as cursor:
                    for tenant, head in tied.items():
                        states.locked_head(cursor, tenant)
                        row = cursor.row(SQL["entry_hash"], tenant=tenant, seq=head.seq)
                        return row is not None and bytes(row[0]) == head.hash
                    return True  # nothing was written
            except (BackendUnavailableError, OutcomeUnknownError) as error:
                if time.monotonic() > until:
                    raise _outcome_unknown() from error
                time.sleep(_PAUSE_S)


def closed() -> BackendUnavailableError:
    return BackendUnavailableError("The ledger is closed.", reason="closed")


def _outcome_unknown() -> BackendUnavailableError:
    return BackendUnavailableError(
        "The database went away during the commit; whether it was kept is not known.",
        reason="outcome_unknown",
        hint="Repeat the write with the same idempotency key.",
    )
