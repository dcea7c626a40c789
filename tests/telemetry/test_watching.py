"""That the suite itself would notice: a span that breaks a convention fails whichever test made it, wherever it was made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from quipu.model.observation import Action, Observation
from quipu.telemetry.settings import Showing, Telemetry
from quipu.telemetry.tracing import Tracing
from tests import conventions
from tests.architecture.tree import ROOT
from tests.faces.serving import Program, served
from tests.requirement import requirement
from tests.telemetry.receiver import receiving
from tests.telemetry.shown import Keeping

_PLANTED = """
import os, signal, sys
from pathlib import Path
from quipu.telemetry.settings import Showing, Telemetry
from quipu.telemetry.tracing import Tracing
from tests import conventions
conventions.watch_for(Path(sys.argv[1]))
with Tracing(Showing(), Telemetry(), clock_ns=lambda: 0, version="0").block("quipu.expire", attributes={"who": "mara"}):
    pass
os.kill(os.getpid(), signal.SIGKILL)
"""


def tracing() -> Tracing:
    return Tracing(Showing(), Telemetry(), clock_ns=lambda: 0, version="0")


@requirement("telemetry:validator.suite")
@pytest.mark.parametrize(
    ("name", "kind", "attributes", "fault"),
    [
        ("quipu.expire", "INTERNAL", {"user": "mara"}, "unknown_attribute"),
        ("quipu.expire", "CLIENT", {}, "span_kind"),
        ("tidy", "INTERNAL", {}, "strange_span"),
        ("GET /x", "SERVER", {"http.request.method": "GET", "url.scheme": "http"}, "span_name"),
    ],
)
def test_a_span_around_operations_that_is_wrong_is_noticed_in_each_convention(
    name: str, kind: str, attributes: dict[str, str], fault: str
) -> None:
    with tracing().block(name, kind=kind, attributes=attributes):
        pass
    assert [said.split(": ")[::2] for said in conventions.faults()] == [
        [convention, fault] for convention in ("proposal", "merged", "both")
    ]


@requirement("telemetry:validator.suite")
def test_an_operation_that_is_wrong_is_noticed() -> None:
    seen = Observation(action=Action.FORGET, tenant="default")  # a delete without its scope
    with tracing().operation(seen):
        pass
    assert conventions.faults() == [
        f"{convention}: delete_memory: required: gen_ai.memory.scope is missing"
        for convention in ("proposal", "both")
    ]


@requirement("telemetry:validator.suite")
def test_requests_are_watched_without_a_provider() -> None:
    seen: list[tuple[str, str]] = []
    watchers = Tracing.block_watchers
    Tracing.block_watchers = (*watchers, lambda name, kind, *_: seen.append((name, kind)))
    try:
        with served() as at, at.client() as client:
            client.get("/quipu/v1/stores").raise_for_status()
            assert client.get("/quipu/v1/nowhere").status_code == 404
    finally:
        Tracing.block_watchers = watchers
    assert ("GET /quipu/v1/stores", "SERVER") in seen


@requirement("telemetry:validator.suite")
def test_a_quipu_that_a_test_starts_is_watched(tmp_path: Path) -> None:
    with Program(tmp_path / "m.db") as program:
        assert (conventions.told() / str(program.process.pid)).exists()


@requirement("telemetry:validator.suite")
def test_what_a_process_did_wrong_is_noticed_although_it_was_killed() -> None:
    line = [sys.executable, "-c", _PLANTED, str(conventions.told())]
    assert subprocess.run(line, cwd=ROOT, check=False).returncode < 0
    assert conventions.faults() == [
        f"{convention}: quipu.expire: unknown_attribute: who is no part of this span"
        for convention in ("proposal", "merged", "both")
    ]


def wrong(tracers: TracerProvider) -> None:
    with tracers.get_tracer("quipu", "0").start_as_current_span("search_memory") as span:
        span.set_attribute("gen_ai.operation.name", "search_memory")


@requirement("telemetry:validator.suite")
def test_what_an_exporter_of_a_test_got_is_judged_also_after_it_was_put_away() -> None:
    exporter, tracers = Keeping(), TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    wrong(tracers)
    exporter.clear()
    assert {fault.split(": ")[1] for fault in exporter.faults()} == {"span_kind", "required"}


@requirement("telemetry:validator.suite")
def test_what_a_collector_of_a_test_got_is_judged_also_after_it_was_put_away() -> None:
    with pytest.raises(AssertionError, match="span_kind"):
        collected_wrongly()


def collected_wrongly() -> None:
    tracers = TracerProvider(shutdown_on_exit=False)
    with receiving() as receiver:
        tracers.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{receiver.url}/v1/traces")))
        wrong(tracers)
        receiver.bodies.clear()
