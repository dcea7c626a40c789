"""Installations with runs, for the tests of this room."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quipu.config import Settings
from tests.governance.office import Office, open_office


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    """In memory."""
    opened = await open_office()
    yield opened
    await opened.container.close()


@pytest.fixture
async def filed(tmp_path: Path) -> AsyncIterator[Office]:
    """Over a file that somebody else may alter."""
    opened = await open_office(str(tmp_path / "memory.db"))
    yield opened
    await opened.container.close()


@pytest.fixture
async def conforming() -> AsyncIterator[Office]:
    """With the fixtures of the conformance mode, and their marker."""
    settings = Settings(openwop_conformance=True, secrets_marker="[REDACTED:{label}]")
    opened = await open_office(settings=settings)
    yield opened
    await opened.container.close()
