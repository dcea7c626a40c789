"""An event loop in a thread of its own, and the way in for threads that cannot await.

1. A call that was handed over is answered: when the loop ends, whoever still waits is told that it is closed.
2. What the loop itself calls back, such as a progress, cannot wait for the loop: it is refused instead of hanging.
3. A forked child has the portal without its thread, and is told so.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from quipu.errors import BackendUnavailableError, InvalidError

T = TypeVar("T")

#: How long work that was interrupted may take to end.
_PATIENCE_S = 10.0
#: How long calls of other threads may go on when the loop is to end.
_LAST_S = 1.0


class Portal:
    """An event loop in a thread, and the way in. `what` it is of is told to who comes when it is closed."""

    def __init__(self, what: str) -> None:
        self._what, self._process = what, os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="quipu-portal", daemon=True)
        #: Held while work is handed over, so that none is that the loop will not come to; and while it is closed. The same
        #: thread may take them again: what a signal or the collector calls may come in between.
        self._handing, self._closing = threading.RLock(), threading.RLock()
        self._is_ending = False
        #: Calls under way; only the loop looks at it.
        self._calls: set[asyncio.Task[Any] | None] = set()
        self._started()

    def _started(self) -> None:
        try:
            self._thread.start()
        except RuntimeError as error:
            self._loop.close()
            if threading.main_thread().is_alive():
                raise
            raise self._too_late() from error  # Python 3.12 says it here, others where the file is read

    @property
    def is_closed(self) -> bool:
        return self._is_ending or not self._thread.is_alive()  # a forked child has not got the thread

    @property
    def is_within(self) -> bool:
        """Whether it is the loop that asks."""
        return threading.current_thread() is self._thread

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        if self.is_within:
            work.close()
            raise self._within()
        begun: list[asyncio.Task[Any] | None] = []
        has_ended = threading.Event()

        async def watched() -> T:
            begun.append(asyncio.current_task())
            try:
                return await self._called(work)
            finally:
                has_ended.set()

        waiting = watched()
        try:
            return self._handed(waiting).result()
        except BaseException:
            if not has_ended.is_set():
                self._interrupted(begun, has_ended)
            if not begun:
                waiting.close()
                work.close()
            raise

    def _interrupted(self, begun: list[asyncio.Task[Any] | None], has_ended: threading.Event) -> None:
        """An interrupted caller does not leave its work behind, nor goes on while it is still ending."""
        try:
            # The interrupt may have come while the work was being handed over: whether it was, the loop knows.
            self._handed(asyncio.sleep(0)).result()
        except BackendUnavailableError:  # the loop is ending, and with it the work
            return
        for task in begun:
            if task is not None and not has_ended.is_set():
                self._loop.call_soon_threadsafe(task.cancel)
                has_ended.wait(_PATIENCE_S)

    async def joined(self, work: Coroutine[Any, Any, T]) -> T:
        """The same for who waits on another event loop, which goes on meanwhile."""
        try:
            handed = self._handed(self._called(work))
        except BackendUnavailableError:
            work.close()
            raise
        return await asyncio.wrap_future(handed)

    def _handed(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        if not self.is_closed:  # a forked child may have the lock as a thread held it that it has not got
            with self._handing:
                if not self.is_closed:
                    return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        raise self._closed()

    async def _called(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        self._calls.add(task)
        try:
            return await work
        except asyncio.CancelledError:
            if self._is_ending:
                raise self._closed() from None
            raise
        except RuntimeError as error:
            if threading.main_thread().is_alive():
                raise
            # By now Python starts no threads any more, and the file is read and written on threads.
            raise self._too_late() from error
        finally:
            self._calls.discard(task)

    def _closed(self) -> BackendUnavailableError:
        is_forked = self._process != os.getpid()
        return BackendUnavailableError(
            f"This {self._what} was opened before this process was forked."
            if is_forked
            else f"This {self._what} is closed.",
            reason="closed",
            hint="Open it after the fork, in each process for itself." if is_forked else None,
        )

    def _too_late(self) -> BackendUnavailableError:
        return BackendUnavailableError(
            f"The program is ending, and this {self._what} with it.",
            reason="closed",
            hint="Use and close it before, such as by `with`: what `atexit` calls comes too late.",
        )

    def _within(self) -> InvalidError:
        return InvalidError(
            f"This {self._what} is waiting for the very function that calls it.",
            reason="bad_value",
            hint="Ask before or after the call: make a list of what is read before it is handed over.",
        )

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do the last work, and end the loop. Whoever closes at the same time waits until it has ended."""
        if self.is_within:
            raise self._within()
        if not self._thread.is_alive():
            return
        with self._closing:
            if self.is_closed:
                return
            try:
                self.run(last())
            finally:
                with self._handing:
                    self._is_ending = True
                    ending = asyncio.run_coroutine_threadsafe(self._settled(), self._loop)
                ending.result()
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
                self._loop.close()

    async def _settled(self) -> None:
        """Calls that somebody waits for, and streams that were left in the middle, end before their loop does."""
        await _ended(self._calls)
        try:
            async with asyncio.timeout(_LAST_S):
                await asyncio.get_running_loop().shutdown_asyncgens()
        except TimeoutError:
            pass
        await _ended(asyncio.all_tasks() - {asyncio.current_task()})


async def _ended(tasks: Collection[asyncio.Task[Any] | None]) -> None:
    """They have a moment to end by themselves."""
    waited_for = [task for task in tasks if task is not None]
    if not waited_for:
        return
    _, left = await asyncio.wait(waited_for, timeout=_LAST_S)
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=_PATIENCE_S)
