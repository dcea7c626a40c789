"""The door: shut while the server starts, and when there are too many inside. Who is told to wait is told how long."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from quipu.errors import BackendUnavailableError
from quipu.faces.http.exchange import exchange_of
from quipu.faces.http.lifecycle import Lifecycle, Stage


class Door:
    """Counts who is inside. Health checks are always let in, and event streams are not counted."""

    def __init__(self, app: ASGIApp, *, lifecycle: Lifecycle, most: int) -> None:
        self.app = app
        self._lifecycle, self._most, self._inside = lifecycle, most, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or exchange_of(scope).place.is_always_open:
            await self.app(scope, receive, send)
            return
        if self._lifecycle.stage is Stage.STARTING:
            raise BackendUnavailableError("The server is starting.", reason="starting", retry_after=1)
        if exchange_of(scope).place.is_streaming:
            await self.app(scope, receive, send)
            return
        if self._inside >= self._most:
            raise BackendUnavailableError(
                "Too many requests are at work.", reason="overloaded", retry_after=1
            )
        self._inside += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self._inside -= 1
