"""What the server is: its schemas, its health, its promises."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from quipu.errors import InvalidError
from quipu.faces.http.authentication import principal_of
from quipu.faces.memorywire import answering, asking, paths, schemas
from quipu.service.memory import MemoryService

MEDIA_TYPE = "application/schema+json"


class About:
    """Handlers over a service."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    async def schemas(self, request: Request) -> Response:
        """Names and addresses of all."""
        asking.known(request)
        v0 = schemas.v0_names()
        rows = [
            {"name": name, "id": schemas.URN + name, "url": f"{paths.SCHEMAS}/{name}", "v0": name in v0}
            for name in schemas.names()
        ]
        return answering.answered({"schemas": rows})

    async def schema(self, request: Request) -> Response:
        """One of them, in either dialect."""
        asking.known(request, "dialect")
        name = str(request.path_params["name"]).removesuffix(".json")
        dialect = asking.word(request, "dialect")
        if dialect not in (None, "v0", "quipu"):
            message = "There is no such dialect."
            raise InvalidError.at("/dialect", "bad_value", message, accepted=["v0", "quipu"])
        found = schemas.v0_form(name) if dialect == "v0" else schemas.schema(name)
        return Response(answering.dumped(found), media_type=MEDIA_TYPE)

    async def health(self, request: Request) -> Response:
        """Short for strangers, whole for readers."""
        told = await self._service.health(getattr(request.state, "principal", None))
        return answering.answered(told, 503 if told["status"] == "error" else 200)

    async def capabilities(self, request: Request) -> Response:
        """What is promised."""
        return answering.answered(self._service.capabilities(principal_of(request)))
