"""One request and its answer: what the log and the metrics may know of it. Never content, never a token."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quipu.faces.http.catalogue import Catalogue, Place
from quipu.model.principal import Principal
from quipu.ports.surroundings import Clock, MintId

REQUEST_ID = "Quipu-Request-Id"


@dataclass(slots=True)
class Exchange:
    """A request on its way. Filled in as it goes."""

    request_id: str
    method: str
    place: Place
    #: Milliseconds UTC, and a reading to measure from.
    began_at: int
    began: float
    #: The peer's address, for back-off only.
    client: str = ""
    principal: Principal | None = None
    status: int | None = None
    bytes_in: int = 0
    bytes_out: int = 0
    seconds: float = 0.0
    error: str | None = None
    reason: str | None = None


class Observer(Protocol):
    """Is told of every exchange. It must not fail and must not wait."""

    def began(self, exchange: Exchange, /) -> None: ...

    def ended(self, exchange: Exchange, /) -> None: ...


def exchange_of(scope: Scope) -> Exchange:
    """The exchange that a scope belongs to."""
    found: Exchange = scope["state"]["exchange"]
    return found


class Recorded:
    """The outermost layer: gives the request its id and place, counts bytes, and tells the observers."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        catalogue: Catalogue,
        mint_id: MintId,
        clock: Clock,
        observers: Sequence[Observer],
    ) -> None:
        self.app = app
        self._catalogue, self._mint_id, self._clock, self._observers = catalogue, mint_id, clock, observers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":  # no face speaks it, and nothing further in would ask who it is
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = self._exchange(scope)
        scope.setdefault("state", {}).update(exchange=exchange, request_id=exchange.request_id)

        async def receiving() -> Message:
            message = await receive()
            exchange.bytes_in += len(message.get("body", b""))
            return message

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID] = exchange.request_id
            elif exchange.method != "HEAD":
                exchange.bytes_out += len(message.get("body", b""))
            await send(message)

        for observer in self._observers:
            observer.began(exchange)
        try:
            await self.app(scope, receiving, sending)
        finally:
            exchange.seconds = time.perf_counter() - exchange.began
            for observer in self._observers:
                observer.ended(exchange)

    def _exchange(self, scope: Scope) -> Exchange:
        client = scope.get("client")
        return Exchange(
            request_id=self._mint_id("req"),
            method=scope["method"],
            place=self._catalogue.place(scope),
            began_at=self._clock(),
            began=time.perf_counter(),
            client=client[0] if client else "",
        )
