"""The contract of backends, kept by the smallest backend there is."""

from collections.abc import Sequence
from pathlib import Path

from quipu.mirrors.backend import Backend
from quipu.testing import BackendContract
from tests.mirrors.shelf import ShelfBackend


class TestShelf(BackendContract):
    def made(self, folder: Path) -> Backend:
        return ShelfBackend()

    def made_unreachable(self, folder: Path) -> Backend:
        shelf = ShelfBackend()
        shelf.is_down = True
        return shelf

    async def traces(self, backend: Backend, marker: str) -> Sequence[str]:
        assert isinstance(backend, ShelfBackend)
        return [name for name, copy in backend.kept.items() if marker in repr(copy)]
