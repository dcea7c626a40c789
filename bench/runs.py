"""Runs: what reading at a snapshot costs beside reading what is there now, and many runs at once.

Records are written in batches; a run begins in the middle and the other half is written, and a tenth deleted, after it,
so that its snapshot differs from what is there now. Lists and gets alternate between the two, so that both meet the same
machine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.metrics import latency_summary
from quipu.bootstrap import start
from quipu.config import Config
from quipu.model.operations import ForgetRequest, RememberRequest
from quipu.model.principal import local
from quipu.model.record import MemoryType
from quipu.model.runs import Run, RunStatus
from quipu.rules.runs_options import ListOptions, NewEntry
from quipu.service.memory import MemoryService
from quipu.service.runs import OpenRequest

REF = "bench/notes"
_BATCH = 1_000
_ME = local()


async def measured(
    folder: Path, *, records: int, reads: int, runs: int, note: Callable[[str], None]
) -> dict[str, Any]:
    """All of it, on a file."""
    config = Config(store_url=f"sqlite://{folder}/memory.db", embedder="none", openwop_seams=True)
    running = await start(config)
    try:
        await running.parts.ledger.open(_ME.tenant)
        note(f"writing {records:,} records")
        run = await _filled(running.service, records)
        note("reading now and at a snapshot")
        snapshot = await _reads(running.service, run, reads)
        note(f"{runs} runs at once")
        return {"records": records, "reads": snapshot, "runs": await _at_once(running.service, runs)}
    finally:
        await running.close()


async def _filled(service: MemoryService, records: int) -> Run:
    """Half before the run begins, half after it."""
    names: list[str] = []
    run: Run | None = None
    for first in range(0, records, _BATCH):
        if run is None and first >= records // 2:
            opened = await service.runs.open(_ME, OpenRequest(workflow_id="bench", is_external=True))
            run = opened.run
        requests = [
            RememberRequest(agent_id=REF, type=MemoryType.SEMANTIC, content=f"note number {first + place}")
            for place in range(min(_BATCH, records - first))
        ]
        done = await service.remember_many(_ME, requests)
        names.extend(answer.id for answer in done if not isinstance(answer, Exception))
    gone = names[::10]
    for first in range(0, len(gone), _BATCH):
        await service.forget(_ME, ForgetRequest(agent_id=REF, ids=tuple(gone[first : first + _BATCH])))
    if run is None:
        raise RuntimeError("too few records")
    return run


async def _reads(service: MemoryService, run: Run, reads: int) -> dict[str, Any]:
    memory = service.runs.memory
    live = await memory.list(_ME, REF, ListOptions(limit=500))
    then = await memory.list(_ME, REF, ListOptions(limit=500), run)

    async def listed(at: Run | None, _: int) -> None:
        await memory.list(_ME, REF, ListOptions(limit=100), at)

    async def got(at: Run | None, number: int) -> None:
        found = live if at is None else then
        await memory.get(_ME, REF, found[number % len(found)].id, at)

    result: dict[str, Any] = {}
    for name, work in (("list", listed), ("get", got)):
        result[name] = await _compared(run, work, reads)
    return result


async def _compared(
    run: Run, work: Callable[[Run | None, int], Awaitable[None]], reads: int
) -> dict[str, Any]:
    """The same read, by turns now and at the snapshot."""
    millis: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2 * reads):
        at = run if number % 2 else None
        began = time.perf_counter()
        await work(at, number)
        millis[at is not None].append((time.perf_counter() - began) * 1000)
    now, then = latency_summary(millis[False]), latency_summary(millis[True])
    return {"now": now, "snapshot": then, "slower": then["p50_ms"] / now["p50_ms"]}


async def _at_once(service: MemoryService, count: int) -> dict[str, Any]:
    """Runs of the engine, and runs from outside that write, all opened together."""
    began = time.perf_counter()

    async def outside(number: int) -> Run:
        opened = await service.runs.open(_ME, OpenRequest(workflow_id="bench", is_external=True))
        entry = NewEntry(content=f"of run {number}")
        await service.runs.memory.put(_ME, f"{REF}/{number}", entry, run=opened.run, node_id="n")
        return await service.runs.complete(_ME, opened.run.id)

    async def executed() -> Run:
        opened = await service.runs.open(_ME, OpenRequest(workflow_id="conformance-agent-memory-roundtrip"))
        return opened.run

    half = count // 2
    made = await asyncio.gather(
        *(outside(n) for n in range(half)), *(executed() for _ in range(count - half))
    )
    await service.runs.engine.settle()
    seconds = time.perf_counter() - began
    ended = [await service.runs.get(_ME, run.id) for run in made]
    whole = 0
    for run in ended:
        events = await service.runs.events(_ME, run.id)
        is_whole = [event.sequence for event in events] == list(range(run.last + 1))
        whole += is_whole and run.status is RunStatus.COMPLETED
    return {"runs": count, "completed": whole, "seconds": seconds, "runs_per_s": count / seconds}
