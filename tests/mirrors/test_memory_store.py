"""Another memory as a mirror: a server, a second ledger, a memory in hand, and stores of another package."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from quipu.bootstrap import other_memories
from quipu.config import Settings
from quipu.embed.port import Embedder
from quipu.mirrors.backend import Backend
from quipu.mirrors.registry import adapter_at
from quipu.testing.backend import BackendContract
from quipu.testing.embedders import WordEmbedder
from tests.conformance.conftest import Open, opened
from tests.router.other_package import Store

NOBODY_THERE = "http://127.0.0.1:9"


def at(where: Any, folder: Path, embedder: Embedder | None = None) -> Backend:
    return adapter_at(where, folder=folder, open_memory=other_memories(Settings()), embedder=embedder)


def files_with(folder: Path, marker: str) -> list[str]:
    return [file.name for file in sorted(folder.glob("*.db*")) if marker.encode() in file.read_bytes()]


class OverAMemory(BackendContract):
    """A Quipu in a file."""

    @pytest.fixture
    async def other(self, tmp_path: Path) -> AsyncIterator[Open]:
        async with opened(WordEmbedder(), str(tmp_path / "other.db")) as found:
            yield found

    @pytest.fixture
    async def unreachable(self, tmp_path: Path) -> Backend:
        return at(NOBODY_THERE, tmp_path)

    @pytest.fixture(autouse=True)
    def _look_into(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    async def traces(self, backend: Backend, marker: str) -> Sequence[str]:
        return files_with(self.folder, marker)


class TestAServer(OverAMemory):
    @pytest.fixture
    async def backend(self, other: Open, tmp_path: Path) -> AsyncIterator[Backend]:
        backend = at(other.remote(), tmp_path)
        await backend.open()
        yield backend
        await backend.close()


class TestAMemoryInHand(OverAMemory):
    @pytest.fixture
    async def backend(self, other: Open, tmp_path: Path) -> AsyncIterator[Backend]:
        backend = at(other.memory(), tmp_path)
        await backend.open()
        yield backend
        await backend.close()


class TestASecondLedger(OverAMemory):
    @pytest.fixture
    async def backend(self, tmp_path: Path) -> AsyncIterator[Backend]:
        backend = at(f"sqlite://{tmp_path}/second.db", tmp_path, WordEmbedder())
        await backend.open()
        yield backend
        await backend.close()

    @pytest.fixture
    async def unreachable(self, tmp_path: Path) -> Backend:
        return at("postgresql://nobody@/none?host=/nowhere", tmp_path, WordEmbedder())


class TestAStoreOfAnotherPackage(BackendContract):
    """memorywire's five operations, in models of its own."""

    @pytest.fixture
    async def backend(self, tmp_path: Path) -> AsyncIterator[Backend]:
        self.store = Store("other")
        backend = at(self.store, tmp_path)
        await backend.open()
        yield backend
        await backend.close()

    @pytest.fixture
    async def unreachable(self, tmp_path: Path) -> Backend:
        class Gone(Store):
            def __getattribute__(self, name: str) -> Any:
                if name in ("rows", "_clock") or name == "name":
                    raise ConnectionError("refused by 10.0.0.9")
                return super().__getattribute__(name)

            async def health(self) -> dict[str, Any]:
                raise ConnectionError("refused by 10.0.0.9")

        gone = object.__new__(Gone)
        gone.asked, gone.capabilities = [], {"fts"}
        return at(gone, tmp_path)

    async def traces(self, backend: Backend, marker: str) -> Sequence[str]:
        return [id for id, row in self.store.rows.items() if marker in repr(row)]
