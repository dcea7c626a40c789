"""Answers that come one by one: event streams, followed across broken connections, and lines of JSON."""

import re
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, cast

from quipu.client.failures import media_type, misunderstood, of_problem
from quipu.client.transport import Call, Transport, parsed
from quipu.errors import QuipuError

#: The server says something every 15 s.
_READ_S = 45.0
#: A file is made whole before its first byte is sent.
_FILE_READ_S = 3600.0
_PIECE = 256 << 10
_FILE_NAME = re.compile(r'filename="([^"/\\]{1,200})"')


@dataclass(slots=True)
class Message:
    """One message of an event stream."""

    event: str = ""
    id: str | None = None
    data: list[str] = field(default_factory=list[str])

    def take(self, name: str, value: str) -> None:
        """One line of it; names that are not known are passed over."""
        value = value.removeprefix(" ")
        if name == "data":
            self.data.append(value)
        elif name == "id":
            self.id = value
        elif name == "event":
            self.event = value


async def messages(lines: AsyncIterable[str]) -> AsyncGenerator[Message | None]:
    """The messages of a `text/event-stream`; None for a comment, which only says that the server is there."""
    message = Message()
    async for line in lines:
        if line.startswith(":"):
            yield None
        elif line:
            message.take(*line.partition(":")[::2])
        else:
            if message.data or message.id is not None:
                yield message
            message = Message()


async def events(
    transport: Transport,
    call_with: Callable[[Mapping[str, Any]], Call],
    known: Mapping[str, Any],
    *,
    resumes_by: str | None,
) -> AsyncGenerator[Any]:
    """Events in order, without loss and without repetition. `resumes_by` is the field that takes the last one's id.

    A message that has an id and no data says where the stream begins, so that it can be resumed before its first event.
    """
    asked, failures = dict(known), 0
    while True:
        try:
            call = replace(call_with(asked), read_s=_READ_S)
            async with (
                transport.stream(call) as response,
                aclosing(messages(response.aiter_lines())) as found,
            ):
                async for message in found:
                    failures = 0
                    if message is None:
                        continue
                    if message.id is not None and message.id.isdigit() and resumes_by is not None:
                        asked[resumes_by] = int(message.id)
                    if message.data:
                        body = parsed("\n".join(message.data))
                        if message.event == "error":
                            raise _error_of(body)
                        yield body
        except QuipuError as error:
            if transport.is_closed:  # by whoever follows it
                return
            is_broken = error.is_retryable and error.reason == "unreachable"
            if not is_broken or resumes_by is None or failures >= transport.patience.retries:
                raise
        else:
            if resumes_by is None or transport.is_closed:
                return
        failures += 1
        # A server ends a feed when it stops, or when the credential does: the next request says which.
        await transport.sleep(transport.patience.pause_s(failures, None, transport.jitter()))


async def lines(transport: Transport, call: Call) -> AsyncGenerator[Any]:
    """The objects of an NDJSON answer; one that ends with an error raises it."""
    async with transport.stream(call) as response, aclosing(_texts(response.aiter_lines())) as found:
        async for line in found:
            if not line.strip():  # keeps the connection open while there is nothing to say
                continue
            item = parsed(line)
            if isinstance(item, dict) and item.keys() == {"error"}:  # pyright: ignore[reportUnknownMemberType]  any JSON
                raise _error_of(cast("dict[str, Any]", item)["error"])
            yield item


async def file(transport: Transport, call: Call) -> AsyncGenerator[Any]:
    """The pieces of a file as `FilePart` has them: first what it is, then what is in it."""
    async with transport.stream(replace(call, read_s=_FILE_READ_S)) as response:
        headers = response.headers
        size, said = headers.get("content-length", ""), headers.get("quipu-report")
        name = _FILE_NAME.search(headers.get("content-disposition", ""))
        yield {
            "data": b"",
            "file_name": None if name is None else name[1],
            "media_type": media_type(response) or None,
            "size": int(size) if size.isdecimal() else None,
            "sha256": headers.get("quipu-content-sha256"),
            "report": None if said is None else parsed(said),
        }
        async for data in response.aiter_bytes(_PIECE):
            yield {"data": data}


async def _texts(given: AsyncIterable[str]) -> AsyncGenerator[str]:
    async for line in given:
        yield line


def _error_of(problem: object) -> QuipuError:
    """The error that a stream ends with."""
    return of_problem(cast("dict[str, Any]", problem)) if isinstance(problem, dict) else misunderstood()
