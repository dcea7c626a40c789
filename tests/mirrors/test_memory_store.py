"""Another memory as a mirror: a server, a second ledger, a memory in hand, and stores of another package."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from quipu import Memory
from quipu.bootstrap import other_memories
from quipu.config import Settings
from quipu.embed.port import Embedder
from quipu.mirrors.backend import Backend
from quipu.mirrors.registry import adapter_at
from quipu.testing import BackendContract
from quipu.testing.embedders import WordEmbedder
from tests.conformance.conftest import Open, opened
from tests.router.other_package import Store

NOBODY_THERE = "http://127.0.0.1:9"


def at(where: Any, folder: Path, embedder: Embedder | None = None) -> Backend:
    return adapter_at(where, folder=folder, open_memory=other_memories(Settings()), embedder=embedder)


class TestAServer(BackendContract):
    """A Quipu in a file, asked over HTTP."""

    @pytest.fixture
    async def other(self, tmp_path: Path) -> AsyncIterator[Open]:
        self.folder = tmp_path
        async with opened(WordEmbedder(), str(tmp_path / "other.db")) as found:
            yield found

    @pytest.fixture
    async def backend(self, other: Open, tmp_path: Path) -> AsyncIterator[Backend]:
        backend = at(self.memory(other), tmp_path)
        await backend.open()
        yield backend
        await backend.close()

    def memory(self, other: Open) -> Memory:
        return other.remote()

    def made_unreachable(self, folder: Path) -> Backend:
        return at(NOBODY_THERE, folder)


class TestAMemoryInHand(TestAServer):
    """The same in this process."""

    def memory(self, other: Open) -> Memory:
        return other.memory()


class TestASecondLedger(BackendContract):
    def made(self, folder: Path) -> Backend:
        return at(f"sqlite://{folder}/second.db", folder, WordEmbedder())

    def made_unreachable(self, folder: Path) -> Backend:
        return at("postgresql://nobody@/none?host=/nowhere", folder, WordEmbedder())


class TestAStoreOfAnotherPackage(BackendContract):
    """memorywire's five operations, in models of its own."""

    def made(self, folder: Path) -> Backend:
        self.store = Store("other")
        return at(self.store, folder)

    def made_unreachable(self, folder: Path) -> Backend:
        class Gone(Store):
            def __getattribute__(self, name: str) -> Any:
                if name in ("rows", "_clock") or name == "name":
                    raise ConnectionError("refused by 10.0.0.9")
                return super().__getattribute__(name)

            async def health(self) -> dict[str, Any]:
                raise ConnectionError("refused by 10.0.0.9")

        gone = object.__new__(Gone)
        gone.asked, gone.capabilities = [], {"fts"}
        return at(gone, folder)

    async def traces(self, backend: Backend, marker: str) -> Sequence[str]:
        return [id for id, row in self.store.rows.items() if marker in repr(row)]
