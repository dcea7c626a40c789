"""A backend in a process of its own: what crosses the pipe, what happens when the process ends, what it may touch."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from quipu.backends import langgraph
from quipu.backends.guarded import GuardedBackend, Patience
from quipu.backends.process import Hosting, ProcessBackend, hosted
from quipu.backends.process_wire import plain, read
from quipu.errors import BackendUnavailableError, UnsupportedError
from quipu.model.record import MemoryType
from quipu.ports.backend import Answer, Copy, NativeHit, Query, Setup
from quipu.testing.backend.case import HOME, Keeper
from quipu.testing.embedders import WordEmbedder
from tests.vendors.audited import audited, forgotten, outbound
from tests.vendors.sharing import made, python_of, setup

pytestmark = pytest.mark.vendor


def process_of(backend: object) -> int:
    assert isinstance(backend, ProcessBackend)
    assert backend._process is not None
    return backend._process._process.pid


def told(process: int, what: str) -> bytes:
    """What the system tells of a process; nothing where there is none, or only its exit is left."""
    try:
        return Path(f"/proc/{process}/{what}").read_bytes()
    except OSError:
        return b""


def is_running(process: int) -> bool:
    return bool(told(process, "cmdline"))


@pytest.mark.parametrize(
    "value",
    [
        Copy(
            container=replace(HOME, user_id=None),
            record_id="mem_1",
            version=3,
            type=MemoryType.EPISODIC,
            content="ünï 🧵\u2028\n\x00",
            metadata={"a": [1, {"b": None}], "c": 2.5},
            tags=("x", "y"),
            created_at=1,
            updated_at=2,
        ),
        Query(
            tenant="t",
            agent_id=None,
            text="tea",
            types=frozenset({MemoryType.SEMANTIC}),
            containers=(HOME, replace(HOME, user_id="")),
        ),
        Answer(
            hits=(NativeHit(native_id="n", score=None), NativeHit(native_id="m", score=0.5)), has_more=True
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_crosses_the_pipe_comes_back_equal(value: object) -> None:
    assert read(type(value), plain(value)) == value


async def test_a_process_that_was_killed_is_told_and_started_again(tmp_path: Path) -> None:
    backend = made(setup("langgraph+sqlite://", "langgraph", tmp_path), "langgraph")
    keeper = Keeper(backend)
    await backend.open()
    kept = await keeper.put("tea at noon")
    os.kill(process_of(backend), signal.SIGKILL)
    with pytest.raises(BackendUnavailableError):
        await keeper.found("tea")
    assert not (await backend.health()).is_up
    await backend.open()
    assert await keeper.found("tea") == [kept.native_id], "the store is a file, and it is still there"
    await backend.close()


async def test_behind_its_guard_a_process_that_was_killed_comes_back_by_itself(tmp_path: Path) -> None:
    worker = made(setup("langgraph+sqlite://", "langgraph", tmp_path), "langgraph")
    guarded = GuardedBackend("langgraph", worker, patience=Patience(search_s=30.0))
    keeper = Keeper(guarded)
    kept = await keeper.put("tea at noon")
    os.kill(process_of(worker), signal.SIGKILL)
    with pytest.raises(BackendUnavailableError):
        await keeper.found("tea")
    assert await keeper.found("tea") == [kept.native_id]
    await guarded.close()


async def test_a_worker_that_hangs_holds_up_nobody_and_is_ended(tmp_path: Path) -> None:
    worker = made(setup("langgraph://memory", "langgraph", tmp_path), "langgraph")
    await worker.open()
    process = process_of(worker)
    os.kill(process, signal.SIGSTOP)
    long = Keeper(worker).copy("tea " * 250_000)
    calls = [asyncio.ensure_future(worker.put([long])) for _ in range(40)]
    await asyncio.wait(calls, timeout=2.0)
    for call in calls:
        call.cancel()
    await asyncio.wait_for(asyncio.to_thread(int), 5.0)  # threads of everybody's are free
    await asyncio.wait_for(worker.close(), 40.0)
    assert not is_running(process)


async def test_what_a_worker_has_started_does_not_keep_it_from_being_closed(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(
        "import subprocess\n"
        "from quipu.backends.langgraph import LangGraphBackend\n"
        "class Parent(LangGraphBackend):\n"
        "    async def open(self):\n"
        "        self.child = subprocess.Popen(['sleep', '30'])\n"
        "        await super().open()\n",
        "utf-8",
    )
    given = setup("langgraph://memory", "langgraph", tmp_path / "mirror")
    capabilities = made(given, "langgraph").capabilities
    environment = {"PYTHONPATH": str(tmp_path), "LANGSMITH_TRACING": "false"}
    backend = hosted(
        given, Hosting(adapter="parent:Parent", capabilities=capabilities, environment=environment)
    )
    await backend.open()
    await asyncio.wait_for(backend.close(), 20.0)


async def test_a_call_under_way_fails_when_the_process_ends(tmp_path: Path) -> None:
    class Stuck(WordEmbedder):
        async def embed(self, texts: object) -> object:
            os.kill(process_of(backend), signal.SIGKILL)
            return await super().embed(texts)

    backend = made(setup("langgraph://memory", "langgraph", tmp_path, Stuck(8)), "langgraph")
    await backend.open()
    with pytest.raises(BackendUnavailableError):
        await asyncio.wait_for(Keeper(backend).put("tea"), 20)
    await backend.close()


async def test_a_call_that_is_given_up_leaves_the_others_alone(tmp_path: Path) -> None:
    backend = made(setup("langgraph://memory", "langgraph", tmp_path), "langgraph")
    await backend.open()
    keeper = Keeper(backend)
    kept = await keeper.put("tea at noon")
    tasks = [asyncio.create_task(keeper.found("tea")) for _ in range(20)]
    for task in tasks[::2]:
        task.cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(one, asyncio.CancelledError) for one in done[::2])
    assert all(one == [kept.native_id] for one in done[1::2])
    assert await keeper.found("tea") == [kept.native_id]
    await backend.close()


async def test_an_embedder_that_fails_is_told_and_nothing_hangs(tmp_path: Path) -> None:
    class Broken(WordEmbedder):
        async def embed(self, texts: object) -> object:
            raise BackendUnavailableError("The model is gone.")

    backend = made(setup("langgraph://memory", "langgraph", tmp_path, Broken(8)), "langgraph")
    await backend.open()
    with pytest.raises(BackendUnavailableError):
        await asyncio.wait_for(Keeper(backend).put("tea"), 20)
    await backend.close()


async def test_a_folder_belongs_to_one_process(tmp_path: Path) -> None:
    first, second = (made(setup("langgraph+sqlite://", "langgraph", tmp_path), "langgraph") for _ in "ab")
    await first.open()
    for _ in range(2):  # whoever asks again does not get in by that
        with pytest.raises(BackendUnavailableError) as refused:
            await second.open()
        assert refused.value.reason == "mirror_in_use"
    await first.close()
    await second.open()
    await second.close()


async def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    program = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from tests.vendors.sharing import made, setup\n"
        "async def main():\n"
        "    backend = made(setup('langgraph://memory', 'langgraph', Path(sys.argv[1])), 'langgraph')\n"
        "    await backend.open()\n"
        "    print(backend._process._process.pid, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program, str(tmp_path)], capture_output=True, check=False
    )
    worker = int(done.stdout)
    for _ in range(200):
        if not is_running(worker):
            return
        await asyncio.sleep(0.05)
    pytest.fail("the worker outlived its parent")


async def test_the_parent_stays_as_it_was(tmp_path: Path) -> None:
    before = (dict(os.environ), list(logging.root.handlers), sys.excepthook, set(sys.modules))
    backend = made(setup("mem0://default", "mem0", tmp_path), "mem0")
    await backend.open()
    await Keeper(backend).put("tea at noon")
    await backend.close()
    after = (dict(os.environ), list(logging.root.handlers), sys.excepthook)
    assert after == before[:3]
    assert not {
        name for name in set(sys.modules) - before[3] if name.split(".")[0] in ("mem0", "qdrant_client")
    }


async def test_a_worker_inherits_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEM0_TELEMETRY", "True")
    monkeypatch.setenv("SOMETHING_OF_OURS", "1")
    backend = made(setup("mem0://default", "mem0", tmp_path), "mem0")
    await backend.open()
    environment = told(process_of(backend), "environ")
    assert b"SOMETHING_OF_OURS" not in environment
    assert b"MEM0_TELEMETRY=False" in environment
    await backend.close()


async def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    given = replace(setup("mem0://default", "mem0", tmp_path), python="/nowhere/python")
    with pytest.raises(BackendUnavailableError) as failed:
        await made(given, "mem0").open()
    assert "/nowhere" not in failed.value.message


def test_without_an_embedder_a_vendor_that_needs_one_is_refused(tmp_path: Path) -> None:
    bare = Setup(name="langgraph", url="langgraph://memory", scheme="langgraph", folder=tmp_path)
    with pytest.raises(UnsupportedError):
        langgraph.make(bare)


async def test_a_failure_is_told_without_what_the_vendor_says(tmp_path: Path) -> None:
    given = setup("mem0://default", "mem0", tmp_path)
    capabilities = made(given, "mem0").capabilities
    backend = hosted(
        given, Hosting(adapter="quipu.backends.nothing:X", capabilities=capabilities, environment={})
    )
    with pytest.raises(BackendUnavailableError) as failed:
        await backend.open()
    assert failed.value.message == "The mirror failed."
    assert "ModuleNotFoundError at " in str(failed.value.__cause__)
    await backend.close()


def test_a_watched_interpreter_lets_nothing_out() -> None:
    reaching = "import socket\ntry: socket.create_connection(('quipu.invalid', 80))\nexcept OSError: pass"
    subprocess.run([audited(python_of("mem0")), "-P", "-c", reaching], check=True)
    assert outbound() == ["socket.getaddrinfo quipu.invalid"]
    forgotten()


def test_no_environment_holds_two_that_overwrite_each_other() -> None:
    """Cognee's wheel writes a `kuzu` of its own over the real one."""
    for vendor in ("mem0", "langgraph", "graphiti", "letta", "cognee"):
        place = Path(python_of(vendor)).parents[1]
        names = {
            file.name.lower().partition("-")[0] for file in place.glob("lib/*/site-packages/*.dist-info")
        }
        assert not {"cognee", "kuzu"} <= names, vendor
