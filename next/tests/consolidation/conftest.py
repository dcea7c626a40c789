"""Rooms for these tests: in memory, and on each engine."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.consolidation.room import Room, room_at, with_window
from tests.fixtures.postgres import empty


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    """In memory."""
    async with room_at() as opened:
        yield await with_window(opened)


@pytest.fixture
def address(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A database of its own, on each engine."""
    if engine == "sqlite":
        return f"sqlite:///{tmp_path / 'memory.db'}"
    found: str = request.getfixturevalue("database")
    empty(found)
    return found


@pytest.fixture
async def any_room(address: str) -> AsyncIterator[Room]:
    """On each engine."""
    async with room_at(address) as opened:
        yield await with_window(opened)
