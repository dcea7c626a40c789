"""`/mcp` on the server: streamable HTTP for both generations, behind the server's own credentials.

The caller is known before the SDK sees a request, so there is one check of tokens and not two. What the protocol wants
beside it stands here: where tokens come from, whose a session is, and that a stream ends with its credential. Importing
this loads no SDK: the first request does, or the server once it is at work.
"""

import asyncio
import contextvars
import gc
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse
from starlette.responses import Response as HttpResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Message, Receive, Scope, Send

from quipu.errors import Fault, ForbiddenError, NotFoundError, QuipuError, UnauthenticatedError
from quipu.mcp.caller import Caller, check_store, narrowed
from quipu.mcp.settings import PROFILES, McpParts
from quipu.model.principal import Permission, Principal
from quipu.operation import Context, invalid

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from quipu.mcp.server import McpServer

PATH = "/mcp"
PINNED = "/mcp/{store}"
METADATA = "/.well-known/oauth-protected-resource/mcp"
#: Where a request's caller waits for the SDK to come back with it.
_CALLER = "quipu.mcp.caller"
_METHODS = ["GET", "POST", "DELETE"]
#: How often a stream's credential is looked at again, in seconds.
_LOOK_S = 15.0
_log = logging.getLogger("quipu.mcp")


class Authenticate(Protocol):
    """Who asks; raises for nobody."""

    def __call__(self, http: HttpRequest, /) -> Awaitable[Context]: ...


#: An error as the server answers it.
Problem = Callable[[HttpRequest, QuipuError], HttpResponse]


@dataclass(frozen=True, slots=True)
class _Running:
    """The SDK at work."""

    made: "McpServer"
    manager: "StreamableHTTPSessionManager"


class McpEndpoint:
    """One address for every client."""

    def __init__(self, parts: McpParts, authenticate: Authenticate, problem: Problem) -> None:
        self._parts, self._authenticate, self._problem = parts, authenticate, problem
        self._running: asyncio.Future[_Running] | None = None
        self._holding: asyncio.Task[None] | None = None
        self._end = asyncio.Event()

    @property
    def routes(self) -> list[BaseRoute]:
        return [
            Route(METADATA, self._metadata, methods=["GET"]),
            Route(PATH, self, methods=_METHODS),
            Route(PINNED, self, methods=_METHODS),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        http = HttpRequest(scope, receive)
        try:
            caller = await self._caller(http)
        except (UnauthenticatedError, ForbiddenError) as error:
            await self._refusal(http, error)(scope, receive, send)
            return
        running = await self._opened()
        scope[_CALLER] = caller
        scope["headers"] = [
            (name, value.strip() if name.startswith(b"mcp-") else value)
            for name, value in scope["headers"]
            if name != b"last-event-id"  # a stream that broke off is not taken up again: a new one begins
        ]
        await self._answer(running, caller, scope, receive, send)

    # -- who asks -------------------------------------------------------------------------------------------------

    async def _caller(self, http: HttpRequest) -> Caller:
        settings = self._parts.settings
        profile = http.query_params.get("profile", settings.profile)
        if profile not in PROFILES:
            raise invalid([Fault("/profile", "bad_value", ", ".join(PROFILES))])
        store: str | None = http.path_params.get("store", settings.store)
        if settings.store not in (None, store):
            raise NotFoundError("There is no such memory store.", reason="store")
        ctx = await self._authenticate(http)
        if not ctx.principal.may(Permission.READ):
            raise ForbiddenError(reason="missing_scope", hint=f"It needs the permission {Permission.READ}.")
        if store is not None:
            await check_store(self._parts.ledger, ctx.principal, store)

        async def renewed() -> Principal:
            return narrowed((await self._authenticate(http)).principal, store, read_only=settings.read_only)

        def context(principal: Principal) -> Context:
            return Context(principal, ctx.clock, ctx.services)

        return Caller(
            principal=narrowed(ctx.principal, store, read_only=settings.read_only),
            context=context,
            profile=profile,
            store=store,
            base=self._base(http),
            renewed=renewed,
        )

    def _base(self, http: HttpRequest) -> str:
        return (self._parts.settings.public_url or str(http.base_url)).rstrip("/")

    def _refusal(self, http: HttpRequest, error: QuipuError) -> HttpResponse:
        """The server's own answer, which also says where a token comes from (RFC 9728)."""
        answer = self._problem(http, error)
        metadata = f'resource_metadata="{self._base(http)}{METADATA}"'
        if error.code == UnauthenticatedError.code:
            answer.headers["WWW-Authenticate"] = f"{answer.headers['WWW-Authenticate']}, {metadata}"
        elif error.reason == "missing_scope":
            scope = f'Bearer realm="quipu", error="insufficient_scope", scope="{Permission.READ}"'
            answer.headers["WWW-Authenticate"] = f"{scope}, {metadata}"
        return answer

    async def _metadata(self, http: HttpRequest) -> HttpResponse:
        """Where tokens for this resource come from; everybody may know."""
        body: dict[str, Any] = {
            "resource": f"{self._base(http)}{PATH}",
            "scopes_supported": [one.value for one in Permission if one.value.startswith("memory:")],
            "bearer_methods_supported": ["header"],
        }
        if self._parts.settings.issuer:
            body["authorization_servers"] = [self._parts.settings.issuer]
        return JSONResponse(body)

    # -- one request ----------------------------------------------------------------------------------------------

    async def _answer(
        self, running: _Running, caller: Caller, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """A stream ends with the credential that opened it, and a session with its last word."""
        from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
        from mcp.server.auth.provider import AccessToken

        principal, http = caller.principal, HttpRequest(scope)
        # A session belongs to whom it was opened by. The credential itself is not handed on.
        scope["user"] = AuthenticatedUser(
            AccessToken(token="", client_id=principal.tenant, scopes=[], subject=principal.name)
        )
        session_id = http.headers.get("mcp-session-id", "")
        sent: Message = {"type": ""}
        status: list[int] = []

        async def sending(message: Message) -> None:
            nonlocal sent
            sent = message
            if "status" in message:
                status.append(message["status"])
            await send(message)

        subscriptions = running.made.subscriptions
        is_listening = scope["method"] == "GET" and self._parts.settings.keeps_sessions
        async with subscriptions.streaming(session_id, caller) if is_listening else nullcontext():
            work = asyncio.ensure_future(running.manager.handle_request(scope, receive, sending))
            try:
                while not work.done():
                    await asyncio.wait({work}, timeout=_LOOK_S)
                    if not work.done() and not await _is_good(caller):
                        work.cancel()
                        await asyncio.wait({work})
                        if status and sent.get("more_body", True):
                            await send({"type": "http.response.body", "body": b"", "more_body": False})
                        return
                await work
            finally:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
        if scope["method"] == "DELETE" and status == [200]:
            subscriptions.end(session_id)

    # -- the SDK --------------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Before somebody has to wait for it."""
        await self._opened()

    async def close(self) -> None:
        """With the server: sessions of older clients end."""
        self._end.set()
        if self._holding is not None:
            await self._holding

    async def _opened(self) -> _Running:
        if self._running is None:
            self._running = asyncio.get_running_loop().create_future()
            # In a context of its own: that of the request ends with it.
            self._holding = asyncio.create_task(self._hold(self._running), context=contextvars.Context())
        # Whoever goes away meanwhile leaves it to the others.
        return await asyncio.shield(self._running)

    async def _hold(self, opened: "asyncio.Future[_Running]") -> None:
        """From the beginning to the end in one task: what the SDK opens, the same task has to close."""
        try:
            async with AsyncExitStack() as stack:
                running = await asyncio.to_thread(self._made)
                await stack.enter_async_context(running.manager.run())
                opened.set_result(running)
                await self._end.wait()
        except Exception as error:  # noqa: BLE001  raised to whoever waits; the next one tries again
            _log.error("MCP cannot be spoken: %s", type(error).__name__)
            if not opened.done():
                opened.set_exception(error)
        finally:
            self._running = None

    def _made(self) -> _Running:
        """On a thread: loading the SDK takes most of a second, and others want their answers meanwhile."""
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from quipu.mcp.server import mcp_server

        made = mcp_server(self._parts, _caller_of)
        manager = StreamableHTTPSessionManager(made.server, stateless=not self._parts.settings.keeps_sessions)
        if gc.get_freeze_count():  # the program has settled (http/server.py); this belongs to what stays
            gc.collect()
            gc.freeze()
        return _Running(made, manager)


async def _is_good(caller: Caller) -> bool:
    try:
        principal = await caller.renewed()
    except UnauthenticatedError:
        return False
    except QuipuError:  # it could not be looked up now
        return True
    return principal.may(Permission.READ)


def _caller_of(ctx: "ServerRequestContext[Any, Any]") -> Caller:
    found: Caller | None = None if ctx.request is None else ctx.request.scope.get(_CALLER)
    if found is None:
        raise UnauthenticatedError(reason="no_credential")
    return found
