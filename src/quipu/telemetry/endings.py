"""Spans that are ended a little after what they tell of, several at a time.

A search sweeps the processor's caches, so whatever comes right after it costs several times what it costs by itself. Where
spans wait for their export anyway, nobody can tell whether they ended at once: their times are given. So a recall only leaves
its span here.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Protocol

#: So many wait at most, and so long.
_MOST = 32
_PATIENCE_S = 1.0


class Unfinished(Protocol):
    """Something that has ended, and has yet to be told."""

    def finish(self) -> None:
        """Tell it. Does not fail."""
        ...


class Endings:
    """What is still to be told, until it is closed. May be used by several threads."""

    def __init__(self, patience_s: float = _PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._waiting: deque[Unfinished] = deque()
        self._is_any, self._closed = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, one: Unfinished) -> None:
        """Tell it before long."""
        self._waiting.append(one)
        if len(self._waiting) >= _MOST or self._closed.is_set():
            self.finish()
        elif not self._is_any.is_set():
            self._is_any.set()
            self._start()

    def finish(self) -> None:
        """Tell everything that waits."""
        waiting = self._waiting
        while waiting:
            try:
                one = waiting.popleft()
            except IndexError:  # another thread was faster
                return
            one.finish()

    def close(self) -> None:
        """Tell the last of them; from now on nothing waits."""
        self._closed.set()
        self._is_any.set()
        self.finish()

    def _start(self) -> None:
        """For the last ones before a pause. The thread sleeps while there is nothing to tell."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._look_after, name="quipu-endings", daemon=True)
            self._thread.start()

    def _look_after(self) -> None:
        while not self._closed.is_set():
            self._is_any.wait()
            self._closed.wait(self._patience_s)
            self._is_any.clear()
            self.finish()
