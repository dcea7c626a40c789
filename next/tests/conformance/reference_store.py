"""What memorywire's own suite runs on instead of its adapters: becomes the `conftest.py` beside its unmodified scenarios.

Each of its requests is a model of its package, and so must be each answer.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from memorywire.router import MemoryRouter
from tests_of_quipu.conformance.conftest import Lent, Open, opened

from quipu.embed.minilm import MiniLmEmbedder

ADAPTER_IDS = ["embedded", "server", "its own router over ours"]
#: Nothing is left out.
SKIP_OVERRIDES: dict[str, dict[str, str]] = {}


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
    return Lent(MiniLmEmbedder())


@pytest.fixture(params=ADAPTER_IDS)
def adapter_id(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
async def store(adapter_id: str, real: Lent, tmp_path: Path) -> AsyncIterator[Any]:
    async with opened(real, str(tmp_path / "memory.db")) as at:
        if adapter_id == "embedded":
            yield BackDated(at.memory(), at)
        elif adapter_id == "server":
            yield BackDated(at.remote(), at)
        else:
            yield MemoryRouter([BackDated(at.memory(), at)])
