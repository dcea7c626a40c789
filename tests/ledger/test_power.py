"""Somebody pulls the plug: what a disk was not told to keep is gone, of the file and of its log."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from quipu.ledger.ledger import Ledger
from quipu.ledger.sqlite import log as logs
from quipu.ledger.sqlite.driver import SqliteDriver
from tests.ledger.builders import T, commit, faults, put


class Disk(apsw.VFS):
    """Knows of each file what stood in it when it was last flushed."""

    def __init__(self) -> None:
        self.flushed: dict[str, bytes] = {}
        self.beneath = apsw.vfs_names()[0]
        super().__init__("disk", base=self.beneath, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self.flushed.pop(Path(filename).name, None)


class File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        self._path = Path(name.filename() if isinstance(name, apsw.URIFilename) else name or "")
        super().__init__(disk.beneath, name, flags)

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._disk.flushed[self._path.name] = self._path.read_bytes()


@pytest.mark.parametrize("soon", [1, 1_000])
async def test_what_was_acknowledged_is_there_after_a_power_loss(
    tmp_path: Path, tables: Sequence[Any], monkeypatch: pytest.MonkeyPatch, soon: int
) -> None:
    """After each write, also while the log is written back all the time."""
    monkeypatch.setattr(logs, "SOON", soon)
    disk = Disk()
    try:
        ledger = Ledger(SqliteDriver(tmp_path / "memory.db"), tables)
        for number in range(8):
            await ledger.commit(commit(put(f"mem_{number}")))
            left = tmp_path / f"after_{number}"
            left.mkdir()
            for name, content in dict(disk.flushed).items():
                (left / name).write_bytes(content)
        await ledger.close()
    finally:
        disk.unregister()
    for number in range(8):
        ledger = Ledger(SqliteDriver(tmp_path / f"after_{number}" / "memory.db"), tables)
        assert set(await ledger.newest_versions(T, [f"mem_{one}" for one in range(8)])) == {
            f"mem_{one}" for one in range(number + 1)
        }
        assert await faults(ledger) == []
        await ledger.close()
