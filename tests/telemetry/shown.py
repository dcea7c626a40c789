"""What was exported, in the forms that tests ask about."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from quipu.telemetry.checking import Finding, Point, Span, Terms, checked
from quipu.telemetry.names import Convention
from quipu.telemetry.reading import exported
from tests.conventions import exported_faults


class Keeping(InMemorySpanExporter):
    """Keeps what it was given, also after it was told to forget it."""

    def __init__(self) -> None:
        super().__init__()
        self._ever: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._ever += spans
        return super().export(spans)

    def faults(self, points: Sequence[Point] = ()) -> list[str]:
        """What the validator says about all of it."""
        return exported_faults([read(span) for span in self._ever], points)


@dataclass
class Shown:
    """Providers, and what came out of them."""

    tracers: TracerProvider
    meters: MeterProvider
    exporter: Keeping
    reader: InMemoryMetricReader

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def span(self, name: str) -> ReadableSpan:
        """The only span of that name."""
        found = [span for span in self.spans if span.name == name]
        assert len(found) == 1, [span.name for span in self.spans]
        return found[0]

    def clear(self) -> None:
        self.exporter.clear()

    def findings(self, convention: str = "proposal", *, allows_content: bool = False) -> list[Finding]:
        """What the validator says about all of it."""
        terms = Terms(convention=Convention(convention), allows_content=allows_content)
        return checked([read(span) for span in self.spans], terms=terms)

    def faults(self) -> list[str]:
        """What the validator says about all that ever came, numbers too."""
        data = self.reader.get_metrics_data()
        points = exported(encode_metrics(data).SerializeToString()).points if data else []
        return self.exporter.faults(points)

    def points(self, name: str) -> list[tuple[dict[str, Any], Any]]:
        """Labels and data of a metric."""
        data = self.reader.get_metrics_data()
        return [
            (dict(point.attributes or {}), point)
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    @property
    def text(self) -> str:
        """Everything that left, as one text."""
        return json.dumps([json.loads(span.to_json()) for span in self.spans], ensure_ascii=False)


def read(span: ReadableSpan) -> Span:
    """A span of the SDK as the validator takes it."""
    scope = span.instrumentation_scope
    return Span(
        name=span.name,
        kind=span.kind.name,
        attributes=attributes(span),
        status=span.status.status_code.name,
        trace_id=f"{span.context.trace_id:032x}" if span.context else "",
        span_id=f"{span.context.span_id:016x}" if span.context else "",
        parent_id=f"{span.parent.span_id:016x}" if span.parent else "",
        scope=scope.name if scope else None,
        scope_version=scope.version if scope else None,
    )


def attributes(span: ReadableSpan) -> dict[str, Any]:
    """Lists as lists."""
    given: Mapping[str, Any] = span.attributes or {}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
