from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.transfer.room import Room, open_room


@pytest.fixture
async def room(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Room]:
    """On each engine."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))  # keys of a database that is no file
    room = await open_room(address)
    yield room
    await room.container.close()
