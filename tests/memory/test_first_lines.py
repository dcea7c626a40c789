"""The first lines that anybody writes: with nothing configured, in an empty folder, and what they leave there."""

import os
import subprocess
import sys
from pathlib import Path

BLOCKING = """
from quipu import sync

memory = sync.Memory()
memory.remember("Ana lives in Lisbon")
print(memory.recall("where does Ana live?")[0].text)
"""
AWAITED = """
import asyncio
from quipu import Memory

async def main():
    async with Memory() as memory:
        await memory.remember("Ana lives in Lisbon")
        print((await memory.recall("where does Ana live?"))[0].text)

asyncio.run(main())
"""


def test_three_lines_work_with_nothing_configured_blocking_or_awaited(tmp_path: Path) -> None:
    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    here.mkdir()
    for lines in (BLOCKING, AWAITED):  # the second time there is a memory
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-c", lines],
            cwd=here,
            env={"HOME": str(home), "PATH": os.defpath},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (ran.stdout, ran.stderr, ran.returncode) == ("Ana lives in Lisbon\n", "", 0)
    assert list(here.iterdir()) == []
    assert {path.relative_to(home).parts[0] for path in home.rglob("*")} == {".local"}
