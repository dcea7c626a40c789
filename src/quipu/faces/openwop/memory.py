"""Memory by ref, agents, and runs that are driven from outside: the contract's optional route and Quipu's own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from quipu.errors import InvalidError, NotFoundError
from quipu.faces.http.authentication import principal_of
from quipu.faces.openwop import asking
from quipu.faces.openwop.discovery import advertised
from quipu.faces.openwop.once import once
from quipu.faces.openwop.runs import answer, opened_answer, replayed, run_shown
from quipu.model.principal import Permission, Principal
from quipu.model.runs import EventType, HostOptions, Run
from quipu.model.store import MAIN
from quipu.ports.surroundings import Clock
from quipu.rules import runs_manifests, runs_options
from quipu.rules.runs_wire import entry_body, run_body
from quipu.service.memory import MemoryService

_NODE_EVENTS = {
    "started": EventType.NODE_STARTED,
    "completed": EventType.NODE_COMPLETED,
    "failed": EventType.NODE_FAILED,
}


class MemoryRoutes:
    """Reads and writes of entries. One that names a run is bound to it."""

    def __init__(self, service: MemoryService, options: HostOptions, clock: Clock) -> None:
        self._service, self._options, self._clock = service, options, clock
        self._advertised = advertised(options)

    async def show(self, request: Request) -> Response:
        """`GET /v1/memory/{ref}`: what is there now."""
        given: dict[str, Any] = {}
        if "limit" in request.query_params:
            given["limit"] = asking.number(request, "limit", default=0, least=0)
        if "tag" in request.query_params:
            given["tag"] = request.query_params["tag"]
        found = await self._service.runs.memory.list(
            principal_of(request), request.path_params["ref"], runs_options.list_options(given)
        )
        return answer({"entries": [entry_body(record) for record in found]})

    async def operate(self, request: Request) -> Response:
        """One of the adapter's operations."""
        body = await asking.body_of(request)
        principal = principal_of(request)
        run = await self._run(principal, body)
        memory, ref = self._service.runs.memory, body.get("memoryRef")
        match request.path_params["operation"]:
            case "list":
                with asking.inside("options"):
                    options = runs_options.list_options(body.get("options"))
                found = await memory.list(principal, ref, options, run)
                return answer({"entries": [entry_body(record) for record in found]})
            case "get":
                record = await memory.get(principal, ref, body.get("id"), run)
                return answer({"entry": None if record is None else entry_body(record)})
            case "put":
                with asking.inside("entry"):
                    entry = runs_options.new_entry(
                        body.get("entry"), now=self._clock(), most_bytes=self._options.entry_bytes
                    )
                node_id = None if body.get("nodeId") is None else asking.text(body, "nodeId")
                if run is not None:
                    run = await self._service.runs.driven(principal, run.id)
                kept = await memory.entered(
                    principal, ref, entry, run=run, node_id=node_id, key=asking.key_of(request)
                )
                return answer({"entry": entry_body(kept.record)}, 201, replayed(kept.is_replayed))
            case "delete":
                if run is not None:
                    await self._service.runs.driven(principal, run.id)

                async def delete() -> dict[str, Any]:
                    return {"deleted": await memory.delete(principal, ref, body.get("id"))}

                told, is_again = await once(request, self._service, body, delete)
                return answer(told, 200, replayed(is_again))
            case "compact":

                async def compact() -> dict[str, Any]:
                    made = await self._service.runs.upkeep.compact(principal, ref)
                    return {"compacted": None if made is None else dict(made.payload)}

                told, is_again = await once(request, self._service, body, compact)
                return answer(told, 200, replayed(is_again))
            case _:
                raise NotFoundError("There is nothing at this address.", reason="route")

    async def _run(self, principal: Principal, body: dict[str, Any]) -> Run | None:
        if body.get("runId") is None:
            return None
        return await self._service.runs.get(principal, asking.text(body, "runId"))

    async def mint(self, request: Request) -> Response:
        """A ref for an agent's memory."""
        body = await asking.body_of(request)
        store = MAIN if body.get("store") is None else asking.text(body, "store", most=256)
        agent_id = asking.text(body, "agentId", most=256)

        async def mint() -> dict[str, Any]:
            return {"memoryRef": (await self._service.runs.mint(principal_of(request), agent_id, store)).ref}

        told, is_again = await once(request, self._service, body, mint)
        return answer(told, 201, replayed(is_again))

    # -- agents -------------------------------------------------------------------------------------------------

    async def agents(self, request: Request) -> Response:
        self._service.runs.authorise(principal_of(request), Permission.READ)
        return answer(runs_manifests.inventory(self._options, self._advertised))

    async def agent(self, request: Request) -> Response:
        self._service.runs.authorise(principal_of(request), Permission.READ)
        return answer(runs_manifests.agent(self._options, self._advertised, request.path_params["agent_id"]))


class OutsideRoutes:
    """Runs that an orchestrator outside drives."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    async def open(self, request: Request) -> Response:
        body = await asking.body_of(request)
        wanted = asking.open_request(body, is_external=True)
        opened = await self._service.runs.open(principal_of(request), wanted, asking.key_of(request), body)
        return opened_answer(opened)

    async def list(self, request: Request) -> Response:
        """Runs of the tenant, the newest first, without their variables."""
        found = await self._service.runs.list(
            principal_of(request),
            below=request.query_params.get("below"),
            workflow_id=request.query_params.get("workflowId"),
            limit=asking.number(request, "limit", default=50, least=1, most=500),
        )
        return answer({"runs": [run_body(run, {}, {}) for run in found]})

    async def expire(self, request: Request) -> Response:
        """Drop the history of a run that is over."""
        await asking.body_of(request)
        run = await self._service.runs.expire(principal_of(request), request.path_params["run_id"])
        return answer(run_shown(run))

    async def node(self, request: Request) -> Response:
        body = await asking.body_of(request)
        status = body.get("status")
        if not isinstance(status, str) or status not in _NODE_EVENTS:
            raise InvalidError.at(
                "/status", "bad_value", "There is no such status.", accepted=list(_NODE_EVENTS)
            )
        return await self._told(
            request,
            body,
            lambda: self._service.runs.node(
                principal_of(request),
                request.path_params["run_id"],
                asking.text(body, "nodeId"),
                _NODE_EVENTS[status],
                error=asking.run_error(body) if status == "failed" else None,
                variables=asking.variables(body),
            ),
        )

    async def complete(self, request: Request) -> Response:
        body = await asking.body_of(request)
        results = asking.variables(body)
        return await self._told(
            request,
            body,
            lambda: self._service.runs.complete(
                principal_of(request), request.path_params["run_id"], results
            ),
        )

    async def fail(self, request: Request) -> Response:
        body = await asking.body_of(request)
        why = asking.run_error(body)
        return await self._told(
            request,
            body,
            lambda: self._service.runs.fail(principal_of(request), request.path_params["run_id"], why),
        )

    async def _told(
        self, request: Request, body: dict[str, Any], step: Callable[[], Awaitable[Run]]
    ) -> Response:
        """How the run stands after a step; the step is taken once for each key, by whoever may take it."""
        runs, principal = self._service.runs, principal_of(request)
        runs.authorise(principal, Permission.WRITE)
        await runs.get(principal, request.path_params["run_id"])

        async def do() -> dict[str, Any]:
            return run_shown(await step())

        shown, is_again = await once(request, self._service, body, do)
        return answer(shown, 200, replayed(is_again))

    async def notes(self, request: Request) -> Response:
        """Scratchpad and conversation of a run at work: looked at, added to, cleared."""
        runs = self._service.runs
        principal = principal_of(request)
        run = await runs.driven(principal, request.path_params["run_id"])
        backend = request.path_params["backend"]
        is_again = False
        match request.method:
            case "POST":
                body = await asking.body_of(request)

                async def add() -> dict[str, Any]:
                    await runs.scratch.add(run, backend, body.get("content"), actor=principal.name)
                    return {"isNoted": True}

                _, is_again = await once(request, self._service, body, add)
            case "DELETE":
                await runs.scratch.clear(run, backend, actor=principal.name)
            case _:
                pass
        notes = list(await runs.scratch.read(run, backend))
        return answer({"notes": notes}, 200, replayed(is_again))
