"""The last traces, kept in the process: for a server without a collector. Works without an SDK.

Bounded in traces, in spans of a trace, and in what a span holds; content never comes in here.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Any

_TRACES = 100
_SPANS = 64


def _no_spans() -> list[Kept]:
    return []


@dataclass(slots=True)
class Kept:
    """One span."""

    name: str
    start_ns: int
    end_ns: int = 0
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    error: str | None = None
    children: list[Kept] = field(default_factory=_no_spans)
    #: How many spans hang below the first one, itself included; counted there only.
    size: int = 1
    is_operation: bool = False


class Recent:
    """A ring of traces, and how often each operation was done."""

    def __init__(self, traces: int = _TRACES) -> None:
        self._ring: deque[Kept] = deque(maxlen=traces)
        self._current: ContextVar[tuple[Kept, Kept] | None] = ContextVar("quipu_recent", default=None)
        self._done: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._nanos: Counter[str] = Counter()

    def open(self, name: str, start_ns: int) -> tuple[Kept, Token[tuple[Kept, Kept] | None]]:
        """A span beneath the one that is open."""
        above = self._current.get()
        span = Kept(name, start_ns)
        root = span if above is None else above[1]
        if above is not None and root.size < _SPANS:
            root.size += 1
            above[0].children.append(span)
        return span, self._current.set((span, root))

    def close(self, span: Kept, token: Token[tuple[Kept, Kept] | None], end_ns: int) -> None:
        """Ended. A first span takes its whole trace into the ring, if memory had a part in it."""
        span.end_ns = end_ns
        self._current.reset(token)
        is_first = token.old_value in (None, Token.MISSING)
        if is_first and (span.children or span.is_operation):
            self._ring.append(span)

    def counted(self, operation: str, nanos: int, *, is_failed: bool) -> None:
        """An operation was done."""
        self._done[operation] += 1
        self._failed[operation] += is_failed
        self._nanos[operation] += nanos

    @property
    def traces(self) -> tuple[Kept, ...]:
        """Newest first."""
        return tuple(reversed(self._ring))

    @property
    def operations(self) -> tuple[tuple[str, int, int, float], ...]:
        """Operation, how often, how often it failed, and how many milliseconds it took on average."""
        return tuple(
            (name, count, self._failed[name], self._nanos[name] / count / 1e6)
            for name, count in sorted(self._done.items())
        )
