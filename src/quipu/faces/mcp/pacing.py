"""How often a listener is told: of a recall that many writes touch, once in a second, and of the last one always."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final

#: Seconds between two notices of the same recall (contract, section 6.3).
APART_S: Final = 1.0


class Paced:
    """Stands between the journal and one stream: `async with Paced(send, is_paced) as notices: ...`.

    A notice that comes too early is not lost: it is sent when its second is over, once for all that came meanwhile.
    """

    def __init__(self, send: Callable[[str], Awaitable[None]], is_paced: Callable[[str], bool]) -> None:
        self._send, self._is_paced = send, is_paced
        self._last: dict[str, float] = {}
        self._waiting: dict[str, asyncio.Task[None]] = {}

    async def tell(self, uri: str) -> None:
        """That it changed."""
        if not self._is_paced(uri):
            await self._send(uri)
            return
        if uri in self._waiting:
            return
        last = self._last.get(uri)
        left = 0.0 if last is None else last + APART_S - time.monotonic()
        if left > 0:
            self._waiting[uri] = asyncio.create_task(self._later(uri, left))
            return
        self._last[uri] = time.monotonic()
        await self._send(uri)

    async def _later(self, uri: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        del self._waiting[uri]
        self._last[uri] = time.monotonic()
        await self._send(uri)

    async def __aenter__(self) -> Paced:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        waiting = list(self._waiting.values())
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
