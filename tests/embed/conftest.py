"""The built-in embedder, where the weights are, and a small real HTTP server on loopback."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from quipu.embed.local import LocalEmbedder
from scripts.build_model import installed_weights
from tests.embed.server import Server, serving


@pytest.fixture(scope="session")
def weights_dir() -> Path:
    return installed_weights()


@pytest.fixture
async def embedder() -> AsyncIterator[LocalEmbedder]:
    embedder = LocalEmbedder()
    yield embedder
    await embedder.close()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as state:
        yield state
