"""Procedures, consolidation and the graph on a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from quipu.client.address import segment
from quipu.client.answers import understood
from quipu.client.audit import PLAIN, result_of
from quipu.client.bodies import sent
from quipu.client.failures import misunderstood
from quipu.client.patience import Repeat
from quipu.client.reading import record_path
from quipu.client.transport import Call, Transport
from quipu.faces.rest.paths import MEMORYWIRE, PREFIX
from quipu.model.consolidation import ConsolidateRequest, Consolidation, Undone
from quipu.model.graph import Graph, GraphRequest
from quipu.model.operations import StepRequest
from quipu.model.outcomes import StepResponse
from quipu.model.principal import Principal
from quipu.model.procedure import Procedure
from quipu.ports.surroundings import MintId


class RemoteProcedures:
    """Machines that step."""

    def __init__(self, transport: Transport, mint_id: MintId) -> None:
        self._transport, self._mint_id = transport, mint_id

    async def step(self, principal: Principal, request: StepRequest) -> StepResponse:
        """A step always has a key: when an answer is lost, it is asked for again and taken once."""
        body = sent(replace(request, id="", agent_id=None, if_version=None))
        body.pop("id")
        body.setdefault("idempotency_key", self._mint_id("idem"))
        headers = {"Quipu-Extensions": "true"}
        if request.if_version is not None:
            headers["If-Match"] = f'"{request.if_version}"'
        call = Call(
            method="POST",
            path=f"{MEMORYWIRE}/records/{segment(request.id)}/step",
            query={"agent_id": request.agent_id},
            body=body,
            headers=headers,
        )
        answer = await self._transport.answer(call)
        return _stepped(answer.body, is_replayed=answer.headers.get("idempotency-replayed") == "true")

    async def shown(self, principal: Principal, record_id: str, agent_id: str | None = None) -> Procedure:
        path = f"{record_path(record_id)}/procedure"
        body = await self._transport.call(Call(method="GET", path=path, query={"agent_id": agent_id}))
        return understood(Procedure, body)


class RemoteConsolidating:
    """Passes over short-term memory."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def consolidate(
        self,
        principal: Principal,
        request: ConsolidateRequest,
        progress: Callable[[int, int], None] | None = None,
    ) -> Consolidation:
        """A pass that is asked for twice finds nothing the second time, so it may be repeated."""

        def told(line: Mapping[str, Any]) -> None:
            if progress is not None:
                progress(int(line["done"]), int(line["of"]))

        call = Call(method="POST", path=f"{PREFIX}/consolidate", body=sent(request), headers=PLAIN)
        return understood(Consolidation, await result_of(self._transport, call, told))

    async def undo(self, principal: Principal, pass_id: str) -> Undone:
        path = f"{PREFIX}/consolidations/{segment(pass_id)}/undo"
        body = await self._transport.call(Call(method="POST", path=path, repeat=Repeat.UNSENT))
        return understood(Undone, body)


class RemoteGraphs:
    """What holds memories together."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def around(self, principal: Principal, request: GraphRequest) -> Graph:
        given = sent(replace(request, id=""))
        given.pop("id")
        query = {name: str(value) for name, value in given.items()}
        path = f"{record_path(request.id)}/neighbours"
        return understood(Graph, await self._transport.call(Call(method="GET", path=path, query=query)))


def _stepped(body: Any, *, is_replayed: bool) -> StepResponse:
    try:
        return StepResponse(
            id=body["id"],
            version=body["version"],
            stored_at=body["stored_at"],
            current=body["current"],
            available_triggers=tuple(body["available_triggers"]),
            pending_approval=body["pending_approval"],
            approval_url=body["approval_url"],
            extensions=body.get("extensions", {}).get("quipu", {}),
            is_replayed=is_replayed,
        )
    except (KeyError, TypeError, AttributeError):
        raise misunderstood() from None
