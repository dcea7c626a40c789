"""Connections that end with an answer.

Where an answer is ready before the body has come in, the rest of the body must not be taken for the next request, and
a sender that is cut off in the middle would never see the answer. So the rest is read and thrown away for a moment,
and then the connection is closed. It is also closed, after any answer, while the server drains.
"""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quipu.faces.http.exchange import exchange_of
from quipu.faces.http.lifecycle import Lifecycle, Stage

#: A small body is most often here already.
_GLANCE_BYTES, _GLANCE_S = 256 << 10, 0.05
_LINGER_BYTES, _LINGER_S = 64 << 20, 2.0


class Lingering:
    """Keeps an eye on the body; closes the connection politely where it was not wanted."""

    def __init__(self, app: ASGIApp, *, lifecycle: Lifecycle) -> None:
        self.app = app
        self._lifecycle = lifecycle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            rest = _Rest(scope, receive, send, self._lifecycle)
            await self.app(scope, rest.receive, rest.send)
        else:
            await self.app(scope, receive, send)


class _Rest:
    """What is still to come of one body."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, lifecycle: Lifecycle) -> None:
        headers = Headers(scope=scope)
        self._lifecycle = lifecycle
        self._receive, self._send, self._place = receive, send, exchange_of(scope).place
        self._is_all_here = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
        #: A sender that waits for "100 Continue" sends nothing after an answer.
        self._is_patient = "expect" in headers
        self._closes = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._is_all_here = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await self._begin(message)
        is_last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if not (self._closes and is_last):
            await self._send(message)
            return
        await self._send({**message, "more_body": True})
        await self._throw_away(_LINGER_BYTES, _LINGER_S)
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _begin(self, message: Message) -> None:
        if self._is_unwanted(message["status"]):
            await self._throw_away(_GLANCE_BYTES, _GLANCE_S)
            self._closes = not self._is_all_here
        if self._closes or self._lifecycle.stage is Stage.DRAINING:
            MutableHeaders(scope=message)["Connection"] = "close"

    def _is_unwanted(self, status: int) -> bool:
        """A handler that streams may answer while it still reads."""
        return not self._is_all_here and (status >= 400 or not self._place.is_unbounded)

    async def _throw_away(self, most: int, seconds: float) -> None:
        if self._is_patient:
            return
        try:
            async with asyncio.timeout(seconds):
                while not self._is_all_here and most > 0:
                    most -= len((await self.receive()).get("body", b""))
        except TimeoutError:
            return
