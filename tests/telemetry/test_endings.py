"""Where spans wait for their export anyway, recalls end theirs a little later. Nobody can tell by what is exported."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from quipu.errors import QuipuError
from quipu.telemetry.endings import Endings
from quipu.telemetry.exporting import Exporting, Tracers
from tests.requirement import requirement
from tests.telemetry.conftest import Opened
from tests.telemetry.shown import Keeping, Shown, attributes


class Unfinished:
    """Notes that it was told."""

    def __init__(self) -> None:
        self.told = threading.Event()

    def finish(self) -> None:
        self.told.set()


class Ticking:
    """A clock of which every look is a second later."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        self.now += 1_000_000_000
        return self.now


@pytest.fixture
def exported() -> Iterator[tuple[Tracers, Keeping]]:
    exporter = Keeping()
    tracers = Tracers(exporter)
    yield tracers, exporter
    tracers.shutdown()
    assert exporter.faults() == []


def _told(spans: list[ReadableSpan]) -> list[tuple[object, ...]]:
    return [
        (span.name, span.kind, span.start_time, span.end_time, attributes(span), span.status.status_code)
        for span in spans
        if "store" not in span.name
    ]


@requirement("telemetry:endings")
async def test_what_is_exported_is_the_same(
    opened: Opened, shown: Shown, exported: tuple[Tracers, Keeping]
) -> None:
    tracers, exporter = exported
    for provider in (shown.tracers, tracers):
        memory = await opened({"tracer_provider": provider, "clock_ns": Ticking()})
        await memory.remember("green tea", user_id="mara")
        for k in (5, 2):
            await memory.recall("green tea", user_id="mara", k=k)
        with pytest.raises(QuipuError):
            await memory.recall("tea", store="nowhere")
        await memory.recall("coffee", user_id="ben")
        if provider is shown.tracers:
            at_once = shown.spans
    tracers.force_flush()
    later = list(exporter.get_finished_spans())
    assert len(_told(at_once)) == 5
    assert sorted(map(str, _without_ids(later))) == sorted(map(str, _without_ids(at_once)))


def _without_ids(spans: list[ReadableSpan]) -> list[tuple[object, ...]]:
    """Records and stores have other ids in another memory."""
    kept = []
    for name, kind, start, end, told, status in _told(spans):
        assert isinstance(told, dict)
        plain = {key: value for key, value in told.items() if not key.endswith(".id") or "memory" not in key}
        kept.append((name, kind, start, end, sorted(plain.items()), status))
    return kept


@requirement("telemetry:endings")
async def test_what_is_beneath_a_recall_is_its_child_and_what_follows_is_not(
    opened: Opened, exported: tuple[Tracers, Keeping]
) -> None:
    tracers, exporter = exported
    memory = await opened({"tracer_provider": tracers}, telemetry_phases=True)
    await memory.recall("tea")
    with tracers.get_tracer("test").start_as_current_span("after"):
        pass
    tracers.force_flush()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    recall = spans["search_memory main"]
    assert spans["quipu.phase.search"].parent is not None
    assert recall.context is not None
    assert spans["quipu.phase.search"].parent.span_id == recall.context.span_id
    assert spans["after"].parent is None


@requirement("telemetry:endings")
async def test_nothing_waits_for_the_next_recall() -> None:
    endings, one = Endings(patience_s=0.05), Unfinished()
    endings.add(one)
    assert await asyncio.to_thread(one.told.wait, 10)
    again = Unfinished()
    endings.add(again)
    assert await asyncio.to_thread(again.told.wait, 10)
    endings.close()


@requirement("telemetry:endings")
def test_a_long_row_is_told_by_whoever_makes_it_long_and_the_last_at_the_end() -> None:
    endings = Endings(patience_s=600)
    row = [Unfinished() for _ in range(33)]
    for one in row:
        endings.add(one)
    assert [one.told.is_set() for one in row] == [True] * 32 + [False]
    endings.close()
    assert row[-1].told.is_set()
    late = Unfinished()
    endings.add(late)
    assert late.told.is_set()


@requirement("telemetry:endings")
async def test_the_end_of_a_provider_loses_nothing(opened: Opened) -> None:
    exporter = Keeping()
    tracers = Tracers(exporter)
    memory = await opened({"tracer_provider": tracers})
    for _ in range(40):
        await memory.recall("tea")
    tracers.shutdown()
    found = [span for span in exporter.get_finished_spans() if span.name == "search_memory main"]
    assert len(found) == 40
    assert exporter.faults() == []


def test_a_program_that_is_ready_does_not_look_through_what_stays_again_and_again() -> None:
    said = "import gc; from quipu.bootstrap.serving import settle; settle(); print(gc.get_freeze_count(), gc.get_threshold()[0])"
    ended = subprocess.run(
        [sys.executable, "-c", said], capture_output=True, text=True, timeout=120, check=True
    )
    frozen, young = map(int, ended.stdout.split())
    assert frozen > 10_000
    assert young > 512 * 13, "more than one export of spans holds"


@requirement("telemetry:export.unreachable")
def test_all_that_is_sent_at_the_end_has_one_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quipu.telemetry.exporting._PATIENCE_S", 0.5)
    hanging = threading.Event()
    exporting = Exporting(traces="", metrics="", version="1")
    exporting._closing += [hanging.wait] * 4
    began = time.monotonic()
    exporting.close()
    hanging.set()
    assert 0.5 <= time.monotonic() - began < 1.5
