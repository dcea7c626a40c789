"""What machines ask about the server: is it alive, is it ready, and its numbers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from quipu.errors import ForbiddenError, QuipuError
from quipu.faces.http.authentication import principal_of
from quipu.faces.http.catalogue import Face
from quipu.faces.http.lifecycle import Lifecycle, Stage
from quipu.faces.http.metrics import CONTENT_TYPE, Metrics
from quipu.faces.http.settings import HttpSettings
from quipu.model.mirrors import MirrorNumbers
from quipu.model.principal import Permission

HEALTH, READY, METRICS = "/healthz", "/readyz", "/metrics"
#: A ledger that needs longer to say where it stands is down.
PATIENCE_S = 1.0


def face(
    lifecycle: Lifecycle,
    metrics: Metrics,
    settings: HttpSettings,
    *,
    touch: Callable[[], Awaitable[object]],
    heads: Callable[[], Awaitable[Mapping[str, int]]],
    mirrors: Callable[[], Awaitable[Sequence[MirrorNumbers]]] | None = None,
) -> Face:
    """`touch` asks the ledger something small; `heads` says where each tenant's journal ends, `mirrors` how they stand."""

    given_up: set[asyncio.Future[object]] = set()

    async def is_ready() -> str:
        """Empty, or why not."""
        if lifecycle.stage is not Stage.READY:
            return lifecycle.stage.value
        question = asyncio.ensure_future(touch())
        question.add_done_callback(_heard)
        answered, _ = await asyncio.wait({question}, timeout=PATIENCE_S)
        if not answered:
            # It is let go of and not waited for: whoever is cut off may need long to notice that.
            given_up.add(question)
            question.add_done_callback(given_up.discard)
            question.cancel()
            return "ledger"
        try:
            question.result()
        except QuipuError:
            return "ledger"
        return ""

    async def healthz(_request: Request) -> Response:
        return _json({"status": "ok"}, 200)

    async def readyz(_request: Request) -> Response:
        missing = await is_ready()
        return (
            _json({"status": "unavailable", "reason": missing}, 503)
            if missing
            else _json({"status": "ok"}, 200)
        )

    async def numbers(request: Request) -> Response:
        is_free = settings.metrics_public or settings.is_loopback
        if not is_free and not principal_of(request).may(Permission.OPERATE):
            raise ForbiddenError(f"This needs {Permission.OPERATE.value}.", reason="missing_scope")
        missing = await is_ready()
        known: Mapping[str, int] = {}
        if settings.metrics_tenants and not missing:
            known = await heads()
        if mirrors is not None and not missing:
            metrics.mirrored(await mirrors())
        return Response(metrics.told(is_ready=not missing, heads=known), media_type=CONTENT_TYPE)

    paths = frozenset({HEALTH, READY, METRICS})
    return Face(
        name="health",
        routes=[Route(HEALTH, healthz), Route(READY, readyz), Route(METRICS, numbers)],
        public=paths,
        unasked=frozenset({HEALTH, READY}),
        always=paths,
        prefix="/healthz",
    )


def _heard(question: asyncio.Future[object]) -> None:
    """What went wrong is told by whoever asked, or nobody asks any more."""
    if not question.cancelled():
        question.exception()


def _json(body: Mapping[str, str], status: int) -> Response:
    return Response(json.dumps(body), status_code=status, media_type="application/json")
