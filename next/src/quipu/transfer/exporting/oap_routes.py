"""OAP's address of exports: the owner's own copy, or what a grant shows."""

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse
from starlette.routing import BaseRoute

from quipu.operation import Context, dispatch_stream
from quipu.sharing.described import described
from quipu.sharing.grant_routes import GrantRoutes
from quipu.sharing.wire import Wire
from quipu.transfer.exporting import operations as ops
from quipu.transfer.exporting.oap import OapExport


@dataclass(frozen=True, slots=True)
class ExportRoutes:
    """Files are sent as they are, refusals in an envelope."""

    wire: Wire
    grants: GrantRoutes

    @property
    def routes(self) -> list[BaseRoute]:
        return [self.wire.route("POST", "/oap/memory/export", self.export)]

    @property
    def described(self) -> dict[str, Any]:
        """The address for the OpenAPI document."""
        return described(self.routes)

    async def export(self, http: HttpRequest) -> HttpResponse:
        ctx: Context
        if self.wire.is_grantee(http):
            ctx = await self.grants.grantee(http, is_used_later=True)
            parts = dispatch_stream(
                ctx, ops.EXPORT_GRANT, {"body": await self.wire.body(http, may_be_empty=True)}
            )
        else:
            ctx = await self.wire.owner(http)
            asked = OapExport.parse(await self.wire.body(http, may_be_empty=True))
            parts = dispatch_stream(ctx, ops.EXPORT_FILE, asked.as_operation())
        return await self.wire.file(http, parts)
