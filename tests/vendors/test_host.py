"""A backend in a process of its own: what crosses the pipe, what happens when the process ends, what it may touch.

LangGraph's store in memory is the quickest to start, so most of this is shown on it.
"""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvloop

from quipu.embed.port import Role
from quipu.errors import BackendUnavailableError, UnsupportedError
from quipu.mirrors.backend import Answer, Backend, Copy, Health, Kept, Mark, Query, Setup
from quipu.mirrors.guard import GuardedBackend, Patience
from quipu.mirrors.vendors import langgraph
from quipu.mirrors.vendors.host import HostedBackend
from quipu.mirrors.vendors.worker import line, read
from quipu.testing.backend.case import HOME, Keeper
from quipu.testing.embedders import WordEmbedder
from quipu.testing.scenarios.reference import SIXTEEN
from tests.mirrors.rig import until
from tests.mirrors.scenarios import played_on
from tests.vendors.audited import audited, outbound
from tests.vendors.environments import ROOT, python_of
from tests.vendors.shared import vendor_at

needs_langgraph = pytest.mark.vendor(name="langgraph")
needs_mem0 = pytest.mark.vendor(name="mem0")


def process_of(backend: Backend) -> int:
    assert isinstance(backend, HostedBackend)
    assert backend.process_id is not None
    return backend.process_id


def known_of(process: int, what: str) -> bytes:
    """What the system knows of a process; nothing where there is none, or only its exit is left."""
    try:
        return Path(f"/proc/{process}/{what}").read_bytes()
    except OSError:
        return b""


def is_running(process: int) -> bool:
    return bool(known_of(process, "cmdline"))


def has_ended(process: int) -> Callable[[], bool]:
    return lambda: not is_running(process)


@pytest.mark.parametrize(
    "value",
    [
        Copy(
            container=replace(HOME, user_id=None),
            record_id="mem_1",
            version=3,
            type="episodic",
            content="ünï 🧵\u2028\n\x00",
            metadata={"a": [1, {"b": None}], "c": 2.5},
            tags=("x", "y"),
            created_at=1,
        ),
        Query(
            tenant="t",
            agent_id=None,
            text="tea",
            types=frozenset({"semantic"}),
            filter={"metadata.a": {"$in": [1]}},
            containers=(HOME, replace(HOME, user_id="")),
        ),
        Answer(
            hits=(
                Kept(native_id="n", score=None),
                Kept(native_id="m", score=0.5, mark=Mark(tenant="t", record_id="r", version=1)),
            ),
            has_more=True,
        ),
        Health(is_up=True, version="1", warnings=("old",)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_crosses_the_pipe_comes_back_equal(value: object) -> None:
    assert read(type(value), json.loads(line({"value": value}))["value"]) == value


@needs_langgraph
async def test_a_process_that_was_killed_is_told_and_started_again(tmp_path: Path) -> None:
    backend = vendor_at("langgraph+sqlite://", tmp_path)
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


@needs_langgraph
async def test_behind_its_guard_a_process_that_was_killed_comes_back_by_itself(tmp_path: Path) -> None:
    backend = vendor_at("langgraph+sqlite://", tmp_path)
    guarded = GuardedBackend("langgraph", backend, patience=Patience(search_s=30.0))
    keeper = Keeper(guarded)
    kept = await keeper.put("tea at noon")
    os.kill(process_of(backend), signal.SIGKILL)
    with pytest.raises(BackendUnavailableError):
        await keeper.found("tea")
    assert await keeper.found("tea") == [kept.native_id]
    await guarded.close()


@needs_langgraph
async def test_a_worker_that_hangs_holds_up_nobody_and_is_ended(tmp_path: Path) -> None:
    backend = vendor_at("langgraph://memory", tmp_path)
    await backend.open()
    process = process_of(backend)
    os.kill(process, signal.SIGSTOP)
    guarded = GuardedBackend("langgraph", backend, patience=Patience(effect_s=0.2))
    large = [Keeper(guarded).copy("tea " * 100_000) for _ in range(4)]  # more than a pipe holds
    with pytest.raises(BackendUnavailableError):
        await guarded.put(large)
    await asyncio.wait_for(backend.close(), 40.0)
    await until(has_ended(process))


@needs_langgraph
async def test_a_worker_that_was_given_up_while_it_opened_is_ended(tmp_path: Path) -> None:
    backend = vendor_at("langgraph://memory", tmp_path)
    assert isinstance(backend, HostedBackend)
    opening = asyncio.create_task(backend.open())
    await until(lambda: bool(_processes_in(tmp_path)))
    (process,) = _processes_in(tmp_path)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert not is_running(process)
    await backend.open()
    await backend.close()


def _processes_in(folder: Path) -> list[int]:
    """Those that work in a folder."""
    found: list[int] = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            if link.readlink() == folder:
                found.append(int(link.parts[2]))
    return found


@needs_langgraph
async def test_what_a_worker_has_started_does_not_hold_up_the_end(tmp_path: Path) -> None:
    made_by = tmp_path / "parent.py"
    made_by.write_text(
        "import subprocess\n"
        "from quipu.mirrors.vendors.langgraph import LangGraphAdapter\n"
        "class Parent(LangGraphAdapter):\n"
        "    def open(self):\n"
        "        self.child = subprocess.Popen(['sleep', '60'])\n"
        "        super().open()\n",
        "utf-8",
    )
    backend = HostedBackend(
        _setup(tmp_path / "mirror"),
        "parent:Parent",
        vendor_at("langgraph://memory", tmp_path).capabilities,
        {"PYTHONPATH": str(tmp_path)},
    )
    await backend.open()
    children = _processes_in(tmp_path / "mirror")
    await asyncio.wait_for(backend.close(), 20.0)
    left = [one for one in children if is_running(one)]
    assert len(left) == 1, "whom it started, and nobody else"
    os.kill(left[0], signal.SIGKILL)


def _setup(folder: Path, **given: Any) -> Setup:
    known: dict[str, Any] = {"embedder": WordEmbedder(8), "python": python_of("langgraph"), **given}
    return Setup(name="langgraph", url="langgraph://memory", scheme="langgraph", folder=folder, **known)


@needs_langgraph
async def test_a_call_under_way_fails_when_the_process_ends(tmp_path: Path) -> None:
    class Killing(WordEmbedder):
        async def embed(self, texts: Sequence[str], role: Role = "document") -> Sequence[bytes]:
            os.kill(process_of(backend), signal.SIGKILL)
            return await super().embed(texts, role)

    backend = vendor_at("langgraph://memory", tmp_path, embedder=Killing(8))
    await backend.open()
    with pytest.raises(BackendUnavailableError):
        await asyncio.wait_for(Keeper(backend).put("tea"), 20)
    await backend.close()


@needs_langgraph
async def test_a_walk_under_way_fails_when_the_process_ends(tmp_path: Path) -> None:
    """A walk that is cut short must not look like one that is over."""
    backend = vendor_at("langgraph://memory", tmp_path)
    await backend.open()
    keeper = Keeper(backend)
    await keeper.put_all([keeper.copy(f"tea number {number} " * 50) for number in range(200)])
    walk = backend.scan(HOME)
    await anext(walk)
    process = process_of(backend)
    os.kill(process, signal.SIGSTOP)
    os.kill(process, signal.SIGKILL)
    await backend.close()
    rest = asyncio.create_task(_count(walk))
    await asyncio.wait([rest])
    if rest.exception() is None:
        assert rest.result() == 199, "it had told everything before it ended"
    else:
        assert isinstance(rest.exception(), BackendUnavailableError)


async def _count(walk: AsyncIterator[object]) -> int:
    return len([one async for one in walk])


@needs_langgraph
async def test_a_call_that_is_given_up_leaves_the_others_alone(tmp_path: Path) -> None:
    backend = vendor_at("langgraph://memory", tmp_path)
    await backend.open()
    keeper = Keeper(backend)
    kept = await keeper.put("tea at noon")
    tasks = [asyncio.create_task(keeper.found("tea")) for _ in range(20)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(one, asyncio.CancelledError) for one in done[::2])
    assert all(one == [kept.native_id] for one in done[1::2])
    assert await keeper.found("tea") == [kept.native_id]
    await backend.close()


@needs_langgraph
async def test_an_embedder_that_fails_is_told_and_nothing_hangs(tmp_path: Path) -> None:
    class Broken(WordEmbedder):
        async def embed(self, texts: Sequence[str], role: Role = "document") -> Sequence[bytes]:
            raise BackendUnavailableError("The model is gone.")

    backend = vendor_at("langgraph://memory", tmp_path, embedder=Broken(8))
    await backend.open()
    with pytest.raises(BackendUnavailableError):
        await asyncio.wait_for(Keeper(backend).put("tea"), 20)
    await backend.close()


@needs_langgraph
async def test_a_folder_belongs_to_one_process(tmp_path: Path) -> None:
    first, second = (vendor_at("langgraph+sqlite://", tmp_path) for _ in "ab")
    await first.open()
    for _ in range(2):  # whoever asks again does not get in by that
        with pytest.raises(BackendUnavailableError) as refused:
            await second.open()
        assert refused.value.reason == "mirror_in_use"
    await first.close()
    await second.open()
    await second.close()


@needs_langgraph
async def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    program = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from tests.vendors.shared import vendor_at\n"
        "async def main():\n"
        "    backend = vendor_at('langgraph://memory', Path(sys.argv[1]), python=sys.argv[2])\n"
        "    await backend.open()\n"
        "    print(backend.process_id, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", program, str(tmp_path), python_of("langgraph")],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    await until(has_ended(int(done.stdout)), 10.0)


@needs_langgraph
def test_it_works_on_the_servers_faster_loop(tmp_path: Path) -> None:
    async def use() -> list[str]:
        backend = vendor_at("langgraph://memory", tmp_path)
        await backend.open()
        kept = await Keeper(backend).put("tea at noon")
        found = await Keeper(backend).found("tea")
        await backend.close()
        assert found == [kept.native_id]
        return found

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(use())


@needs_mem0
async def test_the_parent_stays_as_it_was(tmp_path: Path) -> None:
    before = (dict(os.environ), list(logging.root.handlers), sys.excepthook, set(sys.modules))
    backend = vendor_at("mem0://default", tmp_path)
    await backend.open()
    await Keeper(backend).put("tea at noon")
    await backend.close()
    assert (dict(os.environ), list(logging.root.handlers), sys.excepthook) == before[:3]
    assert not {
        name for name in set(sys.modules) - before[3] if name.split(".")[0] in ("mem0", "qdrant_client")
    }


@needs_mem0
async def test_a_worker_inherits_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEM0_TELEMETRY", "True")
    monkeypatch.setenv("SOMETHING_OF_OURS", "1")
    backend = vendor_at("mem0://default", tmp_path)
    await backend.open()
    environment = known_of(process_of(backend), "environ")
    assert b"SOMETHING_OF_OURS" not in environment
    assert b"MEM0_TELEMETRY=False" in environment
    await backend.close()


@needs_mem0
async def test_closing_really_and_twice(tmp_path: Path) -> None:
    backend = vendor_at("mem0://default", tmp_path)
    await backend.open()
    process = process_of(backend)
    await backend.close()
    await backend.close()
    assert not is_running(process)


async def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    backend = vendor_at("mem0://default", tmp_path, python="/nowhere/python")
    with pytest.raises(BackendUnavailableError) as failed:
        await backend.open()
    assert "/nowhere" not in failed.value.message


@pytest.mark.parametrize("is_alone", [False, True])
async def test_scenarios_that_a_vendor_plays_alone_fail_where_it_is_not_there(
    is_alone: bool, tmp_path: Path
) -> None:
    backend = vendor_at("mem0://default", tmp_path, python="/nowhere/python")
    result = await played_on(backend, SIXTEEN[0], is_alone=is_alone, embedder=WordEmbedder(384))
    assert result.outcome == ("fail" if is_alone else "pass")


async def test_a_vendor_that_is_not_installed_is_named(tmp_path: Path) -> None:
    backend = vendor_at("mem0://default", tmp_path, python=sys.executable)
    with pytest.raises(BackendUnavailableError) as failed:
        await backend.open()
    assert (failed.value.reason, failed.value.hint) == ("missing_extra", "pip install mem0ai")


def test_without_an_embedder_a_vendor_that_needs_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="needs an embedder"):
        langgraph.make(_setup(tmp_path, embedder=None, python=None))


async def test_a_failure_is_told_without_what_the_vendor_says(tmp_path: Path) -> None:
    setup = _setup(tmp_path, python=sys.executable)
    capabilities = langgraph.make(setup).capabilities
    backend = HostedBackend(setup, "quipu.mirrors.vendors.nothing:X", capabilities, {})
    with pytest.raises(BackendUnavailableError) as failed:
        await backend.open()
    assert failed.value.message == "The mirror failed."
    assert "ModuleNotFoundError at " in str(failed.value.__cause__)
    await backend.close()


def test_no_vendor_is_imported_with_quipu() -> None:
    program = (
        "import sys, quipu.bootstrap, quipu.mirrors.registry as r\n"
        "from importlib import import_module\n"
        "[import_module(name) for name in set(r.VENDORS.values())]\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules}"
        " & {'mem0', 'qdrant_client', 'cognee', 'graphiti_core', 'kuzu', 'langgraph', 'letta', 'psycopg'}))"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


@needs_mem0
def test_a_watched_interpreter_lets_nothing_out() -> None:
    outbound()
    reaching = "import socket\ntry: socket.create_connection(('quipu.invalid', 80))\nexcept OSError: pass"
    subprocess.run([audited(python_of("mem0")), "-P", "-c", reaching], check=True)
    assert outbound() == ["socket.getaddrinfo quipu.invalid"]
