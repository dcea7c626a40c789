"""Quipu's own `Memory` as what scenarios are played on: every hook is served."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from quipu.model.change import Proposal
from quipu.model.operations import (
    RememberRequest,
)
from quipu.model.outcomes import (
    RememberResponse,
)
from quipu.model.record import Record
from quipu.ports.memory_store import MemoryStore
from quipu.testing.builders import FixedClock
from quipu.testing.scenarios_subject import (
    Broken,
    Scenario,
    Subject,
)


class FullMemory(MemoryStore, Protocol):
    """What Quipu's own `Memory` has beyond the protocol, as far as scenarios use it."""

    async def open(self) -> Any: ...
    async def close(self) -> None: ...
    async def submit(self, operation: str, body: Mapping[str, Any], /, *, strict: bool = True) -> Any: ...
    async def remember_many(self, items: Sequence[RememberRequest], /) -> Sequence[Any]: ...
    async def get(self, record_id: str, /) -> Record: ...
    async def history(self, record_id: str, /) -> Sequence[Any]: ...
    async def restore(self, record_id: str, /) -> RememberResponse: ...
    async def proposals(self, status: str | None = "pending") -> Sequence[Proposal]: ...
    async def decide(self, proposal_id: str, /, *, approved: bool) -> Any: ...
    async def create_store(self, name: str, /) -> Any: ...
    async def delete_store(self, name: str, /, *, confirm: str, hard_delete: bool = False) -> Any: ...
    def export(self) -> AsyncIterator[dict[str, Any]]: ...
    async def import_records(self, lines: Sequence[Mapping[str, Any]], /) -> Any: ...
    async def journal(self, *, after: int = 0, limit: int = 100) -> Sequence[Any]: ...
    async def export_journal(self, folder: Path, /) -> int: ...
    async def flush(self) -> None: ...
    async def verify(self) -> Any: ...


class Awaited:
    """A blocking memory, `quipu.sync.Memory` for one, as scenarios want it: each call on a thread of its own."""

    _PLAIN: ClassVar[frozenset[str]] = frozenset({"capabilities", "agent_id"})

    def __init__(self, blocking: Any) -> None:
        self.blocking = blocking

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.blocking, name)
        if name in self._PLAIN:
            return value

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await asyncio.to_thread(lambda: value(*args, **kwargs))

        return call

    async def export(self) -> AsyncIterator[dict[str, Any]]:
        for line in await asyncio.to_thread(lambda: list(self.blocking.export())):
            yield line


@dataclass(frozen=True, slots=True)
class Opening:
    """How a `MemorySubject` gets a memory for one scenario, and what it cannot find out by itself."""

    #: A memory, not yet opened, for `AGENT`; with the clock given, and an embedder of the kind the scenario wants.
    memory: Callable[[Scenario, FixedClock], FullMemory]
    #: A response as memorywire JSON, with or without `extensions`.
    reply: Callable[[object, bool], dict[str, Any]]
    #: The files of the memory that was opened last, as far as it has any.
    files: Callable[[], Sequence[Path]] = tuple


class TimedSubject(Subject):
    """A subject whose clock is ours."""

    def __init__(self) -> None:
        self._clock = FixedClock()
        self._count = itertools.count(1)

    def now(self) -> int:
        return self._clock()

    async def travel(self, milliseconds: int) -> None:
        self._clock.move(milliseconds)

    def line_since(self, created_at: int, content: str, **fields: Any) -> dict[str, Any]:
        """A record for an import, which may say when a memory was made and what it is called."""
        return {
            "agent_id": self.agent,
            "user_id": self.user,
            "content": content,
            "created_at": created_at,
            "id": f"mem_backdated-{next(self._count)}",
            **fields,
        }


class MemorySubject(TimedSubject):
    """Quipu's own `Memory`: every hook is served."""

    store: FullMemory

    def __init__(self, opening: Opening) -> None:
        super().__init__()
        self._opening = opening

    def fresh(self, scenario: Scenario) -> AbstractAsyncContextManager[Subject]:
        return self._opened(scenario)

    @asynccontextmanager
    async def _opened(self, scenario: Scenario) -> AsyncGenerator[Subject]:
        """A memory of its own for each scenario."""
        fresh = type(self)(self._opening)
        fresh.size = self.size
        memory = self._opening.memory(scenario, fresh._clock)
        Subject.__init__(fresh, memory)
        try:
            yield fresh
        finally:
            await memory.close()

    async def kept_since(self, created_at: int, content: str, **fields: Any) -> str:
        line = self.line_since(created_at, content, **fields)
        summary = await self.store.import_records([line])
        if summary.failed:
            raise Broken(f"the import failed: {summary.errors}")
        return line["id"]

    async def remember_all(self, requests: Sequence[RememberRequest]) -> list[str]:
        answers = await self.store.remember_many(requests)
        return [answer.id for answer in answers]

    async def submit(self, operation: str, body: Mapping[str, Any], *, strict: bool = True) -> dict[str, Any]:
        response = await self.store.submit(operation, {"agent_id": self.agent, **body}, strict=strict)
        return self._opening.reply(response, bool(body.get("extensions")))

    async def get(self, record_id: str) -> Record:
        return await self.store.get(record_id)

    async def history(self, record_id: str) -> Sequence[Any]:
        return await self.store.history(record_id)

    async def restore(self, record_id: str) -> RememberResponse:
        return await self.store.restore(record_id)

    async def exported(self) -> list[dict[str, Any]]:
        return await lines_of(self.store)

    async def pending(self) -> Sequence[Proposal]:
        return await self.store.proposals()

    async def decide(self, proposal_id: str, *, approved: bool) -> object:
        return await self.store.decide(proposal_id, approved=approved)

    async def create_store(self, name: str) -> None:
        await self.store.create_store(name)

    async def flush(self) -> None:
        await self.store.flush()

    async def journal(self) -> Sequence[Any]:
        return await entries_of(self.store)

    async def stays_sound(self) -> bool:
        return (await self.store.verify()).holds

    async def file_bytes(self) -> bytes:
        """The files of the memory, and the export of its journal."""
        return await journal_bytes(self.store) + joined(self._opening.files())

    async def stop(self) -> None:
        await self.store.close()


async def lines_of(memory: FullMemory) -> list[dict[str, Any]]:
    """Everything that it exports."""
    return [line async for line in memory.export()]


async def entries_of(memory: FullMemory) -> list[Any]:
    """Its whole journal."""
    entries: list[Any] = []
    while more := await memory.journal(after=len(entries), limit=1_000):
        entries.extend(more)
    return entries


async def journal_bytes(memory: FullMemory) -> bytes:
    """Its journal as it is exported."""
    with tempfile.TemporaryDirectory() as folder:
        await memory.export_journal(Path(folder))
        return joined(sorted(Path(folder).iterdir()))  # noqa: ASYNC240  a moment, and nobody else is at work


def joined(files: Sequence[Path]) -> bytes:
    """What is in these files, one behind the other."""
    return b"".join(path.read_bytes() for path in files)
