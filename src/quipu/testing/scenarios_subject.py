"""What a scenario is played on: a `MemoryStore`, and hooks for what its protocol has no word for.

Whoever tests a store of their own subclasses `Subject` and overrides the hooks that the store can serve. A scenario
that needs a missing hook is told as not run, never as passed. `scenarios_memory.MemorySubject` serves all of them for
Quipu's own `Memory`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from quipu.errors import QuipuError
from quipu.model.change import Proposal
from quipu.model.operations import (
    ExpirePolicy,
    ExpireRequest,
    ForgetRequest,
    MergeRequest,
    RecallRequest,
    RememberRequest,
)
from quipu.model.outcomes import (
    ExpireResponse,
    ForgetResponse,
    MergeResponse,
    RecallResponse,
    RememberResponse,
)
from quipu.model.record import MemoryType, Record
from quipu.model.value import JsonObject
from quipu.ports.memory_store import MemoryStore

T = TypeVar("T")
AGENT = "agent-a"
USER = "alice"
DAY_MS = 86_400_000


class Lacking(Exception):
    """The store under test has no such hook."""


class Unpromised(Exception):
    """What a scenario is about is not among the capabilities that the store declares."""


class Broken(AssertionError):
    """Something that a scenario says does not hold."""


class Check:
    """Counts what was asserted; the first thing that does not hold ends the scenario."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, holds: object, what: str) -> None:
        self.count += 1
        if not holds:
            raise Broken(what)

    def equal(self, found: object, expected: object, what: str) -> None:
        self(found == expected, f"{what}: expected {expected!r}, found {found!r}")

    async def refused(self, call: Awaitable[object], code: str, reason: str | None = None) -> QuipuError:
        """The call fails with this code (and reason); what it raised."""
        try:
            await call
        except QuipuError as error:
            self.equal(error.code, code, "the error's code")
            if reason is not None:
                self.equal(error.reason, reason, "the error's reason")
            return error
        raise Broken(f"expected {code}, and nothing was refused")


@dataclass(frozen=True, slots=True)
class Scenario:
    """One thing that every memory does, and how to see it."""

    name: str
    #: What holds when it passes.
    says: str
    play: Callable[[Subject, Check], Awaitable[None]]
    #: `real`: meaning matters. `words`: many texts, and any deterministic embedder will do.
    embedder: Literal["real", "words"] = "real"


@dataclass(frozen=True, slots=True)
class Size:
    """How much the scenarios write that need much. What they say is the same at every size."""

    #: So many hostile neighbours stand between a query and its answer.
    crowd: int = 5_000
    #: So many people share one store, and each has so many memories in it.
    users: int = 100
    each: int = 100
    #: So many memories of one kind, for large `k`: above 257, where a page of a store is most often cut, and 1,000.
    rows: int = 1_500
    #: At most so many writes for each number of writers at once: never below 40, the largest of them.
    writes: int = 300
    #: So many recalls in a row, to see that they do not write.
    recalls: int = 1_000


FULL = Size()
#: For the second and third way into a store that has stood the full crowd.
MODEST = Size(crowd=600, users=12, writes=80, recalls=100)
#: For stores that take their time: still more than the largest page of any vendor, in each direction.
SMALL = Size(crowd=110, users=10, each=12, rows=300, writes=40, recalls=20)
#: For mirrors that take up to a second for each memory: still more than a recall of one ever asks a mirror for at
#: first. The ledger beside it answers in full for any `k`, which is what the mirror is asked for too; that its pages
#: are turned is for the suite of the port to show.
LEAST = Size(crowd=24, users=4, each=12, rows=60, writes=40, recalls=20)


class Subject:
    """A store under test. The first part makes requests; the second are the hooks, which a store may lack."""

    size: Size = FULL
    #: Whether nobody else is at work: only then can a scenario tell when something was written.
    is_alone: bool = True
    #: Whether it takes what Quipu adds to v0: fields of its own in requests, and `extensions` in answers.
    is_extended: bool = True
    #: How long an operation may take: one that never answers shall not hold up all that follow.
    patience_s: float = 120.0
    #: A short life: long enough for the store to answer twice.
    brief_ms: int = 50

    def __init__(self, store: MemoryStore, *, agent: str = AGENT, user: str = USER) -> None:
        self.store, self.agent, self.user = store, agent, user

    @property
    def held(self) -> object:
        """What a caller has in hand."""
        return getattr(self.store, "blocking", self.store)

    def fresh(self, scenario: Scenario) -> AbstractAsyncContextManager[Subject]:
        """The subject for one scenario: here the same store for another agent, so that nothing is in its way."""
        return self._as_another_agent(scenario)

    @asynccontextmanager
    async def _as_another_agent(self, scenario: Scenario) -> AsyncGenerator[Subject]:
        before, self.agent = self.agent, f"{self.agent}:{scenario.name}"
        try:
            yield self
        finally:
            self.agent = before

    def beside(self, name: str) -> str:
        """What another agent, or a memory store, is called that a scenario needs. Override where others are at work."""
        return name

    # -- promises -----------------------------------------------------------------------------------------------

    def promises(self, capability: str) -> bool:
        """Whether the store declares it."""
        return capability in self.store.capabilities

    def promised(self, *capabilities: str) -> None:
        """End the scenario, as not run, unless the store declares all of these."""
        for capability in capabilities:
            if not self.promises(capability):
                raise Unpromised(capability)

    def extended(self) -> None:
        """End the scenario, as not run, where v0 is all that the store knows."""
        if not self.is_extended:
            raise Unpromised("what Quipu adds to v0")

    # -- requests -----------------------------------------------------------------------------------------------

    def _filled(self, known: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
        return {"agent_id": self.agent, **known, **fields}

    async def _in_time(self, operation: str, call: Awaitable[T]) -> T:
        waiting = asyncio.timeout(self.patience_s)
        try:
            async with waiting:
                return await call
        except TimeoutError:
            if not waiting.expired():
                raise
            raise Broken(f"{operation} did not answer within {self.patience_s:g} s") from None

    def request(self, content: str | JsonObject, **fields: Any) -> RememberRequest:
        known = {"user_id": self.user, "type": MemoryType.SEMANTIC, "content": content}
        return RememberRequest(**self._filled(known, fields))

    async def remember(self, content: str | JsonObject, **fields: Any) -> RememberResponse:
        return await self._in_time("remember", self.store.remember(self.request(content, **fields)))

    async def kept(self, content: str | JsonObject, **fields: Any) -> str:
        """The id of a new memory."""
        return (await self.remember(content, **fields)).id

    async def recall(self, query: str, **fields: Any) -> RecallResponse:
        return await self._in_time(
            "recall", self.store.recall(RecallRequest(**self._filled({"query": query}, fields)))
        )

    async def found(self, query: str, **fields: Any) -> list[str]:
        """The ids of everything in reach, best first, whatever its relevance."""
        fields = {"min_relevance": 0.0, "k": 10, **fields}
        return [hit.id for hit in await self.recall(query, **fields)]

    async def forget(self, *ids: str, **fields: Any) -> ForgetResponse:
        return await self._in_time(
            "forget", self.store.forget(ForgetRequest(**self._filled({"ids": ids}, fields)))
        )

    async def merge(self, canonical: str, *duplicates: str, **fields: Any) -> MergeResponse:
        known = {"canonical": canonical, "duplicates": duplicates}
        return await self._in_time("merge", self.store.merge(MergeRequest(**self._filled(known, fields))))

    async def expire(self, policy: ExpirePolicy | None, **fields: Any) -> ExpireResponse:
        return await self._in_time(
            "expire", self.store.expire(ExpireRequest(**self._filled({"policy": policy}, fields)))
        )

    async def remember_all(self, requests: Sequence[RememberRequest]) -> list[str]:
        """The ids of many new memories, in order; override where the store takes many at once."""
        return [(await self._in_time("remember", self.store.remember(request))).id for request in requests]

    # -- hooks --------------------------------------------------------------------------------------------------

    def now(self) -> int:
        """The store's clock, in milliseconds."""
        raise Lacking("a way to read the store's clock")

    async def travel(self, milliseconds: int) -> None:
        """Move the store's clock forward."""
        raise Lacking("a way to move the store's clock")

    async def outlast(self, milliseconds: int) -> None:
        """Let a short time pass, by moving the clock or by waiting."""
        await self.travel(milliseconds)

    async def later(self, milliseconds: int) -> None:
        """Move the clock where that can be done; what a scenario says holds also without it."""
        with suppress(Lacking):
            await self.travel(milliseconds)

    async def backdate(self, record_id: str, created_at: int) -> None:
        """Make a record as old as that."""
        raise Lacking("a way to backdate a record")

    async def kept_since(self, created_at: int, content: str, **fields: Any) -> str:
        """The id of a memory that was made at that moment."""
        record_id = await self.kept(content, **fields)
        await self.backdate(record_id, created_at)
        return record_id

    async def submit(self, operation: str, body: Mapping[str, Any], *, strict: bool = True) -> dict[str, Any]:
        """One operation as memorywire JSON, and its answer as JSON."""
        raise Lacking("a way to send memorywire JSON")

    async def get(self, record_id: str) -> Record:
        raise Lacking("reading a record by its id")

    async def history(self, record_id: str) -> Sequence[Any]:
        raise Lacking("reading the versions of a record")

    async def restore(self, record_id: str) -> RememberResponse:
        raise Lacking("restoring a record")

    async def exported(self) -> list[dict[str, Any]]:
        """Every record as a JSON object."""
        raise Lacking("an export of records")

    async def pending(self) -> Sequence[Proposal]:
        """The writes that wait for a person."""
        raise Lacking("a list of held writes")

    async def decide(self, proposal_id: str, *, approved: bool) -> object:
        raise Lacking("deciding on held writes")

    async def create_store(self, name: str) -> None:
        raise Lacking("creating a memory store")

    async def flush(self) -> None:
        """Have everything written that reads left to be noted."""
        raise Lacking("a way to flush the notes of reads")

    async def journal(self) -> Sequence[Any]:
        """Every journal entry, each with `seq`, `op`, `records` and `detail`."""
        raise Lacking("reading the journal")

    async def stays_sound(self) -> bool:
        """Whether chain, digests and index check out."""
        raise Lacking("a check of chain and index")

    async def file_bytes(self) -> bytes:
        """Everything the store keeps on disk."""
        raise Lacking("a look at the store's files")

    async def stop(self) -> None:
        """Take the backend away from under the store."""
        raise Lacking("a way to stop the backend")
