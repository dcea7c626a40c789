"""The one writer of a process: a thread that turns waiting jobs into transactions (group commit).

1. Jobs that wait while a transaction is being synced go into the next one together: one fsync serves them all.
2. When a job of a group fails, its own changes are undone and the others stand. A savepoint for each costs a third of
   the work and most groups need none, so a group is first done without; where a job fails, nothing of that stands, and
   the group is done again with a savepoint for each, as are those after it until none fails. So a job may be run twice.
3. A job's caller hears nothing before the transaction is durable, and hears an error if it did not become so.
4. A caller that goes away does not take back what was already handed over.
5. What callers that were answered together ask for next is handed over together, once all of them have had their
   turn: the thread then finds one group instead of one job and a crowd behind it, and the two threads do not get in each
   other's way. Where jobs of others are being done meanwhile, they are waited for too: else two groups would take turns
   for ever, each written while the next of the other is being prepared. A caller that is alone waits for nobody.
6. Who writes one record after the other, alone, does so on their own thread: waking another and being woken by it
   takes a fifth of the time. That holds up the event loop, so it is for small jobs of a task whose last one went
   through the same writer, only while the disk is quick, and never to wait for another process.
7. What is written to a file that is no longer at its place is lost with it, so such a write is refused. So is one to a
   file that a newer program has upgraded meanwhile: this one does not know what belongs to a row by now.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import apsw

from quipu.errors import BackendUnavailableError, QuipuError
from quipu.ledger.sqlite.file import BUSY_MS, meaning
from quipu.ledger.sqlite.identity import identity, is_elsewhere
from quipu.ledger.sqlite.log import Log

T = TypeVar("T")
#: What a job does inside the transaction.
Job = Callable[[apsw.Connection], T]

_GROUP = 512
_QUICK_S = 0.001


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

    def __init__(
        self,
        connection: apsw.Connection,
        log: Log,
        forget: Callable[[], None] = lambda: None,
        flush: Callable[[], None] = lambda: None,
        quick_s: float = _QUICK_S,
    ) -> None:
        """Takes the connection over: nobody else uses it from now on, and `close` closes it.

        `forget` is called when what jobs have read holds no more: somebody else has written, or changes are undone.
        `flush` is called before a transaction ends: jobs may have left something to be written for all of them.
        A transaction that takes less than `quick_s` may hold up an event loop.
        """
        self._connection, self._log, self._forget, self._flush = connection, log, forget, flush
        log.watch(connection)
        self._path = connection.filename
        self._opened = identity(self._path)
        self._schema = connection.pragma("user_version")
        self._jobs: queue.SimpleQueue[Sequence[_Waiting] | None] = queue.SimpleQueue()
        #: Jobs held back until everybody who was answered has had their turn, by event loop.
        self._held: dict[asyncio.AbstractEventLoop, list[_Waiting]] = {}
        #: How many jobs were handed over and not answered yet, by event loop.
        self._owed: Counter[asyncio.AbstractEventLoop] = Counter()
        self._is_closed = False
        #: A job of the last group failed, so one of the next may as well.
        self._is_wary = False
        #: SQLite's count of changes after our last transaction; none where what was read then is not to be relied on.
        self._left_at: int | None = None
        #: Held by whoever uses the connection.
        self._turn = threading.Lock()
        #: Who asked last, and whether the last transaction of one job was done quickly.
        self._asked_last: Callable[[], asyncio.Task[Any] | None] = lambda: None
        self._quick_s, self._is_quick = quick_s, False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="quipu-writer", daemon=True)
        self._thread.start()

    async def run(self, job: Job[T], *, alone: bool = False, is_small: bool = False) -> T:
        """What the job returned, once it is durable."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        waiting = _Waiting(job, loop.create_future(), loop, alone)
        if is_small and self._is_quick and task is not None and self._asked_last() is task:
            if self._do_at_once(waiting):
                await asyncio.sleep(0)  # the others of the event loop have their turn
                if waiting.failure is not None:
                    raise waiting.failure
                return waiting.result
        elif task is not None:
            self._asked_last = weakref.ref(task)
        with self._lock:
            if self._is_closed:
                raise BackendUnavailableError("The ledger is closed.", reason="closed")
            held = self._held.get(loop)
            if held is None:
                self._owed[loop] += 1
                self._jobs.put((waiting,))
            else:
                held.append(waiting)
        return await waiting.future

    def close(self) -> None:
        """Finish what waits, then stop."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                for loop in list(self._held):
                    self._hand_over(loop)
                self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        backlog: deque[_Waiting] = deque()
        is_open = True
        while is_open or backlog:
            is_open = is_open and self._take(backlog)
            group: list[_Waiting] = []
            while backlog and not backlog[0].is_alone and len(group) < _GROUP:
                group.append(backlog.popleft())
            if group:
                with self._turn:
                    self._commit(group)
                self._answer(group)
            elif backlog:
                alone = backlog.popleft()
                with self._turn:
                    self._run_alone(alone)
                self._answer([alone])
            if self._log.is_due:
                with self._turn:
                    self._log.shorten(self._connection)
        with self._turn:
            self._log.close()
            self._connection.close()

    def _take(self, backlog: deque[_Waiting]) -> bool:
        """Everything that waits already; where nothing does, what comes next. False when nothing more will come."""
        while True:
            try:
                arrived = self._jobs.get(block=not backlog)
            except queue.Empty:
                return True
            if arrived is None:
                return False
            backlog.extend(arrived)

    def _do_at_once(self, waiting: _Waiting) -> bool:
        """On the caller's own thread. False, and nothing was done, where somebody else writes or something is due."""
        if self._owed or self._log.is_due or not self._turn.acquire(blocking=False):
            return False
        try:
            return not self._is_closed and self._commit_or_leave(waiting)
        finally:
            self._turn.release()

    def _commit_or_leave(self, waiting: _Waiting) -> bool:
        """False, and nothing was done, where another process is writing: nobody waits for it here."""
        self._connection.set_busy_timeout(0)
        try:
            self._commit((waiting,))
        except BaseException:  # an interrupt reaches this thread, as it never does the writer's
            self._roll_back()
            raise
        finally:
            self._connection.set_busy_timeout(BUSY_MS)
        if waiting.failure is not None and isinstance(waiting.failure.__cause__, apsw.BusyError):
            waiting.failure = None
            return False
        return True

    def _commit(self, group: Sequence[_Waiting]) -> None:
        started = time.perf_counter()
        try:
            if len(group) == 1:  # it has the transaction to itself
                self._do_together(group)
                self._is_quick = time.perf_counter() - started < self._quick_s
            elif self._is_wary or not self._do_together(group):
                self._is_wary = not self._do_apart(group)
        except apsw.Error as error:
            self._is_quick = False
            self._roll_back()
            for waiting in group:
                waiting.failure = waiting.failure or _caused(error)
        self._log.tend()

    def _do_together(self, group: Sequence[_Waiting]) -> bool:
        """Whether none failed. When one does, nothing of any stands."""
        self._begin()
        last = group[-1]
        for waiting in group:
            self._do(waiting, flushes=waiting is last)
            if waiting.failure is not None:
                self._roll_back()
                return False
        self._end()
        return True

    def _do_apart(self, group: Sequence[_Waiting]) -> bool:
        """Each in a savepoint of its own. Whether none failed."""
        self._begin()
        for waiting in group:
            waiting.failure = None
            self._connection.execute("SAVEPOINT job")
            self._do(waiting, flushes=True)
            if waiting.failure is not None:
                self._connection.execute("ROLLBACK TO job")
                self._forget()
            self._connection.execute("RELEASE job")
        self._end()
        return all(waiting.failure is None for waiting in group)

    def _begin(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        if is_elsewhere(self._path, self._opened):
            raise apsw.exception_for(apsw.SQLITE_READONLY_DBMOVED)
        if self._connection.data_version() != self._left_at:
            if self._connection.pragma("user_version") != self._schema:
                raise apsw.SchemaChangeError
            self._forget()

    def _end(self) -> None:
        self._connection.execute("COMMIT")
        self._left_at = self._connection.data_version()

    def _do(self, waiting: _Waiting, *, flushes: bool) -> None:
        try:
            waiting.result = waiting.job(self._connection)
            if flushes:
                self._flush()
        except apsw.ConstraintError as error:
            waiting.failure = _caused(error)
        except apsw.Error:
            raise  # the file itself failed: nothing of the group can stand
        except Exception as error:  # noqa: BLE001  one caller's fault must not reach the others of its group
            waiting.failure = error

    def _run_alone(self, waiting: _Waiting) -> None:
        self._left_at = None
        self._forget()
        try:
            waiting.result = waiting.job(self._connection)
        except apsw.Error as error:
            self._roll_back()
            waiting.failure = _caused(error)
        except Exception as error:  # noqa: BLE001  the writer outlives a failed job
            self._roll_back()
            waiting.failure = error

    def _roll_back(self) -> None:
        self._left_at = None
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    # -- telling the callers, on their event loop -----------------------------------------------------------------

    def _answer(self, group: Sequence[_Waiting]) -> None:
        """Tell the callers, all of one event loop in one go."""
        for loop in {waiting.loop for waiting in group}:
            mine = [waiting for waiting in group if waiting.loop is loop]
            try:
                loop.call_soon_threadsafe(self._settle, loop, mine)
            except RuntimeError:  # a loop that has been closed has nobody left to tell
                with self._lock:
                    del self._owed[loop]

    def _settle(self, loop: asyncio.AbstractEventLoop, group: Sequence[_Waiting]) -> None:
        for waiting in group:
            if waiting.future.done():
                continue  # the caller has gone away
            if waiting.failure is not None:
                waiting.future.set_exception(waiting.failure)
            else:
                waiting.future.set_result(waiting.result)
        with self._lock:
            self._owed[loop] -= len(group)
            if not self._owed[loop]:
                del self._owed[loop]  # a loop that is done with is not held on to
            if len(group) == 1 and loop not in self._held:
                return
            self._held.setdefault(loop, [])
        loop.call_soon(self._end_of_turn, loop)  # behind the callers just woken

    def _end_of_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            if not self._owed[loop]:  # else it is done with what those who will be answered next ask for
                self._hand_over(loop)

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        if held := self._held.pop(loop, None):
            self._owed[loop] += len(held)
            self._jobs.put(held)


def _caused(error: apsw.Error) -> QuipuError:
    failure = meaning(error)
    failure.__cause__ = error
    return failure
