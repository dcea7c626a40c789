"""The plainest backend passes the suite: what it does not promise is skipped by name."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from quipu.backends.guarded import GuardedBackend
from quipu.ports.backend import Backend
from quipu.testing.backend import BackendContract
from quipu.testing.backend.shelf import ShelfBackend


class TestShelf(BackendContract):
    @pytest.fixture
    def backend(self) -> Backend:
        return ShelfBackend()

    @pytest.fixture
    def unreachable(self) -> Backend:
        shelf = ShelfBackend()
        shelf.is_down = True
        return shelf

    async def traces(self, backend: Backend, marker: str) -> Sequence[str]:
        assert isinstance(backend, ShelfBackend)
        return [name for name, copy in backend.kept.items() if marker in copy.content]


class TestGuardedShelf(TestShelf):
    """Behind deadlines and a breaker a backend is what it was."""

    @pytest.fixture
    def backend(self) -> Backend:
        self.shelf = ShelfBackend()
        return GuardedBackend("shelf", self.shelf)

    @pytest.fixture
    def unreachable(self) -> Backend:
        shelf = ShelfBackend()
        shelf.is_down = True
        return GuardedBackend("shelf", shelf)

    async def traces(self, backend: Backend, marker: str) -> Sequence[str]:
        return [name for name, copy in self.shelf.kept.items() if marker in copy.content]
