"""The request as it comes in: what may stand in its query, and how large, how slow and how compressed its body may be.

0. A query with U+0000 in it is refused, as a body with it is: no ledger can keep it, and not every one can be asked for it.
1. A body over the limit is refused by what it says of itself, and again while it comes.
2. A body that pauses too long is refused.
3. A gzip body is unpacked piece by piece and held to the same limit unpacked; one without a limit, to a ratio.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quipu.errors import DeadlineError, Fault, InvalidError
from quipu.faces.http.exchange import exchange_of

_PIECE = 64 << 10
#: A body without a limit may unpack to so many times its size; what people send is far below.
RATIO = 200


class Received:
    """Handlers see a plain body within its limits, and a query that can be asked for."""

    def __init__(self, app: ASGIApp, *, most: int, pause_s: float) -> None:
        self.app = app
        self._most, self._pause_s = most, pause_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if b"%00" in scope["query_string"]:
            raise InvalidError.at("", "bad_value", "The query holds what cannot be kept: U+0000.")
        most = self._most
        if exchange_of(scope).place.is_unbounded:
            most = None
            # A streamed answer must not listen for the end of the connection by itself: it would take pieces of a
            # body that the handler is still reading. Starlette leaves that to `send` from this version on.
            scope["asgi"] = {**scope["asgi"], "spec_version": "2.4"}
        headers = Headers(scope=scope)
        body = _Body(receive, most, self._pause_s)
        match headers.get("content-encoding", "identity").strip().lower():
            case "identity" | "":
                body.refuse_length(headers.get("content-length"))
            case "gzip" | "x-gzip":
                body.unpack()
                scope["headers"] = [row for row in scope["headers"] if row[0] not in _NOT_OF_THE_PLAIN]
            case _:
                message = "The body's encoding is not known."
                raise InvalidError(message, reason="media_type", faults=[Fault("", "media_type", ("gzip",))])
        await self.app(scope, body.receive, send)


_NOT_OF_THE_PLAIN = (b"content-encoding", b"content-length")


class _Body:
    """One body on its way in."""

    def __init__(self, receive: Receive, most: int | None, pause_s: float) -> None:
        self._receive, self._most, self._pause_s = receive, most, pause_s
        self._packed: _Gzip | None = None
        self._waiting: Iterator[bytes] = iter(())
        self._count = 0
        self._is_last = False

    def unpack(self) -> None:
        self._packed = _Gzip()

    def refuse_length(self, told: str | None) -> None:
        """What the sender says about the size is believed when it is too much."""
        if self._most is not None and told is not None and told.isdecimal() and int(told[:20]) > self._most:
            raise self._too_large()

    async def receive(self) -> Message:
        """The next piece, checked."""
        while True:
            piece = next(self._waiting, None)
            if piece is not None:
                await asyncio.sleep(0)  # others get their turn, however much there is to unpack
                return self._counted(piece, more=True)
            if self._is_last:
                if self._packed is not None and not self._packed.is_told:
                    self._packed.end()
                    return _message(b"", more=False)
                return await self._receive()  # for the disconnect, whenever it comes
            message = await self._next()
            if message["type"] != "http.request":
                return message
            self._is_last = not message.get("more_body", False)
            if self._packed is None:
                return self._counted(message.get("body", b""), more=not self._is_last)
            self._waiting = self._packed.pieces(message.get("body", b""), is_bounded=self._most is not None)

    async def _next(self) -> Message:
        try:
            async with asyncio.timeout(self._pause_s):
                return await self._receive()
        except TimeoutError as error:
            raise DeadlineError("The body does not come.", reason="slow_body") from error

    def _counted(self, piece: bytes, *, more: bool) -> Message:
        self._count += len(piece)
        if self._most is not None and self._count > self._most:
            raise self._too_large()
        return _message(piece, more=more)

    def _too_large(self) -> InvalidError:
        accepted = [f"at most {self._most} bytes"]
        return InvalidError.at("", "too_large", "The body is too large.", accepted=accepted)


class _Gzip:
    """Unpacks, never more than a piece at a time. Several files in one are one."""

    def __init__(self) -> None:
        self._inflate = _inflate()
        self._raw = self._out = 0
        self.is_told = False

    def pieces(self, raw: bytes, *, is_bounded: bool) -> Iterator[bytes]:
        self._raw += len(raw)
        while raw:
            if self._inflate.eof:
                self._inflate = _inflate()
            try:
                piece = self._inflate.decompress(raw, _PIECE)
            except zlib.error:
                raise _damaged() from None
            raw = self._inflate.unconsumed_tail or self._inflate.unused_data
            self._out += len(piece)
            if not is_bounded and self._out > _PIECE * 16 + RATIO * self._raw:
                raise InvalidError.at("", "too_large", "The body unpacks to far too much.")
            if piece:
                yield piece

    def end(self) -> None:
        """A file that stops in the middle is damaged."""
        self.is_told = True
        if self._raw and not self._inflate.eof:
            raise _damaged()


def _inflate() -> Any:
    return zlib.decompressobj(16 + zlib.MAX_WBITS)


def _damaged() -> InvalidError:
    return InvalidError.at("", "bad_file", "The compressed body is damaged or cut short.")


def _message(body: bytes, *, more: bool) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}
