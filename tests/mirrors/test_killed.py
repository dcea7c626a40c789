"""Whoever delivers copies is killed at any moment: afterwards a mirror holds what is live, once, and nothing else."""

import asyncio
import itertools
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from quipu.mirrors.backend import Copy, Place
from quipu.mirrors.model import COPIES
from quipu.model.ids import now
from quipu.model.search import Selection, Snapshot
from tests.mirrors.rig import Rig, eventually, mirror, rig
from tests.mirrors.shelf import ShelfBackend

ROOT = Path(__file__).parent.parent.parent
#: Longer than the killed one keeps others waiting.
LATER = 60_000


class FileShelf(ShelfBackend):
    """One that outlives its process. What it was given stands in its file before it answers."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        if path.exists():
            self.kept = pickle.loads(path.read_bytes())  # noqa: S301  written here
            self._numbers = itertools.count(1 + max((int(name[6:]) for name in self.kept), default=0))

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        names = await super().put(copies)
        await self._saved()
        return names

    async def delete(self, places: Sequence[Place]) -> int:
        count = await super().delete(places)
        await self._saved()
        return count

    async def _saved(self) -> None:
        fresh = self._path.with_suffix(".new")
        fresh.write_bytes(pickle.dumps(self.kept))
        fresh.replace(self._path)
        await asyncio.sleep(0.002)  # on its way back


async def write(folder: Path, offset: int) -> None:
    """Remember, change, forget and erase until killed."""
    shelf = mirror("shelf", FileShelf(folder / "shelf"))
    async with rig(shelf, path=folder / "memory.db", clock=lambda: now() + offset) as here:

        async def writer(name: str) -> None:
            for number in range(1, 10_000):
                done = await here.memory.remember(f"{name} {number}", find_similar=False)
                if number % 3 == 0:
                    await here.memory.update(done.id, content=f"{name} {number} changed")
                if number % 4 == 0:
                    await here.memory.forget(ids=[done.id], hard_delete=number % 8 == 0)
                print("done", flush=True)

        await asyncio.gather(*(writer(f"{offset} {name}") for name in "abcd"))


def killed(folder: Path, offset: int, lines: int) -> None:
    """Kill a writing process after so many writes."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.mirrors.test_killed", str(folder), str(offset)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
    )
    assert child.stdout is not None
    with child.stdout as answers:
        said = [answers.readline() for _ in range(lines)]
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert said == [b"done\n"] * lines


async def live(here: Rig) -> dict[str, str]:
    ledger = here.container.ledger
    walk = ledger.scan(Selection(tenant="default"), Snapshot(None, now()))
    return {record.id: record.content async for record in walk}


@pytest.mark.parametrize("lines", [2, 11])
async def test_a_mirror_holds_what_is_live_and_once_though_its_server_was_killed(
    tmp_path: Path, lines: int
) -> None:
    for offset in range(0, 3 * LATER, LATER):
        killed(tmp_path, offset, lines)
    shelf = FileShelf(tmp_path / "shelf")
    later = rig(mirror("shelf", shelf), path=tmp_path / "memory.db", clock=lambda: now() + 3 * LATER)
    async with later as here:
        await eventually(here.drained, 60)
        expected = await live(here)
        assert expected
        assert sorted((copy.record_id, copy.content) for copy in shelf.kept.values()) == sorted(
            expected.items()
        )
        rows = await here.container.ledger.page(COPIES, "default", {"state": "kept"}, limit=10_000)
        assert {row.record_id: row.native_id for row in rows} == {
            copy.record_id: name for name, copy in shelf.kept.items()
        }


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1]), int(sys.argv[2])))
