"""A whole memory, reached as an integration reaches it."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from quipu import Memory, sync
from quipu.integrations.records import Call
from quipu.testing.embedders import WordEmbedder
from tests.fixtures.memories import Clock


@dataclass
class World:
    """A memory that is awaited, and its clock."""

    memory: Memory
    clock: Clock

    @property
    def call(self) -> Call:
        return self.memory.call


@pytest.fixture
async def world() -> AsyncIterator[World]:
    clock = Clock()
    async with Memory("agent", ":memory:", embedder=WordEmbedder(), clock=clock) as memory:
        yield World(memory, clock)


@pytest.fixture
def blocking() -> Iterator[sync.Memory]:
    with sync.Memory("agent", ":memory:", embedder=WordEmbedder()) as memory:
        yield memory


def names(found: Any) -> list[str]:
    return [entity["name"] for entity in found["entities"]]
