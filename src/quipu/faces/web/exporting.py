"""Memories as a file to take away."""

from __future__ import annotations

from starlette.responses import Response

from quipu.errors import InvalidError
from quipu.faces.http.files import sent
from quipu.faces.web import sheets
from quipu.faces.web.visit import Visit
from quipu.model.moving import FileExport
from quipu.model.moving_formats import WRITTEN, Format
from quipu.model.principal import Permission


async def page(visit: Visit) -> Response:
    """What there is to choose."""
    visit.need(Permission.ADMIN)
    stores = await visit.service.stores.list(visit.principal)
    return visit.page("export.html", formats=list(WRITTEN), stores=stores)


async def download(visit: Visit) -> Response:
    """The file, made whole and then sent."""
    given = await visit.form()
    visit.need(Permission.ADMIN)
    chosen = given.get("format", "")
    if chosen not in tuple(Format):
        raise InvalidError.at("/format", "unknown_format", "No files of this format are written.")
    wanted = FileExport(
        format=Format(chosen),
        agent_id=given.get("agent", "").strip() or None,
        user_id=given.get("user", "").strip() or None,
        store=given.get("store", "").strip() or None,
    )
    return sheets.guarded(sent(await visit.service.exporting.made(visit.principal, wanted), {}))
