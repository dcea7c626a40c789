from collections.abc import AsyncIterator

import pytest

from tests.transfer.room import Room, open_room


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    room = await open_room()
    yield room
    await room.container.close()
