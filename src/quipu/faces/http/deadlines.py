"""How long an answer may take; and the end of event streams, which by themselves have none."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quipu.errors import DeadlineError
from quipu.faces.http.exchange import exchange_of
from quipu.faces.http.lifecycle import Lifecycle

#: A reader of a stream that takes nothing for so long is gone.
_STALL_S = 60.0


class Deadline:
    """A request is answered in time or with `timeout`. Streaming routes take as long as they take."""

    def __init__(self, app: ASGIApp, *, seconds: float, lifecycle: Lifecycle) -> None:
        self.app = app
        self._seconds, self._lifecycle = seconds, lifecycle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif exchange_of(scope).place.is_streaming:
            await self._until_draining(scope, receive, send)
        else:
            await self._in_time(scope, receive, send)

    async def _in_time(self, scope: Scope, receive: Receive, send: Send) -> None:
        limit = asyncio.timeout(self._seconds)
        scope["state"]["deadline"] = limit
        try:
            async with limit:
                await self.app(scope, receive, send)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise DeadlineError(reason="request") from error

    async def _until_draining(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An event stream is ended when the server drains; any other streamed answer is let finish."""
        is_events, is_done = False, False
        stall: asyncio.Timeout | None = None

        async def receiving() -> Message:
            message = await receive()
            if stall is not None and not stall.expired():  # who still writes need not read yet
                stall.reschedule(asyncio.get_running_loop().time() + _STALL_S)
            return message

        async def sending(message: Message) -> None:
            nonlocal is_events, is_done, stall
            if message["type"] == "http.response.start":
                is_events = _is_event_stream(message)
            is_done = message["type"] == "http.response.body" and not message.get("more_body", False)
            try:
                async with asyncio.timeout(_STALL_S) as stall:
                    await send(message)
            finally:
                stall = None

        work = asyncio.ensure_future(self._run(scope, receiving, sending))
        end = asyncio.ensure_future(self._lifecycle.draining())
        try:
            await asyncio.wait({work, end}, return_when=asyncio.FIRST_COMPLETED)
            if is_events and not work.done():
                work.cancel()
                await asyncio.wait({work})
                if not is_done:
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
            else:
                await work
        finally:
            for task in (work, end):
                task.cancel()
            await asyncio.gather(work, end, return_exceptions=True)

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


def prolong(scope: Scope, seconds: float) -> None:
    """More time for a handler that waits for a person."""
    limit: asyncio.Timeout | None = scope["state"].get("deadline")
    if limit is not None and (end := limit.when()) is not None:
        limit.reschedule(end + seconds)


def _is_event_stream(message: Message) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(b"text/event-stream")
        for name, value in message.get("headers", ())
    )
