"""Memories for a router to stand before."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from quipu import Memory
from quipu.testing.embedders import WordEmbedder


@pytest.fixture
async def peers() -> AsyncIterator[dict[str, Memory]]:
    made = {name: Memory("ana", stores="sqlite://:memory:", embedder=WordEmbedder()) for name in "abc"}
    yield made
    for memory in made.values():
        await memory.close()
