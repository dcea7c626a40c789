"""The one writer of a process: a thread that turns waiting jobs into transactions (group commit).

1. Jobs that wait while a transaction is being synced go into the next one together: one fsync serves them all.
2. Each job runs in a savepoint: when one fails, its own changes are undone and the others stand.
3. A job's caller hears nothing before the transaction is durable, and hears an error if it did not become so.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
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
    future: Future[Any]
    #: Runs outside any transaction (backup, vacuum), alone.
    is_alone: bool
    result: Any = None


class Writer:
    """Runs jobs on one connection, in order, in groups."""

    def __init__(self, connect: Callable[[], apsw.Connection]) -> None:
        self._connect = connect
        self._jobs: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._is_closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="quipu-writer", daemon=True)
        self._thread.start()

    def submit(self, job: Job[T], *, alone: bool = False) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            if self._is_closed:
                raise BackendUnavailableError("The ledger is closed.", reason="closed")
            self._jobs.put(_Waiting(job, future, alone))
        return future

    def close(self) -> None:
        """Finish what waits, then stop."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        connection = self._connect()
        is_open = True
        while is_open:
            first = self._jobs.get()
            if first is None:
                break
            group, alone, is_open = self._gather(first)
            if group:
                self._commit(connection, group)
            if alone is not None:
                self._run_alone(connection, alone)
        connection.close()

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

    def _commit(self, connection: apsw.Connection, group: list[_Waiting]) -> None:
        try:
            connection.execute("BEGIN IMMEDIATE")
            succeeded = [waiting for waiting in group if self._attempt(connection, waiting)]
            connection.execute("COMMIT")
        except apsw.Error as error:
            self._roll_back(connection)
            for waiting in group:
                if not waiting.future.done():
                    waiting.future.set_exception(_caused(error))
        else:
            for waiting in succeeded:
                waiting.future.set_result(waiting.result)

    def _attempt(self, connection: apsw.Connection, waiting: _Waiting) -> bool:
        if not waiting.future.set_running_or_notify_cancel():
            return False
        connection.execute("SAVEPOINT job")
        try:
            waiting.result = waiting.job(connection)
        except apsw.ConstraintError as error:
            failure: Exception = _caused(error)
        except apsw.Error:
            raise  # the file itself failed: nothing of the group can stand
        except Exception as error:  # noqa: BLE001  one caller's fault must not reach the others of its group
            failure = error
        else:
            connection.execute("RELEASE job")
            return True
        connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")
        waiting.future.set_exception(failure)
        return False

    def _run_alone(self, connection: apsw.Connection, waiting: _Waiting) -> None:
        if not waiting.future.set_running_or_notify_cancel():
            return
        try:
            waiting.future.set_result(waiting.job(connection))
        except apsw.Error as error:
            self._roll_back(connection)
            waiting.future.set_exception(_caused(error))
        except Exception as error:  # noqa: BLE001  the writer outlives a failed job
            self._roll_back(connection)
            waiting.future.set_exception(error)

    @staticmethod
    def _roll_back(connection: apsw.Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _caused(error: apsw.Error) -> QuipuError:
    failure = meaning(error)
    failure.__cause__ = error
    return failure
