"""The suite every backend passes.

class TestMyBackend(BackendContract):
    #: One more than the vendor's largest page.
    page = 120

    @pytest.fixture
    async def backend(self, tmp_path):
        backend = MyBackend(setup(tmp_path))
        await backend.open()
        yield backend
        await backend.close()

    @pytest.fixture
    async def unreachable(self, tmp_path):
        yield MyBackend(setup_with_a_wrong_address(tmp_path))

    async def traces(self, backend, marker):
        return [file.name for file in folder.rglob("*") if marker.encode() in file.read_bytes()]

A case that needs a promise is skipped, by its name, where the promise is not made.
"""

from quipu.testing.backend.finding import FindingContract
from quipu.testing.backend.keeping import KeepingContract


class BackendContract(KeepingContract, FindingContract):
    """All of it."""
