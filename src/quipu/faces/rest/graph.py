"""What is around a memory."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from quipu.faces.http.authentication import principal_of
from quipu.faces.rest.answering import answered
from quipu.faces.rest.asking import moment, number
from quipu.model.graph import GraphRequest
from quipu.service.memory import MemoryService


class Graphs:
    """One handler for each route."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    async def around(self, request: Request) -> Response:
        query = request.query_params
        asked = GraphRequest(
            id=request.path_params["id"],
            agent_id=query.get("agent_id"),
            hops=number(request, "hops", 1),
            limit=number(request, "limit", 100),
            as_of=query.get("as_of"),
            valid_at=moment(request, "valid_at"),
        )
        return answered(await self._service.graphs.around(principal_of(request), asked))
