"""What machines ask about the server: does it live, is it ready, and its numbers."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse
from starlette.responses import Response as HttpResponse
from starlette.routing import Route

from quipu.errors import ForbiddenError, QuipuError
from quipu.http.authentication import Authentication
from quipu.http.lifecycle import Lifecycle
from quipu.http.metrics import CONTENT_TYPE, Metrics
from quipu.ledger.ledger import Health
from quipu.model.principal import Permission

#: A ledger that needs longer to say where it stands is down.
_PATIENCE_S = 1.0
AskHealth = Callable[[], Awaitable[Health]]
#: Numbers of other rooms that /metrics shows: what they are called, how much.
AskGauges = Callable[[], Awaitable[Mapping[str, float]]]


def probe_routes(
    *,
    health: AskHealth,
    gauges: AskGauges | None,
    lifecycle: Lifecycle,
    metrics: Metrics,
    authentication: Authentication,
    is_metrics_public: bool,
) -> list[Route]:
    """`/healthz` and `/readyz` tell everybody, and nothing but that; `/metrics` is for who runs the server."""
    given_up: set[asyncio.Future[Health]] = set()

    async def missing() -> str:
        """Empty, or why the server is not ready."""
        if lifecycle.is_draining:
            return "draining"
        question = asyncio.ensure_future(health())
        done, _ = await asyncio.wait({question}, timeout=_PATIENCE_S)
        if not done:  # it is let go of and not waited for: whoever is cut off may need long to notice that
            given_up.add(question)
            question.add_done_callback(_heard)
            question.add_done_callback(given_up.discard)
            question.cancel()
            return "ledger"
        try:
            return "" if question.result().writable else "ledger"
        except QuipuError:
            return "ledger"

    async def alive(_: HttpRequest) -> HttpResponse:
        return JSONResponse({"status": "ok"})

    async def ready(_: HttpRequest) -> HttpResponse:
        reason = await missing()
        if reason:
            return JSONResponse({"status": "unavailable", "reason": reason}, 503)
        return JSONResponse({"status": "ok"})

    async def numbers(http: HttpRequest) -> HttpResponse:
        if not is_metrics_public:
            ctx = await authentication(http)
            if not ctx.principal.may(Permission.OPERATE):
                raise ForbiddenError(hint=f"It needs the permission {Permission.OPERATE}.")
        reason = await missing()
        found: Mapping[str, float] = {}
        if gauges is not None and not reason:
            found = await gauges()
        return HttpResponse(metrics.text(is_ready=not reason, gauges=found), media_type=CONTENT_TYPE)

    return [Route("/healthz", alive), Route("/readyz", ready), Route("/metrics", numbers)]


def _heard(question: asyncio.Future[Health]) -> None:
    """What went wrong is of no interest any more."""
    if not question.cancelled():
        question.exception()
