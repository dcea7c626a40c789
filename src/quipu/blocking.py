"""A memory for code that does not await: one event loop in a thread of its own, and the way in.

1. A call that was handed over is answered: when the loop ends, whoever still waits gets an error that says so.
2. What the loop itself calls back cannot wait for the loop: it is refused instead of hanging.
3. A forked child has the object without its thread, and is refused.
4. An interrupted caller (Ctrl-C) does not leave its work running.
"""

import os
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from quipu.errors import BackendUnavailableError, InvalidError
from quipu.opening import AnyMemory, Runner

if TYPE_CHECKING:
    from quipu.transfer.model import ImportReport

T = TypeVar("T")

#: How long calls of other threads may go on when the loop is to end, and how long what was interrupted may take.
_LAST_S, _INTERRUPTED_S = 1.0, 10.0


class Portal:
    """An event loop in a thread, started by the first call."""

    def __init__(self) -> None:
        #: Held while work is handed over and while the loop is ended, so that no work is handed to a loop that ends.
        #: The same thread may take it again: what a signal or the garbage collector calls may come in between.
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._portal: BlockingPortal | None = None
        self._thread: threading.Thread | None = None
        #: Cancel scopes of the calls that are under way; touched by the loop only.
        self._calls: set[anyio.CancelScope] = set()
        self._idle: anyio.Event | None = None
        self._is_closed = False

    @property
    def is_within(self) -> bool:
        """Whether it is the loop that asks."""
        return threading.current_thread() is self._thread

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Wait for work that is done on the loop."""
        if self.is_within:
            raise _within()
        begun: list[anyio.CancelScope] = []
        has_ended = threading.Event()

        async def watched() -> T:
            with anyio.CancelScope() as scope:
                begun.append(scope)
                self._calls.add(scope)
                try:
                    return await work()
                finally:
                    self._calls.discard(scope)
                    if self._idle is not None and not self._calls:
                        self._idle.set()
                    has_ended.set()
            raise self._closed()  # its scope was cancelled

        try:
            return self._handed(watched).result()
        except CancelledError:
            raise self._closed() from None
        except RuntimeError as error:
            if threading.main_thread().is_alive():
                raise
            raise _too_late() from error  # Python starts no threads any more, and files are read on threads
        except BaseException:
            if not has_ended.is_set():  # the thread that waits was interrupted
                self._interrupt(begun, has_ended)
            raise

    def _interrupt(self, begun: list[anyio.CancelScope], has_ended: threading.Event) -> None:
        """Cancel the work and wait until it has ended. The interrupt may have come while it was being handed over."""

        async def cancel() -> None:
            for scope in begun:
                scope.cancel()

        with suppress(BackendUnavailableError):  # the loop is ending, and the work with it
            self._handed(cancel).result()
            if begun:
                has_ended.wait(_INTERRUPTED_S)

    def _handed(self, work: Callable[[], Awaitable[T]]) -> Future[T]:
        if self._process != os.getpid():  # before the lock: a thread that this process lacks may have held it
            if self._portal is not None:
                raise self._closed()
            self._process, self._lock = os.getpid(), threading.RLock()
        with self._lock:
            if self._is_closed:
                raise self._closed()
            return self._started().start_task_soon(work)

    def _started(self) -> BlockingPortal:
        if self._portal is not None:
            return self._portal
        ready = Future[BlockingPortal]()

        async def serve() -> None:
            async with BlockingPortal() as portal:
                ready.set_result(portal)
                await portal.sleep_until_stopped()

        # A thread of our own and not anyio's context manager, which a program that ends without closing would wait for.
        thread = threading.Thread(target=anyio.run, args=(serve,), name="quipu-portal", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            if threading.main_thread().is_alive():
                raise
            raise _too_late() from error
        self._portal, self._thread = ready.result(), thread
        return self._portal

    def close(self, last: Callable[[], Awaitable[None]]) -> None:
        """Do the last work and end the loop. Whoever closes at the same time waits until it has ended."""
        if self.is_within:
            raise _within()
        if self._process != os.getpid():
            return
        with self._lock:
            portal, thread = self._portal, self._thread
            if self._is_closed or portal is None or thread is None:
                self._is_closed = True
                return
            try:
                self.run(last)
            finally:
                self._is_closed = True
                portal.call(self._settled)
                portal.call(portal.stop, True)
                thread.join()

    async def _settled(self) -> None:
        """Calls that somebody waits for have a moment to end by themselves."""
        if not self._calls:
            return
        self._idle = anyio.Event()
        with anyio.move_on_after(_LAST_S):
            await self._idle.wait()
        for scope in tuple(self._calls):
            scope.cancel()

    def _closed(self) -> BackendUnavailableError:
        if self._process != os.getpid():
            return BackendUnavailableError(
                "This memory was opened before this process was forked.",
                reason="closed",
                hint="Open it after the fork, in each process for itself.",
            )
        return BackendUnavailableError("This memory is closed.", reason="closed", hint="Open another one.")


def _within() -> InvalidError:
    return InvalidError(
        "This memory is waiting for the very function that calls it.",
        reason="bad_value",
        hint="Call it before or after: make a list of what is read before it is handed over.",
    )


def _too_late() -> BackendUnavailableError:
    return BackendUnavailableError(
        "The program is ending, and this memory with it.",
        reason="closed",
        hint="Use and close it before, such as by `with`: what `atexit` calls comes too late.",
    )


class BlockingMemory(AnyMemory):
    """What every blocking memory has beside the methods of its operations."""

    def __init__(self, runner: Runner) -> None:
        super().__init__(runner)
        self._portal = Portal()

    def open(self) -> Self:
        """Open it now instead of at the first call, and see that it answers."""
        self._portal.run(self._runner.open)
        return self

    def close(self) -> None:
        """Close it for good. Closing twice does no harm."""
        self._portal.close(self._runner.close)

    def __enter__(self) -> Self:
        try:
            return self.open()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def call(self, name: str, /, *, strict: bool = True, **given: Any) -> Any:
        """Run any declared operation by its name, such as `call("rotate_token", id=…)`.

        name: The operation, as the reference lists it.
        strict: Off, fields that the operation does not have are left out; a warning in the answer names them.
        """
        return self._portal.run(lambda: self._runner.call(name, given, strict=strict))

    def health(self) -> dict[str, Any]:
        """How it is: `status`, and more where the caller may know."""
        return self._portal.run(self._runner.health)

    def _import_file(self, file: str | Path | bytes | BinaryIO, **options: Any) -> "ImportReport":
        return self._portal.run(lambda: self._runner.import_file(file, **options))

    def _run(
        self, name: str, given: Mapping[str, Any], *, first: str | None = None, request: Any = None
    ) -> Any:
        return self._portal.run(lambda: self._runner.run(name, given, first=first, request=request))

    def _stream(self, name: str, given: Mapping[str, Any]) -> Iterator[Any]:
        stream = self._runner.stream(name, given)
        try:
            while (item := self._portal.run(lambda: anext(stream, None))) is not None:
                yield item
        finally:
            # A reader that leaves early leaves nothing running. One that nobody has any more may be collected on the
            # loop's own thread, which then ends the stream itself.
            if not self._portal.is_within:
                with suppress(BackendUnavailableError):  # closed meanwhile, and the stream with it
                    self._portal.run(stream.aclose)
