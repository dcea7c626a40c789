"""A window that overflows is settled at once, in the background: no push waits for it (memorywire contract 8).

1. The ledger tells what was committed; a push is only counted. Whether a window is over is asked afterwards.
2. A window is counted when it may be over by what is known here, and every tenth of it, since others push as well.
3. One window at a time, and settling takes a fifth of the time at most, however many push.
4. At the end what overflowed is still settled, for as long as somebody may be kept waiting.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from quipu.errors import QuipuError
from quipu.model.change import Commit
from quipu.ports.parts import Parts
from quipu.rules.pushing import is_push
from quipu.service.consolidating_windows import Window, Windows, window_of

_log = logging.getLogger("quipu.consolidation")
Settle: TypeAlias = Callable[[Window], Awaitable[object]]
#: So many windows are known by their size; of others it is asked again.
_KNOWN: Final = 10_000
_REST: Final = 4
_LONGEST_REST_S: Final = 10.0
_CLOSE_S: Final = 5.0


@dataclass(slots=True)
class _Size:
    """How many a window had when it was counted, and how many were pushed into it here since."""

    counted: int
    pushed: int = 0


class Overflowing:
    """Watches what is pushed, and has full windows settled."""

    def __init__(self, parts: Parts, windows: Windows, settle: Settle) -> None:
        self._parts, self._windows, self._settle = parts, windows, settle
        self._due: Counter[Window] = Counter()
        self._sizes: OrderedDict[Window, _Size] = OrderedDict()
        self._worker: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def written(self, commits: Sequence[Commit]) -> None:
        """Something was committed: note what went into a window."""
        for commit in commits:
            for change in commit.changes:
                if is_push(change):
                    self._due[window_of(change.record)] += 1
        if self._due and not self._closing.is_set() and (self._worker is None or self._worker.done()):
            # In a context of its own: what follows belongs to no request.
            self._worker = asyncio.create_task(self._work(), context=contextvars.Context())

    async def idle(self, patience_s: float | None = None) -> None:
        """Return once everything that was pushed so far has been looked at, or patience has ended."""
        if self._worker is not None:
            await asyncio.wait([self._worker], timeout=patience_s)

    async def close(self) -> None:
        """Settle what has overflowed, without a rest, then be quiet."""
        self._closing.set()
        await self.idle(_CLOSE_S)
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)
            self._worker = None

    async def _work(self) -> None:
        while self._due:
            window, pushed = self._due.popitem()
            began = time.monotonic()
            try:
                if not await self._is_over(window, pushed):
                    continue
                await self._settle(window)
            except QuipuError as error:
                _log.warning("A window that overflowed could not be settled: %s", error.code)
            except Exception as error:  # noqa: BLE001  the next push, or the next round, tries again
                _log.warning("A window that overflowed could not be settled: %s", type(error).__name__)
            await self._rest(_REST * (time.monotonic() - began))

    async def _is_over(self, window: Window, pushed: int) -> bool:
        holds = self._parts.settling.window
        size = self._sizes.pop(window, None) or _Size(holds)  # of one that is not known it is asked
        size.pushed += pushed
        is_over = False
        if size.counted + size.pushed > holds or size.pushed * 10 >= holds:
            is_over, counted = await self._windows.is_over(window)
            size = _Size(counted)
        if is_over:
            return True  # and counted anew with the next push
        self._sizes[window] = size
        while len(self._sizes) > _KNOWN:
            self._sizes.popitem(last=False)
        return False

    async def _rest(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._closing.wait(), min(seconds, _LONGEST_REST_S))
        except TimeoutError:
            return
