"""Which names the server answers to. A web page that points its own name at this machine is not let in."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from quipu.errors import ForbiddenError
from quipu.faces.http.exchange import exchange_of
from quipu.faces.http.settings import HttpSettings

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


class KnownHosts:
    """Refuses foreign host names, and in open mode also what pages of foreign origins send."""

    def __init__(self, app: ASGIApp, *, settings: HttpSettings) -> None:
        self.app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_known(scope):
            raise ForbiddenError("This server does not answer to that host or origin.", reason="host")
        await self.app(scope, receive, send)

    def _is_known(self, scope: Scope) -> bool:
        names, headers = self._settings.hosts, Headers(scope=scope)
        if not names:
            return True
        given = headers.getlist("host")
        if exchange_of(scope).place.is_always_open and not self._settings.is_open:
            return True  # a load balancer asks by address
        if len(given) != 1 or not is_named(host_of(given[0]), names):
            return False
        return not self._settings.is_open or self._is_known_origin(headers, names)

    def _is_known_origin(self, headers: Headers, names: Sequence[str]) -> bool:
        """Without credentials the browser's word is all there is: a page of another site must not write here."""
        origin = headers.get("origin")
        if origin is None:
            return headers.get("sec-fetch-site", "none") in ("none", "same-origin", "same-site")
        if origin in self._settings.cors_origins:
            return True
        try:
            return is_named(urlsplit(origin).hostname or "", names)
        except ValueError:
            return False


def host_of(header: str) -> str:
    """The name in a Host header, without port and brackets, in small letters."""
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].rstrip(".")


def is_named(host: str, names: Sequence[str]) -> bool:
    """Whether a host is among the names; `.example.org` takes every name below it."""
    return any(host == name.strip("[]") or (name.startswith(".") and host.endswith(name)) for name in names)
