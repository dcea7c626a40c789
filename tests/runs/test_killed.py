"""A server that is killed leaves whole logs: what was written is named in them, and nothing else is."""

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from quipu.ledger.ledger import JournalQuery
from quipu.runs import operations as ops
from quipu.runs.model import ENDS, EVENTS
from tests.governance.office import Office, open_office
from tests.requirement import requirement


async def killed_after(place: Path, steps: int) -> list[list[str]]:
    """What was acknowledged before it was killed."""
    line = (sys.executable, "-m", "tests.runs.killed", str(place))
    process = await asyncio.create_subprocess_exec(*line, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    said = [(await asyncio.wait_for(process.stdout.readline(), 60)).decode().split() for _ in range(steps)]
    process.kill()
    said += [
        part.decode().split()
        for part in (await process.stdout.read()).splitlines(keepends=True)
        if part.endswith(b"\n")
    ]
    assert await process.wait() == -signal.SIGKILL
    return said


@requirement("openwop:attribution.atomic")
@pytest.mark.parametrize("steps", [5, 23, 60])
async def test_a_server_that_is_killed_leaves_whole_logs_and_its_runs_go_on(
    tmp_path: Path, steps: int
) -> None:
    place = tmp_path / "memory.db"
    said = await killed_after(place, steps)
    office = await open_office(str(place))
    entries = await office.container.ledger.entries("default", JournalQuery(limit=10_000))
    for run in {words[1] for words in said}:
        log: list[Any] = list(
            await office.container.ledger.page(EVENTS, "default", {"run_id": run}, limit=5_000)
        )
        assert [event.sequence for event in log] == list(range(len(log)))
        written = [(event.position, event.record_id) for event in log if event.type == "memory.written"]
        named = [
            (entry.seq, mention.id)
            for entry in entries
            if entry.run == run and entry.op == "remember"
            for mention in entry.records
        ]
        assert sorted(written) == sorted(named), "an event for each memory, in the commit of the memory"
        acknowledged = {words[2] for words in said if words[0] == "kept" and words[1] == run}
        assert acknowledged <= {record_id for _, record_id in written}
        is_over = log[-1].type in ENDS.values()
        assert is_over or ["ended", run] not in said
        view = await office(ops.GET_RUN, run_id=run)
        assert (view.last_sequence, view.writes) == (len(log) - 1, len(written))
        if not is_over:
            await _goes_on(office, run)
    assert (await office.container.audit.verifier.tenant("default")).faults == ()
    await office.container.close()


async def _goes_on(office: Office, run: str) -> None:
    office.clock.now += 60_001
    await office.container.runs.work("default", office.container.context)
    if (await office(ops.GET_RUN, run_id=run)).status == "running":
        await office(ops.END_RUN, run_id=run)
    kinds = [one.type for one in (await office(ops.LIST_RUN_EVENTS, run_id=run, limit=500)).events]
    assert kinds.count("run.completed") == 1
    assert kinds[-2:] == ["memory.written", "run.completed"]
