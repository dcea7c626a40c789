"""What a server tells beside memory: the request around an operation, and how long requests take."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from quipu.telemetry.tracing import Block, Tracing

_METHOD, _ROUTE, _SCHEME = "http.request.method", "http.route", "url.scheme"
_STATUS, _ERROR, _PATH = "http.response.status_code", "error.type", "url.path"
_SERVER_ERROR = 500
#: Anybody can send any word as a method; what is none is told as `_OTHER`.
_METHODS = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"})
_OTHER = "_OTHER"
#: What a host can mean by a request or a notification: MCP's own, and ours. Anybody can send any word here, too.
MCP_METHODS = frozenset(
    {
        "completion/complete",
        "initialize",
        "logging/setLevel",
        "memory/expire",
        "memory/forget",
        "memory/merge",
        "memory/recall",
        "memory/remember",
        "memory/review",
        "memory/review/get",
        "memory/review/list",
        "notifications/cancelled",
        "notifications/initialized",
        "notifications/progress",
        "notifications/roots/list_changed",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "subscriptions/listen",
        "tools/call",
        "tools/list",
    }
)


class Serving:
    """Spans and durations of requests, over HTTP and MCP."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    def request(
        self, method: str, route: str, scheme: str, headers: Callable[[], Mapping[str, str]]
    ) -> RequestSpan:
        """A SERVER span that goes on with the caller's trace, unless somebody else has opened one already."""
        return RequestSpan(self._tracing, method, route, scheme, headers)

    def operated(self, method: str, tool: str | None, seconds: float, error: str | None) -> None:
        """One MCP request was answered."""
        engine = self._tracing.measuring
        if engine is None:
            return
        labels = {"mcp.method.name": method if method in MCP_METHODS else _OTHER}
        if tool is not None:
            labels |= {"gen_ai.tool.name": tool, "gen_ai.operation.name": "execute_tool"}
        if error is not None:
            labels[_ERROR] = error
        engine.instruments.mcp.record(seconds, labels)


class RequestSpan:
    """One HTTP request. Its address is told by its route, which holds nothing that a caller chose."""

    def __init__(
        self,
        tracing: Tracing,
        method: str,
        route: str,
        scheme: str,
        headers: Callable[[], Mapping[str, str]],
    ) -> None:
        is_known = method in _METHODS
        self._tracing, self._method, self._route = tracing, method if is_known else "HTTP", route
        self._labels: dict[str, Any] = {_METHOD: method if is_known else _OTHER, _SCHEME: scheme}
        if route:
            self._labels[_ROUTE] = route
        self._headers = headers
        self._block: Block | None = None
        self._began = 0.0

    def __enter__(self) -> Callable[[int | None], None]:
        tracing = self._tracing
        self._began = time.perf_counter()
        engine = tracing.tracing
        if engine is not None or tracing.recent is not None or tracing.block_watchers:
            is_inside = engine is not None and engine.current().is_valid
            path = {_PATH: self._route} if self._route and "{" not in self._route else {}
            self._block = tracing.block(
                f"{self._method} {self._route}".strip(),
                kind="SERVER",
                attributes={**self._labels, **path},
                carrier=self._headers() if engine is not None and not is_inside else None,
                is_told=not is_inside,
            )
            self._block.__enter__()
        return self._answered

    def _answered(self, status: int | None) -> None:
        if status is not None:
            self._labels[_STATUS] = status
        if status is None or status >= _SERVER_ERROR:
            self._labels[_ERROR] = str(status or "none")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._block is not None:
            self._block.found.update(self._labels)
            self._block.failed = self._labels.get(_ERROR)
            self._block.__exit__(kind, error, trace)
        engine = self._tracing.measuring
        if engine is not None:
            engine.instruments.http.record(time.perf_counter() - self._began, self._labels)
