"""The addresses of the OpenWOP host."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from quipu.errors import QuipuError
from quipu.faces.http.catalogue import Face
from quipu.faces.openwop import errors
from quipu.faces.openwop.discovery import Discovery
from quipu.faces.openwop.memory import MemoryRoutes, OutsideRoutes
from quipu.faces.openwop.openapi import served
from quipu.faces.openwop.runs import RunRoutes
from quipu.faces.openwop.seams import SeamRoutes
from quipu.model.runs import HostOptions
from quipu.ports.surroundings import Clock
from quipu.service.memory import MemoryService

WELL_KNOWN = "/.well-known/openwop"
OPENAPI = "/v1/openapi.json"
EVENTS = "/v1/runs/{run_id}/events"
POLL = "/v1/runs/{run_id}/events/poll"
#: Quipu's own surface for orchestrators outside.
OUTSIDE = "/v1/x-host-quipu-runs"
_log = logging.getLogger("quipu.runs")


def face(service: MemoryService, options: HostOptions, clock: Clock, version: str) -> Face:
    """What the plumbing needs to know of this face."""

    @contextlib.asynccontextmanager
    async def at_work() -> AsyncGenerator[None]:
        """While the server runs, runs that nobody is at work on are taken up, and notes are kept alive."""
        looking = asyncio.create_task(_recovering(service, options.lease_ms / 3000))
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    return Face(
        name="openwop",
        routes=routes(service, options, clock, version),
        prefix="/v1",
        public=frozenset({WELL_KNOWN, OPENAPI}),
        streaming=frozenset({EVENTS, POLL}),
        show_error=errors.shown,
        lifespan=at_work,
    )


async def _recovering(service: MemoryService, every_s: float) -> None:
    while True:
        try:
            await service.runs.engine.recover()
            await service.runs.scratch.tend()
        except QuipuError as error:
            _log.debug("Runs were not looked after: %s", error.code)
        await asyncio.sleep(every_s)


def routes(service: MemoryService, options: HostOptions, clock: Clock, version: str) -> list[BaseRoute]:
    """Every route. The service is asked at each request, not before."""
    discovery = Discovery(options, service.runs.deriving.most_sources)
    described = served(version)

    async def openapi(_request: Request) -> Response:
        return Response(described, media_type="application/json")

    memory = MemoryRoutes(service, options, clock)
    return [
        Route(WELL_KNOWN, discovery.show, methods=["GET"]),
        Route(OPENAPI, openapi, methods=["GET"]),
        *_runs(RunRoutes(service)),
        Route("/v1/agents", memory.agents, methods=["GET"]),
        Route("/v1/agents/{agent_id}", memory.agent, methods=["GET"]),
        # `:path`: a ref may hold slashes, which arrive decoded.
        Route("/v1/memory/{ref:path}", memory.show, methods=["GET"]),
        Route("/v1/x-host-quipu-memory/{operation}", memory.operate, methods=["POST"]),
        Route("/v1/x-host-quipu-memory-refs", memory.mint, methods=["POST"]),
        *_outside(OutsideRoutes(service)),
        *_seams(SeamRoutes(service, options, clock)),
    ]


def _runs(runs: RunRoutes) -> list[BaseRoute]:
    return [
        Route("/v1/runs", runs.create, methods=["POST"]),
        Route("/v1/runs/{run_id}:fork", runs.fork, methods=["POST"]),
        Route("/v1/runs/{run_id}", runs.show, methods=["GET"]),
        Route(EVENTS, runs.events, methods=["GET"]),
        Route(POLL, runs.poll, methods=["GET"]),
        Route("/v1/runs/{run_id}/cancel", runs.cancel, methods=["POST"]),
        Route("/v1/workflows/{workflow_id}", runs.workflow, methods=["GET"]),
    ]


def _outside(outside: OutsideRoutes) -> list[BaseRoute]:
    return [
        Route(OUTSIDE, outside.list, methods=["GET"]),
        Route(OUTSIDE, outside.open, methods=["POST"]),
        Route(f"{OUTSIDE}/{{run_id}}/nodes", outside.node, methods=["POST"]),
        Route(f"{OUTSIDE}/{{run_id}}/complete", outside.complete, methods=["POST"]),
        Route(f"{OUTSIDE}/{{run_id}}/fail", outside.fail, methods=["POST"]),
        Route(f"{OUTSIDE}/{{run_id}}/expire", outside.expire, methods=["POST"]),
        Route(f"{OUTSIDE}/{{run_id}}/notes/{{backend}}", outside.notes, methods=["GET", "POST", "DELETE"]),
    ]


def _seams(seams: SeamRoutes) -> list[BaseRoute]:
    return [
        Route("/v1/test/memory/seed", seams.seed, methods=["POST"]),
        Route("/v1/test/memory/compact", seams.compact, methods=["POST"]),
        Route("/v1/host/sample/memory/distill", seams.distill, methods=["POST"]),
        Route("/v1/host/sample/memory/consolidate", seams.consolidate, methods=["POST"]),
        Route("/v1/host/sample/commitment/fire", seams.fire, methods=["POST"]),
    ]
