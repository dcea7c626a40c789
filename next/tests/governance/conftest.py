"""Offices for the tests of this room."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fixtures.postgres import empty
from tests.governance.office import Office, open_office


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    """In memory."""
    opened = await open_office()
    yield opened
    await opened.container.close()


@pytest.fixture
def address(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A database of its own, on each engine."""
    if engine == "sqlite":
        return f"sqlite:///{tmp_path / 'memory.db'}"
    found: str = request.getfixturevalue("database")
    empty(found)
    return found


@pytest.fixture
async def any_office(address: str) -> AsyncIterator[Office]:
    """On each engine."""
    opened = await open_office(address)
    yield opened
    await opened.container.close()
