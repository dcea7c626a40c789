"""The one writer of a process: a thread that turns waiting jobs into transactions (group commit).

1. Jobs that wait while a transaction is being synced go into the next one together: one fsync serves them all.
2. Each job runs in a savepoint: when one fails, its own changes are undone and the others stand.
3. A job's caller hears nothing before the transaction is durable, and hears an error if it did not become so.
4. A caller that goes away does not take back what was already handed over.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import apsw

from quipu.errors import BackendUnavailableError, QuipuError
from quipu.ledger.sqlite.file import meaning

T = TypeVar("T")
#: What a job does inside the transaction.
Job = Callable[[apsw.Connection], T]

_GROUP = 512


@dataclass(slots=True)
class _Waiting:
    job: Job[Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    #: Runs outside any transaction (vacuum, emptying the log), alone.
    is_alone: bool
    result: Any = None
    failure: BaseException | None = None


class Writer:
    """Runs jobs on one connection, in order, in groups."""

    def __init__(self, connection: apsw.Connection) -> None:
        """Takes the connection over: nobody else uses it from now on, and `close` closes it."""
        self._connection = connection
        self._jobs: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._is_closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="quipu-writer", daemon=True)
        self._thread.start()

    async def run(self, job: Job[T], *, alone: bool = False) -> T:
        """What the job returned, once it is durable."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._lock:
            if self._is_closed:
                raise BackendUnavailableError("The ledger is closed.", reason="closed")
            self._jobs.put(_Waiting(job, future, loop, alone))
        return await future

    def close(self) -> None:
        """Finish what waits, then stop."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        is_open = True
        while is_open:
            first = self._jobs.get()
            if first is None:
                break
            group, alone, is_open = self._gather(first)
            if group:
                self._commit(group)
                _answer(group)
            if alone is not None:
                self._run_alone(alone)
                _answer([alone])
        self._connection.close()

    def _gather(self, first: _Waiting) -> tuple[list[_Waiting], _Waiting | None, bool]:
        """Everything that waits already, up to the next job that must run alone."""
        if first.is_alone:
            return [], first, True
        group = [first]
        while len(group) < _GROUP:
            try:
                waiting = self._jobs.get_nowait()
            except queue.Empty:
                return group, None, True
            if waiting is None:
                return group, None, False
            if waiting.is_alone:
                return group, waiting, True
            group.append(waiting)
        return group, None, True

    def _commit(self, group: Sequence[_Waiting]) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for waiting in group:
                self._attempt(waiting)
            self._connection.execute("COMMIT")
        except apsw.Error as error:
            self._roll_back()
            for waiting in group:
                waiting.failure = waiting.failure or _caused(error)

    def _attempt(self, waiting: _Waiting) -> None:
        self._connection.execute("SAVEPOINT job")
        try:
            waiting.result = waiting.job(self._connection)
        except apsw.ConstraintError as error:
            waiting.failure = _caused(error)
        except apsw.Error:
            raise  # the file itself failed: nothing of the group can stand
        except Exception as error:  # noqa: BLE001  one caller's fault must not reach the others of its group
            waiting.failure = error
        if waiting.failure is not None:
            self._connection.execute("ROLLBACK TO job")
        self._connection.execute("RELEASE job")

    def _run_alone(self, waiting: _Waiting) -> None:
        try:
            waiting.result = waiting.job(self._connection)
        except apsw.Error as error:
            self._roll_back()
            waiting.failure = _caused(error)
        except Exception as error:  # noqa: BLE001  the writer outlives a failed job
            self._roll_back()
            waiting.failure = error

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


def _answer(group: Sequence[_Waiting]) -> None:
    """Tell the callers, all of one event loop in one go."""
    for loop in {waiting.loop for waiting in group}:
        mine = [waiting for waiting in group if waiting.loop is loop]
        with contextlib.suppress(RuntimeError):  # a loop that has been closed has nobody left to tell
            loop.call_soon_threadsafe(_settle, mine)


def _settle(group: Sequence[_Waiting]) -> None:
    for waiting in group:
        if waiting.future.done():
            continue  # the caller has gone away
        if waiting.failure is not None:
            waiting.future.set_exception(waiting.failure)
        else:
            waiting.future.set_result(waiting.result)


def _caused(error: apsw.Error) -> QuipuError:
    failure = meaning(error)
    failure.__cause__ = error
    return failure
