"""Memories for a router to stand before."""

from collections.abc import AsyncIterator, Callable

import pytest

from quipu.api import Memory
from quipu.config import Settings
from quipu.testing.embedders import WordEmbedder
from tests.fixtures.memories import Clock


def opened(stores: str = ":memory:", *, clock: Clock | None = None) -> Memory:
    return Memory("ana", stores=stores, embedder=WordEmbedder(), config=Settings(), clock=clock)


@pytest.fixture
async def memories() -> AsyncIterator[Callable[[str], dict[str, Memory]]]:
    """Memories by these names."""
    made: list[Memory] = []

    def make(names: str) -> dict[str, Memory]:
        found = {name: opened() for name in names}
        made.extend(found.values())
        return found

    yield make
    for memory in made:
        await memory.close()


@pytest.fixture
def peers(memories: Callable[[str], dict[str, Memory]]) -> dict[str, Memory]:
    return memories("abc")
