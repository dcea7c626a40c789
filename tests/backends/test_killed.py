"""kill -9 between effect and outcome: the intent is still there, and carrying it out again changes nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.backends.killed import FileShelf
from tests.backends.rig import mirror, rig
from tests.requirement import requirement

ROOT = Path(__file__).parents[2]


def killed(folder: Path, moment: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.backends.killed", str(folder), moment],
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL


@requirement("memorywire:router.idempotent")
async def test_a_process_killed_after_the_effect_leaves_no_duplicate(tmp_path: Path) -> None:
    killed(tmp_path, "put")
    shelf = FileShelf(tmp_path / "shelf.json")
    assert len(shelf.kept) == 1, "the effect had happened"
    later = _Later()
    async with rig(
        mirror("shelf", shelf), path=tmp_path / "memory.db", clock=later, is_started=False
    ) as rigged:
        assert await rigged.lag("shelf") == 1, "and the intent is still there"
        assert await rigged.drained()
        assert [copy.content for copy in shelf.kept.values()] == ["tea at noon"]
    killed(tmp_path, "delete")
    shelf = FileShelf(tmp_path / "shelf.json")
    assert shelf.kept == {}
    async with rig(
        mirror("shelf", shelf), path=tmp_path / "memory.db", clock=later, is_started=False
    ) as rigged:
        assert await rigged.lag("shelf") == 1
        assert await rigged.drained()
        assert shelf.kept == {}


@requirement("memorywire:router.idempotent")
async def test_what_was_forgotten_after_the_kill_does_not_stay_in_the_mirror(tmp_path: Path) -> None:
    killed(tmp_path, "put")
    async with rig(path=tmp_path / "memory.db") as rigged:
        (hit,) = await rigged.memory.recall("tea at noon", min_relevance=0)
        await rigged.memory.forget(ids=[hit.id], hard_delete=True)
    shelf = FileShelf(tmp_path / "shelf.json")
    assert len(shelf.kept) == 1
    async with rig(
        mirror("shelf", shelf), path=tmp_path / "memory.db", clock=_Later(), is_started=False
    ) as rigged:
        assert await rigged.drained()
        assert shelf.kept == {}


class _Later:
    """Ten minutes from now: whoever was killed holds nothing any more."""

    def __call__(self) -> int:
        from quipu.bootstrap import now_ms

        return now_ms() + 600_000
