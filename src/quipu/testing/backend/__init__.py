"""The suite every backend passes. docs/howto/add-a-backend.md shows it in use.

A case that needs a promise is skipped, by its name, where the promise is not made. It needs pytest, and pytest-asyncio in
its mode `auto`.
"""

from quipu.testing.backend.finding import FindingContract
from quipu.testing.backend.keeping import KeepingContract


class BackendContract(KeepingContract, FindingContract):
    """Say how a backend is made, and one whose vendor is not there; or bring the fixtures of these names."""
