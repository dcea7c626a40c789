"""One memory for each test, in both generations of the protocol."""

from collections.abc import AsyncIterator

import pytest

from quipu.bootstrap import open_container
from quipu.config import Settings
from quipu.testing.embedders import WordEmbedder
from tests.fixtures.memories import Clock
from tests.mcp.clients import MODES, World


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
async def world(mode: str) -> AsyncIterator[World]:
    clock = Clock()
    container = await open_container(
        Settings(agent="agent"), stores=[":memory:"], embedder=WordEmbedder(), clock=clock
    )
    yield World(container, clock, mode)
    await container.close()
