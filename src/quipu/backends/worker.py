"""One adapter in a process of its own, served over a pipe: what `ProcessBackend` starts.

Vendors print, replace hooks, read `.env` files and want packages that contradict each other's and ours. So the worker
imports nothing but the port and its adapter, keeps the pipe to itself before anything else is imported, and ends when
its parent does.
"""

from __future__ import annotations

import asyncio
import dataclasses
import fcntl
import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from quipu.backends.process_wire import error_body, line, plain, read, read_all
from quipu.errors import BackendUnavailableError
from quipu.ports.backend import Backend, Capability, Container, Copy, Erasing, Place, Query, Setup


class AskedEmbedder:
    """The parent's embedder, over the pipe."""

    def __init__(self, worker: Worker, model: str, dimensions: int) -> None:
        self._worker, self.model, self.dimensions = worker, model, dimensions

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        return read_all(bytes, await self._worker.ask("embed", list(texts)))

    async def close(self) -> None:
        """It is the parent's."""


class Worker:
    """Carries out what comes down the pipe, several calls at a time."""

    def __init__(self, into: BinaryIO, out: BinaryIO) -> None:
        self._into, self._out = into, out
        self._writing = threading.Lock()
        self._asks: dict[int, asyncio.Future[Any]] = {}
        self._ask_ids = count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._backend: Backend | None = None

    def _send(self, **message: Any) -> None:
        with self._writing:
            self._out.write(line(message))
            self._out.flush()

    async def ask(self, what: str, *given: Any) -> Any:
        """Something only the parent can tell."""
        number = next(self._ask_ids)
        self._asks[number] = asyncio.get_running_loop().create_future()
        self._send(ask=number, **{"for": what}, given=plain(given))
        return await self._asks[number]

    async def serve(self) -> None:
        """Until the pipe is closed."""
        loop = asyncio.get_running_loop()
        while heard := await asyncio.to_thread(self._into.readline):
            message = json.loads(heard)
            if "answer" in message:
                self._answered(message)
                continue
            task = loop.create_task(self._carry_out(message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _answered(self, message: dict[str, Any]) -> None:
        waiting = self._asks.pop(message["answer"])
        if "result" in message:
            waiting.set_result(message["result"])
        else:
            waiting.set_exception(
                BackendUnavailableError("Quipu did not answer its mirror.", reason="mirror_unreachable")
            )

    async def _carry_out(self, message: dict[str, Any]) -> None:
        number = message["call"]
        try:
            result = await self._done(number, message["verb"], message["given"])
        except Exception as error:  # noqa: BLE001  told to the parent, whatever a vendor raises
            self._send(reply=number, error=error_body(error))
        else:
            self._send(reply=number, result=plain(result))

    async def _done(self, number: int, verb: str, given: list[Any]) -> Any:
        if verb == "make":
            return self._make(*given)
        backend = self._backend
        assert backend is not None  # noqa: S101  the parent makes it first
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
                assert isinstance(backend, Erasing)  # noqa: S101  the parent asks only those
                return await backend.erase(read_all(Place, given[0]), self._remaining)
            case "open":
                return await backend.open()
            case "health":
                return await backend.health()
            case _:
                return await backend.close()

    async def _remaining(self, container: Container) -> AsyncIterator[Copy]:
        for copy in read_all(Copy, await self.ask("remaining", container)):
            yield copy

    def _make(self, adapter: str, setup: dict[str, Any], model: list[Any] | None) -> None:
        module, _, name = adapter.partition(":")
        embedder = AskedEmbedder(self, *model) if model else None
        parts: dict[str, Any] = {**setup, "folder": Path(setup["folder"]), "embedder": embedder}
        given = Setup(**parts)
        backend: Backend = getattr(import_module(module), name)(given)
        if Capability.MULTI_PROCESS not in backend.capabilities:
            _own(given.folder)
        self._backend = backend


def _own(folder: Path) -> None:
    """Only one process may have this store open; the lock goes with the process."""
    held = os.open(folder / "worker.lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise BackendUnavailableError(
            "Another process has this mirror's store open.",
            reason="mirror_in_use",
            hint="Only one Quipu can use it at a time: go through the server that has it open.",
        ) from error


def sent(setup: Setup) -> dict[str, Any]:
    """What crosses the pipe of a setup."""
    kept = {field.name: getattr(setup, field.name) for field in dataclasses.fields(setup)}
    return {**kept, "folder": str(setup.folder), "parameters": dict(setup.parameters), "embedder": None}


def main() -> None:
    """Keep the pipe, give vendors standard error to print on, and serve."""
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    asyncio.run(_served(Worker(sys.stdin.buffer, pipe)))


async def _served(worker: Worker) -> None:
    await worker.serve()
    os._exit(0)  # at once: a vendor's threads must not hold the process
