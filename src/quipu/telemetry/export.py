"""A program's way to its collector: the SDK's batches over OTLP, and a bounded wait for the last of them.

Only a program of our own sets the providers of its process. Endpoints, headers, timeouts, sampling and resource come from
the standard OTEL_* variables, which the SDK reads by itself.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from typing import Any

from quipu._version import __version__

_log = logging.getLogger("quipu.telemetry")
#: How long the end of a program waits for a collector, in all.
PATIENCE_S = 5.0


@contextmanager
def exporting(signals: Collection[str]) -> Generator[None]:
    """Send `traces` and `metrics` of this process to the collector that the environment names, until the end."""
    closing = _opened(signals) if signals else []
    try:
        yield
    finally:
        close(closing)


def _opened(signals: Collection[str]) -> list[Callable[[], Any]]:
    """How each provider is closed."""
    try:
        from opentelemetry import metrics, trace
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        _log.warning("A collector is named, and nothing is sent there: install quipu-memory[telemetry].")
        return []
    resource = Resource.create({"service.version": __version__})
    if str(resource.attributes.get(SERVICE_NAME, "unknown_service")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "quipu"}))
    closing: list[Callable[[], Any]] = []
    if "traces" in signals:
        tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(tracers)
        closing.append(tracers.shutdown)
    if "metrics" in signals:
        reader = PeriodicExportingMetricReader(OTLPMetricExporter())
        meters = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        metrics.set_meter_provider(meters)
        closing.append(meters.shutdown)
    return closing


def close(closing: Collection[Callable[[], Any]], patience_s: float = PATIENCE_S) -> None:
    """Send what waits. A collector that does not answer keeps nobody from ending."""
    threads = [threading.Thread(target=_quietly, args=(one,), daemon=True) for one in closing]
    for thread in threads:
        thread.start()
    until = time.monotonic() + patience_s
    for thread in threads:
        thread.join(max(until - time.monotonic(), 0))
    if any(thread.is_alive() for thread in threads):
        _log.warning("The collector did not take the last spans in time.")


def _quietly(one: Callable[[], Any]) -> None:
    try:
        one()
    except Exception as error:  # noqa: BLE001  the program ends either way
        _log.warning("The last spans could not be sent (%s).", type(error).__name__)
