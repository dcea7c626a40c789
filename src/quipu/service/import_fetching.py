"""Files that are named by their address: fetched from another host through the guard (OAP contract 6.1, 10.3)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from urllib.parse import unquote, urlsplit

from quipu.errors import InvalidError
from quipu.ports.parts import Parts

#: Larger ones are downloaded by a person, and sent. What takes longer than this is too slow.
MOST_BYTES, SECONDS = 2 << 30, 600.0


def fetched_pieces(parts: Parts, url: str) -> AsyncGenerator[bytes]:
    """What stands at an address."""
    if parts.lending is None:
        raise InvalidError("No other host is asked from here.", reason="address_refused")
    return parts.lending.peers.pieces(url, MOST_BYTES, SECONDS)


def file_name(url: str) -> str | None:
    """What a file is called at its address; its ending helps to tell what it is."""
    try:
        name = unquote(urlsplit(url).path).rpartition("/")[2]
    except ValueError:
        return None
    return name[:256] or None
