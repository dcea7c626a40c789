"""A request's place in its caller's trace: the context comes in with its headers, and a span stands around the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from starlette.types import ASGIApp, Receive, Scope, Send

from quipu.faces.http.access_log import METHODS
from quipu.faces.http.exchange import exchange_of

#: What stands around a request; it is told the status at the end.
Answered = Callable[[int | None], None]


class RequestSpans(Protocol):
    """Makes the span of a request. It must not fail and must not wait."""

    def request(
        self, method: str, route: str, scheme: str, headers: Callable[[], Mapping[str, str]]
    ) -> AbstractContextManager[Answered]:
        """The block is the request; `headers` are read only if somebody looks."""
        ...


class Traced:
    """Stands inside what knows the route, and around everything else. Probes are not shown."""

    def __init__(self, app: ASGIApp, *, spans: RequestSpans) -> None:
        self.app, self._spans = app, spans

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = exchange_of(scope)
        if exchange.place.is_always_open:
            await self.app(scope, receive, send)
            return
        method = exchange.method if exchange.method in METHODS else "_OTHER"
        scheme = str(scope.get("scheme", "http"))
        with self._spans.request(method, exchange.place.path, scheme, lambda: _headers(scope)) as answered:
            try:
                await self.app(scope, receive, send)
            finally:
                answered(exchange.status)


def _headers(scope: Scope) -> Mapping[str, str]:
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    if "traceparent" not in headers and "oap-trace" in headers:  # the same, by memory exchange's name for it
        headers["traceparent"] = headers["oap-trace"]
    return headers
