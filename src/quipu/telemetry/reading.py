"""Exported spans and metrics, from the forms they are exported in.

OTLP as JSON (a request per file or per line), OTLP as protobuf, and what the Python SDK's console exporter writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from quipu.errors import InvalidError
from quipu.telemetry.checking import Point, Span

_KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
#: Sixteen bytes in base64.
_TRACE_ID = 24
_STATUS = ("UNSET", "OK", "ERROR")


def _no_spans() -> list[Span]:
    return []


def _no_points() -> list[Point]:
    return []


@dataclass(frozen=True, slots=True)
class Exported:
    """What some files hold."""

    spans: list[Span] = field(default_factory=_no_spans)
    points: list[Point] = field(default_factory=_no_points)


def exported(data: bytes) -> Exported:
    """The spans and metrics of one file, in whichever form it is."""
    found = Exported()
    try:
        text = data.decode("utf-8")
        values = list(_values(text))
    except (ValueError, RecursionError):
        values = None
    try:
        if values is None:
            _add_protobuf(data, found)
        else:
            for value in values:
                _add(value, found)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise _unreadable() from None
    return found


def _unreadable() -> InvalidError:
    return InvalidError(
        "This is no export of spans.",
        reason="bad_value",
        hint="OTLP as JSON or protobuf, or lines of the SDK's console exporter.",
    )


def _values(text: str) -> Iterator[Any]:
    """JSON values one after the other, on lines of their own or not."""
    decoder = json.JSONDecoder()
    place = 0
    while True:
        while place < len(text) and text[place] in " \t\r\n":
            place += 1
        if place >= len(text):
            return
        value, place = decoder.raw_decode(text, place)
        yield value


def _add(value: Any, found: Exported) -> None:
    if isinstance(value, list):
        for one in cast("list[Any]", value):
            _add(one, found)
    elif "resourceSpans" in value or "resource_spans" in value:
        for resource in _get(value, "resourceSpans"):
            for scope in _get(resource, "scopeSpans"):
                found.spans.extend(_otlp_span(span, scope) for span in _get(scope, "spans"))
    elif "resourceMetrics" in value or "resource_metrics" in value:
        for resource in _get(value, "resourceMetrics"):
            for scope in _get(resource, "scopeMetrics"):
                for metric in _get(scope, "metrics"):
                    found.points.extend(_otlp_points(metric))
    elif "context" in value and "name" in value:
        found.spans.append(_console_span(value))
    else:
        raise ValueError


def _get(value: Mapping[str, Any], name: str) -> Any:
    """A list by its JSON name, or by its name in the protocol."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return value.get(name, value.get(snake, []))


def _otlp_span(span: Mapping[str, Any], scope: Mapping[str, Any]) -> Span:
    about = scope.get("scope", {})
    return Span(
        name=str(span["name"]),
        kind=_numbered(span.get("kind", 0), _KINDS, "SPAN_KIND_"),
        attributes=_attributes(_get(span, "attributes")),
        status=_numbered(span.get("status", {}).get("code", 0), _STATUS, "STATUS_CODE_"),
        trace_id=str(span.get("traceId", span.get("trace_id", ""))),
        span_id=str(span.get("spanId", span.get("span_id", ""))),
        parent_id=str(span.get("parentSpanId", span.get("parent_span_id", ""))),
        scope=about.get("name"),
        scope_version=about.get("version"),
    )


def _numbered(value: int | str, names: Sequence[str], prefix: str) -> str:
    """JSON tells an enumeration by number or by name."""
    return value.removeprefix(prefix) if isinstance(value, str) else names[value]


def _attributes(pairs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {str(pair["key"]): _value(pair.get("value", {})) for pair in pairs}


def _value(value: Mapping[str, Any]) -> Any:
    """Integers arrive as strings."""
    for kind, read in (("stringValue", str), ("intValue", int), ("doubleValue", float), ("boolValue", bool)):
        if kind in value:
            return read(value[kind])
    if "arrayValue" in value:
        return [_value(item) for item in value["arrayValue"].get("values", [])]
    if "kvlistValue" in value:
        return _attributes(value["kvlistValue"].get("values", []))
    return value.get("bytesValue")


def _otlp_points(metric: Mapping[str, Any]) -> Iterator[Point]:
    for kind in ("histogram", "sum", "gauge"):
        for point in _get(metric.get(kind, {}), "dataPoints"):
            bounds = _get(point, "explicitBounds") if kind == "histogram" else None
            yield Point(
                name=str(metric["name"]),
                unit=str(metric.get("unit", "")),
                boundaries=None if bounds is None else [float(bound) for bound in bounds],
                labels=_attributes(_get(point, "attributes")),
            )


def _console_span(value: Mapping[str, Any]) -> Span:
    return Span(
        name=str(value["name"]),
        kind=str(value.get("kind", "")).removeprefix("SpanKind."),
        attributes=dict(value.get("attributes") or {}),
        status=str(value.get("status", {}).get("status_code", "UNSET")),
        trace_id=str(value["context"]["trace_id"]),
        span_id=str(value["context"]["span_id"]),
        parent_id=str(value.get("parent_id") or ""),
    )


def _add_protobuf(data: bytes, found: Exported) -> None:
    """Spans first; bytes that hold none are tried as metrics."""
    try:
        from google.protobuf.json_format import MessageToDict
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    except ImportError:
        raise InvalidError(
            "Reading protobuf needs the telemetry extra.",
            reason="missing_extra",
            hint="Install quipu-memory[telemetry], or export as JSON.",
        ) from None
    for kind in (ExportTraceServiceRequest, ExportMetricsServiceRequest):
        try:
            value = MessageToDict(kind.FromString(data))
            part = Exported()
            _add(value, part)
        except (DecodeError, ValueError, KeyError):
            continue
        # Bytes of metrics can also be read as spans, but then their ids are not as long as ids are.
        if any(len(span.trace_id) != _TRACE_ID for span in part.spans):
            continue
        if part.spans or part.points:
            found.spans.extend(part.spans)
            found.points.extend(part.points)
            return
    raise _unreadable()
