"""A burst that is killed in the middle of its passes loses nothing and promotes nothing twice."""

import asyncio
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.consolidation.room import room_at


@pytest.mark.parametrize("passes", [3, 6, 9])
async def test_a_burst_that_is_killed_in_the_middle_is_promoted_once_and_whole(
    tmp_path: Path, passes: int
) -> None:
    place = str(tmp_path / "memory.db")
    line = (sys.executable, "-m", "tests.consolidation.killed", place)
    process = await asyncio.create_subprocess_exec(*line, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    for _ in range(passes):
        assert await asyncio.wait_for(process.stdout.readline(), 60)
    process.kill()
    await process.stdout.read()
    assert await process.wait() == -signal.SIGKILL
    async with room_at(place) as room:
        # Each fact is either a note or a memory that was made of it: never both, never neither.
        counts = Counter(await room.texts())
        assert set(counts.values()) <= {1}
        assert set(counts) == {f"fact {number}" for number in range(len(counts))}
        await room.consolidate()
        live = await room.live()
        assert {one.tier for one in live.values()} <= {"long_term"}
        assert Counter(one.content for one in live.values()) == counts
        assert await room.is_verified()
