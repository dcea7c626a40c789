"""Clauses of the contract that no other test holds: the scope, links, gauges, unexpected errors, backends that fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

import quipu
from quipu import Memory
from quipu.bootstrap.telemetry import Telemetry, Watched, tell_standing
from quipu.config import Config
from quipu.telemetry.settings import Side
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from tests.faces.serving import served
from tests.requirement import requirement
from tests.telemetry.conftest import Opened
from tests.telemetry.shown import Shown, attributes


@requirement("telemetry:library")
async def test_tracer_and_meter_have_one_scope_and_claim_no_schema(opened: Opened, shown: Shown) -> None:
    await (await opened()).remember("tea")
    (span,) = shown.spans
    data = shown.reader.get_metrics_data()
    assert data is not None
    scopes = [scope.scope for resource in data.resource_metrics for scope in resource.scope_metrics]
    assert span.instrumentation_scope is not None
    for scope in (span.instrumentation_scope, *scopes):
        assert (scope.name, scope.version) == ("quipu", quipu.__version__)
        assert not scope.schema_url


@requirement("telemetry:background")
async def test_a_pass_links_to_128_writes_at_most(shown: Shown, clock: FixedClock) -> None:
    tracers = TracerProvider(shutdown_on_exit=False, span_limits=SpanLimits(max_links=1000))
    tracers.add_span_processor(SimpleSpanProcessor(shown.exporter))
    config = Config(store_url="sqlite://:memory:", embedder="none")
    told = Telemetry(tracer_provider=tracers)
    async with Memory("ana", clock=clock, config=config, telemetry=told) as memory:
        for number in range(140):
            await memory.remember(f"note {number}", expires_at=clock() + 1000)
        clock.move(2000)
        shown.clear()
        await memory.sweep()
    root = shown.span("quipu.expire")
    assert len(root.links) == 128


@requirement("telemetry:errors")
async def test_an_unexpected_exception_is_told_by_its_class_and_not_by_its_words(shown: Shown) -> None:
    class Broken(WordEmbedder):
        async def embed(self, texts: object) -> list[bytes]:
            raise LookupError("Mara likes tea")

    told = Telemetry(tracer_provider=shown.tracers, meter_provider=shown.meters)
    config = Config(store_url="sqlite://:memory:")
    async with Memory("ana", embedder=Broken(), config=config, telemetry=told) as memory:
        shown.clear()
        with pytest.raises(LookupError):
            await memory.remember("Mara likes tea")
    (span,) = shown.spans
    assert attributes(span)["error.type"] == "LookupError"
    assert span.status.description is None
    assert "Mara" not in shown.text
    assert shown.findings() == []


@requirement("telemetry:spans.partial")
async def test_a_recall_with_a_backend_down_is_no_error_and_says_how_many(
    shown: Shown, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    config = Config(
        store_url=f"sqlite://{tmp_path / 'memory.db'}",
        mirrors=f"sqlite://{tmp_path / 'file' / 'nowhere.db'}?name=down",
    )
    told = Telemetry(tracer_provider=shown.tracers, meter_provider=shown.meters)
    async with Memory("ana", embedder=WordEmbedder(), config=config, telemetry=told) as memory:
        await memory.remember("tea")
        shown.clear()
        assert len(await memory.recall("tea")) == 1
    span = shown.span("search_memory main")
    assert attributes(span)["quipu.memory.backends.failed"] == 1
    assert span.status.status_code.name == "UNSET"
    assert shown.findings() == []


@requirement("telemetry:metrics.standing")
def test_a_server_tells_how_much_is_stored_and_how_much_waits(shown: Shown) -> None:
    telemetry = Telemetry(tracer_provider=shown.tracers, meter_provider=shown.meters)
    with served(watched=Watched(telemetry=telemetry, side=Side.SERVER)) as at, at.client() as client:
        fact = {"agent_id": "ana", "type": "semantic", "content": "tea", "user_id": "mara"}
        for held in (False, False, True):
            body = {**fact, "approval_required": held}
            client.post("/memorywire/v0/remember", json=body).raise_for_status()
        at.do(tell_standing(at.web.running.parts))
        found = {
            name: [(labels, point.value) for labels, point in shown.points(name)]
            for name in ("quipu.memory.store.records", "quipu.governance.pending")
        }
    assert found == {"quipu.memory.store.records": [({}, 2)], "quipu.governance.pending": [({}, 1)]}
