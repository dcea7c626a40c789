"""Requests that offer to go on in another protocol: nobody here takes that up, so they are requests like any other.

Some clients offer HTTP/2 with every first request of a connection, Java's own among them. To the fast parser such an
offer is the end of HTTP/1.1: it would leave the body unread, and take it for the next request. So the offer is left out,
and the parser is given the request once more. The slower parser passes over offers by itself.
"""

from __future__ import annotations

from array import array
from typing import Protocol

from httptools import HttpParserUpgrade, HttpRequestParser


class Asking(Protocol):
    """A connection, as far as its newest request has been read."""

    url: bytes
    headers: list[tuple[bytes, bytes]]
    parser: DeafParser


class DeafParser(HttpRequestParser):
    """uvicorn's parser, which hears no offers."""

    def __init__(self, asking: Asking) -> None:
        super().__init__(asking)
        self._asking = asking
        # As uvicorn has it: an answer is sent also where something follows a request that was to be the last.
        self.set_dangerous_leniencies(lenient_data_after_close=True)

    @property
    def is_offered(self) -> bool:
        """Whether the request whose headers have just been read will be read once more; a tunnel is refused instead."""
        return self.should_upgrade() and self.get_method() != b"CONNECT"

    def feed_data(self, data: bytes | bytearray | memoryview | array[int]) -> None:
        try:
            super().feed_data(data)
        except HttpParserUpgrade as offer:
            rest = bytes(data)[offer.args[0] :]
            # Another parser: where the request was to be the last of its connection, this one takes in nothing more.
            self._asking.parser = DeafParser(self._asking)
            self._asking.parser.feed_data(self._without_offer() + rest)

    def _without_offer(self) -> bytes:
        asked = self._asking
        line = b"%s %s HTTP/%s\r\n" % (self.get_method(), asked.url, self.get_http_version().encode("ascii"))
        kept = (b"%s: %s\r\n" % row for row in asked.headers if row[0] != b"upgrade")
        return b"".join([line, *kept, b"\r\n"])
