"""OAP's addresses of whole memories: out for the owner or under a grant, in for the owner."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse

from quipu.audit.operations import UNDO
from quipu.operation import Context, dispatch, dispatch_stream
from quipu.schemas import from_texts
from quipu.sharing.wire import OapRoute, Wire, described
from quipu.transfer.model import ImportReport, OapExport
from quipu.transfer.operations import COMMIT_IMPORT, EXPORT_FILE, EXPORT_GRANT, IMPORT_FILE


@dataclass(frozen=True, slots=True)
class MoveRoutes:
    """Files are sent and taken as they are; everything else is in an envelope."""

    wire: Wire

    @property
    def routes(self) -> list[OapRoute]:
        route, imports = self.wire.route, "/oap/memory/import"
        return [
            route("POST", "/oap/memory/export", self.export, "Everything as a file, or what a grant shows."),
            route("POST", imports, self.try_import, "Try a file: what would come in."),
            route("POST", f"{imports}/{{id}}/commit", self.commit, "Carry an import out."),
            route("POST", f"{imports}/{{id}}/undo", self.undo, "Take back what an import brought."),
        ]

    @property
    def described(self) -> dict[str, Any]:
        """The addresses for the OpenAPI document."""
        return described(self.routes)

    async def export(self, http: HttpRequest) -> HttpResponse:
        ctx: Context
        if self.wire.is_grantee(http):
            ctx = await self.wire.grantee(http, is_used_later=True)
            body = await self.wire.body(http, may_be_empty=True)
            return await self.wire.file(http, dispatch_stream(ctx, EXPORT_GRANT, {"body": body}))
        ctx = await self.wire.owner(http)
        asked = OapExport.parse(await self.wire.body(http, may_be_empty=True))
        return await self.wire.file(http, dispatch_stream(ctx, EXPORT_FILE, asked.as_operation()))

    async def try_import(self, http: HttpRequest) -> HttpResponse:
        """What would come in; nothing is written. The file is the body."""
        ctx = self.wire.with_file(http, await self.wire.owner(http))
        texts = {name: http.query_params.getlist(name) for name in http.query_params}
        report = await dispatch(ctx, IMPORT_FILE, from_texts(IMPORT_FILE.request, texts))
        return self.wire.enveloped(http, _told(report))

    async def commit(self, http: HttpRequest) -> HttpResponse:
        """Carry it out. Once more does no harm."""
        given = {"id": http.path_params["id"]}
        report = await dispatch(await self.wire.owner(http), COMMIT_IMPORT, given)
        return self.wire.enveloped(http, _told(report))

    async def undo(self, http: HttpRequest) -> HttpResponse:
        """Take back everything that it brought."""
        given = {"import_id": http.path_params["id"], "dry_run": False}
        undone = await dispatch(await self.wire.owner(http), UNDO, given)
        return self.wire.enveloped(http, undone.to_dict())


def _told(report: ImportReport) -> Mapping[str, Any]:
    """The report without what says nothing."""
    return {name: value for name, value in report.to_dict().items() if value is not None}
