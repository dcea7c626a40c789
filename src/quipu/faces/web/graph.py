"""What is around a memory, as a picture of links to follow. Works without a script."""

from __future__ import annotations

from starlette.responses import Response

from quipu.faces.web import graph_drawing
from quipu.faces.web.visit import Visit
from quipu.model.graph import GraphRequest

_HOPS = ("0", "1", "2", "3")


async def page(visit: Visit) -> Response:
    """The memory in the middle and its neighbours around it."""
    asked = visit.asked("hops")
    request = GraphRequest(
        id=visit.request.path_params["id"],
        hops=int(asked) if asked in _HOPS else 1,
        limit=200,
        as_of=visit.asked("as_of"),
    )
    found = await visit.service.graphs.around(visit.principal, request)
    return visit.page(
        "graph.html",
        found=found,
        picture=graph_drawing.picture(found),
        nodes={node.id: node for node in found.nodes},
    )
