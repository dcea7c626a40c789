"""Whether spans and metrics follow a convention. Pure: what a convention asks for stands in facts/*.json, not here."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias, cast

from quipu.telemetry.names import ERROR_TYPE, OPERATION_NAME, Convention

Facts: TypeAlias = Mapping[str, Any]


class Level(StrEnum):
    """How bad it is."""

    VIOLATION = "violation"
    IMPROVEMENT = "improvement"
    INFORMATION = "information"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a convention would have otherwise."""

    level: Level
    id: str
    span: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
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
class Point:
    """A metric and the labels of one of its series."""

    name: str
    unit: str
    boundaries: Sequence[float] | None
    labels: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What is checked, and what may be taken for granted."""

    convention: Convention = Convention.PROPOSAL
    allows_content: bool = False
    vendor_prefixes: tuple[str, ...] = ("quipu.",)
    #: Conditions that hold although no span says so: namespaced, expiring, threshold.
    assumed: Collection[str] = field(default_factory=tuple[str, ...])


@cache
def facts(name: str) -> Facts:
    """What one convention asks for."""
    text = files("quipu.telemetry").joinpath("facts", f"{name}.json").read_text("utf-8")
    return cast("Facts", json.loads(text))


def is_memory(span: Span) -> bool:
    """Whether a span tells of an operation of memory, in any convention."""
    operations, marks = _memory_marks()
    return span.attributes.get(OPERATION_NAME) in operations or any(
        name.startswith(marks) for name in span.attributes
    )


@cache
def _memory_marks() -> tuple[frozenset[str], tuple[str, ...]]:
    known = (*facts("proposal")["operations"], *facts("merged")["operations"])
    return frozenset(known), tuple(facts("proposal")["marks"])


def checked(spans: Sequence[Span], points: Iterable[Point] = (), terms: Terms = Terms()) -> list[Finding]:  # noqa: B008  frozen, so one for all is safe
    """All findings, in the order of the spans."""
    roots = {span.trace_id for span in spans if not span.parent_id}
    ids = {span.span_id for span in spans}
    found: list[Finding] = []
    for span in spans:
        if not is_memory(span):
            found += _checked_around(span, terms)
            continue
        found += _Check(span, terms).findings()
        if span.parent_id and span.parent_id not in ids and span.trace_id in roots:
            message = "its parent is missing from a trace that is whole"
            found.append(Finding(Level.VIOLATION, "disconnected", span.name, message))
    for point in points:
        found += _checked_point(point, facts("proposal"))
    return found


class _Check:
    """One span under one convention."""

    def __init__(self, span: Span, terms: Terms, known: Facts | None = None) -> None:
        self._span, self._terms = span, terms
        is_merged = terms.convention is Convention.MERGED
        self._facts = known or facts("merged" if is_merged else "proposal")
        #: Under `both` the merged attributes may be there too, and then have to be right.
        self._others = facts("merged") if terms.convention is Convention.BOTH else None
        self._found: list[Finding] = []

    def findings(self) -> list[Finding]:
        """Everything there is to say."""
        span = self._span
        operation = span.attributes.get(OPERATION_NAME)
        wanted = self._facts["operations"].get(operation)
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
        self._check_one_record(str(operation))
        return self._found

    def around(self, wanted: Mapping[str, Any]) -> list[Finding]:
        """Of a span that stands around operations, or beneath one: no convention of memory asks more of it."""
        self._check_frame(wanted)
        if self._span.status == "ERROR" and ERROR_TYPE not in self._span.attributes:
            self._say("cond_required", f"{ERROR_TYPE} is required on an error")
        for name, level in wanted["attributes"].items():
            self._check_level(name, level)
        for name, value in self._span.attributes.items():
            if name in wanted["attributes"]:
                self._check_known(name, value, self._facts["attributes"][name])
            else:
                self._say("unknown_attribute", f"{name} is no part of this span")
        return self._found

    def _say(self, id: str, message: str, level: Level = Level.VIOLATION) -> None:
        self._found.append(Finding(level, id, self._span.name, message))

    def _check_frame(self, wanted: Mapping[str, Any]) -> None:
        span = self._span
        if "name" in wanted and span.name != (name := self._name(wanted["name"])):
            self._say("span_name", f"the name should be {name!r}")
        if span.kind not in wanted["kinds"]:
            self._say("span_kind", f"{span.kind} instead of {' or '.join(wanted['kinds'])}")
        if span.status == "OK":
            self._say("status_ok", "success leaves the status unset")
        has_error = ERROR_TYPE in span.attributes
        if has_error and span.status != "ERROR":
            self._say("error_type", f"{ERROR_TYPE} without an error status")
        if span.scope is not None and not span.scope_version:
            self._say("scope_version", "the instrumentation scope has no version", Level.IMPROVEMENT)

    def _name(self, template: str) -> str:
        """Its parts that are there, some of them under another word."""
        parts = [self._span.attributes.get(part.strip("{}")) for part in template.split(" ")]
        words: Mapping[str, str] = self._facts.get("said", {})
        return " ".join(words.get(str(part), str(part)) for part in parts if part is not None)

    def _check_level(self, name: str, level: str | Mapping[str, str]) -> None:
        if name in self._span.attributes:
            if level == "opt_in" and not self._terms.allows_content:
                self._say("content_without_opt_in", f"{name} is shown only to who asked for content")
            return
        if level == "required":
            self._say("required", f"{name} is missing")
        elif level == "expected" and self._span.status != "ERROR":
            self._say("recommended", f"{name} is missing", Level.IMPROVEMENT)
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
            # Whose it is may be unknown: a store for sessions also takes what belongs to none.
            self._say("cond_required", f"{name} is wanted for {condition}", Level.IMPROVEMENT)

    def _check_value(self, name: str, value: object, here: Mapping[str, Any]) -> None:
        known = self._facts["attributes"].get(name)
        if known is not None and name not in here:
            self._say("not_on_this_span", f"{name} is no part of this span", Level.IMPROVEMENT)
        if known is None and self._others is not None:
            known = self._others["attributes"].get(name)
            levels = [span["attributes"].get(name) for span in self._others["operations"].values()]
            if "opt_in" in levels and not self._terms.allows_content:
                self._say("content_without_opt_in", f"{name} is shown only to who asked for content")
        known = known or self._facts["extras"].get(name)
        if known is None:
            if not name.startswith(self._terms.vendor_prefixes):
                self._say("unknown_attribute", f"{name} is not registered")
            return
        self._check_known(name, value, known)

    def _check_known(self, name: str, value: object, known: Mapping[str, Any]) -> None:
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

    def _check_one_record(self, operation: str) -> None:
        one = self._facts.get("one_record")
        if one is None or operation != one["operation"] or self._span.status == "ERROR":
            return
        if self._span.attributes.get(one["count"]) == 1 and one["id"] not in self._span.attributes:
            self._say("cond_required", f"{one['id']} is required where one record is updated")


def _checked_around(span: Span, terms: Terms) -> list[Finding]:
    """Of Quipu's own spans the others too: requests, decisions, passes, phases, calls of a model. Nobody else's."""
    known = facts("surroundings")
    if span.scope != known["scope"]:
        return []
    for wanted in known["spans"].values():
        if _is_meant(span, wanted["when"]):
            return _Check(span, terms, known).around(wanted)
    return [Finding(Level.VIOLATION, "strange_span", span.name, "Quipu makes no such span")]


def _is_meant(span: Span, when: Mapping[str, str]) -> bool:
    if "kind" in when:
        return span.kind == when["kind"]
    if "operation" in when:
        return span.attributes.get(OPERATION_NAME) == when["operation"]
    return span.name.startswith(when["prefix"])


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


def _checked_point(point: Point, known: Facts) -> list[Finding]:
    metric, own = known["metric"], known["own_metrics"]

    def says(id: str, message: str) -> Finding:
        return Finding(Level.VIOLATION, id, point.name, message)

    found: list[Finding] = []
    if point.name == metric["name"]:
        if point.unit != metric["unit"]:
            found.append(says("metric_unit", f"the unit is {point.unit!r}, not {metric['unit']!r}"))
        if point.boundaries is not None and list(point.boundaries) != metric["boundaries"]:
            found.append(says("metric_boundaries", "the buckets are not those of the convention"))
        found += [
            says("metric_label", f"{name} is missing")
            for name in metric["required"]
            if name not in point.labels
        ]
        allowed = metric["labels"]
    elif point.name.startswith(tuple(own["prefixes"])):
        allowed = own["labels"]
    else:
        return []
    strange = sorted(point.labels.keys() - set(allowed))
    return found + [says("metric_label", f"{name} is no label of this metric") for name in strange]


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
