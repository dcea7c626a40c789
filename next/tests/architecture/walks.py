"""Which of our files an operation passes, over HTTP and in process: traced, not read off the imports."""

import asyncio
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import httpx

import quipu
from quipu.api import Memory
from quipu.bootstrap import Container, http_app, open_container
from quipu.config import Settings
from quipu.memory.operations import RECALL, REMEMBER
from quipu.model.principal import local
from quipu.opening import EmbeddedConnection
from quipu.operation import dispatch

SOURCE = Path(quipu.__file__).parent
ROOT = Path(__file__).parent.parent.parent
FIELDS: dict[str, dict[str, Any]] = {
    "remember": {"content": "Ana lives in Lisbon"},
    "recall": {"query": "where does Ana live?"},
}
PATHS = {"remember": "/v1/memories", "recall": "/v1/memories/recall"}


#: The last step of each walk, as file and function: on the event loop, and on the thread that it hands the work to.
ENDS = {
    "remember": (("ledger/groups.py", "commit"), ("ledger/sqlite/driver.py", "writing")),
    "recall": (("ledger/ledger.py", "read"), ("search/engine.py", "find")),
}


#: Tasks that the call begins inherit it.
_TRACED: ContextVar[bool] = ContextVar("traced", default=False)


@dataclass
class Walk:
    """The files that lead from the call to its last step, and for each of them those that it has called on the way."""

    steps: dict[str, list[str]]

    @property
    def files(self) -> list[str]:
        return [file for step, called in self.steps.items() for file in (step, *called)]

    def lines(self) -> list[str]:
        """As they stand on the page."""
        return [
            f"{number}. `{step}`" + (f": {', '.join(f'`{file}`' for file in called)}" if called else "")
            for number, (step, called) in enumerate(self.steps.items(), 1)
        ]


class Trace:
    """Notes calls while it is on. Threads are traced if they were started after it was made."""

    def __init__(self) -> None:
        self.is_on = False
        self._ends: tuple[tuple[str, str], ...] = ()
        #: Each file, and the stack of our files at its first call.
        self._first: dict[str, tuple[str, ...]] = {}
        self._way: list[str] = []
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if self.is_on and event == "call" and self._is_of_the_call() and (file := _ours(frame)) is not None:
            if file in self._first and (file, frame.f_code.co_name) not in self._ends:
                return
            stack = _stack(frame)
            self._first.setdefault(file, stack)
            if (file, frame.f_code.co_name) in self._ends:
                self._way = list(dict.fromkeys([*self._way, *stack]))

    def _is_of_the_call(self) -> bool:
        """A job that was begun before, such as writing the read log, is no part of it."""
        return threading.current_thread() is not threading.main_thread() or _TRACED.get()

    async def of(self, name: str, work: Callable[[], Awaitable[Any]]) -> Walk:
        self._first, self._way, self._ends = {}, [], ENDS[name]
        self.is_on = True
        token = _TRACED.set(True)
        try:
            await work()
        finally:
            self.is_on = False
            _TRACED.reset(token)
        steps: dict[str, list[str]] = {file: [] for file in self._way}
        for file, stack in self._first.items():
            if file not in steps:
                callers = [caller for caller in stack[:-1] if caller in steps]
                steps[callers[-1] if callers else self._way[0]].append(file)
        return Walk(steps)

    def end(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


def _ours(frame: FrameType) -> str | None:
    """The file of a frame, if it is one of ours; importing one is no call."""
    path = frame.f_code.co_filename
    if not path.startswith(str(SOURCE)) or frame.f_code.co_name == "<module>":
        return None
    return str(Path(path).relative_to(SOURCE))


def _stack(frame: FrameType | None) -> tuple[str, ...]:
    """Our files from the outermost caller to this frame, each where it is entered first."""
    found: list[str] = []
    while frame is not None:
        file = _ours(frame)
        if file is not None:
            found.append(file)
        frame = frame.f_back
    return tuple(dict.fromkeys(reversed(found)))


async def walk(trace: Trace, container: Container, name: str, *, is_http: bool) -> Walk:
    """One operation, after another of its kind has warmed everything up."""
    ctx = lambda: container.context(local(agent_id="agent"))  # noqa: E731
    await dispatch(ctx(), REMEMBER, FIELDS["remember"])
    await dispatch(ctx(), RECALL, FIELDS["recall"])
    await container.memory.read_log.close()  # its timer would be met on the way
    if not is_http:
        principal = local(agent_id="agent")

        async def opened() -> EmbeddedConnection:
            return EmbeddedConnection(container, principal)

        memory = Memory.over(opened)
        await memory.open()
        return await trace.of(name, lambda: getattr(memory, name)(**FIELDS[name]))
    transport = httpx.ASGITransport(http_app(container, is_open=True))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        await http.post(PATHS[name], json=FIELDS[name])
        await container.memory.read_log.close()
        return await trace.of(name, lambda: http.post(PATHS[name], json=FIELDS[name]))


async def all_walks() -> dict[str, Walk]:
    """remember and recall, over HTTP and in process."""
    walks: dict[str, Walk] = {}
    trace = Trace()
    try:
        with tempfile.TemporaryDirectory() as folder:
            container = await open_container(Settings(), stores=[f"{folder}/memory.db"])
            try:
                for name in ("remember", "recall"):
                    for is_http in (True, False):
                        title = f"{name} {'over HTTP' if is_http else 'in process'}"
                        walks[title] = await walk(trace, container, name, is_http=is_http)
            finally:
                await container.close()
    finally:
        trace.end()
    return walks


if __name__ == "__main__":
    page = ROOT / "docs" / "explanation" / "architecture.md"
    head = page.read_text("utf-8").partition("### Walk: ")[0]
    walks = asyncio.run(all_walks()).items()
    body = "\n".join(f"### Walk: {title}\n\n" + "\n".join(found.lines()) + "\n" for title, found in walks)
    page.write_text(head + body, "utf-8")
