"""One request and its answer, as operators may know them: an id, a line in the log, numbers. Never content, never a token.

The outermost layer. Whatever goes wrong further in is answered here, so that no caller and no log sees a text of ours.
"""

import json
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from starlette.requests import ClientDisconnect
from starlette.responses import Response as HttpResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quipu.config import Settings
from quipu.errors import QuipuError
from quipu.http.hosts import ALWAYS, OVER_TLS, PROBES, UNLESS_SET, KnownHosts
from quipu.http.limits import Body, Lifecycle
from quipu.http.problems import known_error, problem_response
from quipu.model.principal import Principal

_log = logging.getLogger("quipu.access")
#: A method is one of these or it is not named: it comes from outside.
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
#: `dumps` would make one for every line.
_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))


@dataclass(slots=True)
class Exchange:
    """A request on its way. Filled in as it goes."""

    request_id: str
    method: str
    path: str
    began: float
    #: The address as it was declared, `/v1/memories/{id}`: what was sent may be somebody's memory.
    route: str | None = None
    principal: Principal | None = None
    status: int | None = None
    bytes_in: int = 0
    bytes_out: int = 0
    seconds: float = 0.0
    error: str | None = None
    reason: str | None = None

    @property
    def is_probe(self) -> bool:
        return self.path in PROBES

    @property
    def shown_method(self) -> str:
        return self.method if self.method in METHODS else "other"


class Observer(Protocol):
    """Hears of every exchange. It must not fail and must not wait."""

    def began(self, exchange: Exchange) -> None: ...

    def ended(self, exchange: Exchange) -> None: ...


#: Makes the span around a request; when it ends, `exchange_of(scope)` knows the route and the status.
Spans: TypeAlias = Callable[[Scope], AbstractContextManager[object]]
#: An error as a page or in a protocol's own words, for whoever asked so; None for everybody else.
ErrorPage: TypeAlias = Callable[[Scope, QuipuError], HttpResponse | None]


def exchange_of(scope: Scope) -> Exchange:
    """The exchange that a scope belongs to."""
    found: Exchange = scope["state"]["exchange"]
    return found


class Exchanges:
    """Gives each request its id, answers what fails, and leaves a line about it."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: Settings,
        hosts: KnownHosts,
        lifecycle: Lifecycle,
        new_id: Callable[[str], str],
        observers: Sequence[Observer] = (),
        spans: Spans | None = None,
        error_page: ErrorPage | None = None,
    ) -> None:
        self._error_page = error_page
        self._app, self._hosts, self._lifecycle = app, hosts, lifecycle
        self._new_id, self._observers, self._spans = new_id, tuple(observers), spans
        self._is_tls = settings.tls_cert is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            # Nobody here speaks it, and nothing further in would ask who it is.
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        exchange = Exchange(self._new_id("req"), scope["method"], scope["path"], time.perf_counter())
        body = Body(scope, receive)
        scope.setdefault("state", {}).update(exchange=exchange, request_id=exchange.request_id, body=body)

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                await self._begin(exchange, body, scope, message)
            else:
                if exchange.method != "HEAD":
                    exchange.bytes_out += len(message.get("body", b""))
                if body.closes and not message.get("more_body", False):
                    await send({**message, "more_body": True})
                    await body.after_answer()
                    message = {"type": "http.response.body", "body": b"", "more_body": False}
            await send(message)

        for observer in self._observers:
            observer.began(exchange)
        try:
            if self._spans is None or exchange.is_probe:
                await self._answer(exchange, scope, body.receive, sending)
            else:
                with self._spans(scope):
                    await self._answer(exchange, scope, body.receive, sending)
        finally:
            exchange.seconds = time.perf_counter() - exchange.began
            exchange.bytes_in = body.count
            self._log_line(exchange)
            for observer in self._observers:
                observer.ended(exchange)

    async def _answer(self, exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._hosts.check(scope)
            await self._app(scope, receive, send)
        except ClientDisconnect:
            exchange.error = "cancelled"  # nobody is left to be answered
        except Exception as error:  # noqa: BLE001  the last line of defence: no caller and no log sees its text
            known = note(exchange, error)
            if exchange.status is None:  # otherwise the answer stays unfinished, and the connection is closed
                page = None if self._error_page is None else self._error_page(scope, known)
                await (page or problem_response(known, exchange.request_id))(scope, receive, send)

    async def _begin(self, exchange: Exchange, body: Body, scope: Scope, message: Message) -> None:
        exchange.status = message["status"]
        await body.before_answer(message["status"])
        headers: list[tuple[bytes, bytes]] = list(message.get("headers", ()))
        there = {name.lower() for name, _ in headers}
        headers += [row for row in UNLESS_SET if row[0] not in there]
        headers += ALWAYS
        if self._is_tls or scope.get("scheme") == "https":
            headers.append(OVER_TLS)
        headers.append((b"quipu-request-id", exchange.request_id.encode("ascii")))
        if body.closes or self._lifecycle.is_draining:
            headers.append((b"connection", b"close"))
        message["headers"] = headers

    def _log_line(self, exchange: Exchange) -> None:
        level = logging.DEBUG if exchange.is_probe and exchange.error is None else logging.INFO
        if _log.isEnabledFor(level):
            # Made here: `log` would look through the stack for a place in the code that no line shows.
            said = _ENCODER.encode(line(exchange))
            _log.handle(_log.makeRecord(_log.name, level, "", 0, said, (), None))


def note(exchange: Exchange, error: Exception) -> QuipuError:
    """The error in our words, and a note of it in the exchange. What nobody foresaw goes to the log by kind and place."""
    known = known_error(error, exchange.request_id)
    exchange.error, exchange.reason = known.code, known.reason
    return known


def line(exchange: Exchange) -> dict[str, Any]:
    """What is recorded of an exchange."""
    principal = exchange.principal
    return {
        "request_id": exchange.request_id,
        "method": exchange.shown_method,
        "route": exchange.route,
        "status": exchange.status,
        "duration_ms": round(exchange.seconds * 1000, 1),
        "bytes_in": exchange.bytes_in,
        "bytes_out": exchange.bytes_out,
        "tenant": None if principal is None else principal.tenant,
        "principal": None if principal is None else principal.name,
        "error": exchange.error,
        "reason": exchange.reason,
    }
