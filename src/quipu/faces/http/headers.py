"""Headers that every answer carries, and text that is safe in one."""

from __future__ import annotations

from urllib.parse import quote

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Set unless the handler said otherwise: a page brings its own policy, a style sheet may be cached.
_DEFAULTS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_HSTS = "max-age=31536000"
_SAFE = " !#$&'()*+,-./:;<=>?@[]^_`{|}~"


def header_text(text: str) -> str:
    """The text as it may stand in a header: anything but visible ASCII is percent-encoded."""
    return quote(text, safe=_SAFE, errors="replace")


class SecurityHeaders:
    """Nothing is cached, guessed, framed or told to others, unless a handler has a reason."""

    def __init__(self, app: ASGIApp, *, is_https: bool) -> None:
        self.app = app
        self._is_https = is_https

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _DEFAULTS.items():
                    headers.setdefault(name, value)
                headers.update(_ALWAYS)
                if self._is_https or scope.get("scheme") == "https":
                    headers["Strict-Transport-Security"] = _HSTS
            await send(message)

        await self.app(scope, receive, sending if scope["type"] == "http" else send)
