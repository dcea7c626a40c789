"""What is in memory only leaves nothing behind, also where it was killed; and what is in use is left alone."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from quipu.ledger.sqlite import drafts, fleeting

LONG_AGO = 1_000_000_000

#: Makes a memory that is in memory only, says where, and waits to be killed or told to end.
LIVES = """
import os, sys
from quipu.ledger.sqlite.ledger import SqliteLedger
from quipu.testing.builders import CountedIds, FixedClock, canonical
ledger = SqliteLedger(None, clock=FixedClock(), mint_id=CountedIds(), canonical=canonical)
print(ledger.path.parent, flush=True)
sys.stdin.readline()
"""


class Owner:
    """Has a folder."""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for what passes, of this test alone; nobody has looked through it yet."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(fleeting, "_has_looked", False)
    return tmp_path


def another() -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", LIVES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def aged(path: Path) -> None:
    os.utime(path, (LONG_AGO, LONG_AGO))


def test_what_a_killed_process_left_goes_and_what_others_use_stays(place: Path) -> None:
    (killed, left), (alive, used) = another(), another()
    killed.kill()
    killed.communicate(timeout=30)
    assert left.is_dir(), "who is killed takes nothing away"
    foreign = place / "quipu-export-abc"
    foreign.mkdir()
    for folder in (left, used, foreign):
        aged(folder)
    owner = Owner()
    mine = fleeting.folder(owner)
    assert {one.name for one in place.iterdir()} == {used.name, foreign.name, mine.name}
    alive.communicate("\n", timeout=30)
    assert not used.exists(), "who ends in peace takes its own away"
    del owner
    assert not mine.exists()


def test_a_folder_that_was_just_made_stays_though_nobody_has_locked_it_yet(place: Path) -> None:
    young, old = place / "quipu-fleeting-young", place / "quipu-fleeting-old"
    young.mkdir()
    old.mkdir()
    aged(old)
    owner = Owner()
    mine = fleeting.folder(owner)
    assert {one.name for one in place.iterdir()} == {young.name, mine.name}


def test_what_only_has_the_name_of_a_folder_stays(place: Path) -> None:
    kept = place / "kept"
    kept.mkdir()
    (kept / "precious").write_text("x")
    link, file = place / "quipu-fleeting-link", place / "quipu-fleeting-file"
    link.symlink_to(kept)
    file.write_text("x")
    os.utime(link, (LONG_AGO, LONG_AGO), follow_symlinks=False)
    for path in (kept, file):
        aged(path)
    owner = Owner()
    fleeting.folder(owner)
    assert (kept / "precious").exists()
    assert link.is_symlink()
    assert file.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_stays(place: Path) -> None:
    theirs = place / "quipu-fleeting-theirs"
    theirs.mkdir()
    shutil.chown(theirs, 65_534, 65_534)
    aged(theirs)
    owner = Owner()
    fleeting.folder(owner)
    assert theirs.is_dir()


# -- drafts ---------------------------------------------------------------------------------------------------------


def test_the_next_copy_takes_away_what_a_killed_one_has_left(tmp_path: Path) -> None:
    target = tmp_path / "copy[1].db"
    killed, journaled = (drafts.begun(target) for _ in range(2))
    for path in (killed, journaled, Path(f"{killed}-journal")):
        path.write_text("half a copy")
        aged(path)
    Path(f"{journaled}-journal").write_text("written to just now")
    written_now = drafts.begun(target)
    theirs = [tmp_path / name for name in ("copy[1].db.draft", "copy1.db.abcd1234.draft", "mine.draft")]
    for path in theirs:
        path.write_text("x")
        aged(path)
    begun = drafts.begun(target)
    assert set(tmp_path.iterdir()) == {journaled, Path(f"{journaled}-journal"), written_now, begun, *theirs}
