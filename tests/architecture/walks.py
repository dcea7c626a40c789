"""Which of our files an operation passes, over HTTP and in process: traced, not read off the imports."""

import asyncio
import itertools
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
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.trace import NoOpTracerProvider

import quipu
from quipu import Telemetry
from quipu.api import Memory
from quipu.bootstrap import Container, http_app, open_container
from quipu.config import Settings
from quipu.model.principal import local
from quipu.opening import EmbeddedConnection

SOURCE = Path(quipu.__file__).parent
ROOT = Path(__file__).parent.parent.parent
#: A last step: the file and the function in it.
End = tuple[str, str]
#: On the event loop, and on the thread that it hands the work to.
WRITTEN: tuple[End, ...] = (("ledger/groups.py", "commit"), ("ledger/sqlite/driver.py", "writing"))
DISCLOSED: tuple[End, ...] = (("ledger/groups.py", "locked"), ("ledger/sqlite/driver.py", "writing"))
FOUND: tuple[End, ...] = (("ledger/ledger.py", "read"), ("search/engine.py", "find"))
GRANTEE = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"
TEXT, QUESTION = "Ana lives in Lisbon", "where does Ana live?"


@dataclass(frozen=True)
class Subject:
    """What is walked: it is prepared and asked once to warm everything up, and then again to be traced."""

    title: str
    ends: tuple[End, ...]
    #: Makes what the call needs; what it answers is handed to `call`.
    prepare: Callable[["Reach"], Awaitable[Any]]
    call: Callable[["Reach", Any], Awaitable[Any]]


@dataclass
class Reach:
    """The installation, over HTTP and in process."""

    http: httpx.AsyncClient
    memory: Memory

    async def post(self, path: str, fields: Any) -> Any:
        answer = await self.http.post(path, json=fields)
        assert answer.is_success, answer.text
        return answer.json()


async def _nothing(_: Reach) -> None:
    return None


async def _held(reach: Reach) -> str:
    return (await reach.post("/v1/memories", {"content": TEXT, "approval_required": True}))["proposal_id"]


async def _opened(reach: Reach) -> str:
    return (await reach.post("/v1/x-host-quipu-runs", {"workflowId": "orders"}))["runId"]


async def _put(reach: Reach, run_id: str) -> Any:
    body = {"memoryRef": "team", "entry": {"content": TEXT}, "runId": run_id, "nodeId": "look"}
    return await reach.post("/v1/x-host-quipu-memory/put", body)


async def _token(reach: Reach) -> str:
    shared = await reach.post(
        "/v1/grants", {"grantee": GRANTEE, "purpose": "a walk", "all": True, "bearer": True}
    )
    return (await reach.post(f"/v1/grants/{shared['grant_id']}/token", {}))["access_token"]


async def _query(reach: Reach, token: str) -> Any:
    asked = {"headers": {"Authorization": f"Bearer {token}"}, "json": {"query": QUESTION}}
    answer = await reach.http.post("/oap/memory/query", **asked)
    assert answer.is_success, answer.text


SUBJECTS = (
    Subject("remember over HTTP", WRITTEN, _nothing, lambda reach, _: reach.post("/v1/memories", {"content": TEXT})),
    Subject("remember in process", WRITTEN, _nothing, lambda reach, _: reach.memory.remember(TEXT)),
    Subject("recall over HTTP", FOUND, _nothing, lambda reach, _: reach.post("/v1/memories/recall", {"query": QUESTION})),
    Subject("recall in process", FOUND, _nothing, lambda reach, _: reach.memory.recall(QUESTION)),
    Subject("a held write, over HTTP", WRITTEN, _nothing, lambda reach, _: _held(reach)),
    Subject("the approval of a held write, over HTTP", WRITTEN, _held,
            lambda reach, held: reach.post(f"/v1/proposals/{held}/decision", {"approved": True})),
    Subject("a put of a run, over HTTP", WRITTEN, _opened, _put),
    Subject("a grant's query, over HTTP", DISCLOSED, _token, _query),
)  # fmt: skip

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

    async def of(self, ends: tuple[End, ...], work: Callable[[], Awaitable[Any]]) -> Walk:
        self._first, self._way, self._ends = {}, [], ends
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


async def all_walks() -> dict[str, Walk]:
    """Each subject, after another call of its kind."""
    walks: dict[str, Walk] = {}
    trace = Trace()
    try:
        with tempfile.TemporaryDirectory() as folder:
            numbers = itertools.count(1)
            container = await open_container(
                Settings(public_url="http://127.0.0.1"),
                telemetry=Telemetry(tracer_provider=NoOpTracerProvider(), meter_provider=NoOpMeterProvider()),
                stores=[f"{folder}/memory.db"],
                # What looks for secrets looks longer at one random id than at another.
                new_id=lambda prefix: f"{prefix}_{next(numbers):026d}",
            )
            principal = local(agent_id="agent")

            async def opened() -> EmbeddedConnection:
                return EmbeddedConnection(container, principal)

            transport = httpx.ASGITransport(http_app(container, is_open=True))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
                reach = Reach(http, Memory.over(opened))
                for subject in SUBJECTS:
                    walks[subject.title] = await _walk(trace, container, reach, subject)
            await container.close()
    finally:
        trace.end()
    return walks


async def _walk(trace: Trace, container: Container, reach: Reach, subject: Subject) -> Walk:
    await subject.call(reach, await subject.prepare(reach))
    prepared = await subject.prepare(reach)
    await container.memory.read_log.close()  # its timer would be met on the way
    return await trace.of(subject.ends, lambda: subject.call(reach, prepared))


if __name__ == "__main__":
    page = ROOT / "docs" / "explanation" / "architecture.md"
    head = page.read_text("utf-8").partition("### Walk: ")[0]
    walks = asyncio.run(all_walks()).items()
    body = "\n".join(f"### Walk: {title}\n\n" + "\n".join(found.lines()) + "\n" for title, found in walks)
    page.write_text(head + body, "utf-8")
