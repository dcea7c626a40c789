"""Numbers for Prometheus, in a registry of their own. No label holds what a caller chose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

from quipu.faces.http.access_log import METHODS
from quipu.faces.http.exchange import Exchange
from quipu.model.mirrors import MirrorNumbers

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


#: What is told of each mirror.
_MIRRORS: Mapping[str, str] = {
    "waiting": "Effects that a mirror has still to get.",
    "dead": "Effects that were given up after a day.",
    "lag_seconds": "How long the oldest effect has waited.",
    "drift": "Texts that a mirror showed and that were not the ledger's.",
    "open": "Whether a mirror keeps failing and is left alone.",
}


class Metrics:
    """Counts exchanges. Routes are templates, so their number is that of the routes there are."""

    def __init__(self, version: str) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        Info("quipu_build", "The program that runs.", registry=registry).info({"version": version})
        self._requests = Counter(
            "quipu_http_requests", "Requests answered.", ["route", "method", "status"], registry=registry
        )
        self._seconds = Histogram(
            "quipu_http_request_seconds",
            "How long requests took.",
            ["route", "method"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._operations = Histogram(
            "quipu_operation_seconds",
            "How long operations of memory took that succeeded.",
            ["operation"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._in_flight = Gauge("quipu_http_in_flight", "Requests at work.", registry=registry)
        self._received = Counter("quipu_http_received_bytes", "Bytes of bodies received.", registry=registry)
        self._sent = Counter("quipu_http_sent_bytes", "Bytes of bodies sent.", registry=registry)
        self._errors = Counter("quipu_errors", "Errors answered.", ["code"], registry=registry)
        self._refusals = Counter(
            "quipu_authentication_failures",
            "Requests without a good credential.",
            ["reason"],
            registry=registry,
        )
        self._limited = Counter(
            "quipu_limited", "Requests refused for being too many.", ["reason"], registry=registry
        )
        self._ready = Gauge("quipu_ready", "Whether the server is ready.", registry=registry)
        self._heads = Gauge(
            "quipu_journal_seq", "Where each tenant's journal ends.", ["tenant"], registry=registry
        )
        self._mirrors = {
            name: Gauge(f"quipu_mirror_{name}", help, ["mirror"], registry=registry)
            for name, help in _MIRRORS.items()
        }

    def began(self, _exchange: Exchange) -> None:
        self._in_flight.inc()

    def ended(self, exchange: Exchange) -> None:
        self._in_flight.dec()
        route = exchange.place.path or "none"
        method = exchange.method if exchange.method in METHODS else "other"
        self._requests.labels(route, method, str(exchange.status or "none")).inc()
        self._seconds.labels(route, method).observe(exchange.seconds)
        self._received.inc(exchange.bytes_in)
        self._sent.inc(exchange.bytes_out)
        if exchange.error is not None:
            self._count_error(exchange.error, exchange.reason or "none")
        elif exchange.place.operation is not None and (exchange.status or 500) < 400:
            self._operations.labels(exchange.place.operation).observe(exchange.seconds)

    def _count_error(self, code: str, reason: str) -> None:
        self._errors.labels(code).inc()
        if code == "unauthenticated":
            self._refusals.labels(reason).inc()
        elif code in ("rate_limited", "quota_exceeded") or reason == "overloaded":
            self._limited.labels(reason).inc()

    def mirrored(self, numbers: Sequence[MirrorNumbers]) -> None:
        """How far each mirror is behind."""
        for mirror in numbers:
            told = {
                "waiting": mirror.waiting,
                "dead": mirror.dead,
                "lag_seconds": mirror.oldest_ms / 1000,
                "drift": mirror.drift,
                "open": int(mirror.is_open),
            }
            for name, value in told.items():
                self._mirrors[name].labels(mirror.name).set(value)

    def told(self, *, is_ready: bool, heads: Mapping[str, int]) -> bytes:
        """Everything, in Prometheus' text form."""
        self._ready.set(is_ready)
        for tenant, seq in heads.items():
            self._heads.labels(tenant).set(seq)
        return generate_latest(self.registry)
