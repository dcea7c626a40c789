"""The journal proves what runs make of their entries, as it proves everything else."""

import asyncio
from pathlib import Path

import pytest

from quipu.model.operations import RememberRequest
from quipu.model.record import MemoryType
from quipu.model.runs import ForkMode
from quipu.service.runs_forking import ForkRequest
from quipu.testing.builders import FixedClock
from tests.ledgers import altered
from tests.openwop.hosts import REF, Host, hosted


@pytest.mark.parametrize("how", ["compact", "distill"])
async def test_a_memory_whose_entries_were_joined_still_verifies(host: Host, how: str) -> None:
    for text in ("Ana likes tea.", "Ana likes cake.", "Ana lives in Porto."):
        await host.put(text)
    if how == "compact":
        assert await host.service.runs.upkeep.compact(host.principal, REF) is not None
    else:
        await host.service.runs.upkeep.distill(host.principal, REF, 8000)
    report = await host.service.audit.verify(host.principal)
    assert (report.faults, report.records > 3) == ((), True)


async def lived(host: Host) -> dict[str, str]:
    """Runs of every kind, and something made out of others; ids by what they are."""
    first = await host.open()
    await host.put("Ana likes tea.", run=first, node_id="n1")
    await host.put("Ana likes cake.", run=first, node_id="n2")
    request = RememberRequest(agent_id=REF, type=MemoryType.SEMANTIC, content="From afar.", run_id=first.id)
    await host.service.remember(host.principal, request)
    await host.complete(first)
    fork = ForkRequest(run_id=first.id, mode=ForkMode.REPLAY)
    replay = (await host.service.runs.fork(host.principal, fork)).run
    gone = await host.complete(await host.open())
    await host.service.runs.expire(host.principal, gone.id)
    waiting = await host.open()
    assert await host.service.runs.upkeep.compact(host.principal, REF) is not None
    return {"first": first.id, "replay": replay.id, "gone": gone.id, "waiting": waiting.id}


DEEDS: dict[str, tuple[str, ...]] = {
    "an event of another kind": (
        "UPDATE run_event SET type = 'node.failed' WHERE run_id = {} AND type = 'run.completed'",
        "first",
    ),
    "an event that is told of and gone": (
        "DELETE FROM run_event WHERE run_id = {} AND sequence = 2",
        "first",
    ),
    "an end that is gone": (
        "DELETE FROM run_event WHERE run_id = {} AND type = 'run.completed'",
        "first",
    ),
    "an event that was made up": (
        "INSERT INTO run_event (tenant, run_id, sequence, type, payload, at, position)"
        " VALUES ('default', {}, 1, 'node.failed', '{{}}', 1, 2)",
        "waiting",
    ),
    "an event of another moment": (
        "UPDATE run_event SET position = 1 WHERE run_id = {} AND type = 'run.completed'",
        "first",
    ),
    "how a run ended": ("UPDATE run SET status = 'failed' WHERE id = {}", "first"),
    "a run that is over": ("UPDATE run SET status = 'completed' WHERE id = {}", "waiting"),
    "a run that is gone": ("DELETE FROM run WHERE id = {}", "replay"),
    "a log that is said to be gone": ("UPDATE run SET expired = 1 WHERE id = {}", "first"),
    "a log that is back": ("UPDATE run SET expired = 0 WHERE id = {}", "gone"),
    "what was made out of others": ("DELETE FROM link WHERE rel = {}", "compacted_from"),
    "a link that ended before it began": (
        "INSERT INTO link (tenant, from_id, to_id, rel, born, died)"
        " SELECT tenant, from_id, to_id, rel, born + 99, died FROM link WHERE rel = {}",
        "compacted_from",
    ),
    "what an erasure would reach": ("UPDATE link SET rel = {} WHERE rel = 'compacted_from'", "about"),
}


async def found(url: str, deed: str) -> set[str]:
    """The kinds that are found after a deed; all was sound before it."""
    statement, *values = DEEDS[deed]
    host = await hosted(url, FixedClock())
    try:
        names = await lived(host)
        assert (await host.service.audit.verify(host.principal)).faults == ()
        assert await asyncio.to_thread(altered, url, statement, *[names.get(v, v) for v in values]) > 0
        return {fault.kind for fault in (await host.service.audit.verify(host.principal)).faults}
    finally:
        await host.close()


@pytest.mark.parametrize("deed", DEEDS)
async def test_what_was_altered_of_a_run_is_found(tmp_path: Path, deed: str) -> None:
    assert await found(f"sqlite://{tmp_path}/memory.db", deed) == {"beside_differs"}


@pytest.mark.parametrize("deed", ["an event of another kind", "what was made out of others"])
async def test_it_is_found_on_a_server_too(postgres_url: str, deed: str) -> None:
    assert await found(postgres_url, deed) == {"beside_differs"}
