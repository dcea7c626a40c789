"""Connections with an end: whoever does not say in time what they want is shown out."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

#: Headers must be there within this time, and be no larger.
HEADER_S = 15.0
HEADER_BYTES = 64 << 10
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

#: Which of uvicorn's parsers it is depends on what is installed.
_Protocol: Any = AutoHTTPProtocol


class ImpatientProtocol(_Protocol):
    """uvicorn's protocol, with a limit on how long and how large the headers of a request may be."""

    header_s = HEADER_S
    _timer: asyncio.TimerHandle | None = None
    _waiting_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        _Protocol.connection_made(self, transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        _Protocol.data_received(self, data)
        if self._is_at_work():
            self._stop_waiting()
            return
        self._expect()
        self._waiting_bytes += len(data)
        if self._waiting_bytes > HEADER_BYTES and not self.transport.is_closing():
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        _Protocol.connection_lost(self, exc)

    def _is_at_work(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect(self) -> None:
        """From the first byte on, not from the last: a byte a second is no sign of life."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.header_s, self.transport.close)

    def _stop_waiting(self) -> None:
        self._waiting_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
