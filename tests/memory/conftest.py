"""Memories for the tests of this room."""

from collections.abc import AsyncIterator

import pytest

from tests.fixtures.memories import TestMemory, open_memory


@pytest.fixture
async def memory() -> AsyncIterator[TestMemory]:
    opened = open_memory()
    yield opened
    await opened.close()
