"""One adapter in a process of its own, served over a pipe: what `host` starts.

Vendors print, replace hooks, read `.env` files and want packages that contradict each other's and ours. So the worker
imports nothing of ours but the port and its adapter, keeps the pipe to itself before anything else is imported, and ends
when its parent does.
"""

import asyncio
import fcntl
import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from quipu.embed.port import Role
from quipu.errors import BackendUnavailableError
from quipu.mirrors.backend import Backend, Container, Copy, Erasing, Place, Query, Setup
from quipu.mirrors.vendors.pipe import error_body, line, plain, read, read_all

_LOCK: Final = "worker.lock"


class AskedEmbedder:
    """The parent's embedder, over the pipe. Vendors say nothing of roles."""

    calibration = None

    def __init__(self, worker: "Worker", model: str, dimensions: int) -> None:
        self._worker, self.model, self.dimensions = worker, model, dimensions

    async def embed(self, texts: Sequence[str], role: Role = "document") -> Sequence[bytes]:
        return read_all(bytes, await self._worker.ask(0, "embed", list(texts)))

    def clear(self) -> None:
        """The parent forgets texts itself."""

    async def close(self) -> None:
        """It is the parent's."""


class Worker:
    """Carries out what comes down the pipe, several calls at a time."""

    def __init__(self, into: BinaryIO, out: BinaryIO) -> None:
        self._into, self._out = into, out
        self._writing = threading.Lock()
        self._asks: dict[int, asyncio.Future[Any]] = {}
        self._numbers = count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._backend: Backend | None = None

    async def serve(self) -> None:
        """For ever: the process ends with the pipe, whatever it is doing."""
        loop = asyncio.get_running_loop()

        def listen() -> None:
            for heard in self._into:
                loop.call_soon_threadsafe(self._heard, json.loads(heard))
            os._exit(0)  # at once: a vendor's threads must not hold the process

        threading.Thread(target=listen, name="pipe", daemon=True).start()
        await loop.create_future()

    def _heard(self, message: dict[str, Any]) -> None:
        if "answer" in message:
            self._answered(message)
            return
        task = asyncio.create_task(self._carry_out(message["call"], message["verb"], message["given"]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _send(self, **message: Any) -> None:
        with self._writing:
            self._out.write(line(message))
            self._out.flush()

    async def ask(self, call: int, what: str, *given: Any) -> Any:
        """Something that only the parent knows; `call` is what it is asked for, 0 for all of them."""
        number = next(self._numbers)
        self._asks[number] = asyncio.get_running_loop().create_future()
        self._send(ask=number, of=call, what=what, given=plain(given))
        return await self._asks[number]

    def _answered(self, message: dict[str, Any]) -> None:
        waiting = self._asks.pop(message["answer"])
        if waiting.done():
            return
        if "result" in message:
            waiting.set_result(message["result"])
        else:
            waiting.set_exception(
                BackendUnavailableError("Quipu did not answer its mirror.", reason="mirror_unreachable")
            )

    async def _carry_out(self, number: int, verb: str, given: list[Any]) -> None:
        try:
            result = await self._done(number, verb, given)
        except Exception as error:  # noqa: BLE001  told to the parent, whatever a vendor raises
            self._send(reply=number, error=error_body(error))
        else:
            self._send(reply=number, result=plain(result))

    async def _done(self, number: int, verb: str, given: list[Any]) -> Any:
        if verb == "make":
            return self._make(*given)
        backend = self._backend
        assert backend is not None
        match verb:
            case "put":
                return await backend.put(read_all(Copy, given[0]))
            case "get":
                return await backend.get(read_all(Place, given[0]))
            case "search":
                return await backend.search(read(Query, given[0]), given[1])
            case "delete":
                return await backend.delete(read_all(Place, given[0]))
            case "scan":
                async for kept in backend.scan(read(Container, given[0])):
                    self._send(reply=number, part=plain(kept))
                return None
            case "erase":

                async def remaining(container: Container) -> AsyncIterator[Copy]:
                    for copy in read_all(Copy, await self.ask(number, "remaining", container)):
                        yield copy

                return await cast("Erasing", backend).erase(read_all(Place, given[0]), remaining)
            case "open":
                return await backend.open()
            case "health":
                return await backend.health()
            case _:
                return await backend.close()

    def _make(self, adapter: str, setup: dict[str, Any], model: list[Any] | None) -> None:
        embedder = None if model is None else AskedEmbedder(self, *model)
        known: dict[str, Any] = {**setup, "folder": Path(setup["folder"]), "embedder": embedder}
        own = Setup(**known)
        module, _, name = adapter.partition(":")
        backend: Backend = getattr(import_module(module), name)(own)
        if "multi_process" not in backend.capabilities:
            _lock(own.folder)
        self._backend = backend


def _lock(folder: Path) -> None:
    """Only one process may have this store open; the lock goes with the process."""
    held = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise BackendUnavailableError(
            "Another process has this mirror's store open.",
            reason="mirror_in_use",
            hint="Only one Quipu can use it at a time: go through the server that has it open.",
        ) from error


def main() -> None:
    """Keep the pipe, give vendors standard error to print on, and serve."""
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    asyncio.run(Worker(sys.stdin.buffer, pipe).serve())
