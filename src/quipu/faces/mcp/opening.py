"""What answers at /mcp, opened by the first who asks.

Loading the SDK takes half as long as everything else that a server starts with, and many a server never meets an MCP
client. So it is loaded when one comes: on a thread, since others want their answers meanwhile, and once for all who come
at the same time. A failure is told to them and to the log, and whoever comes next tries again.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Generic, Protocol, TypeVar

_log = logging.getLogger("quipu.mcp")


class Openable(Protocol):
    """Works for as long as its context is open."""

    def running(self) -> AbstractAsyncContextManager[None]: ...


T = TypeVar("T", bound=Openable)


class Opening(Generic[T]):
    """Closed with the server."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._end = asyncio.Event()
        self._opened: asyncio.Future[T] | None = None
        self._holding: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def lasting(self) -> AsyncGenerator[None]:
        """For as long as the server runs."""
        try:
            yield
        finally:
            self._end.set()
            if self._holding is not None:
                await self._holding

    async def opened(self) -> T:
        """What is open, opened now if need be."""
        if self._opened is None:
            self._opened = asyncio.get_running_loop().create_future()
            # In a context of its own: that of the request ends with it.
            self._holding = asyncio.create_task(self._hold(self._opened), context=contextvars.Context())
        # Whoever goes away meanwhile leaves it to the others.
        return await asyncio.shield(self._opened)

    async def _hold(self, opened: asyncio.Future[T]) -> None:
        """From the beginning to the end in one task: what the SDK opens, the same task has to close."""
        try:
            made = await asyncio.to_thread(self._made)
            async with made.running():
                opened.set_result(made)
                await self._end.wait()
        except Exception as error:  # noqa: BLE001  told to whoever waits
            # What failed is said too: a trace in the log has no messages.
            _log.exception("MCP cannot be spoken: %s", error)
            if not opened.done():
                opened.set_exception(error)
        finally:
            self._opened = None

    def _made(self) -> T:
        made = self._make()
        if gc.get_freeze_count():  # the program has settled; this belongs to what stays
            gc.collect()
            gc.freeze()
        return made
