"""Procedures as they stand, with the life they have led. A step is memorywire's (contract 7.4)."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from quipu.faces.http.authentication import principal_of
from quipu.faces.rest.answering import answered
from quipu.service.memory import MemoryService


class Procedures:
    """One handler for each route."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    async def show(self, request: Request) -> Response:
        shown = await self._service.procedures.shown(
            principal_of(request), request.path_params["id"], request.query_params.get("agent_id")
        )
        return answered(shown)
