"""The change feed as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response

from quipu.errors import InvalidError
from quipu.faces.http.authentication import principal_of
from quipu.faces.memorywire import asking
from quipu.faces.memorywire.answering import dumped
from quipu.faces.memorywire.streaming import Told
from quipu.faces.memorywire.wire_past import event_body
from quipu.model.feed import FeedEvent, FeedRequest
from quipu.model.principal import Principal
from quipu.service.changes import Renewed
from quipu.service.memory import MemoryService

MEDIA_TYPE = "text/event-stream"
#: What a browser waits before it comes back, in milliseconds.
_OPENING = b"retry: 2000\n: open\n\n"
_STILL_HERE = b": still here\n\n"


class Changes:
    """Handlers over a service. A comment is sent after so many seconds in which nothing happened."""

    def __init__(self, service: MemoryService, idle_s: float) -> None:
        self._service, self._idle_s = service, idle_s

    async def follow(self, request: Request) -> Response:
        """A stream that begins behind the last event that was seen."""
        asking.known(request, "agent_id", "store", "types", "since")
        wanted = FeedRequest(
            agent_id=asking.word(request, "agent_id"),
            store=asking.word(request, "store"),
            types=asking.types(request),
            since=_since(request),
        )
        events = await self._service.changes.follow(
            principal_of(request), wanted, self._renewed(request), idle_s=self._idle_s
        )
        return Told(_pieces(events), MEDIA_TYPE, {"X-Accel-Buffering": "no"})

    def _renewed(self, request: Request) -> Renewed:
        """Asks again who shows the same credential. Whoever needed none keeps what they have."""
        principal = principal_of(request)
        text = request.headers.get("authorization", "").partition(" ")[2].strip()

        async def renewed() -> Principal:
            return await self._service.credentials.renewed(text) if text else principal

        return renewed


def _since(request: Request) -> int | None:
    """The last event that was seen. A reader that comes back says it in the header, and its address stays the same."""
    given = request.headers.get("last-event-id")
    if given is None:
        return asking.number(request, "since")
    if not (given.isascii() and given.isdecimal() and len(given) <= 18):
        message = "The Last-Event-ID is none of ours."
        raise InvalidError.at("/since", "bad_value", message, accepted=["a position of the journal"])
    return int(given)


async def _pieces(events: AsyncGenerator[tuple[FeedEvent, ...]]) -> AsyncGenerator[bytes]:
    yield _OPENING
    async with aclosing(events):
        async for some in events:
            yield b"".join(_piece(event) for event in some) or _STILL_HERE


def _piece(event: FeedEvent) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (
        event.seq,
        event.op.value.encode("ascii"),
        dumped(event_body(event)),
    )
