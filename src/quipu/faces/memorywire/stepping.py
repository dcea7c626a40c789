"""A step of a procedure (contract 7.4)."""

from __future__ import annotations

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from quipu.faces.http.authentication import principal_of
from quipu.faces.http.bodies import json_object
from quipu.faces.memorywire import answering, asking
from quipu.faces.memorywire.wire_reading import read
from quipu.faces.memorywire.wire_step import StepBody, StepReply
from quipu.model.outcomes import StepResponse
from quipu.service.memory import MemoryService


class Stepping:
    """The handler. `public_url` is where people reach the server, if it does not go by the request."""

    def __init__(self, service: MemoryService, public_url: str) -> None:
        self._service, self._public_url = service, public_url

    async def step(self, request: Request) -> Response:
        """Take a step, try one, or play some through."""
        principal, preferences = principal_of(request), asking.preferences(request)
        asking.known(request, "agent_id")
        body, ignored = read(StepBody, await json_object(request), strict=not preferences.is_lenient)
        asked = replace(
            body.to_model(request.path_params["id"], asking.word(request, "agent_id")),
            if_version=asking.expected_version(request),
            idempotency_key=asking.idempotency_key(request, body.idempotency_key),
        )
        done = self._addressed(request, await self._service.procedures.step(principal, asked))
        headers = answering.manners(ignored, preferences, has_waited=False)
        headers |= answering.beyond({**done.extensions, "version": done.version})
        if done.is_replayed:
            headers["Idempotency-Replayed"] = "true"
        extensions = body.extensions or asking.asks_for_extensions(request)
        reply = StepReply.from_model(done, extensions).body()
        return answering.answered(reply, 202 if done.pending_approval else 200, headers)

    def _addressed(self, request: Request, done: StepResponse) -> StepResponse:
        if not done.pending_approval:
            return done
        base = answering.base_of(request, self._public_url)
        return replace(done, approval_url=f"{base}/review/{done.extensions['proposal_id']}")
