"""What is around a memory."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from quipu.errors import InvalidError
from quipu.faces.http.authentication import principal_of
from quipu.faces.rest.answering import answered
from quipu.faces.rest.asking import number
from quipu.model.graph import GraphRequest
from quipu.service.memory import MemoryService

_KNOWN = ("agent_id", "as_of", "hops", "limit", "valid_at")


class Graphs:
    """One handler for each route."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    async def around(self, request: Request) -> Response:
        query = request.query_params
        for name in query:
            if name not in _KNOWN:
                raise InvalidError.at(
                    f"/{name[:128]}", "unknown_field", "Unknown parameter.", accepted=list(_KNOWN)
                )
        asked = GraphRequest(
            id=request.path_params["id"],
            agent_id=query.get("agent_id"),
            hops=number(request, "hops", 1),
            limit=number(request, "limit", 100),
            as_of=query.get("as_of"),
            valid_at=number(request, "valid_at", 0) if "valid_at" in query else None,
        )
        return answered(await self._service.graphs.around(principal_of(request), asked))
