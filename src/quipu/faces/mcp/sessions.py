"""/mcp behind its door: the SDK's server over HTTP, and the sessions of older clients."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

from mcp.server import MCPServer
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import Receive, Scope, Send

from quipu.faces.mcp.caller import Who
from quipu.faces.mcp.options import HttpOptions
from quipu.faces.mcp.server import mcp_server
from quipu.model.principal import Principal
from quipu.service.memory import MemoryService


class Sessions:
    """One server for every client; it answers for as long as it runs."""

    def __init__(self, service: MemoryService, who: Who, given: HttpOptions, path: str) -> None:
        self._given, self._path = given, path
        self._server: MCPServer[Any] = mcp_server(service, who, given.options)

    def running(self) -> AbstractAsyncContextManager[None]:
        """Sessions of older clients live here. Asked for once, on the loop that they live on."""
        hosts = [text for host in self._given.hosts for text in (host, f"{host}:*")]
        self._server.streamable_http_app(
            streamable_http_path=self._path,
            max_request_body_size=self._given.body_bytes,
            transport_security=TransportSecuritySettings(
                enable_dns_rebinding_protection=bool(hosts),
                allowed_hosts=hosts,
                allowed_origins=[
                    *self._given.origins,
                    *(f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts),
                ],
            ),
        )
        return self._server.session_manager.run()

    async def handle(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        # A session belongs to whom it was opened by.
        scope["user"] = AuthenticatedUser(_as_token(principal))
        await self._server.session_manager.handle_request(scope, receive, send)


def _as_token(principal: Principal) -> AccessToken:
    """Whom the SDK takes for the owner of a session. The credential itself is not handed on."""
    return AccessToken(
        token="",
        client_id=principal.tenant,
        scopes=sorted(permission.value for permission in principal.permissions),
        subject=principal.name,
    )
