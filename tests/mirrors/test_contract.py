"""The contract of backends, kept by the smallest backend there is."""

from collections.abc import AsyncIterator, Sequence

import pytest

from quipu.mirrors.backend import Backend
from quipu.testing.backend import BackendContract
from tests.mirrors.shelf import ShelfBackend


class TestShelf(BackendContract):
    @pytest.fixture
    async def backend(self) -> AsyncIterator[ShelfBackend]:
        shelf = ShelfBackend()
        await shelf.open()
        yield shelf
        await shelf.close()

    @pytest.fixture
    async def unreachable(self) -> ShelfBackend:
        shelf = ShelfBackend()
        shelf.is_down = True
        return shelf

    async def traces(self, backend: Backend, marker: str) -> Sequence[str]:
        assert isinstance(backend, ShelfBackend)
        return [name for name, copy in backend.kept.items() if marker in repr(copy)]
