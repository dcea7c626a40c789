"""What every request passes before its route, in this order: its id and log line, known hosts, load, deadline."""

import asyncio
import json
import logging
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request as HttpRequest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quipu.errors import BackendUnavailableError, DeadlineError, ForbiddenError, QuipuError
from quipu.http.problems import problem
from quipu.http.settings import HttpSettings

_log = logging.getLogger("quipu.access")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})
_SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}


class Exchange:
    """Gives each request an id, and leaves a line about it: what was asked and how it ended, never what was said."""

    def __init__(self, app: ASGIApp, new_id: Callable[[str], str]) -> None:
        self._app, self._new_id = app, new_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = self._new_id("req")
        scope.setdefault("state", {})["request_id"] = request_id
        started, status = time.perf_counter(), 0

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["Quipu-Request-Id"] = request_id
                for name, value in _SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            line = {
                "request_id": request_id,
                "method": scope["method"],
                "route": getattr(scope.get("route"), "path", None),
                "status": status,
                "ms": round((time.perf_counter() - started) * 1000, 1),
            }
            _log.info("%s", json.dumps(line))


class KnownHosts:
    """Refuses requests that came under a foreign name, or from a page of a foreign origin: DNS rebinding."""

    def __init__(self, app: ASGIApp, settings: HttpSettings) -> None:
        self._app = app
        self._hosts = frozenset({*settings.allowed_hosts, settings.host} | _LOOPBACK)
        self._origins = frozenset(settings.cors_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            if not self._is_known(headers.get("host", "")) or not self._may_come(headers.get("origin")):
                error = ForbiddenError("This server is not known under that name.", reason="unknown_host")
                await (await problem(HttpRequest(scope), error))(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _is_known(self, host: str) -> bool:
        name = host.rpartition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
        return "*" in self._hosts or name.lower() in self._hosts

    def _may_come(self, origin: str | None) -> bool:
        if origin is None or origin in self._origins or "*" in self._origins:
            return True
        return self._is_known(urlsplit(origin).netloc)


class LoadShedding:
    """Refuses what is beyond so many requests at work, rather than letting everybody wait; and ends what takes too long."""

    def __init__(self, app: ASGIApp, settings: HttpSettings) -> None:
        self._app, self._most, self._timeout_s = app, settings.most_requests, settings.request_timeout_s
        self._at_work = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in ("/healthz", "/readyz"):
            await self._app(scope, receive, send)
            return
        if self._at_work >= self._most:
            error: QuipuError = BackendUnavailableError(
                "Too many requests are at work.", reason="overloaded", retry_after_s=1
            )
            await (await problem(HttpRequest(scope), error))(scope, receive, send)
            return
        self._at_work += 1
        has_begun = False

        async def sent(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            async with asyncio.timeout(self._timeout_s) as limit:

                async def begun(message: Message) -> None:
                    limit.reschedule(None)  # an answer that has begun is finished: streams may take longer
                    await sent(message)

                await self._app(scope, receive, begun)
        except TimeoutError:
            if has_begun:
                raise
            error = DeadlineError("The request was not done in time.", reason="deadline")
            await (await problem(HttpRequest(scope), error))(scope, receive, send)
        finally:
            self._at_work -= 1
