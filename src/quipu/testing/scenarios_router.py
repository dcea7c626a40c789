"""A router over Quipu's own memories as what scenarios are played on.

The five operations go through the router. What it has no word for is asked of its peers, of all of them, under the
names that the router's `copies` tells: reading by id, deciding, restoring, the clock, the files.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from quipu.errors import NotFoundError
from quipu.model.change import Proposal
from quipu.model.outcomes import RememberResponse
from quipu.model.record import Record
from quipu.ports.memory_store import MemoryStore
from quipu.testing.builders import FixedClock
from quipu.testing.scenarios_memory import (
    FullMemory,
    TimedSubject,
    entries_of,
    joined,
    journal_bytes,
    lines_of,
)
from quipu.testing.scenarios_subject import Broken, Scenario, Subject

T = TypeVar("T")


class CopyingStore(MemoryStore, Protocol):
    """What a router has beyond the protocol."""

    async def copies(self, id: str, /) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True)
class RouterOpening:
    """How a `RouterSubject` gets a router for one scenario, and what it cannot find out by itself."""

    #: Peers by name, not yet opened, with the clock given and an embedder of the kind the scenario wants.
    peers: Callable[[Scenario, FixedClock], Mapping[str, FullMemory]]
    router: Callable[[Mapping[str, FullMemory]], CopyingStore]
    #: An operation's memorywire JSON as a request, and the fields that were ignored.
    request: Callable[[str, Mapping[str, Any], bool], tuple[Any, Sequence[str]]]
    #: A response as memorywire JSON, with or without `extensions`.
    reply: Callable[[object, bool], dict[str, Any]]
    #: The files of the peers that were opened last.
    files: Callable[[], Sequence[Path]]


class RouterSubject(TimedSubject):
    """A router, with every hook that its peers serve together."""

    store: CopyingStore

    def __init__(self, opening: RouterOpening) -> None:
        super().__init__()
        self._opening = opening
        self._peers: Mapping[str, FullMemory] = {}

    def fresh(self, scenario: Scenario) -> AbstractAsyncContextManager[Subject]:
        return self._opened(scenario)

    @asynccontextmanager
    async def _opened(self, scenario: Scenario) -> AsyncGenerator[Subject]:
        """Peers and a router of its own for each scenario."""
        fresh = type(self)(self._opening)
        fresh.size = self.size
        fresh._peers = self._opening.peers(scenario, fresh._clock)
        Subject.__init__(fresh, self._opening.router(fresh._peers))
        try:
            yield fresh
        finally:
            await fresh.stop()

    async def kept_since(self, created_at: int, content: str, **fields: Any) -> str:
        """In each peer, under the same name."""
        line = self.line_since(created_at, content, **fields)
        for summary in await self._each(lambda peer: peer.import_records([line])):
            if summary.failed:
                raise Broken(f"the import failed: {summary.errors}")
        return line["id"]

    async def submit(self, operation: str, body: Mapping[str, Any], *, strict: bool = True) -> dict[str, Any]:
        request, ignored = self._opening.request(operation, {"agent_id": self.agent, **body}, strict)
        response = await getattr(self.store, operation)(request)
        if ignored:
            response = replace(response, extensions={**response.extensions, "warnings": list(ignored)})
        return self._opening.reply(response, bool(body.get("extensions")))

    async def get(self, record_id: str) -> Record:
        """As the first peer has it; all that have it must have it alike."""
        found = await self._of(record_id, lambda peer, name: peer.get(name))
        if len({(str(one.content), one.version, one.state) for one in found}) > 1:
            raise Broken(f"peers differ about {record_id}")
        return replace(found[0], id=record_id)

    async def history(self, record_id: str) -> Sequence[Any]:
        return (await self._of(record_id, lambda peer, name: peer.history(name)))[0]

    async def restore(self, record_id: str) -> RememberResponse:
        return (await self._of(record_id, lambda peer, name: peer.restore(name)))[0]

    async def exported(self) -> list[dict[str, Any]]:
        """The first peer's, whose ids are the router's; all must have as many."""
        exports = await self._each(lines_of)
        if len({len(lines) for lines in exports}) > 1:
            raise Broken("peers export different numbers of records")
        return exports[0]

    async def pending(self) -> Sequence[Proposal]:
        """The first peer's, whose ids are the router's; all must have as many."""
        waiting = await self._each(lambda peer: peer.proposals())
        if len({len(proposals) for proposals in waiting}) > 1:
            raise Broken("different numbers of writes wait at the peers")
        return waiting[0]

    async def decide(self, proposal_id: str, *, approved: bool) -> object:
        """With every peer: a router's write is held by each of them, in the same order."""
        proposals = await self._each(lambda peer: peer.proposals(None))
        place = next((n for n, one in enumerate(proposals[0]) if one.id == proposal_id), None)
        if place is None:
            raise NotFoundError("There is no such proposal.", reason="proposal")
        for peer, theirs in zip(self._peers.values(), proposals, strict=True):
            await peer.decide(theirs[place].id, approved=approved)
        return proposals[0][place]

    async def create_store(self, name: str) -> None:
        await self._each(lambda peer: peer.create_store(name))

    async def flush(self) -> None:
        await self._each(lambda peer: peer.flush())

    async def journal(self) -> Sequence[Any]:
        return (await self._each(entries_of))[0]

    async def stays_sound(self) -> bool:
        return all(report.holds for report in await self._each(lambda peer: peer.verify()))

    async def file_bytes(self) -> bytes:
        """The files of all peers, and the exports of their journals."""
        return b"".join(await self._each(journal_bytes)) + joined(self._opening.files())

    async def stop(self) -> None:
        await self._each(lambda peer: peer.close())

    async def _each(self, call: Callable[[FullMemory], Awaitable[T]]) -> list[T]:
        return [await call(peer) for peer in self._peers.values()]

    async def _of(self, record_id: str, call: Callable[[FullMemory, str], Awaitable[T]]) -> list[T]:
        """With every peer that has a copy, under its name for it; what was never written is asked for as it is."""
        names = await self.store.copies(record_id) or dict.fromkeys(self._peers, record_id)
        return [await call(self._peers[peer], name) for peer, name in names.items()]
