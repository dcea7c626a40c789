"""The containers of memories."""

from __future__ import annotations

from starlette.responses import Response

from quipu.faces.web.visit import Visit
from quipu.model.principal import Permission


async def page(visit: Visit) -> Response:
    """All of them."""
    visit.need(Permission.READ)
    return visit.page("stores.html", stores=await visit.service.stores.list(visit.principal))
