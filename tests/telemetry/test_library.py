"""The manners of a library: it loads nothing, sets nothing, never fails and never waits."""

import subprocess
import sys
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, Sampler, SamplingResult

from quipu import Memory, NotFoundError, Telemetry
from quipu.config import Settings
from tests.fixtures.spans import Shown, values
from tests.requirement import requirement
from tests.telemetry.conftest import Opened


def _python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@requirement("opentelemetry:library.loads-nothing")
def test_opentelemetry_is_not_loaded_by_us() -> None:
    said = _python(
        "import asyncio, sys\n"
        "from quipu import Memory\n"
        "async def main():\n"
        "    async with Memory('ana', ':memory:', embedder='none') as memory:\n"
        "        await memory.remember('Ana likes tea.'); await memory.recall('tea')\n"
        "asyncio.run(main())\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])\n"
    )
    assert said.strip() == "[]"


@requirement("opentelemetry:library.loads-nothing")
def test_without_a_provider_nothing_is_described_and_none_is_set() -> None:
    said = _python(
        "import asyncio\n"
        "from opentelemetry import metrics, trace\n"
        "import quipu.telemetry.spans as spans\n"
        "spans.described = None  # it would fail\n"
        "from quipu import Memory\n"
        "async def main():\n"
        "    async with Memory('ana', ':memory:', embedder='none') as memory:\n"
        "        await memory.remember('Ana likes tea.'); await memory.recall('tea')\n"
        "asyncio.run(main())\n"
        "print(type(trace.get_tracer_provider()).__name__, type(metrics.get_meter_provider()).__name__)\n"
    )
    assert said.split() == ["ProxyTracerProvider", "_ProxyMeterProvider"]


class _Broken(SpanProcessor):
    """Somebody else's exporter that raises wherever it can."""

    def on_start(self, span: Span, parent_context: Any = None) -> None:
        raise RuntimeError("start")

    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError("end")


@requirement("opentelemetry:library.never-fails")
async def test_a_broken_provider_harms_no_operation(caplog: pytest.LogCaptureFixture) -> None:
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(_Broken())
    async with Memory(
        "ana", ":memory:", embedder="none", telemetry=Telemetry(tracer_provider=tracers)
    ) as memory:
        done = await memory.remember("Ana likes tea.")
        assert (await memory.get(done.id)).content == "Ana likes tea."
        with pytest.raises(NotFoundError):
            await memory.get("mem_unknown")
    assert [record.message for record in caplog.records if record.name == "quipu.telemetry"] == [
        "A span cannot be begun. (RuntimeError)",
        "A call cannot be described. (RuntimeError)",  # each once
    ]


@requirement("opentelemetry:library.never-fails")
async def test_what_cannot_be_described_is_still_ended(
    opened: Opened, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = await opened()

    def broken(*_: object) -> Any:
        raise RuntimeError

    monkeypatch.setattr("quipu.telemetry.spans.described", broken)
    await memory.remember("Ana likes tea.")
    span = shown.one()
    assert span.name == "update_memory"
    monkeypatch.undo()
    await memory.remember("Ana likes tea.")
    assert shown.one().parent is None  # the one before is not current any more


class _Hearing(Sampler):
    """What samplers are told."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []

    def should_sample(
        self, parent_context: Any, trace_id: int, name: str, *args: Any, **options: Any
    ) -> SamplingResult:
        found = options.get("attributes") or (args[1] if len(args) > 1 else {})
        self.heard.append({"name": name, **(found or {})})
        return SamplingResult(Decision.RECORD_AND_SAMPLE, found)

    def get_description(self) -> str:
        return "hearing"


@requirement("opentelemetry:library.samplers")
async def test_samplers_are_told_what_no_caller_chose() -> None:
    sampler = _Hearing()
    tracers = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    async with Memory(
        "ana", ":memory:", embedder="none", telemetry=Telemetry(tracer_provider=tracers)
    ) as memory:
        await memory.list_stores()
        sampler.heard.clear()
        await memory.remember("Ana likes tea.", session_id="s1", user_id="u1")
    assert sampler.heard == [
        {
            "name": "update_memory",
            "gen_ai.operation.name": "update_memory",
            "gen_ai.provider.name": "quipu",
            "quipu.memory.operation": "remember",
            "quipu.memory.side": "caller",
        }
    ]


@requirement("opentelemetry:library.samplers")
async def test_what_is_beneath_an_unsampled_span_is_not_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    tracers = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)

    def never(*_: object) -> Any:
        raise AssertionError("nobody wants to know")

    monkeypatch.setattr("quipu.telemetry.spans._attributes", never)
    telemetry = Telemetry(tracer_provider=tracers)
    async with Memory(
        "ana", ":memory:", embedder="none", config=Settings(telemetry_metrics=False), telemetry=telemetry
    ) as memory:
        await memory.remember("Ana likes tea.")


@requirement("opentelemetry:settings.switches")
async def test_telemetry_can_be_switched_off(shown: Shown) -> None:
    given = Telemetry(tracer_provider=shown.tracers, meter_provider=shown.meters)
    async with Memory(
        "ana", ":memory:", embedder="none", config=Settings(telemetry=False), telemetry=given
    ) as memory:
        await memory.remember("Ana likes tea.")
    assert (shown.spans, shown.points()) == ([], {})


@requirement("opentelemetry:settings.switches")
async def test_metrics_can_be_switched_off(opened: Opened, shown: Shown) -> None:
    memory = await opened(telemetry_metrics=False)
    await memory.remember("Ana likes tea.")
    assert shown.one().name == "update_memory main"
    assert shown.points() == {}


@requirement("opentelemetry:library.scope")
async def test_there_is_one_scope_with_our_version(opened: Opened, shown: Shown) -> None:
    from quipu import __version__

    memory = await opened()
    await memory.remember("Ana likes tea.")
    scope = shown.one().instrumentation_scope
    assert scope is not None
    assert (scope.name, scope.version, scope.schema_url) == ("quipu", __version__, "")


@requirement("opentelemetry:library.never-fails")
async def test_spans_may_be_made_by_hand_around_it(opened: Opened, shown: Shown) -> None:
    memory = await opened()
    with shown.tracers.get_tracer("agent").start_as_current_span("invoke_agent"):
        await memory.remember("Ana likes tea.")
    outer = shown.named("invoke_agent")
    inner = shown.named("update_memory main")
    assert inner.parent is not None
    assert inner.parent.span_id == outer.get_span_context().span_id
    assert values(inner)["gen_ai.provider.name"] == "quipu"
