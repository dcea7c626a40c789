"""A backend in a process of its own, in an environment of its own: a `Backend` like any other from this side.

The process is the interpreter of the setup's `python`, with nothing of ours but the package `quipu` on its path, so a
vendor's environment needs none of Quipu's dependencies. It gets an environment written here and inherits nothing. A
process that has died is started again by the next `open`.
"""

import asyncio
import json
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Final, cast

from quipu.errors import QuipuError
from quipu.mirrors import adapter
from quipu.mirrors.backend import (
    Answer,
    Capabilities,
    Container,
    Copy,
    Health,
    Kept,
    Place,
    Query,
    Remaining,
    Setup,
)
from quipu.mirrors.vendors.worker import VendorError, line, raised, read, read_all

_CLOSING_S: Final = 10.0
#: A worker ends at once when its pipe does, unless it hangs.
_ENDING_S: Final = 3.0
_LAST_WORDS: Final = 12
#: No line of a vendor's is longer; what is put together for one call is not nearly as much.
_LONGEST_LINE: Final = 1 << 30
_PACKAGE: Final = Path(__file__).parents[2]
#: Only the package `quipu` is made known to the vendor's interpreter, not the folder it lies in.
_START: Final = """
import importlib.util as u, sys
spec = u.spec_from_file_location("quipu", sys.argv[1] + "/__init__.py", submodule_search_locations=[sys.argv[1]])
sys.modules["quipu"] = quipu = u.module_from_spec(spec)
spec.loader.exec_module(quipu)
from quipu.mirrors.vendors.worker import main
main()
"""


class _Call:
    """A call under way, and what it may be asked for meanwhile."""

    def __init__(self, remaining: Remaining | None = None) -> None:
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.parts: asyncio.Queue[Any] = asyncio.Queue()
        self.remaining = remaining


class WorkerProcess:
    """A worker that runs, seen from here."""

    def __init__(self, setup: Setup, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._setup, self._process = setup, process
        self._into, self._out, self._errors = process.stdin, process.stdout, process.stderr
        self._calls: dict[int, _Call] = {}
        self._numbers = count(1)
        self._last_words: deque[str] = deque(maxlen=_LAST_WORDS)
        self._answers: set[asyncio.Task[None]] = set()
        self._listening = [asyncio.create_task(self._listen()), asyncio.create_task(self._listen_to_errors())]

    @property
    def id(self) -> int:
        """The process's, as the system numbers it."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return not self._listening[0].done()

    @classmethod
    async def start(cls, setup: Setup, environment: Mapping[str, str]) -> "WorkerProcess":
        python = _interpreter(setup)
        setup.folder.mkdir(parents=True, exist_ok=True)
        base = {"PATH": os.defpath, "HOME": str(setup.folder), "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"}
        try:
            process = await asyncio.create_subprocess_exec(
                *(python, "-P", "-c", _START, str(_PACKAGE)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=setup.folder,
                env={**base, **environment},
                limit=_LONGEST_LINE,
            )
        except OSError as error:
            raise adapter.unavailable(
                "The interpreter of the mirror cannot be started.", hint="Check `?python=` in its address."
            ) from error
        return cls(setup, process)

    async def call(self, verb: str, *given: Any, remaining: Remaining | None = None) -> Any:
        return await self._begun(verb, given, _Call(remaining)).future

    async def parts(self, verb: str, *given: Any) -> AsyncIterator[Any]:
        """What a call answers piece by piece."""
        call = self._begun(verb, given, _Call())
        call.future.add_done_callback(lambda _: call.parts.put_nowait(None))
        while (part := await call.parts.get()) is not None:
            yield part
        await call.future

    def _begun(self, verb: str, given: Sequence[Any], call: _Call) -> _Call:
        number = next(self._numbers)
        self._calls[number] = call
        if self.is_running:
            self._write({"call": number, "verb": verb, "given": given})
        else:
            self._fail_all()
        return call

    def _write(self, message: Mapping[str, Any]) -> None:
        """Into the pipe's buffer: a worker that hangs and reads nothing holds up nobody."""
        with suppress(OSError):
            self._into.write(line(message))

    async def _listen(self) -> None:
        try:
            while heard := await self._out.readline():
                self._heard(json.loads(heard))
        finally:
            asyncio.get_running_loop().call_soon(self._fail_all)

    def _heard(self, message: dict[str, Any]) -> None:
        if "ask" in message:
            task = asyncio.create_task(self._answer(message))
            self._answers.add(task)
            task.add_done_callback(self._answers.discard)
            return
        if "part" in message:
            self._calls[message["reply"]].parts.put_nowait(message["part"])
            return
        future = self._calls.pop(message["reply"]).future
        if future.done():  # given up meanwhile
            return
        if "error" in message:
            future.set_exception(raised(message["error"]))
        else:
            future.set_result(message["result"])

    async def _answer(self, message: dict[str, Any]) -> None:
        try:
            result = await self._known(message["of"], message["what"], message["given"])
            self._write({"answer": message["ask"], "result": result})
        except Exception:  # noqa: BLE001  the worker must not wait for ever
            self._write({"answer": message["ask"], "failed": True})

    async def _known(self, number: int, what: str, given: list[Any]) -> Any:
        if what == "embed":
            assert self._setup.embedder is not None
            return await self._setup.embedder.embed(given[0])
        remaining = self._calls[number].remaining
        assert remaining is not None
        return [copy async for copy in remaining(read(Container, given[0]))]

    async def _listen_to_errors(self) -> None:
        """The last words of a worker that does not start; nothing is kept once it has work, for vendors log texts."""
        while heard := await self._errors.readline():
            if self._last_words.maxlen:
                self._last_words.append(heard.decode(errors="replace").rstrip())

    def settle(self) -> None:
        """It has started: what vendors print from now on is heard and dropped."""
        self._last_words = deque(maxlen=0)

    def _fail_all(self) -> None:
        while self._calls:
            _, call = self._calls.popitem()
            if not call.future.done():
                error = adapter.unavailable(
                    "The mirror's process has ended.",
                    hint="Is the vendor's package installed for the interpreter that the mirror runs with?",
                )
                error.__cause__ = VendorError("\n".join(self._last_words) or "it said nothing")
                call.future.set_exception(error)

    async def stop(self) -> None:
        """Close the pipe and wait; one that does not end by itself is killed."""
        self._into.close()
        try:
            async with asyncio.timeout(_ENDING_S):
                await self._process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        # Whoever the worker has started may still hold the other end of its pipes: nobody waits for that.
        for task in self._listening:
            task.cancel()
        await asyncio.gather(*self._listening, return_exceptions=True)
        cast("Any", self._process)._transport.close()  # asyncio has no other word for it


def _interpreter(setup: Setup) -> str:
    """Absolute, but not resolved: an environment's interpreter is a link."""
    python = setup.python or sys.executable
    return os.path.abspath(python) if os.sep in python else python


class HostedBackend:
    """The parent's side of an adapter in a worker."""

    def __init__(
        self, setup: Setup, made_by: str, capabilities: Capabilities, environment: Mapping[str, str]
    ) -> None:
        """made_by: The adapter's class, as `module:class`; what it must have is said in `worker`.
        environment: What the vendor reads from its environment, also while it is imported.
        """
        self.capabilities = capabilities
        self._setup, self._made_by, self._environment = setup, made_by, environment
        self._worker: WorkerProcess | None = None
        self._opening = asyncio.Lock()

    @property
    def process_id(self) -> int | None:
        """The worker's, while it is open."""
        return None if self._worker is None else self._worker.id

    async def open(self) -> None:
        async with self._opening:
            if self._worker is not None and self._worker.is_running:
                return
            if self._worker is not None:
                await self._worker.stop()
                self._worker = None
            worker = await WorkerProcess.start(self._setup, self._environment)
            embedder = self._setup.embedder
            setup = {
                "name": self._setup.name,
                "url": self._setup.url,
                "scheme": self._setup.scheme,
                "parameters": dict(self._setup.parameters),
                "folder": str(self._setup.folder),
            }
            try:
                model = embedder and [embedder.model, embedder.dimensions]
                may_be_shared = "multi_process" in self.capabilities
                await worker.call("make", self._made_by, setup, model, may_be_shared)
                await worker.call("open")
            except BaseException:  # also when it was given up: it is of no use to the next one who opens
                await worker.stop()
                raise
            worker.settle()
            self._worker = worker

    def _open_worker(self) -> WorkerProcess:
        if self._worker is None:
            raise adapter.unavailable("The mirror is not open.")
        return self._worker

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        return await self._open_worker().call("put", copies)

    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        return read_all(Kept, await self._open_worker().call("get", places))

    async def search(self, query: Query, limit: int) -> Answer:
        return read(Answer, await self._open_worker().call("search", query, limit))

    async def scan(self, container: Container) -> AsyncIterator[Kept]:
        async for part in self._open_worker().parts("scan", container):
            yield read(Kept, part)

    async def delete(self, places: Sequence[Place]) -> int:
        return await self._open_worker().call("delete", places)

    async def erase(self, places: Sequence[Place], remaining: Remaining) -> None:
        await self._open_worker().call("erase", places, remaining=remaining)

    async def health(self) -> Health:
        try:
            return read(Health, await self._open_worker().call("health"))
        except QuipuError:
            return Health(is_up=False, warnings=("The mirror does not answer.",))

    async def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is None:
            return
        with suppress(QuipuError, TimeoutError):
            async with asyncio.timeout(_CLOSING_S):
                await worker.call("close")
        await worker.stop()
