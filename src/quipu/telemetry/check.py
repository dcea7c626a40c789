"""Whether exported spans and metrics follow a convention.

What a convention asks for stands in proposal.json and merged.json. Exports are read in the forms in which they are made:
OTLP as JSON, a request a file or a line, and what the Python SDK's console exporter writes.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias, cast

from quipu.errors import InvalidError
from quipu.telemetry.conventions import ERROR_TYPE, OPERATION_NAME
from quipu.telemetry.settings import Convention

Facts: TypeAlias = Mapping[str, Any]
Level: TypeAlias = Literal["violation", "improvement", "information"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a convention would have otherwise."""

    level: Level
    id: str
    #: The name of the span, or of the metric.
    span: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSpan:
    """A span as it was exported."""

    name: str
    #: INTERNAL, SERVER, CLIENT, PRODUCER or CONSUMER.
    kind: str
    attributes: Mapping[str, Any]
    #: UNSET, OK or ERROR.
    status: str = "UNSET"
    trace_id: str = ""
    span_id: str = ""
    parent_id: str = ""
    scope: str | None = None
    scope_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPoint:
    """A metric, and the labels of one of its series."""

    name: str
    unit: str
    boundaries: Sequence[float] | None
    labels: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What is checked, and what may be taken for granted."""

    convention: Convention = "proposal"
    allows_content: bool = False
    vendor_prefixes: tuple[str, ...] = ("quipu.",)
    #: Conditions that hold although no span says so: namespaced, expiring, threshold.
    assumed: Collection[str] = ()


@cache
def facts_of(convention: Convention) -> Facts:
    """What a convention asks for."""
    text = files("quipu.telemetry").joinpath(f"{convention}.json").read_text("utf-8")
    return cast("Facts", json.loads(text))


def is_memory(span: ReadSpan) -> bool:
    """Whether a span is one of memory, in either convention."""
    known = (*facts_of("proposal")["operations"], *facts_of("merged")["operations"])
    marks = tuple(facts_of("proposal")["marks"])
    return span.attributes.get(OPERATION_NAME) in known or any(
        name.startswith(marks) for name in span.attributes
    )


def checked(
    spans: Sequence[ReadSpan], points: Iterable[ReadPoint] = (), terms: Terms | None = None
) -> list[Finding]:
    """All findings, in the order of the spans. Spans that are none of memory are passed over."""
    terms = terms or Terms()
    whole = {span.trace_id for span in spans if not span.parent_id}
    ids = {span.span_id for span in spans}
    found: list[Finding] = []
    for span in spans:
        if not is_memory(span):
            continue
        found += _Check(span, terms).findings()
        if span.parent_id and span.parent_id not in ids and span.trace_id in whole:
            message = "its parent is missing from a trace that is whole otherwise"
            found.append(Finding("violation", "disconnected", span.name, message))
    for point in points:
        found += _checked_point(point, facts_of(terms.convention))
    return found


class _Check:
    """One span under one convention."""

    def __init__(self, span: ReadSpan, terms: Terms) -> None:
        self._span, self._terms = span, terms
        self._facts = facts_of(terms.convention)
        self._found: list[Finding] = []

    def findings(self) -> list[Finding]:
        span = self._span
        operation = span.attributes.get(OPERATION_NAME)
        wanted = self._facts["operations"].get(operation) if isinstance(operation, str) else None
        if wanted is None:
            self._say("bad_operation", f"{operation!r} is no operation of this convention")
            return self._found
        self._check_frame(wanted)
        for name, level in wanted["attributes"].items():
            self._check_level(name, level)
        for name, value in span.attributes.items():
            self._check_value(name, value, wanted["attributes"])
        for first, second in self._facts["pairs"].items():
            if first in span.attributes and second not in span.attributes:
                self._say("cond_required", f"{second} is required with {first}")
        self._check_one_record(operation)
        return self._found

    def _say(self, id: str, message: str, level: Level = "violation") -> None:
        self._found.append(Finding(level, id, self._span.name, message))

    def _check_frame(self, wanted: Mapping[str, Any]) -> None:
        span = self._span
        parts = [span.attributes.get(part.strip("{}")) for part in wanted["name"].split(" ")]
        name = " ".join(str(part) for part in parts if part is not None)
        if span.name != name:
            self._say("span_name", f"the name should be {name!r}")
        if span.kind not in wanted["kinds"]:
            self._say("span_kind", f"{span.kind} instead of {' or '.join(wanted['kinds'])}")
        if span.status == "OK":
            self._say("status_ok", "success leaves the status unset")
        if ERROR_TYPE in span.attributes and span.status != "ERROR":
            self._say("error_type", f"{ERROR_TYPE} without an error status")
        if span.scope is not None and not span.scope_version:
            self._say("scope_version", "the instrumentation scope has no version", "improvement")

    def _check_level(self, name: str, level: str | Mapping[str, str]) -> None:
        if name in self._span.attributes:
            if level == "opt_in" and not self._terms.allows_content:
                self._say("content_without_opt_in", f"{name} is shown only to who asked for content")
        elif level == "required":
            self._say("required", f"{name} is missing")
        elif level == "expected" and self._span.status != "ERROR":
            self._say("recommended", f"{name} is missing", "improvement")
        elif isinstance(level, Mapping):
            self._check_condition(name, level["conditional"])

    def _check_condition(self, name: str, condition: str) -> None:
        """Required where the span alone decides, or where it is assumed."""
        if condition in self._terms.assumed and condition in self._facts["assumable"]:
            self._say("cond_required", f"{name} is required: {condition}")
            return
        test = self._facts["conditions"].get(condition)
        if test is None:
            return
        if "status" in test:
            if self._span.status == test["status"]:
                self._say("cond_required", f"{name} is required on an error")
        elif "value" in test and self._span.attributes.get(test["attribute"]) == test["value"]:
            # Whose it is may be unknown: a store of sessions also takes what belongs to none.
            self._say("cond_required", f"{name} is wanted for {condition}", "improvement")

    def _check_value(self, name: str, value: object, here: Mapping[str, Any]) -> None:
        known = self._facts["attributes"].get(name)
        if known is not None and name not in here:
            self._say("not_on_this_span", f"{name} is no part of this span", "improvement")
        known = known or self._facts["extras"].get(name)
        if known is None:
            if not name.startswith(self._terms.vendor_prefixes):
                self._say("unknown_attribute", f"{name} is not registered")
            return
        if not _is_of(value, known["type"]):
            self._say("type_mismatch", f"{name} is {type(value).__name__}, not {known['type']}")
            return
        if "members" in known and value not in known["members"]:
            self._say("bad_member", f"{name} is none of {', '.join(known['members'])}")
        if isinstance(value, int | float) and not (
            known.get("least", value) <= value <= known.get("most", value)
        ):
            self._say("range", f"{name} is out of range")
        if known.get("format") == "date" and not _is_date(str(value)):
            self._say("date", f"{name} is no ISO 8601 date")
        if known.get("format") == "records":
            for fault in record_faults(value):
                self._say("records", f"{name}: {fault}")

    def _check_one_record(self, operation: object) -> None:
        one = self._facts.get("one_record")
        if one is None or operation != one["operation"] or self._span.status == "ERROR":
            return
        if self._span.attributes.get(one["count"]) == 1 and one["id"] not in self._span.attributes:
            self._say("cond_required", f"{one['id']} is required where one record is updated")


def record_faults(value: object) -> list[str]:
    """What is wrong with a list of records, each by its place. JSON text is taken for what it says."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return ["it is no JSON"]
    if not isinstance(value, list):
        return ["it is no list"]
    faults: list[str] = []
    for place, item in enumerate(cast("list[object]", value)):
        if not isinstance(item, dict):
            faults.append(f"$[{place}] is no object")
            continue
        record = cast("dict[str, object]", item)
        if "content" not in record:
            faults.append(f"$[{place}] lacks content")
        if not isinstance(record.get("id", ""), str):
            faults.append(f"$[{place}].id is no string")
        score = record.get("score", 0)
        if isinstance(score, bool) or not isinstance(score, int | float):
            faults.append(f"$[{place}].score is no number")
        if not isinstance(record.get("metadata", {}), dict):
            faults.append(f"$[{place}].metadata is no object")
    return faults


def _checked_point(point: ReadPoint, known: Facts) -> list[Finding]:
    metric, own = known["metric"], known["own_metrics"]
    found: list[Finding] = []

    def say(id: str, message: str) -> None:
        found.append(Finding("violation", id, point.name, message))

    if point.name == metric["name"]:
        if point.unit != metric["unit"]:
            say("metric_unit", f"the unit is {point.unit!r}, not {metric['unit']!r}")
        if point.boundaries is not None and list(point.boundaries) != metric["boundaries"]:
            say("metric_boundaries", "the buckets are not those of the convention")
        for name in metric["required"]:
            if name not in point.labels:
                say("metric_label", f"{name} is missing")
        allowed = metric["labels"]
    elif point.name.startswith(tuple(own["prefixes"])):
        allowed = own["labels"]
    else:
        return []
    for name in sorted(point.labels.keys() - set(allowed)):
        say("metric_label", f"{name} is no label of this metric")
    return found


def _is_of(value: object, kind: str) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "double":
            return isinstance(value, float)
        case _:
            return True


def _is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


# -- reading exports ---------------------------------------------------------------------------------------------------

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
