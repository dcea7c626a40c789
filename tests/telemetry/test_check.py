"""The checker: what it knows is what the proposal says, and each fault by itself is found."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from quipu.telemetry.check import ReadPoint, ReadSpan, Terms, checked, exported, facts_of, record_faults
from quipu.telemetry.conventions import TABLES
from tests.fixtures.spans import Shown, read
from tests.requirement import requirement
from tests.telemetry.conftest import Opened

PROPOSAL = Path(__file__).with_name("proposal.md").read_text("utf-8")


def blocks() -> list[dict[str, Any]]:
    """Every entry of every YAML block of the proposal."""
    found = re.findall(r"^```yaml\n(.*?)^```", PROPOSAL, re.M | re.S)
    return [entry for block in found for entry in yaml.safe_load(block)]


@requirement("opentelemetry:check.facts")
def test_the_facts_are_those_of_the_proposal() -> None:
    facts = facts_of("proposal")
    operations = {one["value"] for one in blocks() if "value" in one}
    attributes = {one["id"]: one for one in blocks() if one["id"].startswith("gen_ai.")}
    spans = {one["id"].split(".")[2]: one for one in blocks() if one.get("type") == "span"}
    assert set(facts["operations"]) == operations == set(spans)
    assert len(attributes) == 13
    for name, one in attributes.items():
        known, kind = facts["attributes"][name], one["type"]
        members = [member["value"] for member in kind["members"]] if isinstance(kind, dict) else None
        assert known["type"] == ("string" if members else kind), name
        assert known.get("members") == members, name
    for name, span in spans.items():
        wanted = facts["operations"][name]
        assert wanted["kinds"] == [span["span_kind"].upper()]
        levels = {ref["ref"]: ref["requirement_level"] for ref in span["attributes"]}
        assert levels.keys() == wanted["attributes"].keys(), name
        for attribute, level in levels.items():
            ours = wanted["attributes"][attribute]
            if isinstance(level, dict):
                assert set(ours) == {"conditional"}, (name, attribute)
            elif attribute == "gen_ai.memory.search.result.count":
                assert (level, ours) == ("recommended", "expected")  # a search that went well always has one
            else:
                assert ours == level, (name, attribute)


@requirement("opentelemetry:check.facts")
def test_what_we_show_is_what_the_facts_know() -> None:
    for convention, table in TABLES.items():
        facts = facts_of(convention)
        for span in facts["operations"]:
            allowed = {*facts["operations"][span]["attributes"], *facts["extras"]}
            named = {name for _, name in table.shown_on(span)}
            assert {name for name in named if name.startswith("gen_ai.")} <= allowed, (convention, span)


def good() -> ReadSpan:
    """The search of the proposal's example, with everything that belongs on it."""
    return ReadSpan(
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
            "gen_ai.memory.search.similarity.threshold": 0.7,
        },
        scope="quipu",
        scope_version="1",
    )


def changed(span: ReadSpan, without: str = "", **attributes: Any) -> ReadSpan:
    given = {name.replace("__", "."): value for name, value in attributes.items()}
    left = {name: value for name, value in span.attributes.items() if name != without}
    return replace(span, attributes={**left, **given})


FAULTS: dict[str, tuple[ReadSpan, str]] = {
    "bad_operation": (changed(good(), gen_ai__operation__name="store_memory"), "bad_operation"),
    "name": (replace(good(), name='search_memory "user-preferences"'), "span_name"),
    "kind": (replace(good(), kind="INTERNAL"), "span_kind"),
    "provider": (changed(good(), without="gen_ai.provider.name"), "required"),
    "count": (changed(good(), without="gen_ai.memory.search.result.count"), "recommended"),
    "error without type": (replace(good(), status="ERROR"), "cond_required"),
    "type without error": (changed(good(), error__type="timeout"), "error_type"),
    "text": (changed(good(), gen_ai__memory__search__result__count="3"), "type_mismatch"),
    "boolean": (changed(good(), gen_ai__memory__search__result__count=True), "type_mismatch"),
    "negative": (changed(good(), gen_ai__memory__search__result__count=-1), "range"),
    "share": (changed(good(), gen_ai__memory__search__similarity__threshold=1.5), "range"),
    "unknown": (changed(good(), gen_ai__memory__cost=1.0), "unknown_attribute"),
    "elsewhere": (changed(good(), gen_ai__memory__update__strategy="merge"), "not_on_this_span"),
    "query": (changed(good(), gen_ai__memory__query="shoes"), "content_without_opt_in"),
    "port": (changed(good(), server__address="h"), "cond_required"),
    "ok": (replace(good(), status="OK"), "status_ok"),
    "version": (replace(good(), scope_version=None), "scope_version"),
    "member": (
        ReadSpan(
            name="delete_memory",
            kind="CLIENT",
            attributes={
                "gen_ai.operation.name": "delete_memory",
                "gen_ai.provider.name": "quipu",
                "gen_ai.memory.scope": "planet",
            },
        ),
        "bad_member",
    ),
    "date": (
        ReadSpan(
            name="update_memory",
            kind="CLIENT",
            attributes={
                "gen_ai.operation.name": "update_memory",
                "gen_ai.provider.name": "quipu",
                "gen_ai.memory.expiration_date": "soon",
            },
        ),
        "date",
    ),
}


@requirement("opentelemetry:check.faults")
def test_a_correct_span_has_no_finding() -> None:
    assert checked([good()]) == []
    assert checked([replace(good(), name="GET /", attributes={"http.request.method": "GET"})]) == []


@requirement("opentelemetry:check.faults")
@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_alone_is_found(name: str) -> None:
    span, wanted = FAULTS[name]
    assert [finding.id for finding in checked([span])] == [wanted]


@requirement("opentelemetry:check.faults")
def test_what_is_assumed_is_asked_for() -> None:
    bare = changed(
        changed(good(), without="gen_ai.memory.namespace"),
        without="gen_ai.memory.search.similarity.threshold",
    )
    assert checked([bare]) == []
    terms = Terms(assumed={"namespaced", "threshold"})
    assert [finding.id for finding in checked([bare], terms=terms)] == ["cond_required"] * 2
    mine = changed(good(), acme__memory__cost=1.0)
    assert [finding.id for finding in checked([mine])] == ["unknown_attribute"]
    assert checked([mine], terms=Terms(vendor_prefixes=("acme.",))) == []


@requirement("opentelemetry:check.faults")
def test_a_span_whose_parent_is_missing_is_found() -> None:
    root = ReadSpan(name="agent", kind="INTERNAL", attributes={}, trace_id="t", span_id="1")
    child = replace(good(), trace_id="t", span_id="2", parent_id="1")
    lost = replace(good(), trace_id="t", span_id="3", parent_id="9")
    assert [finding.id for finding in checked([root, child, lost])] == ["disconnected"]
    assert checked([replace(lost, trace_id="elsewhere")]) == []  # the rest of the trace is in another file


@requirement("opentelemetry:check.merged")
def test_the_example_under_the_merged_convention() -> None:
    example = changed(good(), without="gen_ai.memory.search.similarity.threshold")
    found = checked([example], terms=Terms(convention="merged"))
    assert [finding.level for finding in found].count("violation") == 5
    assert [finding.level for finding in found].count("improvement") == 1
    assert {finding.id for finding in found} == {"span_name", "unknown_attribute", "recommended"}


@requirement("opentelemetry:check.merged")
async def test_a_span_of_the_merged_convention_fails_the_proposal(opened: Opened, shown: Shown) -> None:
    memory = await opened(telemetry_convention="merged")
    done = await memory.remember("Ana likes tea.")
    await memory.update(done.id, tags=["drinks"])
    await memory.recall("tea")
    await memory.forget(ids=[done.id])
    assert [span.name for span in shown.spans] == [
        "create_memory",
        "update_memory",
        "search_memory",
        "delete_memory",
    ]
    assert {span.kind.name for span in shown.spans} == {"INTERNAL"}
    assert shown.findings(Terms(convention="merged")) == []
    found = checked([read(shown.named("search_memory"))])
    assert [finding.id for finding in found if finding.level == "violation"] == [
        "span_kind",
        "required",
        "unknown_attribute",
    ]


@requirement("opentelemetry:check.metrics")
def test_faults_of_metrics_are_found() -> None:
    buckets = facts_of("proposal")["metric"]["boundaries"]
    point = ReadPoint(
        name="gen_ai.client.operation.duration",
        unit="s",
        boundaries=buckets,
        labels={"gen_ai.operation.name": "search_memory"},
    )
    assert checked([], [point]) == []
    for faulty, wanted in (
        (replace(point, unit="ms"), "metric_unit"),
        (replace(point, boundaries=[1.0]), "metric_boundaries"),
        (replace(point, labels={}), "metric_label"),
        (replace(point, labels={**point.labels, "user.id": "u1"}), "metric_label"),
        (
            replace(point, name="quipu.memory.search.results", labels={"gen_ai.agent.id": "ana"}),
            "metric_label",
        ),
    ):
        assert [finding.id for finding in checked([], [faulty])] == [wanted]
    assert checked([], [replace(point, name="somebody.elses", labels={"x": 1})]) == []


@requirement("opentelemetry:check.merged")
def test_records_are_looked_into() -> None:
    assert record_faults('[{"content": "x", "id": "1", "score": 0.5, "metadata": {}}]') == []
    assert len(record_faults('[1, {}, {"content": "x", "id": 1, "score": true, "metadata": []}]')) == 5
    assert record_faults("{") == ["it is no JSON"]
    assert record_faults('{"content": "x"}') == ["it is no list"]


# -- the command ------------------------------------------------------------------------------------------------------


def otlp(span: ReadSpan) -> dict[str, Any]:
    """As a collector writes it to a file."""
    kinds = ["UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT"]

    def value(given: Any) -> dict[str, Any]:
        if isinstance(given, bool):
            return {"boolValue": given}
        if isinstance(given, int):
            return {"intValue": str(given)}
        return {"doubleValue": given} if isinstance(given, float) else {"stringValue": given}

    attributes = [{"key": name, "value": value(one)} for name, one in span.attributes.items()]
    body = {
        "name": span.name,
        "kind": kinds.index(span.kind),
        "attributes": attributes,
        "traceId": "t",
        "spanId": "1",
    }
    return {
        "resourceSpans": [{"scopeSpans": [{"scope": {"name": "quipu", "version": "1"}, "spans": [body]}]}]
    }


def run(*words: str, given: str | None = None) -> tuple[int, str, str]:
    done = subprocess.run(
        [Path(sys.executable).with_name("quipu"), "telemetry", "check", *words],
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@requirement("opentelemetry:check.command")
def test_the_command_says_by_its_exit_code_what_it_found(tmp_path: Path) -> None:
    fine, bad, none, broken = (
        tmp_path / name for name in ("fine.json", "bad.json", "none.json", "broken.json")
    )
    fine.write_text(json.dumps(otlp(good())) + "\n" + json.dumps(otlp(good())), "utf-8")
    bad.write_text(json.dumps(otlp(FAULTS["kind"][0])), "utf-8")
    none.write_text(json.dumps({"resourceSpans": []}), "utf-8")
    broken.write_text("{", "utf-8")
    assert run(str(fine))[0] == 0
    code, said, _ = run(str(fine), str(bad), "--format", "json")
    assert code == 1
    assert json.loads(said) == {
        "spans": 3,
        "violations": 1,
        "findings": [
            {
                "level": "violation",
                "id": "span_kind",
                "span": "search_memory user-preferences",
                "message": "INTERNAL instead of CLIENT",
            }
        ],
    }
    code, _, why = run(str(broken))
    assert code == 2
    assert "broken.json" in why
    assert run(str(tmp_path / "absent.json"))[0] == 2
    assert run("--assume", "magic", str(fine))[0] == 2
    assert run(str(none))[0] == 3
    assert run("-", given=fine.read_text("utf-8"))[0] == 0


@requirement("opentelemetry:check.command")
async def test_what_the_console_exporter_writes_is_read(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    await memory.remember("Ana likes tea.")
    (span,) = exported((shown.one().to_json() + "\n").encode()).spans
    assert (span.name, span.kind, span.status) == ("update_memory main", "CLIENT", "UNSET")
    assert checked([span]) == []
