"""Closing while others are at work: nobody hangs, nothing stays open; and a memory that is called by what it calls."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from quipu import BackendUnavailableError, InvalidError, Memory, connect, sync
from quipu.testing.embedders import WordEmbedder
from tests.faces.serving import Served, served

PATIENCE_S = 20


def apart(work: Callable[[], object]) -> tuple[threading.Thread, list[Any]]:
    """Work on a thread of its own, and what it came to. One that hangs keeps nobody from ending."""
    told: list[Any] = []

    def run() -> None:
        try:
            told.append(work())
        except Exception as error:  # noqa: BLE001  looked at by the test
            told.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, told


def ends(thread: threading.Thread) -> bool:
    thread.join(PATIENCE_S)
    return not thread.is_alive()


@pytest.fixture
def server() -> Iterator[Served]:
    with served() as running:
        yield running


@pytest.fixture(params=["here", "there"])
def blocking(request: pytest.FixtureRequest, tmp_path: Path) -> sync.Memory:
    if request.param == "here":
        return sync.Memory("ana", tmp_path / "m.db", embedder="none")
    running: Served = request.getfixturevalue("server")
    return sync.connect(running.url, token=running.admin_token, agent_id="ana")


@pytest.fixture(params=["here", "there"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Memory:
    if request.param == "here":
        return Memory("ana", tmp_path / "m.db", embedder="none")
    running: Served = request.getfixturevalue("server")
    return connect(running.url, token=running.admin_token, agent_id="ana")


# -- blocking -----------------------------------------------------------------------------------------------------


def test_what_the_memory_calls_is_told_that_it_cannot_call_the_memory(blocking: sync.Memory) -> None:
    blocking.remember("tea")
    copied: Callable[[], object] = lambda: blocking.import_records(  # noqa: E731  read on the memory's own thread
        {"content": f"{line['content']} again"} for line in blocking.export()
    )
    asked: Callable[[], object] = lambda: blocking.import_records(  # noqa: E731  told on it
        [{"content": "milk"}], progress=lambda _: blocking.flush()
    )
    for work in (copied, asked):
        thread, told = apart(work)
        assert ends(thread)
        assert isinstance(told[0], InvalidError)
        assert "before or after" in (told[0].hint or "")
    assert "tea" in [record.content for record in blocking.list().records]
    blocking.import_records([{"content": f"{line['content']} again"} for line in blocking.export()])
    assert "tea again" in [record.content for record in blocking.list().records]
    blocking.close()


def test_a_feed_that_another_thread_follows_ends_when_the_memory_is_closed(blocking: sync.Memory) -> None:
    blocking.remember("tea")
    seen = threading.Event()

    def follow() -> int:
        count = 0
        for _ in blocking.changes(since=0):
            count += 1
            seen.set()
        return count

    follower, told = apart(follow)
    assert seen.wait(PATIENCE_S)
    closer, closed = apart(blocking.close)
    assert ends(closer)
    assert ends(follower)
    assert (closed, told[0] >= 1) == ([None], True)


def test_several_threads_may_close_at_once(blocking: sync.Memory) -> None:
    blocking.remember("tea")
    closing = [apart(blocking.close) for _ in range(8)]
    assert all(ends(thread) for thread, _ in closing)
    assert [told for _, told in closing] == [[None]] * 8


def test_calls_that_meet_the_end_are_told_that_it_is_closed(tmp_path: Path) -> None:
    blocking = sync.Memory("ana", tmp_path / "m.db", embedder="none")
    blocking.remember("tea")
    many = threading.Barrier(5)

    def ask() -> None:
        many.wait(PATIENCE_S)
        while True:
            blocking.statistics()

    asking = [apart(ask) for _ in range(4)]
    many.wait(PATIENCE_S)
    closer, _ = apart(blocking.close)
    assert ends(closer)
    for thread, told in asking:
        assert ends(thread)
        assert isinstance(told[0], BackendUnavailableError)


class Stuck(WordEmbedder):
    """Embeds nothing, ever."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked = threading.Event()

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        self.is_asked.set()
        await asyncio.Event().wait()
        return await super().embed(texts)


def test_a_call_that_does_not_end_is_ended_by_closing() -> None:
    embedder = Stuck()
    blocking = sync.Memory("ana", "sqlite://:memory:", embedder=embedder)
    writer, told = apart(lambda: blocking.remember("tea"))
    assert embedder.is_asked.wait(PATIENCE_S)
    closer, _ = apart(blocking.close)
    assert ends(closer)
    assert ends(writer)
    assert isinstance(told[0], BackendUnavailableError)
    assert (told[0].reason, told[0].hint) == ("closed", None)


def test_a_reader_that_is_collected_on_the_memory_s_thread_holds_nothing_up(blocking: sync.Memory) -> None:
    blocking.remember("tea")
    lines = blocking.export()
    next(lines)
    box = [lines]
    del lines

    async def collect() -> None:
        box.clear()

    thread, told = apart(lambda: blocking.portal.run(collect()))
    assert ends(thread)
    assert told == [None]
    assert len(blocking.list().records) == 1
    blocking.close()


#: Writes to a blocking memory, closes it and opens another when Python has ended its threads.
LATE = """
import atexit, sys
from quipu.errors import BackendUnavailableError
from quipu.sync import Memory

memory = Memory("ana", sys.argv[1], embedder="none")
memory.remember("tea")

def late(call, *words):
    try:
        call(*words)
    except BackendUnavailableError as error:
        print(error.reason, "with" in error.hint, flush=True)

def opened():
    Memory("ben", sys.argv[1], embedder="none").remember("rice")

atexit.register(late, opened)
atexit.register(late, memory.close)
atexit.register(late, memory.remember, "milk")
"""


def test_who_comes_when_the_program_has_ended_is_told_so(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", LATE, tmp_path / "m.db"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (told.stdout.splitlines(), told.stderr) == (["closed True"] * 3, "")
    with sync.Memory("ana", tmp_path / "m.db", embedder="none") as memory:
        assert [record.content for record in memory.list().records] == ["tea"]


# -- awaited ------------------------------------------------------------------------------------------------------


async def test_what_is_just_being_opened_is_closed_too(tmp_path: Path) -> None:
    memory = Memory("ana", tmp_path / "m.db", embedder="none")
    before = asyncio.all_tasks()
    asked = [asyncio.create_task(memory.list_stores()) for _ in range(3)]
    await asyncio.sleep(0)
    await memory.close()
    for told in await asyncio.gather(*asked, return_exceptions=True):
        assert isinstance(told, BackendUnavailableError | tuple)
    assert asyncio.all_tasks() == before
    with pytest.raises(BackendUnavailableError):
        await memory.list_stores()


async def test_a_feed_that_another_task_follows_ends_when_the_memory_is_closed(memory: Memory) -> None:
    await memory.remember("tea")
    seen = asyncio.Event()

    async def follow() -> None:
        async for _ in memory.changes(since=0):
            seen.set()

    follower = asyncio.create_task(follow())
    await asyncio.wait_for(seen.wait(), PATIENCE_S)
    await memory.close()
    await asyncio.wait_for(follower, PATIENCE_S)


async def test_a_call_under_way_to_a_server_is_not_begun_again_once_it_is_closed() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await broken.wait()
        writer.close()

    broken = asyncio.Event()
    asked = asyncio.Event()
    listening = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    memory = connect(f"http://127.0.0.1:{port}", token="x")  # noqa: S106  not a password
    call = asyncio.create_task(memory.recall("tea"))
    await asyncio.wait_for(asked.wait(), PATIENCE_S)
    await memory.close()
    broken.set()
    with pytest.raises(BackendUnavailableError) as told:
        await asyncio.wait_for(call, PATIENCE_S)
    assert told.value.reason == "closed"
    listening.close()


def test_a_memory_may_be_used_and_closed_on_one_event_loop_after_the_other(tmp_path: Path) -> None:
    """As a script does that has an `asyncio.run` for each call."""
    memory = Memory("ana", tmp_path / "memory.db", embedder="none")
    before = threading.active_count()
    kept = asyncio.run(memory.remember("Deploys happen on Tuesdays"))
    assert [hit.id for hit in asyncio.run(memory.recall("deploys"))] == [kept.id]
    asyncio.run(memory.close())
    assert threading.active_count() == before
    with pytest.raises(BackendUnavailableError):
        asyncio.run(memory.recall("deploys"))
