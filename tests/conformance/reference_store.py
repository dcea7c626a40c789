"""What memorywire's own suite runs on instead of its adapters: becomes the `conftest.py` beside its unmodified scenarios.

Each of its requests is a model of its package, and so must be each answer.
"""

import importlib
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from memorywire.router import MemoryRouter
from tests_of_quipu.conformance.conftest import Lent, Open, opened

from quipu import Router
from quipu.embed.local import LocalEmbedder

ADAPTER_IDS = [
    *("embedded", "server", "its own router over ours"),
    *("our router over two", "our router over a file and a server"),
    *("its own store", "our router over its stores", "our router over its store and ours"),
]
#: Nothing is left out.
SKIP_OVERRIDES: dict[str, dict[str, str]] = {}


def its_own_store() -> Any:
    """Its SQLite store, with the back-dating of its own suite."""
    # Its store loads an extension, which Python's own sqlite3 may be built without.
    sys.modules["sqlite3"] = importlib.import_module("pysqlite3")
    return importlib.import_module("tests.conformance.its_stores")._build_sqlite_vec()


class BackDated:
    """A memory that makes a record as old as a scenario asks for in its metadata."""

    def __init__(self, memory: Any, at: Open) -> None:
        self._memory, self._at = memory, at
        self.recall, self.forget, self.merge = memory.recall, memory.forget, memory.merge
        self.expire, self.health = memory.expire, memory.health

    @property
    def capabilities(self) -> set[str]:
        return self._memory.capabilities

    async def remember(self, request: Any) -> Any:
        age = (request.metadata or {}).get("_conformance_backdate_ms", 0)
        self._at.clock.now -= age
        try:
            return await self._memory.remember(request)
        finally:
            self._at.clock.now += age


@pytest.fixture(scope="session")
def real() -> Lent:
    return Lent(LocalEmbedder())


@pytest.fixture(params=ADAPTER_IDS)
def adapter_id(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
async def store(adapter_id: str, real: Lent, tmp_path: Path) -> AsyncIterator[Any]:
    async with AsyncExitStack() as stack:

        async def ours(name: str, *, is_remote: bool = False) -> BackDated:
            at = await stack.enter_async_context(opened(real, str(tmp_path / f"{name}.db")))
            return BackDated(at.remote() if is_remote else at.memory(), at)

        match adapter_id:
            case "embedded":
                yield await ours("one")
            case "server":
                yield await ours("one", is_remote=True)
            case "its own router over ours":
                yield MemoryRouter([await ours("one")])
            case "our router over two":
                yield Router({"one": await ours("one"), "two": await ours("two")})
            case "our router over a file and a server":
                yield Router({"file": await ours("one"), "server": await ours("two", is_remote=True)})
            case "its own store":
                yield its_own_store()
            case "our router over its stores":
                yield Router({"one": its_own_store(), "two": its_own_store()})
            case _:
                yield Router({"its": its_own_store(), "ours": await ours("one")})
