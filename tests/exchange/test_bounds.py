"""Export and import stream: twice the items do not take twice the memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.requirement import requirement

#: Few is more than is ever taken at once.
_FEW, _MANY = 1_000, 2_000
#: What many cost beyond few, in kilobytes. Held in memory their texts alone would be twice as much.
_BOUND_KB = 250

_PROGRAM = """
import json, sys, tracemalloc
from pathlib import Path
from quipu.sync import Memory

folder, count = Path(sys.argv[1]), int(sys.argv[2])
source = folder / "mem0.json"
with source.open("w") as file:
    file.write('{"results":[')
    for number in range(count):
        text = f"Fact number {number}: " + "the harbour lies beyond the hill. " * 15
        file.write(("," if number else "") + json.dumps({"id": f"m{number:06}", "memory": text}))
    file.write("]}")
tracemalloc.start()  # not the process's pages: the database maps its file, and keeps pages of it up to a bound
with Memory(stores=f"sqlite://{folder / 'one.db'}", embedder="none") as one:
    assert one.import_file(source).accepted == count
    assert one.export_file(folder / "all.bundle.zip").items == count
    assert one.export_file(folder / "all.json", format="pam-1.0").items == count
    keys = one.signing_keys()
with Memory(stores=f"sqlite://{folder / 'two.db'}", embedder="none") as two:
    assert two.import_file(folder / "all.bundle.zip", keys=keys).accepted == count
    assert two.import_file(folder / "all.json", keys=keys, dry_run=True).duplicate == count
print(tracemalloc.get_traced_memory()[1] // 1024)
"""


def _peak(folder: Path, count: int) -> int:
    folder.mkdir()
    line = [sys.executable, "-c", _PROGRAM, str(folder), str(count)]
    done = subprocess.run(line, capture_output=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return int(done.stdout)


@requirement("moving:moving.memory")
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_memory_stays_bounded_however_many_items_there_are(tmp_path: Path) -> None:
    few, many = _peak(tmp_path / "few", _FEW), _peak(tmp_path / "many", _MANY)
    assert many - few < _BOUND_KB, f"{few} KB for {_FEW} items, {many} KB for {_MANY}"
