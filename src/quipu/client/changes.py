"""The change feed of a server: followed across broken connections, without loss and without repetition."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from quipu.client.answers import understood
from quipu.client.failures import misunderstood, of_type
from quipu.client.transport import Call, Transport, text_lines
from quipu.errors import QuipuError
from quipu.faces.rest.paths import MEMORYWIRE, PREFIX
from quipu.model.feed import FeedEvent, FeedRequest
from quipu.model.journal import Head
from quipu.model.principal import Principal

#: The server says something every 15 s.
_READ_S = 45.0
_EVENTS = "text/event-stream"


@dataclass(slots=True)
class Message:
    """One event of an event stream."""

    id: str | None = None
    data: list[str] = field(default_factory=list[str])

    def take(self, name: str, value: str) -> None:
        """One line of it; names that are not known are passed over."""
        value = value.removeprefix(" ")
        if name == "data":
            self.data.append(value)
        elif name == "id":
            self.id = value


async def messages(lines: AsyncGenerator[str]) -> AsyncGenerator[Message | None]:
    """The messages of a `text/event-stream`; None for a comment, which only says that the server is there."""
    message = Message()
    async with aclosing(lines):
        async for line in lines:
            if line.startswith(":"):
                yield None
            elif not line:
                if message.data:
                    yield message
                message = Message()
            else:
                message.take(*line.partition(":")[::2])


class RemoteChanges:
    """Follows a feed and comes back to it when the connection breaks."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def follow(
        self,
        principal: Principal,
        request: FeedRequest,
        renewed: Callable[[], Awaitable[Principal]],
        *,
        idle_s: float = 15.0,
    ) -> AsyncGenerator[tuple[FeedEvent, ...]]:
        """Events in order, one at a time; an empty tuple says that nothing happened for a while."""
        return self._followed(request)

    async def _followed(self, request: FeedRequest) -> AsyncGenerator[tuple[FeedEvent, ...]]:
        position = await self._head() if request.since is None else request.since
        failures = 0
        while True:
            try:
                async with (
                    self._transport.stream(_call(request, position)) as response,
                    aclosing(messages(text_lines(of_type(response, _EVENTS)))) as told,
                ):
                    async for message in told:
                        failures = 0
                        if message is None:
                            yield ()
                            continue
                        event = _event(message)
                        position = event.seq
                        yield (event,)
            except QuipuError as error:
                if self._transport.is_closed:  # by who follows it
                    return
                failures += 1
                if not error.retryable or failures > self._transport.patience.retries:
                    raise
            # A server ends a feed when it stops, or when the credential does: asking again tells which.
            pause = self._transport.patience.pause(failures, None, self._transport.jitter())
            await self._transport.sleep(pause)

    async def _head(self) -> int:
        """Where the journal stands now: a feed that begins with the next change must know it to come back."""
        body = await self._transport.call(Call(method="GET", path=f"{PREFIX}/journal/head"))
        return understood(Head, body).seq


def _call(request: FeedRequest, position: int) -> Call:
    return Call(
        method="GET",
        path=f"{MEMORYWIRE}/changes",
        query={
            "agent_id": request.agent_id,
            "store": request.store,
            "types": ",".join(request.types) or None,
            "since": str(position),
        },
        headers={"Accept": _EVENTS, "Last-Event-ID": str(position)},
        read_s=_READ_S,
    )


def _event(message: Message) -> FeedEvent:
    try:
        body = json.loads("\n".join(message.data))
    except ValueError:
        raise misunderstood() from None
    return understood(FeedEvent, body)
