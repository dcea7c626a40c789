"""/mcp on the server: streamable HTTP, both protocol generations, behind the server's own credentials.

The plumbing has told who is asking before the SDK sees a request, so there is one check of tokens and not two. What the
protocol wants beside it stands here: where to get a token, and who owns a session.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mcp.server import MCPServer
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from quipu.errors import ForbiddenError, InvalidError, NotFoundError, QuipuError, UnauthenticatedError
from quipu.faces.http.answers import problem_response
from quipu.faces.http.authentication import principal_of
from quipu.faces.http.catalogue import Face
from quipu.faces.mcp.caller import Caller, agent_of
from quipu.faces.mcp.profiles import PROFILES
from quipu.faces.mcp.server import Options, mcp_server
from quipu.model.principal import Permission, Principal
from quipu.service.memory import MemoryService

PATH = "/mcp"
PINNED = "/mcp/{store}"
METADATA = "/.well-known/oauth-protected-resource/mcp"
_METHODS = ("GET", "POST", "DELETE")
#: How often a stream's credential is looked at again, in seconds.
_LOOK_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """What the operator says about it."""

    options: Options
    profile: str = "default"
    #: The agent of credentials that are for several.
    agent: str = "default"
    public_url: str = ""
    #: Where tokens come from, if not from this server.
    issuer: str = ""
    #: Names the server answers to; empty leaves that to the plumbing.
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    #: The only memory store that is there; None: all that the caller may see.
    store: str | None = None
    #: Whether nothing can be written, whatever the caller's credential says.
    read_only: bool = False


def face(service: MemoryService, given: HttpOptions) -> Face:
    """What the plumbing needs to know of this face."""
    endpoint = _Endpoint(service, given)
    return Face(
        name="mcp",
        routes=[
            Route(METADATA, endpoint.metadata, methods=["GET"]),
            Route(PATH, endpoint, methods=list(_METHODS)),
            Route(PINNED, endpoint, methods=list(_METHODS)),
        ],
        prefix=PATH,
        public=frozenset({METADATA}),
        streaming=frozenset({PATH, PINNED}),
        sent_headers=frozenset({"Mcp-Method", "Mcp-Name", "MCP-Protocol-Version", "Mcp-Session-Id"}),
        shown_headers=frozenset({"Mcp-Session-Id", "WWW-Authenticate"}),
        show_error=endpoint.show_error,
        lifespan=endpoint.running,
    )


class _Endpoint:
    """One address for every client."""

    def __init__(self, service: MemoryService, given: HttpOptions) -> None:
        self._service, self._given = service, given
        self._server: MCPServer[Any] = mcp_server(service, self._who, given.options)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Sessions of older clients live here, as long as the server does."""
        hosts = [text for host in self._given.hosts for text in (host, f"{host}:*")]
        self._server.streamable_http_app(
            streamable_http_path=PATH,
            transport_security=TransportSecuritySettings(
                enable_dns_rebinding_protection=bool(hosts),
                allowed_hosts=hosts,
                allowed_origins=[
                    *self._given.origins,
                    *(f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts),
                ],
            ),
        )
        async with self._server.session_manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        principal = principal_of(request)
        if not principal.may(Permission.READ):
            raise ForbiddenError("This needs memory:read.", reason="missing_scope")
        await self._check_place(request, principal)
        # A session belongs to whom it was opened by.
        scope["user"] = AuthenticatedUser(_as_token(principal))
        await self._as_long_as_good(request, self._server.session_manager, receive, send)

    async def _check_place(self, request: Request, principal: Principal) -> None:
        """A profile and a store that are there."""
        if self._profile(request) not in PROFILES:
            message = "There is no such profile."
            raise InvalidError.at("/profile", "bad_value", message, accepted=list(PROFILES))
        store = self._store(request)
        known = [] if store is None else [row.name for row in await self._service.stores.list(principal)]
        is_other = self._given.store not in (None, store)
        if is_other or (store is not None and store not in known):
            raise NotFoundError("There is no such memory store.", reason="store")

    async def _as_long_as_good(
        self, request: Request, manager: StreamableHTTPSessionManager, receive: Receive, send: Send
    ) -> None:
        """A stream ends with the credential that opened it."""
        is_open = False

        async def sending(message: Message) -> None:
            nonlocal is_open
            is_open = message["type"] == "http.response.start" or message.get("more_body", False)
            await send(message)

        work = asyncio.ensure_future(manager.handle_request(request.scope, receive, sending))
        try:
            while not work.done():
                await asyncio.wait({work}, timeout=_LOOK_S)
                if not work.done() and not await self._is_good(request):
                    work.cancel()
                    await asyncio.wait({work})
                    if is_open:
                        await send({"type": "http.response.body", "body": b"", "more_body": False})
                    return
            await work
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def _is_good(self, request: Request) -> bool:
        try:
            await self._renewed(request)
        except UnauthenticatedError:
            return False
        return True

    async def _renewed(self, request: Request) -> Principal:
        given = request.headers.get("authorization")
        if given is None:  # open mode: nobody is asked
            return self._narrowed(principal_of(request))
        return self._narrowed(await self._service.credentials.renewed(given.partition(" ")[2].strip()))

    def _narrowed(self, principal: Principal) -> Principal:
        """What the operator lets anybody do here, at most."""
        if not self._given.read_only:
            return principal
        return replace(principal, permissions=principal.permissions & {Permission.READ})

    def _who(self, ctx: ServerRequestContext[Any, Any]) -> Caller:
        request: Request | None = ctx.request
        if request is None:
            raise UnauthenticatedError(reason="no_credential")
        principal = self._narrowed(principal_of(request))
        return Caller(
            principal=principal,
            agent_id=agent_of(principal, self._given.agent),
            profile=self._profile(request),
            store=self._store(request),
            base=self._base(request),
            renewed=lambda: self._renewed(request),
        )

    def _store(self, request: Request) -> str | None:
        return request.path_params.get("store", self._given.store)

    def _profile(self, request: Request) -> str:
        return request.query_params.get("profile", self._given.profile)

    def _base(self, request: Request) -> str:
        return (self._given.public_url or str(request.base_url)).rstrip("/")

    async def metadata(self, request: Request) -> Response:
        """Where tokens for this resource come from (RFC 9728)."""
        body: dict[str, Any] = {
            "resource": f"{self._base(request)}{PATH}",
            "scopes_supported": [scope.value for scope in Permission if scope.value.startswith("memory:")],
            "bearer_methods_supported": ["header"],
        }
        if self._given.issuer:
            body["authorization_servers"] = [self._given.issuer]
        return JSONResponse(body)

    async def show_error(self, request: Request, error: QuipuError) -> Response | None:
        """The plumbing's answer, which also says where a token comes from."""
        told = f'resource_metadata="{self._base(request)}{METADATA}"'
        response = problem_response(error, getattr(request.state, "request_id", None))
        if isinstance(error, UnauthenticatedError):
            response.headers["WWW-Authenticate"] += f", {told}"
        elif error.reason == "missing_scope":
            scope = f'Bearer realm="quipu", error="insufficient_scope", scope="{Permission.READ.value}"'
            response.headers["WWW-Authenticate"] = f"{scope}, {told}"
        return response


def _as_token(principal: Principal) -> AccessToken:
    """Whom the SDK takes for the owner of a session. The credential itself is not handed on."""
    return AccessToken(
        token="",
        client_id=principal.tenant,
        scopes=sorted(permission.value for permission in principal.permissions),
        subject=principal.name,
    )
