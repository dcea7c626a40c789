"""OAP's addresses: each translates and calls `dispatch`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse
from starlette.routing import BaseRoute, Route

from quipu.http.authentication import Authentication
from quipu.sharing.audit_routes import AuditRoutes
from quipu.sharing.described import described
from quipu.sharing.erasure_routes import ErasureRoutes
from quipu.sharing.grant_routes import GrantRoutes
from quipu.sharing.service import Sharing
from quipu.sharing.wire import Wire

#: A key that is compromised must not live on in a cache for long.
_ANYBODY = {"Cache-Control": "max-age=60", "Access-Control-Allow-Origin": "*"}


@dataclass(frozen=True, slots=True)
class OapRoutes:
    """Everything that another host, or an owner in OAP's words, can ask for."""

    sharing: Sharing
    wire: Wire

    @classmethod
    def of(cls, sharing: Sharing, authentication: Authentication) -> "OapRoutes":
        return cls(sharing, Wire(sharing.host, authentication))

    @property
    def routes(self) -> list[BaseRoute]:
        grants = GrantRoutes(self.sharing, self.wire)
        return [
            *self._documents(),
            *grants.routes,
            *ErasureRoutes(self.sharing, self.wire).routes,
            *AuditRoutes(self.sharing, self.wire, grants).routes,
        ]

    @property
    def described(self) -> dict[str, Any]:
        """The addresses for the OpenAPI document."""
        return described(self.routes)

    # -- documents that anybody may read ------------------------------------------------------------------------------

    def _documents(self) -> list[BaseRoute]:
        """Bare JSON. The address of an owner holds a random name, so nobody can ask who is here."""
        about = self.sharing.about

        async def document(path: str | None) -> Any:
            return about.document(path)

        async def tool(_: str | None) -> Any:
            return about.tool_manifest()

        async def receipt(_: str | None) -> Any:
            return about.conformance_receipt()

        return [
            self._document("/.well-known/did.json", document),
            self._document("/owners/{path}/did.json", document),
            self._document("/.well-known/oap-memory.json", about.memory_manifest),
            self._document("/owners/{path}/oap-memory.json", about.memory_manifest),
            self._document("/.well-known/oap-tool.json", tool),
            self._document("/oap-conformance-receipt.json", receipt),
        ]

    def _document(self, path: str, read: Callable[[str | None], Awaitable[Any]]) -> Route:
        async def answered(http: HttpRequest) -> HttpResponse:
            return self.wire.bare(await read(http.path_params.get("path")), headers=_ANYBODY)

        return self.wire.route("GET", path, answered)
