"""A network that fails on purpose: a small real proxy that says what becomes of each request."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

_END = b"\r\n\r\n"


@dataclass(frozen=True)
class Fate:
    """What becomes of one request."""

    #: Seconds before anything happens.
    delay_s: float = 0.0
    #: Close without having asked the server.
    is_cut_before: bool = False
    #: Answer like this instead of the server.
    answer: bytes | None = None
    #: So many bytes of the server's answer are passed on before the connection breaks; None: all.
    cut_after: int | None = None


PASS = Fate()
CUT_BEFORE = Fate(is_cut_before=True)
#: The server does it, and nobody hears of it.
LOST = Fate(cut_after=0)


def busy(status: int, code: str, retry_after: int | None = None) -> Fate:
    """A refusal as our server sends it."""
    body = b'{"type":"urn:quipu:error:%b","code":"%b","detail":"Not now.","retryable":true}' % (
        code.encode(),
        code.encode(),
    )
    wait = b"" if retry_after is None else b"retry-after: %d\r\n" % retry_after
    return Fate(answer=_answer(status, body, b"application/problem+json", wait))


def plain(status: int, text: bytes = b"<h1>Bad gateway</h1>", media_type: bytes = b"text/html") -> Fate:
    """An answer of something that stands between."""
    return Fate(answer=_answer(status, text, media_type, b""))


def _answer(status: int, body: bytes, media_type: bytes, more: bytes) -> bytes:
    head = b"HTTP/1.1 %d X\r\ncontent-type: %b\r\ncontent-length: %d\r\n%bconnection: close\r\n\r\n"
    return head % (status, media_type, len(body), more) + body


@dataclass
class Proxy:
    """Stands between a client and a server. Fates are used up one by one; afterwards everything passes."""

    port: int
    fates: list[Fate] = field(default_factory=list[Fate])
    #: The request lines that came, in order.
    asked: list[str] = field(default_factory=list[str])
    choose: Callable[[str], Fate | None] | None = None
    _server: asyncio.Server | None = None
    _tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    async def __aenter__(self) -> Self:
        return await self.listen()

    async def listen(self, port: int = 0) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port)
        return self

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.append(asyncio.create_task(self._serve(reader, writer)))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def will(self, *fates: Fate) -> None:
        self.fates += fates

    def count(self, part: str) -> int:
        """How many requests for an address came."""
        return sum(part in line for line in self.asked)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(_END)
            line = head.partition(b"\r\n")[0].decode()
            self.asked.append(line)
            fate = (self.choose(line) if self.choose is not None else None) or self._next()
            body = await _body(head, reader)
            await asyncio.sleep(fate.delay_s)
            if fate.answer is not None:
                writer.write(fate.answer)
                await writer.drain()
            elif not fate.is_cut_before:
                await self._pass(head, body, writer, fate.cut_after)
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    def _next(self) -> Fate:
        return self.fates.pop(0) if self.fates else PASS

    async def _pass(
        self, head: bytes, body: bytes, writer: asyncio.StreamWriter, cut_after: int | None
    ) -> None:
        theirs, mine = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            mine.write(
                re.sub(rb"(?i)\r\nconnection: [^\r]*", b"", head[:-2]) + b"connection: close\r\n\r\n" + body
            )
            await mine.drain()
            if cut_after is None:
                while piece := await theirs.read(65536):
                    writer.write(piece)
                    await writer.drain()
                return
            if not cut_after:  # the whole answer is made, and none of it arrives
                await theirs.read()
                return
            left = cut_after
            while left > 0 and (piece := await theirs.read(left)):
                writer.write(piece)
                left -= len(piece)
            await writer.drain()
        finally:
            mine.close()


async def _body(head: bytes, reader: asyncio.StreamReader) -> bytes:
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    if length:
        return await reader.readexactly(int(length[1]))
    if not re.search(rb"(?i)\r\ntransfer-encoding: *chunked", head):
        return b""
    body = b""
    while not body.endswith(b"0\r\n\r\n"):
        body += await reader.readuntil(b"\r\n")
    return body
