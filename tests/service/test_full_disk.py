"""Closing where nothing more can be written: whoever closes has lost nothing that they were told was kept."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from quipu import Memory
from quipu.errors import BackendUnavailableError
from quipu.model.operations import RememberRequest
from quipu.model.principal import local
from quipu.model.record import MemoryType
from quipu.testing.builders import FixedClock
from tests.service.ledgers import watched_service
from tests.service.looks import verifies

#: Files may not grow any more once it has written and read, as on a disk that is full.
WRITES = """
import asyncio, json, resource, sys
from pathlib import Path
from quipu import Memory
from quipu.errors import BackendUnavailableError

async def main(path: Path) -> None:
    memory = Memory("ana", stores=f"sqlite://{path}", embedder="none")
    ids = [(await memory.remember(f"note {number} " + "x" * 900)).id for number in range(20)]
    await memory.recall("note 3")  # leaves a note that is due at the end
    log = path.with_name(path.name + "-wal")
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, resource.RLIM_INFINITY))
    assert log.stat().st_size > path.stat().st_size
    try:
        await memory.remember("more " + "x" * 900)
    except BackendUnavailableError as error:
        refused = error.reason
    await memory.close()
    print(json.dumps({"ids": ids, "refused": refused, "log": log.exists() and log.stat().st_size}))

asyncio.run(main(Path(sys.argv[1])))
"""


def told_by_a_writer(path: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", WRITES, str(path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout), "said": done.stderr}


async def test_a_full_disk_at_closing_loses_nothing_and_is_no_error(opened: Any, tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    told = told_by_a_writer(path)
    assert told["refused"] in ("disk_full", "io_error")
    assert "notes of 1 reads could not be written" in told["said"]
    assert told["log"], "what could not be copied into the file stays in the log"
    memory: Memory = opened(path, embedder="none")
    for record_id in told["ids"]:
        await memory.get(record_id)
    assert len((await memory.recall("note 3", k=50, min_relevance=0)).results) == 20
    await memory.remember("there is room again")
    assert await verifies(memory)


async def test_where_nothing_can_be_written_lines_are_not_tried_one_by_one(clock: FixedClock) -> None:
    def refuse(number: int) -> None:
        raise BackendUnavailableError("There is no room.", reason="disk_full")

    async with watched_service(clock) as (service, ledger):
        ledger.before = refuse
        items = [
            RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content=f"note {number}")
            for number in range(300)
        ]
        done = await service.remember_many(local(), items)
        assert {one.reason for one in done if isinstance(one, BackendUnavailableError)} == {"disk_full"}
        assert len(done) == 300
        assert len(ledger.commits) == 1
