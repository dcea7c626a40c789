"""The store `main` is made with a memory and cannot be deleted: where it is gone, the database is damaged."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from quipu import BackendUnavailableError, Memory, NotFoundError


@pytest.fixture
async def robbed(tmp_path: Path) -> Path:
    """A memory that something else has taken the row of `main` from."""
    file = tmp_path / "memory.db"
    async with Memory("ana", file, embedder="none") as memory:
        await memory.remember("Deploys happen on Tuesdays")
    with apsw.Connection(str(file)) as connection:
        connection.execute("DELETE FROM store WHERE name = 'main'")
    return file


async def test_a_memory_that_lost_it_says_that_it_is_damaged(robbed: Path) -> None:
    async with Memory("ana", robbed, embedder="none") as memory:
        with pytest.raises(BackendUnavailableError) as refused:
            await memory.remember("The canteen closes at two")
        assert refused.value.reason == "corrupt"
        assert "backup" in (refused.value.hint or "")
        with pytest.raises(BackendUnavailableError):
            await memory.recall("when do we deploy?", store="main")
        with pytest.raises(NotFoundError):  # any other may never have been there
            await memory.remember("The canteen closes at two", store="team")
        assert len((await memory.list()).records) == 1


async def test_a_check_names_it(robbed: Path) -> None:
    async with Memory("ana", robbed, embedder="none") as memory:
        checked = await memory.verify()
    assert not checked.holds
    assert (checked.faults[0].kind, checked.faults[0].detail) == ("damaged_file", "the store main is missing")
