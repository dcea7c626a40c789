"""A server's way to its collector: the SDK's batches over OTLP, and a bounded wait for the last of them.

Only a program of its own sets global providers. Headers, timeouts, sampling and resource come from the standard OTEL_*
variables, which the SDK reads by itself.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from quipu.telemetry.endings import Endings

_log = logging.getLogger("quipu.telemetry")
#: How long the end of a program waits for a collector.
_PATIENCE_S = 5.0


class Tracers(TracerProvider):
    """Makes spans for one exporter, in batches. Since they wait there, they may be ended late too."""

    def __init__(self, exporter: SpanExporter, resource: Resource | None = None) -> None:
        super().__init__(resource=resource, shutdown_on_exit=False)
        self.endings = Endings()
        self.add_span_processor(BatchSpanProcessor(exporter))

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        self.endings.finish()
        return super().force_flush(timeout_millis)

    def shutdown(self) -> None:
        self.endings.close()
        super().shutdown()


class Exporting:
    """Global providers that export, until they are closed."""

    def __init__(self, *, traces: str, metrics: str, version: str, events: str = "") -> None:
        resource = _resource(version)
        self._closing: list[Callable[[], Any]] = []
        if traces:
            tracers = Tracers(OTLPSpanExporter(endpoint=traces), resource)
            trace.set_tracer_provider(tracers)
            self._closing.append(tracers.shutdown)
        if metrics:
            self._measure(metrics, resource)
        if events:
            self._log(events, resource)

    def _measure(self, endpoint: str, resource: Resource) -> None:
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(endpoint=endpoint))
        meters = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        metrics.set_meter_provider(meters)
        self._closing.append(meters.shutdown)

    def _log(self, endpoint: str, resource: Resource) -> None:
        """Logs are still an underscored part of the SDK, so what has them elsewhere goes on without."""
        try:
            from opentelemetry._logs import set_logger_provider
            from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
            from opentelemetry.sdk._logs import LoggerProvider
            from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
        except ImportError:
            _log.warning("This version of OpenTelemetry has no log events; they are left off.")
            return
        loggers = LoggerProvider(resource=resource, shutdown_on_exit=False)
        loggers.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(endpoint=endpoint)))
        set_logger_provider(loggers)
        self._closing.append(loggers.shutdown)

    def close(self) -> None:
        """Send what waits. A collector that does not answer keeps nobody from ending."""
        threads = [threading.Thread(target=_quietly, args=(close,), daemon=True) for close in self._closing]
        for thread in threads:
            thread.start()
        until = time.monotonic() + _PATIENCE_S  # for all of them together
        for thread in threads:
            thread.join(max(until - time.monotonic(), 0))
        if any(thread.is_alive() for thread in threads):
            _log.warning("The collector did not take the last spans in time.")


def _quietly(close: Callable[[], Any]) -> None:
    try:
        close()
    except Exception as error:  # noqa: BLE001  the program ends either way
        _log.warning("The last spans could not be sent (%s).", type(error).__name__)


def _resource(version: str) -> Resource:
    """What OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say, with our name where they say none."""
    found = Resource.create({"service.version": version})
    if str(found.attributes.get(SERVICE_NAME, "unknown_service")).startswith("unknown_service"):
        return found.merge(Resource({SERVICE_NAME: "quipu"}))
    return found
