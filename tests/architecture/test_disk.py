"""A run whose temporary files are in memory still kills on a disk."""

import tempfile
from pathlib import Path

import pytest

from tests.disk import DISK, MEMORY, on_disk


def test_whoever_is_killed_has_written_to_a_disk(tmp_path: Path) -> None:
    assert not tmp_path.is_relative_to(MEMORY)


@pytest.mark.parametrize(
    ("usual", "disk"), [(MEMORY, DISK), (f"{MEMORY}/mine", DISK), (DISK, DISK), ("/elsewhere", "/elsewhere")]
)
def test_a_disk_is_where_files_usually_go_unless_that_is_memory(
    usual: str, disk: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", usual)
    assert on_disk() == disk
