"""A server in process, new for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from quipu.testing.builders import FixedClock
from tests.faces.memorywire.wired import Caller, Wired, wired


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
async def server(clock: FixedClock) -> AsyncIterator[Wired]:
    async with wired(clock) as running:
        yield running


@pytest.fixture
async def ada(server: Wired) -> Caller:
    """Somebody who may do everything."""
    return await server.caller("ada")
