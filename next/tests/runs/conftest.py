"""Installations with runs, for the tests of this room."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quipu.config import Settings
from tests.fixtures.postgres import empty
from tests.governance.office import Office, open_office
from tests.runs.host import Client, Host


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


@pytest.fixture
async def host(office: Office) -> AsyncIterator[Host]:
    made = Host(office)
    yield made
    await made.http.aclose()


@pytest.fixture
async def admin(host: Host) -> Client:
    """Who may do everything, for every agent."""
    return await host.client("admin")


@pytest.fixture
async def conformance(conforming: Office) -> AsyncIterator[Host]:
    """A host in the conformance mode."""
    made = Host(conforming)
    yield made
    await made.http.aclose()
