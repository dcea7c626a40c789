"""Another Quipu as a mirror, over HTTP, on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from quipu.backends.remote import make
from quipu.errors import InvalidError
from quipu.ports.backend import Backend, Setup
from quipu.testing.backend import BackendContract
from quipu.testing.embedders import WordEmbedder
from tests.faces.serving import served


def setup(url: str) -> Setup:
    return Setup(name="other", url=url, scheme=url.partition("://")[0], folder=Path("unused"))


class TestRemote(BackendContract):
    @pytest.fixture
    async def backend(self, tmp_path: Path) -> AsyncIterator[Backend]:
        self.place = tmp_path
        with served(tmp_path / "other.db", embedder=WordEmbedder(), rate_per_minute=0) as server:
            backend = make(setup(server.url.replace("http://", f"quipu+http://:{server.admin_token}@")))
            await backend.open()
            yield backend
            await backend.close()

    @pytest.fixture
    async def unreachable(self) -> Backend:
        return make(setup("quipu+http://127.0.0.1:9"))

    async def traces(self, backend: Backend, marker: str) -> Sequence[str]:
        return await asyncio.to_thread(
            lambda: [
                file.name for file in self.place.glob("other.db*") if marker.encode() in file.read_bytes()
            ]
        )


async def test_a_wrong_token_is_unavailable(tmp_path: Path) -> None:
    with served(tmp_path / "other.db") as server:
        backend = make(setup(server.url.replace("http://", "quipu+http://:wrong@")))
        assert not (await backend.health()).is_up


def test_beyond_this_machine_tls_is_wanted() -> None:
    with pytest.raises(InvalidError):
        make(setup("quipu+http://memory.example.org"))
    make(setup("quipu+https://memory.example.org"))
