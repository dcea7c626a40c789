"""Installations with runs, for the tests of this room."""

from collections.abc import AsyncIterator

import pytest

from quipu.config import Settings
from tests.governance.office import Office, open_office
from tests.runs.host import Client, Host


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
