"""Runs over HTTP: opened, looked at, followed, cancelled, forked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from quipu.errors import ForbiddenError, InvalidError, UnauthenticatedError
from quipu.faces.http.authentication import principal_of
from quipu.faces.openwop import asking
from quipu.faces.openwop.once import once
from quipu.model.principal import Permission
from quipu.model.runs import Driver, Run, RunEvent, RunStatus
from quipu.rules import runs_streams, runs_workflows
from quipu.rules.runs_wire import event_body
from quipu.service.memory import MemoryService
from quipu.service.runs import Opened

_REPLAYED = "openwop-Idempotent-Replay"
_LONGEST_POLL_S = 25
_KEEPALIVE_S = 15.0


def answer(body: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """JSON, as it is."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return Response(text, status_code=status, headers=headers, media_type="application/json")


def opened_answer(opened: Opened, fork: dict[str, Any] | None = None) -> Response:
    """A run that was opened now, or by the first of equal requests, which are all answered alike."""
    run = opened.run
    place = f"/v1/runs/{quote(run.id)}"
    status = _began_as(run).value
    body = {"runId": run.id, "status": status, "eventsUrl": f"{place}/events", "statusUrl": place}
    return answer({**body, **(fork or {})}, 201, replayed(opened.is_replayed))


def replayed(is_it: bool) -> dict[str, str] | None:
    """What is told of an answer that was given before."""
    return {_REPLAYED: "true"} if is_it else None


def _began_as(run: Run) -> RunStatus:
    """Where a run stood when it was opened: a replay is over from its beginning, and stays so."""
    if run.driver is Driver.REPLAY:
        return run.status
    is_driven = run.driver is Driver.EXTERNAL and run.mode is None
    return RunStatus.RUNNING if is_driven else RunStatus.PENDING


class RunRoutes:
    """What the contract says about runs."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    async def create(self, request: Request) -> Response:
        body = await asking.body_of(request)
        wanted = asking.open_request(body)
        opened = await self._service.runs.open(principal_of(request), wanted, asking.key_of(request), body)
        return opened_answer(opened)

    async def show(self, request: Request) -> Response:
        return answer(await self._service.runs.snapshot(principal_of(request), _run_id(request)))

    async def cancel(self, request: Request) -> Response:
        body, principal, runs = await asking.body_of(request), principal_of(request), self._service.runs
        await runs.get(principal, _run_id(request))

        async def cancel() -> dict[str, Any]:
            run = await runs.cancel(principal, _run_id(request))
            return {"runId": run.id, "status": run.status.value}

        told, is_again = await once(request, self._service, body, cancel)
        return answer(told, 200, replayed(is_again))

    async def fork(self, request: Request) -> Response:
        run_id = _run_id(request)
        body = await asking.body_of(request)
        wanted = asking.fork_request(run_id, body)
        request.state.fork = {"fromSeq": wanted.from_seq, "sourceRunId": run_id}
        opened = await self._service.runs.fork(principal_of(request), wanted, asking.key_of(request))
        fork = {"sourceRunId": run_id, "fromSeq": wanted.from_seq, "mode": wanted.mode.value}
        return opened_answer(opened, fork)

    async def workflow(self, request: Request) -> Response:
        self._service.runs.authorise(principal_of(request), Permission.READ)
        return answer(runs_workflows.found(self._service.runs.workflows, request.path_params["workflow_id"]))

    # -- the log ------------------------------------------------------------------------------------------------

    async def events(self, request: Request) -> Response:
        types = runs_streams.told_types(request.query_params.get("streamMode"))
        pause = asking.number(request, "bufferMs", default=0, least=0, most=runs_streams.MOST_BUFFER_MS)
        principal, run_id = principal_of(request), _run_id(request)
        after = _last_seen(request)
        if "text/event-stream" not in request.headers.get("accept", ""):
            events = await self._service.runs.events(principal, run_id, after)
            return answer({"events": [event_body(event) for event in runs_streams.told(events, types)]})
        await self._service.runs.get(principal, run_id)  # what is wrong is told before the stream begins
        followed = self._followed(request, run_id, after)
        return StreamingResponse(_frames(followed, types, pause / 1000), media_type="text/event-stream")

    async def _followed(
        self, request: Request, run_id: str, after: int
    ) -> AsyncGenerator[tuple[RunEvent, ...]]:
        """The log as it grows. Before anything is told, it is asked again whose it is; a credential's end is the stream's."""
        text = request.headers.get("authorization", "").partition(" ")[2].strip()
        runs = self._service.runs
        followed = runs.follow(principal_of(request), run_id, after, idle_s=_KEEPALIVE_S)
        async with aclosing(followed):
            async for some in followed:
                try:
                    principal = await self._service.credentials.renewed(text) if text else None
                    await runs.get(principal or principal_of(request), run_id)
                except (UnauthenticatedError, ForbiddenError):
                    return
                yield some

    async def poll(self, request: Request) -> Response:
        after = asking.number(request, "lastSequence", default=-1, least=-1)
        patience = asking.number(request, "timeout", default=0, least=0)
        principal, run_id = principal_of(request), _run_id(request)
        runs = self._service.runs
        run = await runs.get(principal, run_id)
        events: list[RunEvent] = []
        if after < run.last or not run.status.is_over:
            limit = min(patience, _LONGEST_POLL_S)
            followed = runs.follow(principal, run_id, after, idle_s=max(limit, 0.001))
            async with aclosing(followed):
                async for some in followed:
                    events.extend(some)
                    break
        run = await runs.get(principal, run_id)
        seen = events[-1].sequence if events else after
        is_complete = run.status.is_over and (run.is_expired or seen >= run.last)
        return answer({"events": [event_body(event) for event in events], "isComplete": is_complete})


def _run_id(request: Request) -> str:
    return str(request.path_params["run_id"])


def _last_seen(request: Request) -> int:
    given = request.headers.get("last-event-id")
    if given is None:
        return -1
    if not (given.isascii() and given.isdecimal() and len(given) <= 18):
        raise InvalidError.at("/Last-Event-ID", "bad_value", "This is no event of ours.")
    return int(given)


async def _frames(
    followed: AsyncGenerator[tuple[RunEvent, ...]], types: Any, pause_s: float
) -> AsyncGenerator[bytes]:
    yield b": open\n\n"
    async with aclosing(followed):
        async for some in followed:
            told = runs_streams.told(some, types)
            yield b"".join(_frame(event) for event in told) or b": still here\n\n"
            if pause_s and some:
                await asyncio.sleep(pause_s)


def _frame(event: RunEvent) -> bytes:
    body = json.dumps(event_body(event), ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.sequence, event.type.value.encode("ascii"), body)


def run_shown(run: Run) -> dict[str, Any]:
    """What an orchestrator is told of its run."""
    return {"runId": run.id, "status": run.status.value, "lastSequence": run.last}
