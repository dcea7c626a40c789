"""Recovery by cause, and other machines that are told of held writes."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from quipu.faces.http.authentication import principal_of
from quipu.faces.rest.answering import answered, nothing
from quipu.faces.rest.asking import asked
from quipu.model.notices import Event
from quipu.model.recovery import RecoverRequest
from quipu.service.memory import MemoryService


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookBody:
    """Where notices are sent, and of what."""

    url: str
    events: tuple[Event, ...] = tuple(Event)
    #: Globs.
    agents: tuple[str, ...] = ("*",)
    #: Whether a notice holds the held write itself.
    with_content: bool = False


class Governing:
    """One handler for each route."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    async def recover(self, request: Request) -> Response:
        body = await asked(request, RecoverRequest)
        return answered(await self._service.recovery.recover(principal_of(request), body))

    async def webhooks(self, request: Request) -> Response:
        return answered({"webhooks": await self._service.notices.list(principal_of(request))})

    async def add_webhook(self, request: Request) -> Response:
        body = await asked(request, WebhookBody)
        issued = await self._service.notices.add(
            principal_of(request),
            url=body.url,
            events=body.events,
            agents=body.agents,
            with_content=body.with_content,
        )
        return answered(issued, 201)

    async def remove_webhook(self, request: Request) -> Response:
        await self._service.notices.remove(principal_of(request), request.path_params["id"])
        return nothing()

    async def ping_webhook(self, request: Request) -> Response:
        await self._service.notices.ping(principal_of(request), request.path_params["id"])
        return nothing()
