"""One adapter in a process of its own, served over a pipe: what `host` starts.

Vendors print, replace hooks, read `.env` files and want packages that contradict each other's and ours. So the worker
imports nothing of ours but the port and its adapter, keeps the pipe to itself before anything else is imported, and ends
when its parent does.

An adapter has the methods of the port. Those that block are plain functions and run on threads, one unless it says
otherwise in `threads`. `vendor` and `package` are what its failures are told with.

One JSON object per line goes over the pipe. Both ends are the same version of Quipu, so a value is written field by field
and read by its annotations.

To the worker      {"call": 7, "verb": "put", "given": [...]}     {"answer": 3, "result": ...}
From the worker    {"reply": 7, "part": ...}  {"reply": 7, "result": ...}  {"reply": 7, "error": {...}}
                   {"ask": 3, "of": 7, "what": "embed", "given": [...]}
"""

import asyncio
import base64
import dataclasses
import fcntl
import inspect
import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from importlib import import_module
from itertools import count
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, BinaryIO, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from quipu.embed.port import Role
from quipu.errors import BackendUnavailableError, InvalidError, QuipuError, UnsupportedError
from quipu.mirrors.adapter import vendor_errors
from quipu.mirrors.backend import Container, Copy, Place, Query, Setup

T = TypeVar("T")
_LOCK: Final = "worker.lock"
#: What each call is given.
_GIVEN: Final[Mapping[str, tuple[Any, ...]]] = {
    **{"open": (), "health": (), "close": ()},
    **{"put": (tuple[Copy, ...],), "search": (Query, int), "scan": (Container,)},
    **dict.fromkeys(("get", "delete", "erase"), (tuple[Place, ...],)),
}
_ERRORS: Final[Mapping[str, type[QuipuError]]] = {
    kind.code: kind for kind in (BackendUnavailableError, InvalidError, UnsupportedError)
}


# -- the pipe ---------------------------------------------------------------------------------------------------------


def line(message: Mapping[str, Any]) -> bytes:
    """One message, with the newline that ends it."""
    return json.dumps(message, separators=(",", ":"), default=_plain).encode() + b"\n"


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    return list(value)


def read(kind: type[T], value: Any) -> T:
    """The value of that type again."""
    return cast("T", _read(kind, value))


def read_all(kind: type[T], values: Iterable[Any]) -> list[T]:
    """Several of them."""
    return [read(kind, value) for value in values]


def _read(kind: Any, value: Any) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return None if value is None else _read(next(one for one in inner if one is not NoneType), value)
    if origin is tuple or origin is frozenset:
        return cast("Any", origin)(_read(inner[0], item) for item in value)
    if kind is bytes:
        return base64.b64decode(value)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return kind(**{name: _read(_types(kind)[name], item) for name, item in value.items()})
    return value


@cache
def _types(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


class VendorError(Exception):
    """What happened in the vendor's process: its kind and its place."""


def error_body(error: BaseException) -> dict[str, str | None]:
    """What is said of a failure: our own words, and where it arose; never a vendor's message."""
    if isinstance(error, QuipuError) and error.code in _ERRORS:
        said = {"code": error.code, "message": error.message, "reason": error.reason, "hint": error.hint}
        return {**said, "at": _place(error.__cause__ or error)}
    return {"code": None, "at": _place(error)}


def _place(error: BaseException) -> str:
    """The kind of an error and the line it came from: neither can hold memory text."""
    trace, where = error.__traceback__, ""
    while trace is not None:
        where = f" at {trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return type(error).__name__ + where


def raised(body: Mapping[str, str | None]) -> QuipuError:
    """The error on the other side, with its cause kept as far as it may be told."""
    kind = _ERRORS.get(body["code"] or "")
    if kind is None:
        error: QuipuError = BackendUnavailableError("The mirror failed.", reason="mirror_unreachable")
    else:
        error = kind(body["message"], reason=body["reason"], hint=body["hint"])
    error.__cause__ = VendorError(body["at"])
    return error


# -- the process ------------------------------------------------------------------------------------------------------


class AskedEmbedder:
    """The parent's embedder, over the pipe. Vendors say nothing of roles."""

    calibration = None

    def __init__(self, worker: "Worker", model: str, dimensions: int) -> None:
        self._worker, self.model, self.dimensions = worker, model, dimensions

    async def embed(self, texts: Sequence[str], role: Role = "document") -> Sequence[bytes]:
        return read_all(bytes, await self._worker.ask(0, "embed", texts))

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
        self._adapter: Any = None
        self._threads = ThreadPoolExecutor(1)

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
        self._send(ask=number, of=call, what=what, given=given)
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
            result = self._make(*given) if verb == "make" else await self._done(number, verb, given)
        except Exception as error:  # noqa: BLE001  told to the parent, whatever a vendor raises
            self._send(reply=number, error=error_body(error))
        else:
            self._send(reply=number, result=result)

    def _make(
        self, made_by: str, setup: dict[str, Any], model: list[Any] | None, may_be_shared: bool
    ) -> None:
        embedder = None if model is None else AskedEmbedder(self, *model)
        known: dict[str, Any] = {**setup, "folder": Path(setup["folder"]), "embedder": embedder}
        own = Setup(**known)
        module, _, name = made_by.partition(":")
        self._adapter = getattr(import_module(module), name)(own)
        self._threads = ThreadPoolExecutor(getattr(self._adapter, "threads", 1))
        if not may_be_shared:
            _lock(own.folder)

    async def _done(self, number: int, verb: str, given: list[Any]) -> Any:
        method = getattr(self._adapter, verb)
        known: list[Any] = [read(kind, value) for kind, value in zip(_GIVEN[verb], given, strict=True)]
        if verb == "erase":
            known.append(partial(self._remaining, number))

        def blocking() -> Any:
            done = method(*known)
            if verb == "scan":
                for kept in done:
                    self._send(reply=number, part=kept)
                return None
            return done

        with vendor_errors(self._adapter.vendor, self._adapter.package):
            if inspect.isasyncgenfunction(method):
                async for kept in method(*known):
                    self._send(reply=number, part=kept)
                return None
            if inspect.iscoroutinefunction(method):
                return await method(*known)
            return await asyncio.get_running_loop().run_in_executor(self._threads, blocking)

    async def _remaining(self, number: int, container: Container) -> AsyncIterator[Copy]:
        for copy in read_all(Copy, await self.ask(number, "remaining", container)):
            yield copy


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
