"""Rooms for these tests: in memory, and on each engine."""

from collections.abc import AsyncIterator

import pytest

from tests.consolidation.room import Room, room_at, with_window


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    """In memory."""
    async with room_at() as opened:
        yield await with_window(opened)


@pytest.fixture
async def any_room(address: str) -> AsyncIterator[Room]:
    """On each engine."""
    async with room_at(address) as opened:
        yield await with_window(opened)
