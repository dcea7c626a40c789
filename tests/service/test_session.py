"""Opening, sharing and closing a memory; the blocking twin."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from quipu import BackendUnavailableError, InvalidError, Memory, sync
from quipu.config import Config
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from tests.service.looks import found, ids, kept, verifies

DAY = 86_400_000


async def test_nothing_is_opened_before_the_first_call(opened: Any, tmp_path: Path) -> None:
    file = tmp_path / "deep" / "memory.db"
    memory: Memory = opened(file)
    assert not file.exists()
    await memory.remember("x")
    assert file.exists()


async def test_a_memory_outlives_its_object(opened: Any, tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    first: Memory = opened(file)
    record_id = await kept(first, "tea at noon")
    await first.close()
    second: Memory = opened(file)
    assert await found(second, "tea") == [record_id]
    assert await verifies(second)


async def test_two_objects_on_one_file_see_each_other_at_once(opened: Any, tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    one: Memory = opened(file)
    other: Memory = opened(file)
    assert await found(other, "tea") == []
    record_id = await kept(one, "tea at noon")
    assert await found(other, "tea") == [record_id]
    await other.remember("tea at one", id=record_id)
    assert (await one.recall("tea", min_relevance=0))[0].content == "tea at one"
    await one.expire({"type": "semantic"}, action="demote")
    assert (await other.recall("tea", min_relevance=0))[0].demoted
    await other.forget(ids=[record_id])
    assert await found(one, "tea") == []
    await one.forget(ids=[record_id], hard_delete=True)
    assert (await other.history(record_id))[0].record.content == ""
    assert await verifies(other)


async def test_many_tasks_share_one_memory(memory: Memory) -> None:
    async def work(number: int) -> None:
        record_id = await kept(memory, f"task {number} says t{number}")
        assert (await found(memory, f"t{number}", k=1)) == [record_id]
        await memory.remember(f"more t{number}", id=record_id, update_strategy="append")
        if number % 3 == 0:
            await memory.forget(ids=[record_id])

    async with asyncio.TaskGroup() as group:
        for number in range(60):
            group.create_task(work(number))
    assert len(await ids(memory)) == 40
    assert await verifies(memory)


async def test_closing_twice_does_no_harm_and_then_nothing_works(memory: Memory) -> None:
    await memory.remember("x")
    await memory.close()
    await memory.close()
    for call in (memory.remember("y"), memory.recall("x"), memory.health(), memory.journal(), memory.open()):
        with pytest.raises(BackendUnavailableError) as refused:
            await call
        assert refused.value.reason == "closed"


async def test_a_memory_that_was_never_used_can_be_closed(opened: Any) -> None:
    memory: Memory = opened()
    await memory.close()
    with pytest.raises(BackendUnavailableError):
        await memory.remember("x")


async def test_an_embedder_that_was_lent_stays_open(opened: Any) -> None:
    class Noting(WordEmbedder):
        is_closed = False

        async def close(self) -> None:
            self.is_closed = True

    embedder = Noting()
    memory: Memory = opened(embedder=embedder)
    await memory.remember("x")
    await memory.close()
    assert not embedder.is_closed


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ({"agent_id": ""}, "/agent_id"),
        ({"write_policy": "sometimes"}, "/write_policy"),
        ({"fusion": "average"}, "/fusion"),
    ],
)
def test_a_memory_is_not_made_from_nonsense(given: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidError) as refused:
        Memory(**given)
    assert refused.value.faults[0].pointer == pointer


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (Config(store_url="redis://x"), "bad_value"),
        (Config(store_url="sqlite://:memory:", embedder="crystal ball"), "bad_setting"),
        (Config(store_url="sqlite://:memory:", embedder="openai"), "bad_setting"),
        (Config(store_url="sqlite://:memory:", max_retain="a while"), "bad_setting"),
        (Config(store_url="sqlite://:memory:", max_retain="forever"), "bad_setting"),
    ],
)
async def test_settings_that_make_no_sense_are_told_at_the_first_call(config: Config, reason: str) -> None:
    memory = Memory(config=config)
    with pytest.raises(InvalidError) as refused:
        await memory.remember("x")
    assert refused.value.reason == reason
    await memory.close()


async def test_upstream_s_constructor_arguments_are_accepted(opened: Any) -> None:
    memory = Memory(
        agent_id="ana",
        stores=["sqlite-vec://:memory:"],
        fusion="max",
        write_policy="fan_out",
        governance=None,
        embedder="none",
    )
    async with memory:
        answer = await memory.remember("tea", type="semantic", user_id="mara")
        hits = await memory.recall("tea", k=3)
        assert (answer.stores, hits.fusion_used.value, hits[0].source_store) == (
            ("sqlite-vec",),
            "max",
            "sqlite-vec",
        )
    assert memory.agent_id == "ana"


# -- upkeep -------------------------------------------------------------------------------------------------------


async def test_retention_ends_old_snapshots_and_keeps_what_is_current(
    memory: Memory, clock: FixedClock
) -> None:
    from quipu import NotFoundError

    record_id = await kept(memory, "tea at noon")
    clock.move(10 * DAY)
    await memory.remember("tea at one", id=record_id)
    gone = await kept(memory, "cake")
    await memory.forget(ids=[gone])
    clock.move(10 * DAY)
    await memory.remember("tea at two", id=record_id)
    assert await memory.vacuum() == 0
    assert (await memory.get(record_id, as_of=2)).content == "tea at noon"
    assert await memory.vacuum(keep_history_days=5) == 2
    for call in (memory.get(record_id, as_of=2), memory.recall("tea", as_of=2), memory.list(as_of=2)):
        with pytest.raises(NotFoundError) as refused:
            await call
        assert refused.value.reason == "snapshot_unavailable"
    assert (await memory.get(record_id)).content == "tea at two"
    assert [hit.content for hit in await memory.recall("tea", as_of=5, min_relevance=0)] == ["tea at one"]
    assert [version.record.content for version in await memory.history(record_id)] == [
        "",
        "tea at one",
        "tea at two",
    ]
    with pytest.raises(NotFoundError):
        await memory.restore(gone)
    assert await verifies(memory)


async def test_vacuum_gives_space_back(opened: Any, tmp_path: Path) -> None:
    memory: Memory = opened(tmp_path / "memory.db")
    await memory.remember_many([{"content": "x" * 5_000, "tags": ["big"]} for _ in range(300)])
    await memory.remember("stays")
    await memory.forget(filter={"tags": "big"}, hard_delete=True)
    before = (await memory.statistics())["bytes"]
    await memory.vacuum()
    assert (await memory.statistics())["bytes"] < before / 2
    assert await verifies(memory)


async def test_statistics_count_what_is_there(memory: Memory) -> None:
    await memory.remember_many(["a", "b", "c"])
    await memory.expire({"type": "semantic"}, action="archive", filter={"record.importance": None})
    await memory.remember("d")
    counts = await memory.statistics()
    assert (counts["live"], counts["archived"], counts["versions"]) == (1, 3, 7)
    assert counts["bytes"] > 0


async def test_capabilities_are_the_nine(memory: Memory) -> None:
    assert len(memory.capabilities) == 9
    memory.capabilities.clear()
    assert len(memory.capabilities) == 9


# -- the blocking twin --------------------------------------------------------------------------------------------


def test_the_blocking_twin_does_the_same_without_await(tmp_path: Path, clock: FixedClock) -> None:
    with sync.Memory("ana", f"sqlite://{tmp_path}/m.db", embedder=WordEmbedder(), clock=clock) as memory:
        answer = memory.remember("tea at noon", tags=["t"])
        assert memory.recall("tea", min_relevance=0)[0].id == answer.id
        assert [line["id"] for line in memory.export()] == [answer.id]
        assert memory.import_records([{"content": "cake"}]).stored == 1
        assert memory.verify().holds
        assert memory.agent_id == "ana"
        assert len(memory.capabilities) == 9


def test_a_blocking_reader_may_leave_an_export_early(clock: FixedClock) -> None:
    with sync.Memory("ana", "sqlite://:memory:", embedder="none", clock=clock) as memory:
        memory.remember_many([f"n {number}" for number in range(10)])
        for _ in memory.export():
            break
        assert memory.remember("more").id
        lines = memory.export()
        next(lines)
    lines.close()


def test_the_blocking_twin_can_be_closed_twice_and_then_says_so(clock: FixedClock) -> None:
    memory = sync.Memory("ana", "sqlite://:memory:", embedder="none", clock=clock)
    memory.remember("x")
    memory.close()
    memory.close()
    with pytest.raises(BackendUnavailableError) as refused:
        memory.recall("x")
    assert refused.value.reason == "closed"
    with pytest.raises(BackendUnavailableError):
        list(memory.export())


def test_a_blocking_memory_that_cannot_be_opened_leaves_no_thread(tmp_path: Path) -> None:
    (tmp_path / "m.db").write_text("not a database")
    before = set(threading.enumerate())
    memory = sync.Memory("ana", f"sqlite://{tmp_path}/m.db", embedder="none")
    with pytest.raises(BackendUnavailableError), memory:
        pass
    assert "quipu-portal" not in {thread.name for thread in set(threading.enumerate()) - before}


#: Opens a blocking memory, forks, and lets the child try.
FORKED = """
import os, sys
from quipu.errors import BackendUnavailableError
from quipu.sync import Memory

with Memory("ana", sys.argv[1], embedder="none") as memory:
    memory.remember("of the parent")
    if not (pid := os.fork()):
        try:
            memory.remember("of the child")
        except BackendUnavailableError as error:
            print(error.reason, error.hint, flush=True)
        memory.close()
        os._exit(0)
    os.waitpid(pid, 0)
    memory.remember("of the parent again")
    print(len(memory.list().records), memory.verify().holds)
"""


def test_a_forked_child_is_told_to_open_a_blocking_memory_itself(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", FORKED, tmp_path / "m.db"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert told.stdout.split("\n") == [
        "closed Open it after the fork, in each process for itself.",
        "2 True",
        "",
    ]


def test_threads_share_one_blocking_memory(clock: FixedClock) -> None:
    with sync.Memory("ana", "sqlite://:memory:", embedder="none", clock=clock) as memory:
        threads = [threading.Thread(target=memory.remember, args=(f"n {number}",)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(memory.list(limit=100).records) == 20


async def test_a_memory_whose_opening_was_broken_off_closes_quietly(tmp_path: Path) -> None:
    for moments in range(0, 60, 3):
        memory = Memory(agent_id="a", stores=[str(tmp_path / f"{moments}.db")], embedder="none")
        opening = asyncio.create_task(memory.open())
        for _ in range(moments):
            await asyncio.sleep(0.0005 if moments % 2 else 0)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        await memory.close()


def test_closing_ends_a_stream_that_was_left_in_the_middle(clock: FixedClock) -> None:
    memory = sync.Memory("ana", "sqlite://:memory:", embedder="none", clock=clock)
    memory.remember("tea")
    changes = memory.changes(since=0)
    next(changes)
    memory.close()
    assert not memory.streams
    with pytest.raises(BackendUnavailableError) as refused:
        next(changes)
    assert refused.value.reason == "closed"


async def test_a_file_may_be_given_as_a_path(tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    async with Memory("ana", file, embedder="none") as memory:
        await memory.remember("tea")
    assert file.exists()


@pytest.mark.parametrize(("stores", "pointer"), [(5, "/stores"), ({"a": 1}, "/stores"), ([5], "/stores/0")])
def test_stores_that_are_none_are_refused(stores: Any, pointer: str) -> None:
    with pytest.raises(InvalidError) as refused:
        Memory("ana", stores, embedder="none")
    assert refused.value.faults[0].pointer == pointer
