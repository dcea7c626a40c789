"""Providers of their own for each test, and memories that tell them what they do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from quipu import Memory
from quipu.bootstrap.telemetry import Telemetry
from quipu.config import Config
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from tests.telemetry.shown import Keeping, Shown

Opened = Callable[..., Awaitable[Memory]]


@pytest.fixture
def shown() -> Iterator[Shown]:
    """What it got has to follow the convention in the end, also what the test has put away."""
    exporter, reader = Keeping(), InMemoryMetricReader()
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    meters = MeterProvider([reader], shutdown_on_exit=False)
    shown = Shown(tracers, meters, exporter, reader)
    yield shown
    assert shown.faults() == []


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
async def opened(shown: Shown, clock: FixedClock) -> AsyncIterator[Opened]:
    """Memories whose spans and metrics are caught; settings are given as `telemetry_…`."""
    memories: list[Memory] = []

    async def make(given: dict[str, Any] | None = None, **settings: Any) -> Memory:
        providers = {"tracer_provider": shown.tracers, "meter_provider": shown.meters}
        told = Telemetry(**{**providers, **(given or {})})
        config = Config(**{"store_url": "sqlite://:memory:", **settings})
        memories.append(Memory("ana", embedder=WordEmbedder(), clock=clock, config=config, telemetry=told))
        await memories[-1].open()
        shown.clear()  # the store `main` was made
        return memories[-1]

    yield make
    for memory in memories:
        await memory.close()
