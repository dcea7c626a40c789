"""What a run sees: memory as it was when it began, and nothing that happened since."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from quipu.model.operations import ForgetRequest, RecallRequest, RememberRequest
from quipu.model.record import MemoryType
from quipu.model.runs import Run
from tests.openwop.conftest import Opened
from tests.openwop.hosts import REF, Host
from tests.requirement import requirement


@requirement("openwop:snapshot.external-write")
async def test_a_write_of_somebody_else_is_not_seen_by_a_run_and_is_seen_by_the_next(host: Host) -> None:
    before = await host.put("known before")
    run = await host.open()
    after = await host.put("written by another")
    assert await host.list(run=run) == [before]
    assert await host.get(after, run=run) is None
    assert await host.list() == [after, before]
    assert await host.list(run=await host.open()) == [after, before]


@requirement("openwop:snapshot.own-write")
async def test_a_run_does_not_see_what_it_writes_itself(host: Host) -> None:
    run = await host.open()
    mine = await host.put("written by the run", run=run, node_id="a")
    assert await host.list(run=run) == []
    assert await host.get(mine, run=run) is None
    assert (await host.get(mine))["content"] == "written by the run"


@requirement("openwop:snapshot.deletes")
async def test_a_delete_is_not_seen_by_runs_at_work_and_at_once_by_later_ones(host: Host) -> None:
    name = await host.put("to be deleted")
    run = await host.open()
    assert await host.delete(name) is True
    assert await host.delete(name) is False
    assert await host.list(run=run) == [name]
    assert (await host.get(name, run=run))["content"] == "to be deleted"
    assert await host.list() == await host.list(run=await host.open()) == []


@requirement("openwop:snapshot.recall")
async def test_semantic_recall_is_bound_to_the_snapshot_too(host: Host) -> None:
    old = await host.put("the lighthouse stands on the rock")
    run = await host.open()
    await host.delete(old)
    new = await host.put("the lighthouse was painted red")
    query = "where is the lighthouse"
    assert await host.list(run=run, query=query) == [old]
    assert await host.list(query=query) == [new]
    request = RecallRequest(agent_id=REF, query=query, as_of=run.id)
    assert [hit.id for hit in await host.service.recall(host.principal, request)] == [old]


async def external_write(host: Host, _run: Run, _old: str) -> None:
    await host.put("the lighthouse was painted red")


async def own_write(host: Host, run: Run, _old: str) -> None:
    await host.put("the lighthouse was painted red", run=run, node_id="n")


async def delete(host: Host, _run: Run, old: str) -> None:
    assert await host.delete(old) is True
    assert await host.delete(old) is False


async def own_delete(host: Host, run: Run, old: str) -> None:
    """A delete that names the run is the same delete: the face only looks whether the run is at work."""
    await host.service.runs.driven(host.principal, run.id)
    await delete(host, run, old)


async def compaction(host: Host, _run: Run, _old: str) -> None:
    assert await host.service.runs.upkeep.compact(host.principal, REF) is not None


async def admin_change(host: Host, _run: Run, old: str) -> None:
    request = RememberRequest(
        agent_id=REF, type=MemoryType.SEMANTIC, content="the lighthouse fell into the sea", id=old
    )
    await host.service.remember(host.principal, request)


@requirement("openwop:snapshot.every-way")
@pytest.mark.parametrize("happens", [external_write, own_write, delete, own_delete, compaction, admin_change])
async def test_nothing_that_happens_is_seen_by_a_run_in_any_way_and_all_of_it_by_the_next(
    host: Host, happens: Callable[[Host, Run, str], Awaitable[None]]
) -> None:
    old = await host.put("the lighthouse stands on the rock")
    await host.put("boats wait outside the harbour")
    query = "where is the lighthouse"

    async def seen(run: Run) -> list[Any]:
        listed = await host.list(run=run)
        got = [await host.get(name, run=run) for name in listed]
        return [listed, got, await host.texts(run=run, query=query)]

    run = await host.open()
    before = await seen(run)
    await happens(host, run, old)
    assert await seen(run) == before
    now = await host.list()
    for name in {*now} - {*before[0]}:
        assert await host.get(name, run=run) is None
    after = await seen(await host.open())
    assert after != before
    assert after[0] == now


@requirement("openwop:snapshot.equal-times")
async def test_equal_times_of_creation_do_not_blur_the_snapshot(host: Host) -> None:
    first = await host.put("one")
    second = await host.put("two")
    run = await host.open()
    third = await host.put("three")
    assert await host.list(run=run) == [second, first]
    assert await host.list() == [third, second, first]


@requirement("openwop:snapshot.told")
async def test_run_started_tells_the_snapshot(host: Host) -> None:
    await host.put("one")
    run = await host.open()
    (started,) = await host.events(run)
    assert run.view is not None
    assert started.payload["vendor.quipu.memorySnapshot"] == {
        "seq": run.view.seq,
        "at": "2023-11-14T22:13:20.000Z",
    }


@requirement("openwop:snapshot.expiry")
async def test_expiry_reaches_into_a_snapshot(host: Host) -> None:
    name = await host.put("short", expiresAt="2023-11-14T22:13:20.010Z")
    run = await host.open()
    host.clock.move(9)
    assert await host.list(run=run) == [name]
    host.clock.move(1)
    assert await host.list(run=run) == []
    assert await host.get(name, run=run) is None


@requirement("openwop:snapshot.erasure")
async def test_erasure_beats_every_snapshot_and_leaves_a_tombstone(host: Host) -> None:
    name = await host.put("about Ana")
    run = await host.open()
    await host.service.forget(host.principal, ForgetRequest(agent_id=REF, ids=(name,), hard_delete=True))
    assert await host.list(run=run) == []
    assert await host.get(name, run=run) is None
    assert await host.list(run=run, query="about Ana") == []
    (tombstone,) = await host.running.parts.ledger.versions("default", name)
    assert tombstone.is_emptied
    assert tombstone.content == ""


@requirement("openwop:snapshot.under-load")
async def test_no_entry_appears_below_a_snapshot_that_was_taken(host: Host) -> None:
    stop = asyncio.Event()

    async def write(who: int) -> None:
        count = 0
        while not stop.is_set():
            await host.put(f"{who} {count}")
            count += 1

    writers = [asyncio.create_task(write(who)) for who in range(4)]
    seen = []
    for _ in range(5):
        run = await host.open()
        seen.append((run, await host.list(run=run, limit=500)))
        await asyncio.sleep(0)
    stop.set()
    await asyncio.gather(*writers)
    for run, entries in seen:
        assert await host.list(run=run, limit=500) == entries


@requirement("openwop:snapshot.commit-order")
async def test_the_order_of_positions_is_the_order_of_commits(opened: Opened) -> None:
    hosts = [await opened(), await opened()]
    ledger = hosts[0].running.parts.ledger
    is_over = asyncio.Event()

    async def watch() -> list[int]:
        """Every position below the newest is there at once, whoever else is writing."""
        seen: list[int] = []
        while True:
            done = is_over.is_set()
            head = await ledger.head("default")
            page = await ledger.entries("default", seen[-1] if seen else 0, 10_000)
            seen += [entry.seq for entry in page]
            assert len(seen) >= head.seq
            assert seen == list(range(1, len(seen) + 1))
            if done:
                return seen
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    names: list[list[str]] = [[] for _ in range(4)]

    async def write(who: int) -> None:
        for number in range(8):
            names[who].append(await hosts[who % 2].put(f"{who} {number}"))

    await asyncio.gather(*(write(who) for who in range(4)))
    is_over.set()
    assert len(await watching) >= 32
    for mine in names:  # what was committed later has the higher position
        found = await ledger.read("default", mine)
        positions = [found[name].born for name in mine]
        assert positions == sorted(positions)
