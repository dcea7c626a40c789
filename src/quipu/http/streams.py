"""Answers that come piece by piece: lines of JSON, events, files; to a reader that may leave, or that does not read yet.

And lists that come so, whose items are answered while the next ones are on their way.
"""

import asyncio
import json
import tempfile
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import IO, Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse
from starlette.types import Message, Receive, Scope, Send

from quipu.errors import Fault, InvalidError, QuipuError
from quipu.http.exchange import exchange_of, note
from quipu.http.limits import lift_limits
from quipu.http.problems import problem_json
from quipu.http.read import LINE_BYTES, NDJSON, json_object, line_groups
from quipu.memory.model import ItemError, ItemResult, RememberManyRequest, RememberManyResponse
from quipu.operation import AnyOperation, Context, Facts, FilePart, Response, dispatch, invalid

#: An event stream that has nothing to say shows that it is alive so often, and its credential is looked at again.
HEARTBEAT_S = 15.0
#: Less than any proxy's patience, and than the client's.
_SILENCE_S = 10.0
#: So long an error may take to become the answer's own status.
_GLANCE_S = 1.0
_EVENTS_GLANCE_S = 0.1
#: So many items wait for a slow reader.
_AHEAD = 64
_IN_MEMORY = 1 << 20
_PIECE = 64 << 10


class Pieces(HttpResponse):
    """An answer made of pieces. When its reader leaves, whoever makes them has to stop."""

    def __init__(
        self, pieces: AsyncGenerator[bytes], media_type: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self._pieces = pieces
        self.status_code, self.media_type, self.background = 200, media_type, None
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send(self._start)
        if scope["method"] == "HEAD":  # nobody would see them
            await self._pieces.aclose()
            await send(_END)
            return
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                await sending
        finally:
            await _ended(sending, leaving)

    @property
    def _start(self) -> Message:
        return {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}

    async def _send(self, send: Send) -> None:
        async with aclosing(self._pieces):
            async for piece in self._pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send(_END)


class Spooled(Pieces):
    """Pieces that are made while the body of the request is read.

    Most senders send everything before they read anything. What they do not read yet waits here, in memory and then in
    a file, so that neither side waits for the other. Nobody listens for the reader to leave: that would take pieces of
    the body, and reading it hears of it anyway.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        spool = Spool()

        async def make() -> None:
            async with aclosing(self._pieces):
                async for piece in self._pieces:
                    await spool.put(piece)
            spool.end()

        async def deliver() -> None:
            async for piece in spool.pieces():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send(_END)

        await send(self._start)
        making, sending = asyncio.ensure_future(make()), asyncio.ensure_future(deliver())
        try:
            await asyncio.wait({making, sending}, return_when=asyncio.FIRST_EXCEPTION)
            for task in (making, sending):
                if task.done():
                    await task
        finally:
            await _ended(making, sending)
            await spool.close()


_END: Message = {"type": "http.response.body", "body": b"", "more_body": False}


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _ended(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Spool:
    """First in, first out; what memory does not hold is in a file without a name."""

    def __init__(self, in_memory: int = _IN_MEMORY) -> None:
        self._in_memory = in_memory
        self._memory: deque[bytes] = deque()
        self._size = 0
        self._file: IO[bytes] | None = None
        self._written = self._read = 0
        self._turn = asyncio.Lock()
        self._news = asyncio.Event()
        self._is_ended = self._is_closed = False
        #: A thread goes on writing when the one who waits for it is gone.
        self._closing = threading.Lock()

    async def put(self, piece: bytes) -> None:
        if self._written == self._read and self._size + len(piece) <= self._in_memory:
            self._memory.append(piece)
            self._size += len(piece)
        else:  # once there is something in the file, all that follows goes there too
            async with self._turn:
                await asyncio.to_thread(self._write, piece)
        self._news.set()

    def end(self) -> None:
        self._is_ended = True
        self._news.set()

    async def pieces(self) -> AsyncGenerator[bytes]:
        while True:
            self._news.clear()
            if self._memory:
                piece = self._memory.popleft()
                self._size -= len(piece)
                yield piece
            elif self._read < self._written:
                async with self._turn:
                    piece = await asyncio.to_thread(self._read_on)
                yield piece
            elif self._is_ended:
                return
            else:
                await self._news.wait()

    def _write(self, piece: bytes) -> None:
        with self._closing:
            if self._is_closed:
                return
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  closed with the spool
            self._file.seek(self._written)
            self._file.write(piece)
            self._written += len(piece)

    def _read_on(self) -> bytes:
        with self._closing:
            if self._file is None or self._is_closed:
                return b""
            self._file.seek(self._read)
            piece = self._file.read(min(_PIECE, self._written - self._read))
            self._read += len(piece)
            if self._read == self._written:
                self._file.truncate(0)
                self._read = self._written = 0
            return piece

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        with self._closing:
            self._is_closed = True
            if self._file is not None:
                self._file.close()


# -- what the pieces are ----------------------------------------------------------------------------------------------


async def _watched(items: AsyncIterator[Any], silence_s: float, glance_s: float) -> AsyncGenerator[Any]:
    """The items, and None when there was none for so long. First of all an error that comes at once is raised."""
    news: asyncio.Queue[Any] = asyncio.Queue(_AHEAD)
    end = object()

    async def read() -> None:
        try:
            async for item in items:
                await news.put(item)
            await news.put(end)
        except Exception as error:  # noqa: BLE001  raised where the items are read
            await news.put(error)

    reading = asyncio.ensure_future(read())
    patience = glance_s
    try:
        while True:
            try:
                async with asyncio.timeout(patience):
                    item = await news.get()
            except TimeoutError:
                item = None
            if item is end:
                return
            if isinstance(item, Exception):
                raise item
            patience = silence_s
            yield item
    finally:
        await _ended(reading)
        if isinstance(items, AsyncGenerator):
            await items.aclose()


async def _started(pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """The same pieces, once the first is there: what is refused at once is the answer's status."""
    first = await anext(pieces, None)

    async def all_of_them() -> AsyncGenerator[bytes]:
        async with aclosing(pieces):
            if first is not None:
                yield first
            async for piece in pieces:
                yield piece

    return all_of_them()


async def lines(
    scope: Scope,
    items: AsyncIterator[Response],
    dumped: Callable[[Response], bytes],
    *,
    is_reading: bool = False,
) -> Pieces:
    """A line of JSON for each item. What goes wrong after the status was sent is said by a last line, `{"error": …}`.

    Empty lines keep the connection open meanwhile. `is_reading`: the items come of a body that is still being read.
    """

    async def pieces() -> AsyncGenerator[bytes]:
        has_begun = False
        try:
            async for item in _watched(items, _SILENCE_S, _GLANCE_S):
                yield b"\n" if item is None else dumped(item) + b"\n"
                has_begun = True
        except Exception as error:
            if not has_begun:
                raise
            exchange = exchange_of(scope)
            yield b'{"error":' + problem_json(note(exchange, error), exchange.request_id) + b"}\n"

    return (Spooled if is_reading else Pieces)(await _started(pieces()), NDJSON)


async def events(
    scope: Scope, items: AsyncIterator[Response], still_allowed: Callable[[], Awaitable[object]]
) -> Pieces:
    """Server-sent events. The stream ends when its reader goes, when the server drains, and with its credential."""

    async def pieces() -> AsyncGenerator[bytes]:
        has_begun = False
        try:
            async for item in _watched(items, HEARTBEAT_S, _EVENTS_GLANCE_S):
                if item is None and has_begun:
                    try:
                        await still_allowed()
                    except QuipuError:
                        return
                yield b": alive\n\n" if item is None else _event(item)
                has_begun = True
        except Exception as error:  # a last event says what went wrong
            if not has_begun:
                raise
            exchange = exchange_of(scope)
            yield b"event: error\ndata: " + problem_json(note(exchange, error), exchange.request_id) + b"\n\n"

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Pieces(await _started(pieces()), "text/event-stream", headers)


def _event(item: Response) -> bytes:
    seq, name = getattr(item, "seq", None), getattr(item, "type", "message")
    start = f"id: {seq}\n" if seq is not None else ""
    return f"{start}event: {name}\ndata: {item.model_dump_json()}\n\n".encode()


async def download(parts: AsyncIterator[FilePart]) -> Pieces:
    """A file. The first part says what it is; what goes wrong after it breaks the connection off."""
    first = await anext(parts)

    async def pieces() -> AsyncGenerator[bytes]:
        try:
            yield first.data
            async for part in parts:
                yield part.data
        finally:
            if isinstance(parts, AsyncGenerator):
                await parts.aclose()

    headers: dict[str, str] = {}
    if first.file_name is not None:
        name = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in first.file_name)
        headers["Content-Disposition"] = f'attachment; filename="{name.encode("ascii", "replace").decode()}"'
    if first.size is not None:
        headers["Content-Length"] = str(first.size)
    if first.sha256 is not None:
        headers["Quipu-Content-SHA256"] = first.sha256
    if first.report is not None:
        headers["Quipu-Report"] = json.dumps(first.report, separators=(",", ":"))
    return Pieces(pieces(), first.media_type or "application/octet-stream", headers)


# -- lists that come as lines ----------------------------------------------------------------------------------------

#: So many items are written together, if so many have come.
_MOST = 200


async def batch(
    ctx: Context,
    operation: AnyOperation,
    http: HttpRequest,
    beside: dict[str, Any],
    dump: Callable[[Response], bytes],
) -> Pieces:
    """A list that comes as lines: each item is answered by a line of its own, before the last one was sent. `beside` is what stands in the query."""
    lift_limits(http.scope)
    if str(beside.get("atomic", False)) != "False":
        accepted = "no `atomic`: lines are written as they come, each for itself"
        raise invalid([Fault("/atomic", "bad_value", accepted)])
    beside.pop("atomic", None)
    items = _results(ctx, operation, http, beside)

    def one(item: Response) -> bytes:
        """As the dialect writes a whole answer, without what stands around its only item."""
        assert isinstance(item, ItemResult)
        whole = dump(RememberManyResponse(results=(item,)))
        return whole[whole.index(b"[") + 1 : whole.rindex(b"]")].strip()

    return await lines(http.scope, items, one, is_reading=True)


async def _results(
    ctx: Context, operation: AnyOperation, http: HttpRequest, beside: dict[str, Any]
) -> AsyncIterator[Response]:
    key = beside.pop("idempotency_key", None)
    count = 0
    async for group in line_groups(http, most=_MOST):
        results: dict[int, ItemResult] = {}
        good: dict[int, RememberManyRequest] = {}
        for index, text in enumerate(group, count):
            try:
                good[index] = _parsed(operation, beside, text, None if key is None else f"{key}#{index}")
            except InvalidError as error:
                if any(fault.pointer and not fault.pointer.startswith("/items") for fault in error.faults):
                    raise  # it is about what stands beside the lines
                results[index] = _refused(index, error)
        count += len(group)
        if good:
            results.update(await _written(ctx, operation, good))
        for index in sorted(results):
            yield results[index]


def _parsed(
    operation: AnyOperation, beside: dict[str, Any], text: bytes | None, key: str | None
) -> RememberManyRequest:
    """A batch of one."""
    if text is None:
        raise invalid([Fault("", "too_large", f"a line of at most {LINE_BYTES:,} bytes")])
    item = json_object(text)
    if key is not None:
        item.setdefault("idempotency_key", key)
    return operation.request.parse({**beside, "items": [item]})


async def _written(
    ctx: Context, operation: AnyOperation, good: dict[int, RememberManyRequest]
) -> dict[int, ItemResult]:
    """Together, each with the place that it had among the lines."""
    first = next(iter(good.values()))
    together = first.model_copy(update={"items": tuple(one.items[0] for one in good.values())})
    answer = await dispatch(replace(ctx, facts=Facts()), operation, together)
    assert isinstance(answer, RememberManyResponse)
    return {
        index: result.model_copy(update={"index": index})
        for index, result in zip(good, answer.results, strict=True)
    }


def _refused(index: int, error: QuipuError) -> ItemResult:
    return ItemResult(
        index=index, error=ItemError(code=error.code, reason=error.reason, message=error.message)
    )
