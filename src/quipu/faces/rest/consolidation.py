"""Short-term memory settling into long-term memory, on demand."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from quipu.faces.http.authentication import principal_of
from quipu.faces.rest.answering import Tell, answered, worked
from quipu.faces.rest.asking import asked
from quipu.model.consolidation import ConsolidateRequest, Consolidation
from quipu.service.memory import MemoryService


class Consolidations:
    """One handler for each route."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    async def consolidate(self, request: Request) -> Response:
        """A pass: how far it is, then what it did."""
        principal = principal_of(request)
        body = await asked(request, ConsolidateRequest, may_be_empty=True)

        async def work(tell: Tell) -> Consolidation:
            return await self._service.consolidating.consolidate(
                principal, body, lambda done, of: tell({"done": done, "of": of})
            )

        return await worked(request, work)

    async def undo(self, request: Request) -> Response:
        undone = await self._service.consolidating.undo(principal_of(request), request.path_params["id"])
        return answered(undone)
