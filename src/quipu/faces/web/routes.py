"""Every address of the page."""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from quipu.errors import NotFoundError
from quipu.faces.http.backoff import Backoff
from quipu.faces.http.catalogue import Face
from quipu.faces.web import (
    dashboard,
    deciding,
    exporting,
    grants,
    grants_requests,
    graph,
    health,
    importing,
    journal,
    memories,
    overview,
    patterns,
    procedures,
    record,
    recovering,
    review,
    rules,
    runs,
    sheets,
    signin,
    stores,
    tidying,
    traces,
)
from quipu.faces.web.door import ErrorPages, Handler, SignedIn, visited
from quipu.faces.web.lately import Lately
from quipu.faces.web.sessions import RandomBytes, Sessions
from quipu.faces.web.visit import Site
from quipu.ports.surroundings import Clock
from quipu.service.memory import MemoryService
from quipu.telemetry.recent import Recent

_SIGNIN, _STATIC, _DOWNLOAD = "/signin", "/static/{name}", "/journal/download"

_READS: dict[str, Handler] = {
    "/": overview.page,
    "/memories": memories.explorer,
    "/memories/{id}": record.page,
    "/memories/{id}/forget": record.confirm_forget,
    "/memories/{id}/procedure": procedures.page,
    "/memories/{id}/graph": graph.page,
    "/stores": stores.page,
    "/runs": runs.page,
    "/runs/{id}": runs.detail,
    "/runs/{id}/diff": runs.diff,
    "/journal": journal.page,
    "/journal/proof": journal.proof,
    "/review": review.page,
    "/review/next": review.following,
    "/review/{id}": review.detail,
    "/rules": rules.page,
    "/patterns": patterns.page,
    "/candidates": tidying.page,
    "/recover": recovering.page,
    "/grants": grants.page,
    "/grants/{id}": grants.detail,
    "/grants/requests/{id}": grants_requests.detail,
    "/erasures": grants.erasures,
    "/imports": importing.page,
    "/imports/{id}": importing.progress,
    "/export": exporting.page,
    "/dashboard": dashboard.page,
    "/health": health.page,
    "/traces": traces.page,
}
_WRITES: dict[str, Handler] = {
    "/runs/{id}/fork": runs.fork,
    "/memories/{id}/forget": record.forget,
    "/memories/{id}/restore": record.restore,
    "/memories/{id}/step": procedures.step,
    "/journal/verify": journal.verify,
    _DOWNLOAD: journal.download,
    "/review": deciding.decide_many,
    "/undo": deciding.undo,
    "/rules": rules.change,
    "/patterns": patterns.settle,
    "/candidates": tidying.propose,
    "/recover": recovering.apply,
    "/grants": grants.issue,
    "/grants/{id}/revoke": grants.revoke,
    "/grants/requests/{id}": grants_requests.answer,
    "/erasures": grants.erase,
    "/imports": importing.look,
    "/imports/{id}": importing.act,
    "/export": exporting.download,
    "/review/{id}": deciding.decide,
    "/signout": signin.sign_out,
}


def face(service: MemoryService, *, clock: Clock, random: RandomBytes, recent: Recent | None = None) -> Face:
    """The page over a service. Its sessions live in this process; so do the last traces, where it keeps any."""
    site = Site(
        service=service,
        clock=clock,
        random=random,
        sessions=Sessions(clock, random),
        key=random(32),
        backoff=Backoff(time.monotonic),
        lately=Lately(clock),
        recent=recent,
    )
    return Face(
        name="web",
        routes=routes(site),
        public=frozenset({_SIGNIN, _STATIC}),
        # The page that says that the server is starting looks like the others.
        always=frozenset({_STATIC}),
        streaming=frozenset({_DOWNLOAD, "/imports", "/imports/{id}", "/export"}),
        unbounded=frozenset({"/imports"}),
        authenticator=SignedIn(site),
        show_error=ErrorPages(site),
    )


def routes(site: Site) -> list[BaseRoute]:
    """All of them."""
    pages = [Route(path, visited(site, handler), methods=["GET"]) for path, handler in _READS.items()]
    deeds = [Route(path, visited(site, handler), methods=["POST"]) for path, handler in _WRITES.items()]
    return [
        Route(_SIGNIN, signin.showing(site), methods=["GET"]),
        Route(_SIGNIN, signin.sending(site), methods=["POST"]),
        Route(_STATIC, _asset, methods=["GET"]),
        *pages,
        *deeds,
    ]


async def _asset(request: Request) -> Response:
    """A style sheet, a script or a picture. Its address has its hash, so it may be kept for good."""
    asset = sheets.assets().get(request.path_params["name"])
    if asset is None:
        raise NotFoundError("There is no such file.", reason="route")
    is_this = request.query_params.get("v") == asset.digest
    kept = "public, max-age=31536000, immutable" if is_this else "no-cache"
    response = Response(asset.data, media_type=asset.media_type, headers={"Cache-Control": kept})
    return sheets.guarded(response)
