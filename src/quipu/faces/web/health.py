"""How the server is, and who one is to it."""

from __future__ import annotations

from starlette.responses import Response

from quipu.faces.web import mirroring
from quipu.faces.web.visit import Visit
from quipu.model.principal import Permission


async def page(visit: Visit) -> Response:
    """Both."""
    counts = None
    if visit.may(Permission.ADMIN) or visit.may(Permission.OPERATE):
        counts = await visit.service.upkeep.statistics(visit.principal)
    told = await visit.service.health(visit.principal)
    return visit.page(
        "health.html",
        health=told,
        counts=counts,
        mirrors=await mirroring.standing(visit),
        session=visit.session,
        permissions=list(Permission),
    )
