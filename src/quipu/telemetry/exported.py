"""Exported spans and metrics, from the forms they are exported in: OTLP as JSON, a request a file or a line, and what the
Python SDK's console exporter writes."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from quipu.errors import InvalidError
from quipu.telemetry.check import ReadPoint, ReadSpan

_KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
_STATUS = ("UNSET", "OK", "ERROR")


@dataclass(frozen=True, slots=True)
class Exported:
    """What some files hold."""

    spans: list[ReadSpan] = field(default_factory=list[ReadSpan])
    points: list[ReadPoint] = field(default_factory=list[ReadPoint])


def exported(data: bytes) -> Exported:
    """The spans and metrics of one file, in whichever form it is."""
    found = Exported()
    try:
        for value in _values(data.decode("utf-8")):
            _add(value, found)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError):
        raise InvalidError(
            "This is no export of spans.",
            reason="bad_value",
            hint="OTLP as JSON, or what the SDK's console exporter writes.",
        ) from None
    return found


def _values(text: str) -> Iterator[Any]:
    """JSON values one after the other, on lines of their own or not."""
    decoder, place = json.JSONDecoder(), 0
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
        raise ValueError("an unknown form")


def _get(value: Mapping[str, Any], name: str) -> Any:
    """A member by its JSON name, or by its name in the protocol."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return value.get(name, value.get(snake, []))


def _otlp_span(span: Mapping[str, Any], scope: Mapping[str, Any]) -> ReadSpan:
    about = scope.get("scope", {})
    return ReadSpan(
        name=str(span["name"]),
        kind=_numbered(span.get("kind", 0), _KINDS, "SPAN_KIND_"),
        attributes=_attributes(_get(span, "attributes")),
        status=_numbered(span.get("status", {}).get("code", 0), _STATUS, "STATUS_CODE_"),
        trace_id=str(_get(span, "traceId") or ""),
        span_id=str(_get(span, "spanId") or ""),
        parent_id=str(_get(span, "parentSpanId") or ""),
        scope=about.get("name"),
        scope_version=about.get("version"),
    )


def _numbered(value: int | str, names: Sequence[str], prefix: str) -> str:
    """JSON has an enumeration as number or as name."""
    return value.removeprefix(prefix) if isinstance(value, str) else names[value]


def _attributes(pairs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {str(pair["key"]): _value(pair.get("value", {})) for pair in pairs}


def _value(value: Mapping[str, Any]) -> Any:
    """Integers come as strings."""
    for kind, read in (("stringValue", str), ("intValue", int), ("doubleValue", float), ("boolValue", bool)):
        if kind in value:
            return read(value[kind])
    if "arrayValue" in value:
        return [_value(item) for item in value["arrayValue"].get("values", [])]
    if "kvlistValue" in value:
        return _attributes(value["kvlistValue"].get("values", []))
    return value.get("bytesValue")


def _otlp_points(metric: Mapping[str, Any]) -> Iterator[ReadPoint]:
    for kind in ("histogram", "sum", "gauge"):
        for point in _get(metric.get(kind, {}), "dataPoints"):
            bounds = _get(point, "explicitBounds") if kind == "histogram" else None
            yield ReadPoint(
                name=str(metric["name"]),
                unit=str(metric.get("unit", "")),
                boundaries=None if bounds is None else [float(bound) for bound in bounds],
                labels=_attributes(_get(point, "attributes")),
            )


def _console_span(value: Mapping[str, Any]) -> ReadSpan:
    return ReadSpan(
        name=str(value["name"]),
        kind=str(value.get("kind", "")).removeprefix("SpanKind."),
        attributes=dict(value.get("attributes") or {}),
        status=str(value.get("status", {}).get("status_code", "UNSET")),
        trace_id=str(value["context"]["trace_id"]),
        span_id=str(value["context"]["span_id"]),
        parent_id=str(value.get("parent_id") or ""),
    )
