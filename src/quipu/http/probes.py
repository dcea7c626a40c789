"""What machines ask about the server: does it live, is it ready, and its numbers.

Numbers are for Prometheus, in a registry of their own. No label holds what a caller chose.
"""

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse
from starlette.responses import Response as HttpResponse
from starlette.routing import Route

from quipu._version import __version__
from quipu.errors import ForbiddenError, QuipuError
from quipu.http.authentication import Authentication
from quipu.http.exchange import Exchange
from quipu.http.limits import Lifecycle
from quipu.ledger.ledger import Health
from quipu.model.principal import Permission

#: A ledger that needs longer to say where it stands is down.
_PATIENCE_S = 1.0
AskHealth: TypeAlias = Callable[[], Awaitable[Health]]
#: Numbers of other rooms that /metrics shows: what they are called, how much.
AskGauges: TypeAlias = Callable[[], Awaitable[Mapping[str, float]]]


def probe_routes(
    *,
    health: AskHealth,
    gauges: AskGauges | None,
    lifecycle: Lifecycle,
    metrics: "Metrics",
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
        return HttpResponse(
            metrics.text(is_ready=not reason, gauges=found),
            media_type="text/plain; version=0.0.4; charset=utf-8",
        )

    return [Route("/healthz", alive), Route("/readyz", ready), Route("/metrics", numbers)]


def _heard(question: asyncio.Future[Health]) -> None:
    """What went wrong is of no interest any more."""
    if not question.cancelled():
        question.exception()


# -- numbers -----------------------------------------------------------------------------------------------------

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class _Times:
    """How long the requests of one route took."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(_SECONDS) + 1)
        self.total = 0.0

    def buckets(self) -> Iterator[tuple[str, float]]:
        count = 0
        for end, here in zip((*map(str, _SECONDS), "+Inf"), self.counts, strict=True):
            count += here
            yield end, count


class Metrics(Collector):
    """Counts exchanges. Routes are as they were declared, so there are as many as the server has.

    Plain numbers on one event loop: the library's own counters take a lock each, which costs more than the request's
    other layers together.
    """

    def __init__(self) -> None:
        self._in_flight = self._received = self._sent = 0
        self._requests = Counter[tuple[str, str, str]]()
        self._times: dict[tuple[str, str], _Times] = {}
        self._errors = Counter[str]()
        self._refusals = Counter[str]()
        self._limited = Counter[str]()
        self._is_ready = False
        self._gauges: Mapping[str, float] = {}
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        self._registry.register(self)

    def began(self, exchange: Exchange) -> None:
        self._in_flight += 1

    def ended(self, exchange: Exchange) -> None:
        self._in_flight -= 1
        route, method = exchange.route or "none", exchange.shown_method
        self._requests[route, method, str(exchange.status or "none")] += 1
        times = self._times.get((route, method))
        if times is None:
            times = self._times[route, method] = _Times()
        times.counts[bisect_left(_SECONDS, exchange.seconds)] += 1
        times.total += exchange.seconds
        self._received += exchange.bytes_in
        self._sent += exchange.bytes_out
        if exchange.error is not None:
            self._count_error(exchange.error, exchange.reason or "none")

    def _count_error(self, code: str, reason: str) -> None:
        self._errors[code] += 1
        if code == "unauthenticated":
            self._refusals[reason] += 1
        elif code in ("rate_limited", "quota_exceeded") or reason == "overloaded":
            self._limited[reason] += 1

    def text(self, *, is_ready: bool, gauges: Mapping[str, float]) -> bytes:
        """Everything, in Prometheus' text form. `gauges` are numbers of other rooms: what they are called, how much."""
        self._is_ready, self._gauges = is_ready, gauges
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        """Asked by the registry."""
        yield InfoMetricFamily("quipu_build", "The program that runs.", {"version": __version__})
        yield _counter(
            "quipu_http_requests", "Requests answered.", ("route", "method", "status"), self._requests
        )
        times = HistogramMetricFamily(
            "quipu_http_request_seconds", "How long requests took.", labels=("route", "method")
        )
        for (route, method), one in self._times.items():
            times.add_metric((route, method), list(one.buckets()), one.total)
        yield times
        yield GaugeMetricFamily("quipu_http_in_flight", "Requests at work.", self._in_flight)
        yield CounterMetricFamily("quipu_http_received_bytes", "Bytes of bodies received.", self._received)
        yield CounterMetricFamily("quipu_http_sent_bytes", "Bytes of bodies sent.", self._sent)
        yield _counter("quipu_errors", "Errors answered.", ("code",), self._errors)
        yield _counter(
            "quipu_authentication_failures",
            "Requests without a good credential.",
            ("reason",),
            self._refusals,
        )
        yield _counter("quipu_limited", "Requests refused for being too many.", ("reason",), self._limited)
        yield GaugeMetricFamily("quipu_ready", "Whether the server is ready.", float(self._is_ready))
        for name, value in self._gauges.items():
            yield GaugeMetricFamily(f"quipu_{name}", name.replace("_", " ").capitalize() + ".", value)


def _counter(
    name: str, about: str, labels: tuple[str, ...], counts: Mapping[str, int] | Mapping[tuple[str, ...], int]
) -> CounterMetricFamily:
    family = CounterMetricFamily(name, about, labels=labels)
    for key, count in counts.items():
        family.add_metric((key,) if isinstance(key, str) else key, count)
    return family
