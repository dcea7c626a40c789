"""A disk for those who are killed in a test.

A whole run may keep its temporary files in memory (`scripts/room`), where a commit is over at once. On a disk it takes its
time, so that a kill also falls into the middle of one.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY, DISK = "/dev/shm", "/var/tmp"  # noqa: S108  the two places, in which folders are made under fresh names
_KILLS = re.compile("kill|crash")
PASSED = pytest.StashKey[bool]()


def on_disk() -> str:
    """Where folders are made that must be on a disk."""
    usual = tempfile.gettempdir()
    return DISK if Path(usual).is_relative_to(MEMORY) else usual


@pytest.fixture
def tmp_path(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """As everywhere, but on a disk where a test or its file says that somebody is killed."""
    if not _KILLS.search(request.node.nodeid) or on_disk() == tempfile.gettempdir():
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="quipu-killed-", dir=on_disk()))
    yield folder
    if request.node.stash.get(PASSED, False):
        shutil.rmtree(folder, ignore_errors=True)
