"""The blocking memory: nobody hangs, nothing stays open, and it may not be called by what it calls."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from quipu.errors import BackendUnavailableError, InvalidError
from quipu.operation import AnyOperation, Response
from quipu.sync import Memory
from tests.client.test_memory import Opening
from tests.rendering.recorder import Recorder
from tests.rendering.samples import answer

PATIENCE_S = 20


def apart(work: Callable[[], object]) -> tuple[threading.Thread, list[Any]]:
    """Work on a thread of its own, and what it came to. One that hangs keeps nobody from ending."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception as error:  # noqa: BLE001  looked at by the test
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, found


def ends(thread: threading.Thread) -> bool:
    thread.join(PATIENCE_S)
    return not thread.is_alive()


def portals() -> int:
    return sum(thread.name == "quipu-portal" for thread in threading.enumerate())


class Stuck(Recorder):
    """Answers nothing, ever; notes when it was asked, and when it was given up."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked, self.is_cancelled = threading.Event(), threading.Event()

    async def call(self, operation: AnyOperation, given: Mapping[str, Any]) -> Response:
        self.is_asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.is_cancelled.set()
        return await super().call(operation, given)


class Calling(Recorder):
    """Calls somebody back from within a call."""

    def __init__(self) -> None:
        super().__init__()
        self.back: Callable[[], object] = lambda: None

    async def call(self, operation: AnyOperation, given: Mapping[str, Any]) -> Response:
        self.back()
        return await super().call(operation, given)


class Endless(Recorder):
    """A feed without end."""

    async def stream(self, operation: AnyOperation, given: Mapping[str, Any]) -> AsyncGenerator[Response]:
        while True:
            yield answer(operation.response)


def test_it_remembers_recalls_and_follows_like_the_awaited_one(tmp_path: Path) -> None:
    before = portals()
    with Memory.over(Opening(tmp_path / "memory.db"), agent_id="ana") as memory:
        assert portals() == before + 1
        kept = memory.remember("tea at noon")
        assert memory.recall("tea", min_relevance=0)[0].id == kept.id
        for event in memory.changes(since=0):
            if kept.id in event.record_ids:
                break
    assert portals() == before
    with pytest.raises(BackendUnavailableError) as closed:
        memory.recall("tea")
    assert closed.value.reason == "closed"
    memory.close()


def test_no_thread_is_started_before_the_first_call() -> None:
    before = portals()
    memory = Memory.over(Recorder().opened)
    assert portals() == before
    memory.close()
    with pytest.raises(BackendUnavailableError):
        memory.list_stores()
    assert portals() == before


def test_a_memory_that_cannot_be_opened_leaves_no_thread() -> None:
    async def opened() -> Recorder:
        raise BackendUnavailableError("No.", reason="disk_full")

    before = portals()
    with pytest.raises(BackendUnavailableError), Memory.over(opened):
        pass
    assert portals() == before


def test_what_the_memory_calls_back_is_refused_instead_of_hanging() -> None:
    connection = Calling()
    memory = Memory.over(connection.opened)
    for back in (memory.list_stores, memory.close, lambda: next(iter(memory.changes()))):
        connection.back = back
        thread, found = apart(memory.list_stores)
        assert ends(thread)
        assert isinstance(found[0], InvalidError)
        assert "before or after" in (found[0].hint or "")
    connection.back = lambda: None
    assert memory.list_stores()
    memory.close()


def test_a_feed_that_another_thread_follows_ends_when_the_memory_is_closed(tmp_path: Path) -> None:
    memory = Memory.over(Opening(tmp_path / "memory.db"), agent_id="ana")
    memory.remember("tea")
    seen = threading.Event()

    def follow() -> int:
        count = 0
        for _ in memory.changes(since=0):
            count += 1
            seen.set()
        return count

    follower, found = apart(follow)
    assert seen.wait(PATIENCE_S)
    closer, closed = apart(memory.close)
    assert ends(closer)
    assert ends(follower)
    assert (closed, found[0] >= 1) == ([None], True)


def test_a_reader_may_leave_a_feed_early_and_one_that_is_collected_holds_nothing_up() -> None:
    memory = Memory.over(Endless().opened)
    for _ in memory.changes():
        break
    box = [memory.changes()]
    next(box[0])

    async def collect() -> None:
        box.clear()
        gc.collect()

    thread, found = apart(lambda: memory._portal.run(collect))
    assert ends(thread)
    assert found == [None]
    left_between_two_items = memory.changes()
    next(left_between_two_items)
    closer, closed = apart(memory.close)
    assert ends(closer)
    assert closed == [None]
    with pytest.raises(BackendUnavailableError):
        next(left_between_two_items)


def test_several_threads_may_close_at_once() -> None:
    memory = Memory.over(Recorder().opened)
    memory.list_stores()
    closing = [apart(memory.close) for _ in range(8)]
    assert all(ends(thread) for thread, _ in closing)
    assert [found for _, found in closing] == [[None]] * 8


def test_calls_that_meet_the_end_are_told_that_it_is_closed() -> None:
    for _ in range(20):
        memory = Memory.over(Recorder().opened)
        memory.list_stores()
        many = threading.Barrier(5)

        def ask(memory: Memory = memory, many: threading.Barrier = many) -> None:
            many.wait(PATIENCE_S)
            while True:
                memory.list_stores()

        asking = [apart(ask) for _ in range(4)]
        many.wait(PATIENCE_S)
        closer, _ = apart(memory.close)
        assert ends(closer)
        for thread, found in asking:
            assert ends(thread)
            assert isinstance(found[0], BackendUnavailableError)
            assert found[0].reason == "closed"


def test_a_call_that_does_not_end_is_ended_by_closing() -> None:
    connection = Stuck()
    memory = Memory.over(connection.opened)
    writer, found = apart(lambda: memory.remember("tea"))
    assert connection.is_asked.wait(PATIENCE_S)
    closer, _ = apart(memory.close)
    assert ends(closer)
    assert ends(writer)
    assert isinstance(found[0], BackendUnavailableError)
    assert found[0].reason == "closed"
    assert connection.is_cancelled.is_set()


def test_an_interrupted_call_does_not_leave_its_work_running() -> None:
    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    connection = Stuck()
    memory = Memory.over(connection.opened)
    try:
        for _ in range(5):
            connection.is_asked.clear()
            connection.is_cancelled.clear()
            waiting = threading.Thread(
                target=lambda: connection.is_asked.wait(PATIENCE_S) and os.kill(os.getpid(), signal.SIGUSR1)
            )
            waiting.start()
            with pytest.raises(KeyboardInterrupt):
                memory.remember("tea")
            assert connection.is_cancelled.is_set(), "before the caller goes on"
            waiting.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
        memory.close()


FORKED = """
import os, sys
from quipu.errors import BackendUnavailableError
from quipu.sync import Memory
from tests.rendering.recorder import Recorder

used, unused = Memory.over(Recorder().opened), Memory.over(Recorder().opened)
used.list_stores()
child = os.fork()
if child == 0:
    try:
        used.list_stores()
    except BackendUnavailableError as error:
        print(error.reason, "after the fork" in error.hint, flush=True)
    used.close()
    unused.list_stores()
    unused.close()
    print("unused works", flush=True)
    os._exit(0)
os.waitpid(child, 0)
used.list_stores()
used.close()
print("parent works", flush=True)
"""

#: Uses, closes and opens memories when Python has ended its threads; and ends with one that nobody closed.
LATE = """
import atexit, sys
from quipu.errors import BackendUnavailableError
from quipu.sync import Memory
from tests.client.test_memory import Opening

memory = Memory.over(Opening(sys.argv[1]), agent_id="ana")
memory.remember("tea")
forgotten = Memory.over(Opening(), agent_id="ana")
forgotten.remember("never closed")

def late(call, *words):
    try:
        call(*words)
        print("done", flush=True)
    except BackendUnavailableError as error:
        print(error.reason, flush=True)

atexit.register(late, memory.close)
atexit.register(late, memory.remember, "milk")
"""


def script(text: str, *words: object) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parent.parent.parent
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", text, *map(str, words)],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_is_told_so_and_the_parent_goes_on() -> None:
    done = script(FORKED)
    assert done.stdout.splitlines() == ["closed True", "unused works", "parent works"]


def test_a_program_that_ends_without_closing_ends(tmp_path: Path) -> None:
    done = script(LATE, tmp_path / "m.db")
    assert len(done.stdout.splitlines()) == 2, "each of the late calls came back"
    with Memory.over(Opening(tmp_path / "m.db"), agent_id="ana") as memory:
        assert "tea" in [record.content for record in memory.list().records]
