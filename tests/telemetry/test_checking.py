"""The validator: what is right passes, and each thing that is wrong is found."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToJson
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from quipu.errors import InvalidError
from quipu.telemetry.checking import Level, Point, Span, Terms, checked, facts, record_faults
from quipu.telemetry.names import Convention
from quipu.telemetry.reading import exported
from tests.requirement import requirement
from tests.telemetry.conftest import Opened
from tests.telemetry.shown import Shown

#: The search span of the proposal's example, without its threshold.
SEARCH = Span(
    name="search_memory user-preferences",
    kind="CLIENT",
    attributes={
        "gen_ai.operation.name": "search_memory",
        "gen_ai.provider.name": "quipu",
        "gen_ai.memory.store.id": "ms_1",
        "gen_ai.memory.store.name": "user-preferences",
        "gen_ai.memory.type": "long_term",
        "gen_ai.memory.namespace": "user_12345",
        "gen_ai.memory.search.result.count": 3,
    },
)
MERGED = Span(
    name="search_memory",
    kind="INTERNAL",
    attributes={
        "gen_ai.operation.name": "search_memory",
        "gen_ai.memory.store.id": "ms_1",
        "gen_ai.memory.record.count": 3,
    },
)
IN_MERGED = Terms(convention=Convention.MERGED)


def said(span: Span, terms: Terms = Terms()) -> set[tuple[str, str]]:  # noqa: B008  frozen, so one for all is safe
    return {(found.level.value, found.id) for found in checked([span], terms=terms)}


def with_(span: Span, without: tuple[str, ...] = (), **more: Any) -> Span:
    """The span with other attributes; `__` stands for a dot."""
    kept = {name: value for name, value in span.attributes.items() if name not in without}
    given = {name.replace("__", "."): value for name, value in more.items()}
    return replace(span, attributes={**kept, **given})


@requirement("telemetry:check.controls")
def test_correct_spans_give_no_finding() -> None:
    assert checked([SEARCH]) == []
    assert checked([MERGED], terms=IN_MERGED) == []
    assert checked([replace(SEARCH, name="chat gpt-4", attributes={"gen_ai.operation.name": "chat"})]) == []


@requirement("telemetry:check.controls")
def test_the_proposals_search_span_has_five_violations_and_one_improvement_when_merged() -> None:
    found = checked([SEARCH], terms=IN_MERGED)
    assert sorted((one.level.value, one.id) for one in found) == [
        ("improvement", "recommended"),
        ("violation", "span_name"),
        *[("violation", "unknown_attribute")] * 4,
    ]
    told = " ".join(one.message for one in found)
    for name in ("store.name", "memory.type", "namespace", "search.result.count", "record.count"):
        assert name in told


@requirement("telemetry:check.controls")
def test_an_embedded_merged_span_fails_the_proposal() -> None:
    found = {(one.id, one.message.split()[0]) for one in checked([MERGED]) if one.level is Level.VIOLATION}
    assert found == {
        ("span_kind", "INTERNAL"),
        ("required", "gen_ai.provider.name"),
        ("unknown_attribute", "gen_ai.memory.record.count"),
    }


@requirement("telemetry:check.controls")
@pytest.mark.parametrize(
    ("id", "span"),
    {
        "content_without_opt_in": with_(SEARCH, gen_ai__memory__query="tea"),
        "cond_required": with_(SEARCH, server__address="memory.example"),
        "required": with_(SEARCH, without=("gen_ai.provider.name",)),
        "bad_operation": with_(SEARCH, gen_ai__operation__name="store_memory"),
        "span_name": replace(SEARCH, name='search_memory "user-preferences"'),
        "span_kind": replace(SEARCH, kind="INTERNAL"),
        "type_mismatch": with_(SEARCH, gen_ai__memory__search__result__count=True),
        "unknown_attribute": with_(SEARCH, gen_ai__memory__flavour="green"),
        "status_ok": replace(SEARCH, status="OK"),
        "error_type": with_(SEARCH, error__type="timeout"),
        "range": with_(SEARCH, gen_ai__memory__search__similarity__threshold=1.5),
    }.items(),
)
def test_each_fault_is_found_alone(id: str, span: Span) -> None:
    assert said(span) == {("violation", id)}


@requirement("telemetry:check.controls")
def test_faults_of_other_spans_are_found() -> None:
    update = Span(
        name="update_memory",
        kind="CLIENT",
        attributes={"gen_ai.operation.name": "update_memory", "gen_ai.provider.name": "quipu"},
    )
    delete = with_(replace(update, name="delete_memory"), gen_ai__operation__name="delete_memory")
    assert said(update) == set()
    assert said(with_(update, gen_ai__memory__expiration_date="tomorrow")) == {("violation", "date")}
    assert said(with_(update, gen_ai__memory__expiration_date="2025-12-31")) == set()
    assert said(with_(update, gen_ai__memory__update__strategy="replace")) == {("violation", "bad_member")}
    assert said(with_(update, gen_ai__memory__importance=2.0)) == {("violation", "range")}
    assert said(with_(update, gen_ai__memory__importance=1)) == {("violation", "type_mismatch")}
    assert said(with_(update, gen_ai__memory__query="x")) == {("improvement", "not_on_this_span")}
    assert said(delete) == {("violation", "required")}
    assert said(with_(delete, gen_ai__memory__scope="everybody")) == {("violation", "bad_member")}
    assert said(replace(update, status="ERROR")) == {("violation", "cond_required")}
    assert said(replace(update, scope="x")) == {("improvement", "scope_version")}
    assumed = Terms(assumed=("namespaced", "expiring"))
    assert [one.id for one in checked([update], terms=assumed)] == ["cond_required"] * 2


@requirement("telemetry:check.controls")
def test_a_span_whose_parent_is_missing_from_a_whole_trace_is_told() -> None:
    root = replace(SEARCH, name="agent", attributes={}, trace_id="t", span_id="1")
    child = replace(SEARCH, trace_id="t", span_id="2", parent_id="1")
    assert checked([root, child]) == []
    assert said(replace(child, trace_id="elsewhere")) == set()
    lost = replace(child, parent_id="9")
    assert [one.id for one in checked([root, lost])] == ["disconnected"]


@requirement("telemetry:check.controls")
def test_the_records_schema() -> None:
    valid = [
        {"id": "mem-1", "content": "metric units", "metadata": {"source": "chat"}, "score": 0.8},
        {"content": {"fact": "User's name is Ada", "confidence": 0.95}},
        {"content": None},
    ]
    assert record_faults(valid) == record_faults(json.dumps(valid)) == []
    invalid = [{"id": "mem-1"}, {"content": "x", "metadata": "source=chat"}]
    assert record_faults(invalid) == ["$[0] lacks content", "$[1].metadata is no object"]
    span = with_(MERGED, gen_ai__memory__records=json.dumps(invalid))
    allowed = Terms(convention=Convention.MERGED, allows_content=True)
    assert said(span, allowed) == {("violation", "records")}
    assert said(span, IN_MERGED) == {("violation", "records"), ("violation", "content_without_opt_in")}


@requirement("telemetry:check.surroundings")
@pytest.mark.parametrize("convention", Convention)
def test_spans_of_ours_around_operations_are_judged_and_nobody_elses(convention: Convention) -> None:
    terms = Terms(convention=convention)
    request = Span(
        name="POST /mcp",
        kind="SERVER",
        attributes={"http.request.method": "POST", "http.route": "/mcp", "url.scheme": "http"},
        scope="quipu",
        scope_version="0",
    )
    embedding = replace(
        request,
        name="embeddings tiny",
        kind="CLIENT",
        attributes={"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "tiny"},
    )
    own = replace(request, name="quipu.consolidate", kind="INTERNAL", attributes={})
    other = with_(replace(request, name="HTTP /mcp"), http__request__method="_OTHER")
    for right in (request, embedding, own, other):
        assert said(right, terms) == set()
    wrong = {
        "span_name": replace(request, name="POST"),
        "required": with_(request, ("url.scheme",)),
        "type_mismatch": with_(request, http__response__status_code="200"),
        "range": with_(request, http__response__status_code=7),
        "bad_member": with_(replace(request, name="BREW /mcp"), http__request__method="BREW"),
        "unknown_attribute": with_(request, enduser__id="mara"),
        "status_ok": replace(request, status="OK"),
        "cond_required": replace(own, status="ERROR"),
        "error_type": with_(own, error__type="timeout"),
        "span_kind": replace(embedding, kind="INTERNAL"),
        "strange_span": replace(own, name="tidy"),
    }
    for id, span in wrong.items():
        assert said(span, terms) == {("violation", id)}, id
        assert said(replace(span, scope="somebody"), terms) == set()


@requirement("telemetry:check.foreign")
def test_another_products_spans_are_judged_by_the_same_facts() -> None:
    """Emitters of the merged names that tell no provider, no store and no error type."""
    create = Span(
        name="create_memory",
        kind="CLIENT",
        attributes={
            "gen_ai.operation.name": "create_memory",
            "gen_ai.memory.record.count": 1,
            "gen_ai.agent.name": "helper",
        },
    )
    delete = replace(create, name="delete_memory", attributes={"gen_ai.operation.name": "delete_memory"})
    assert said(create, IN_MERGED) == said(MERGED, IN_MERGED) == set()
    assert said(delete, IN_MERGED) == {("improvement", "recommended")}
    assert said(replace(MERGED, status="ERROR"), IN_MERGED) == {("violation", "cond_required")}


@requirement("telemetry:check.metrics")
def test_metrics_are_checked_too() -> None:
    bounds = facts("merged")["metric"]["boundaries"]
    good = Point(
        name="gen_ai.client.operation.duration",
        unit="s",
        boundaries=bounds,
        labels={"gen_ai.operation.name": "search_memory"},
    )
    assert checked([], [good]) == []
    for wrong, id in (
        (replace(good, unit="ms"), "metric_unit"),
        (replace(good, boundaries=[1.0, 2.0]), "metric_boundaries"),
        (replace(good, labels={}), "metric_label"),
        (replace(good, labels={**good.labels, "gen_ai.memory.namespace": "mara"}), "metric_label"),
        (replace(good, name="quipu.memory.search.results", labels={"user.id": "mara"}), "metric_label"),
    ):
        assert [found.id for found in checked([], [wrong])] == [id]


# -- from files ------------------------------------------------------------------------------------------------------


async def files(opened: Opened, shown: Shown, folder: Path, **settings: Any) -> dict[str, Path]:
    """The same spans in every form."""
    memory = await opened(**settings)
    await memory.remember("Mara likes tea", importance=0.5, user_id="mara")
    await memory.recall("tea", types=["semantic"])
    message = encode_spans(shown.spans)
    text = MessageToJson(message, indent=None)
    forms: dict[str, bytes] = {
        "otlp.json": text.encode(),
        "lines.jsonl": f"{text}\n{text}\n".encode(),
        "otlp.pb": message.SerializeToString(),
        "console.json": "".join(span.to_json() for span in shown.spans).encode(),
    }
    for name, data in forms.items():
        (folder / name).write_bytes(data)
    return {name: folder / name for name in forms}


@requirement("telemetry:check.forms")
async def test_every_form_is_read_the_same(opened: Opened, shown: Shown, tmp_path: Path) -> None:
    for name, path in (await files(opened, shown, tmp_path)).items():
        read = exported(path.read_bytes())
        assert [span.name for span in read.spans][:2] == ["update_memory main", "search_memory main"], name
        given = read.spans[0].attributes
        assert (given["gen_ai.memory.importance"], read.spans[0].kind) == (0.5, "CLIENT")
        assert read.spans[1].attributes["quipu.memory.search.k"] == 5
        assert checked(read.spans, terms=Terms(assumed=())) == []
    for broken in (b"", b"\xff\x00\x01", b"[1, 2]", b'{"a": 1}', b"nonsense"):
        if broken:
            with pytest.raises(InvalidError):
                exported(broken)
