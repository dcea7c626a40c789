"""Records by their ids: as they are, as they were, and back again."""

from __future__ import annotations

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from quipu.faces.http.authentication import principal_of
from quipu.faces.http.bodies import json_object
from quipu.faces.memorywire import answering, asking
from quipu.faces.memorywire.wire_decisions import RestoreBody
from quipu.faces.memorywire.wire_past import version_body
from quipu.faces.memorywire.wire_reading import read
from quipu.faces.memorywire.wire_replies import RememberReply
from quipu.faces.memorywire.wire_shown import record_body
from quipu.model.principal import Principal
from quipu.model.store import MAIN
from quipu.service.memory import MemoryService


class Records:
    """Handlers over a service. `public_url` is where people reach the server, if it does not go by the request."""

    def __init__(self, service: MemoryService, public_url: str) -> None:
        self._service, self._public_url = service, public_url

    async def get(self, request: Request) -> Response:
        """As it stands, or stood."""
        principal = principal_of(request)
        asking.known(request, "agent_id", "as_of")
        record = await self._service.reading.get(
            principal,
            asking.word(request, "agent_id"),
            request.path_params["id"],
            asking.word(request, "as_of"),
        )
        names = await self._store_names(principal)
        body = record_body(record, names.get(record.store_id, MAIN))
        return answering.answered(body, 200, answering.version_tag(record.version))

    async def history(self, request: Request) -> Response:
        """All its versions."""
        principal = principal_of(request)
        asking.known(request, "agent_id")
        record_id = request.path_params["id"]
        versions = await self._service.reading.history(principal, asking.word(request, "agent_id"), record_id)
        names = await self._store_names(principal)
        rows = [version_body(row, names.get(row.record.store_id, MAIN)) for row in versions]
        return answering.answered({"id": record_id, "versions": rows})

    async def restore(self, request: Request) -> Response:
        """Back from where it was put away."""
        principal, preferences = principal_of(request), asking.preferences(request)
        asking.known(request, "agent_id")
        asking.refuse_if_match(request)
        data = await json_object(request, may_be_empty=True)
        body, ignored = read(RestoreBody, data, strict=not preferences.is_lenient)
        agent_id = asking.word(request, "agent_id")
        done = await self._service.restore(principal, agent_id, request.path_params["id"], body.reason)
        headers = answering.manners(ignored, preferences, has_waited=False)
        headers |= answering.beyond(done.extensions)
        if done.pending_approval:
            base = answering.base_of(request, self._public_url)
            done = replace(done, approval_url=f"{base}/review/{done.extensions['proposal_id']}")
        reply = RememberReply.from_model(done, asking.asks_for_extensions(request)).body()
        return answering.answered(reply, 202 if done.pending_approval else 200, headers)

    async def _store_names(self, principal: Principal) -> dict[str, str]:
        return {store.id: store.name for store in await self._service.stores.list(principal)}
