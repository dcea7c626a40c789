"""A backend in a process of its own, in an environment of its own: a `Backend` like any other from this side.

`hosted(setup, "quipu.backends.mem0:Mem0Backend", ...)` starts the interpreter of `setup.python` with nothing of ours
but the `quipu` package itself on its path, so a vendor's environment needs none of Quipu's dependencies. The process
gets an environment written here and inherits nothing; it ends when its pipe does, so it cannot outlive this process.
A worker that died is started again by the next `open`.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from quipu.backends.process_wire import VendorError, line, plain, raised, read, read_all
from quipu.backends.worker import sent
from quipu.errors import BackendUnavailableError, QuipuError
from quipu.ports.backend import (
    Answer,
    Backend,
    Capabilities,
    Capability,
    Container,
    Copy,
    Health,
    Kept,
    Place,
    Query,
    Remaining,
    Setup,
)

_PATIENCE_S = 10.0
_LAST_WORDS_S = 1.0
_PACKAGE = Path(__file__).parent.parent
#: Only the package `quipu` is made known to the vendor's interpreter, not the folder it lies in.
_START = """
import importlib.util as u, sys
spec = u.spec_from_file_location("quipu", sys.argv[1] + "/__init__.py", submodule_search_locations=[sys.argv[1]])
sys.modules["quipu"] = quipu = u.module_from_spec(spec)
spec.loader.exec_module(quipu)
from quipu.backends.worker import main
main()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosting:
    """What is known of an adapter without importing its vendor."""

    #: `module:class`; the class is made with a `Setup`.
    adapter: str
    capabilities: Capabilities
    #: What the vendor reads from its environment, also while it is imported.
    environment: Mapping[str, str]


def hosted(setup: Setup, hosting: Hosting) -> Backend:
    """The backend in a worker. One whose `delete` leaves bytes behind can erase."""
    erases = Capability.HARD_DELETE not in hosting.capabilities
    return (ErasingProcessBackend if erases else ProcessBackend)(setup, hosting)


class _Process:
    """A worker that runs, and the calls under way."""

    def __init__(self, python: str, folder: Path, environment: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        base = {"PATH": os.defpath, "HOME": str(folder), "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(  # noqa: S603  the interpreter that was configured
            [python, "-P", "-c", _START, str(_PACKAGE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={**base, **environment},
        )
        self._calls: dict[int, tuple[Future[Any], Callable[[Any], None] | None]] = {}
        self._numbers = count(1)
        self._said: deque[str] = deque(maxlen=12)
        self.asked: Callable[[dict[str, Any]], None] = lambda message: None
        self._outgoing: SimpleQueue[bytes | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=work, name="quipu-mirror", daemon=True)
            for work in (self._listen, self._listen_to_errors, self._speak)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def write(self, message: Mapping[str, Any]) -> None:
        self._outgoing.put(line(message))

    def _speak(self) -> None:
        """A worker that hangs reads nothing, and its pipe fills up: this thread waits for it, and nobody else."""
        assert self._process.stdin is not None  # noqa: S101  it was started with pipes
        with suppress(OSError):
            while (data := self._outgoing.get()) is not None:
                self._process.stdin.write(data)
                self._process.stdin.flush()
        with suppress(OSError):
            self._process.stdin.close()

    def call(self, verb: str, given: Sequence[Any], part: Callable[[Any], None] | None) -> Future[Any]:
        future: Future[Any] = Future()
        number = next(self._numbers)
        self._calls[number] = (future, part)
        self.write({"call": number, "verb": verb, "given": plain(given)})
        if not self.is_alive:
            self._end()
        return future

    def _listen(self) -> None:
        assert self._process.stdout is not None  # noqa: S101  it was started with pipes
        with self._process.stdout as said:
            for heard in said:
                self._heard(json.loads(heard))
        self._process.wait()
        self._end()

    def _heard(self, message: dict[str, Any]) -> None:
        if "ask" in message:
            self.asked(message)
            return
        if "part" in message:
            part = self._calls[message["reply"]][1]
            if part is not None:
                part(message["part"])
            return
        future, _ = self._calls.pop(message["reply"])
        if not future.set_running_or_notify_cancel():
            return
        if "error" in message:
            future.set_exception(raised(message["error"]))
        else:
            future.set_result(message["result"])

    def _listen_to_errors(self) -> None:
        """The last words of a worker that does not start; nothing is kept once it has work, for vendors log texts."""
        assert self._process.stderr is not None  # noqa: S101  it was started with pipes
        with self._process.stderr as said:
            for heard in said:
                if self._said.maxlen:
                    self._said.append(heard.decode(errors="replace").rstrip())

    def settle(self) -> None:
        """It has started: what vendors print from now on is heard and dropped."""
        self._said = deque(maxlen=0)

    def _gone(self) -> QuipuError:
        error = BackendUnavailableError(
            "The mirror's process has ended.",
            reason="mirror_unreachable",
            hint="Is the vendor's package installed for the interpreter that the mirror runs with?",
        )
        error.__cause__ = VendorError("\n".join(self._said) or f"exit code {self._process.poll()}")
        return error

    def _end(self) -> None:
        for number in list(self._calls):
            future, _ = self._calls.pop(number, (Future[Any](), None))
            if future.set_running_or_notify_cancel():
                future.set_exception(self._gone())

    def stop(self) -> None:
        """Close the pipe and wait; one that does not end by itself is killed."""
        self._outgoing.put(None)
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        # Each closes its pipe. Whoever the worker has started may still hold the other end: then nobody waits for it.
        for thread in self._threads:
            thread.join(_LAST_WORDS_S)


class ProcessBackend:
    """The parent's side of a worker."""

    def __init__(self, setup: Setup, hosting: Hosting) -> None:
        self._setup, self._hosting = setup, hosting
        self._process: _Process | None = None
        self._opening = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._remaining: Remaining | None = None

    @property
    def capabilities(self) -> Capabilities:
        return self._hosting.capabilities

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._start)
        await self._call("open")
        if self._process is not None:
            self._process.settle()

    def _start(self) -> None:
        with self._opening:
            if self._process is not None and self._process.is_alive:
                return
            if self._process is not None:
                self._process.stop()
            python = self._setup.python or sys.executable
            if os.sep in python:
                python = os.path.abspath(python)  # not resolved: an environment's interpreter is a link
            try:
                process = _Process(python, self._setup.folder, self._hosting.environment)
            except OSError as error:
                raise BackendUnavailableError(
                    "The interpreter of the mirror cannot be started.",
                    reason="mirror_unreachable",
                    hint="Check the setting that names it.",
                ) from error
            process.asked = self._asked
            embedder = self._setup.embedder
            model = [embedder.model, embedder.dimensions] if embedder else None
            self._process = process
            try:
                process.call("make", [self._hosting.adapter, sent(self._setup), model], None).result()
            except QuipuError:  # a worker without its adapter is of no use to the next `open`
                self._process = None
                process.stop()
                raise

    async def _call(self, verb: str, *given: Any, part: Callable[[Any], None] | None = None) -> Any:
        if self._process is None:
            raise BackendUnavailableError("The mirror is not open.", reason="mirror_unreachable")
        self._loop = asyncio.get_running_loop()
        future = await asyncio.to_thread(self._process.call, verb, given, part)
        return await asyncio.wrap_future(future)

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        return await self._call("put", copies)

    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        return read_all(Kept, await self._call("get", places))

    async def search(self, query: Query, limit: int) -> Answer:
        return read(Answer, await self._call("search", query, limit))

    async def scan(self, container: Container) -> AsyncIterator[Kept]:
        parts: SimpleQueue[Any] = SimpleQueue()
        await self._call("scan", container, part=parts.put)
        while not parts.empty():
            yield read(Kept, parts.get())

    async def delete(self, places: Sequence[Place]) -> int:
        return await self._call("delete", places)

    async def health(self) -> Health:
        try:
            return read(Health, await self._call("health"))
        except BackendUnavailableError:
            return Health(is_up=False, warnings=("The mirror does not answer.",))

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.is_alive:
            with suppress(QuipuError, TimeoutError):
                await asyncio.wait_for(
                    asyncio.wrap_future(process.call("close", [], None)), timeout=_PATIENCE_S
                )
        await asyncio.to_thread(process.stop)

    # -- what the worker asks -----------------------------------------------------------------------------------

    def _asked(self, message: dict[str, Any]) -> None:
        """From the listening thread: the answer is worked out on the loop that the last call came from."""
        assert self._loop is not None  # noqa: S101  a call came first
        asyncio.run_coroutine_threadsafe(self._answer(message), self._loop)

    async def _answer(self, message: dict[str, Any]) -> None:
        try:
            result = await self._told(message["for"], message["given"])
            body = {"answer": message["ask"], "result": plain(result)}
        except Exception:  # noqa: BLE001  the worker must not wait for ever
            body = {"answer": message["ask"], "failed": True}
        if self._process is not None:
            await asyncio.to_thread(self._process.write, body)

    async def _told(self, what: str, given: list[Any]) -> Any:
        if what == "embed":
            assert self._setup.embedder is not None  # noqa: S101  else the worker has none to ask
            return await self._setup.embedder.embed(given[0])
        assert self._remaining is not None  # noqa: S101  only an erasure asks
        return [copy async for copy in self._remaining(read(Container, given[0]))]


class ErasingProcessBackend(ProcessBackend):
    """A worker whose adapter has an `erase` step."""

    async def erase(self, places: Sequence[Place], remaining: Remaining) -> None:
        self._remaining = remaining
        await self._call("erase", places)
