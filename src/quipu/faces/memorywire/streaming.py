"""Answers that come piece by piece: to a reader that may leave, and to a writer that may not read yet."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import IO

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

_IN_MEMORY = 1 << 20
_PIECE = 64 << 10


class Told(StreamingResponse):
    """Pieces as they come. When the reader leaves, whoever makes them is told to stop."""

    def __init__(
        self, pieces: AsyncGenerator[bytes], media_type: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(pieces, 200, headers, media_type)
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":  # nobody would see the pieces
            await self._pieces.aclose()
            self.body_iterator = _nothing()
        telling = asyncio.ensure_future(self._tell(send))
        leaving = asyncio.ensure_future(self.listen_for_disconnect(receive))
        try:
            await asyncio.wait({telling, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if telling.done():
                await telling
        finally:
            for task in (telling, leaving):
                task.cancel()
            await asyncio.gather(telling, leaving, return_exceptions=True)

    async def _tell(self, send: Send) -> None:
        async with aclosing(self._pieces):
            await self.stream_response(send)


async def _nothing() -> AsyncGenerator[bytes]:
    yield b""


class Spooled(StreamingResponse):
    """Pieces that are made while the request's body is read.

    Most clients send everything before they read anything. What they do not read yet waits here, in memory and then
    in a file, so that neither side waits for the other.
    """

    def __init__(self, pieces: AsyncGenerator[bytes], media_type: str) -> None:
        self._spool = _Spool()
        super().__init__(self._spool.pieces(), 200, None, media_type)
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        making = asyncio.ensure_future(self._make())
        sending = asyncio.ensure_future(self.stream_response(send))
        try:
            await asyncio.wait({making, sending}, return_when=asyncio.FIRST_EXCEPTION)
            for task in (making, sending):
                if task.done():
                    await task
        finally:
            for task in (making, sending):
                task.cancel()
            await asyncio.gather(making, sending, return_exceptions=True)
            await self._spool.close()

    async def _make(self) -> None:
        async with aclosing(self._pieces):
            async for piece in self._pieces:
                await self._spool.put(piece)
        self._spool.end()


class _Spool:
    """First in, first out; what memory does not hold is in a file without a name."""

    def __init__(self) -> None:
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
        if self._written == self._read and self._size + len(piece) <= _IN_MEMORY:
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
