"""How mirrors stand, for whoever runs the server."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from quipu.faces.http.authentication import principal_of
from quipu.faces.rest.answering import Tell, answered, worked
from quipu.model.mirrors import MirrorReport
from quipu.service.memory import MemoryService


class Mirroring:
    """One handler for each route."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    async def list(self, request: Request) -> Response:
        return answered({"mirrors": await self._service.mirror_checks.status(principal_of(request))})

    async def verify(self, request: Request) -> Response:
        """Long work: every record is compared."""
        principal, name = principal_of(request), request.path_params["name"]

        async def work(tell: Tell) -> MirrorReport:
            return await self._service.mirror_checks.verify(principal, name)

        return await worked(request, work)

    async def resync(self, request: Request) -> Response:
        """Long work: what differs is sent again."""
        principal, name = principal_of(request), request.path_params["name"]

        async def work(tell: Tell) -> MirrorReport:
            return await self._service.mirror_checks.resync(principal, name)

        return await worked(request, work)
