"""/mcp on the server: streamable HTTP, both protocol generations, behind the server's own credentials.

The plumbing has told who is asking before the SDK sees a request, so there is one check of tokens and not two. What the
protocol wants beside it stands here: where to get a token, and who owns a session.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from quipu.errors import ForbiddenError, InvalidError, NotFoundError, QuipuError, UnauthenticatedError
from quipu.faces.http.answers import problem_response
from quipu.faces.http.authentication import principal_of
from quipu.faces.http.catalogue import Face
from quipu.faces.mcp.caller import Caller, agent_of
from quipu.faces.mcp.opening import Opening
from quipu.faces.mcp.options import HttpOptions
from quipu.faces.mcp.profiles import PROFILES
from quipu.model.principal import Permission, Principal
from quipu.service.memory import MemoryService

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from quipu.faces.mcp.sessions import Sessions

PATH = "/mcp"
PINNED = "/mcp/{store}"
METADATA = "/.well-known/oauth-protected-resource/mcp"
_METHODS = ("GET", "POST", "DELETE")
#: How often a stream's credential is looked at again, in seconds.
_LOOK_S = 15.0


def face(service: MemoryService, given: HttpOptions, *, at_once: bool = False) -> Face:
    """What the plumbing needs to know of this face. `at_once`: the SDK is not left to the first request."""
    endpoint = _Endpoint(service, given, at_once=at_once)
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
        lifespan=endpoint.opening.lasting,
    )


class _Endpoint:
    """One address for every client."""

    def __init__(self, service: MemoryService, given: HttpOptions, *, at_once: bool) -> None:
        self._service, self._given = service, given
        made = self._made() if at_once else None
        self.opening = Opening(lambda: made or self._made())

    def _made(self) -> Sessions:
        from quipu.faces.mcp.sessions import Sessions

        return Sessions(self._service, self._who, self._given, PATH)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        principal = principal_of(request)
        if not principal.may(Permission.READ):
            raise ForbiddenError("This needs memory:read.", reason="missing_scope")
        await self._check_place(request, principal)
        sessions = await self.opening.opened()
        await self._as_long_as_good(request, sessions, receive, send)

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
        self, request: Request, sessions: Sessions, receive: Receive, send: Send
    ) -> None:
        """A stream ends with the credential that opened it."""
        is_open = False

        async def sending(message: Message) -> None:
            nonlocal is_open
            is_open = message["type"] == "http.response.start" or message.get("more_body", False)
            await send(message)

        work = asyncio.ensure_future(sessions.handle(principal_of(request), request.scope, receive, sending))
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
