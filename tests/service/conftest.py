"""A memory with a clock that stands still and an embedder that knows words, closed when the test ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from quipu import Memory
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder

Opened = Callable[..., Memory]


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
async def opened(clock: FixedClock) -> AsyncIterator[Opened]:
    """Makes memories: in memory, or on the file that is given. All are closed afterwards."""
    memories: list[Memory] = []

    def make(file: Path | None = None, **given: Any) -> Memory:
        url = "sqlite://:memory:" if file is None else f"sqlite://{file}"
        known = {"agent_id": "ana", "stores": url, "embedder": WordEmbedder(), "clock": clock}
        memories.append(Memory(**{**known, **given}))
        return memories[-1]

    yield make
    for memory in memories:
        await memory.close()


@pytest.fixture
def memory(opened: Opened) -> Memory:
    return opened()
