"""A memory that scenarios are played on, the little that its methods have no word for, and how assertions are counted.

A `Subject` is a memory that is in use somewhere: scenarios play beside what is there, each for an agent of its own, and
take away what they wrote. An `OwnSubject` is a throw-away memory whose clock and ledger are in our hands. What cannot be
done or seen from here is reported as not promised, never as passed.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quipu import catalogue
from quipu.api import Memory
from quipu.errors import QuipuError
from quipu.ledger.ledger import JournalQuery, Ledger
from quipu.memory import model as m
from quipu.memory.memorywire import closed_answer, open_request
from quipu.memory.read_log import ReadLog
from quipu.model.journal import Entry
from quipu.operation import Response

DAY_MS = 86_400_000
_TENANT = "default"
#: So many memories go into one request.
_BATCH = 100


# -- assertions --------------------------------------------------------------------------------------------------------


class Unpromised(Exception):
    """What a scenario is about is not promised by the memory, or cannot be looked at from here."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much the large scenarios write. What they say is the same at every size."""

    #: So many nearer neighbours stand between a query and its answer.
    crowd: int
    #: So many people share one memory, and each has so many memories in it.
    users: int
    each: int
    #: So many memories of one kind, for a large `k`.
    rows: int
    #: So many recalls in a row, to see that they do not write.
    recalls: int


FULL = Size(crowd=2_000, users=40, each=50, rows=1_500, recalls=300)
MODEST = Size(crowd=300, users=8, each=20, rows=1_050, recalls=50)
SMALL = Size(crowd=84, users=4, each=10, rows=260, recalls=10)


# -- memories ----------------------------------------------------------------------------------------------------------


class MovedClock:
    """A clock that stands until it is moved."""

    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


class Subject:
    """A memory that is in use: nothing is done to it that would disturb others."""

    #: Whether it takes what Quipu adds to v0.
    is_extended = True
    #: Whether it has Quipu's other operations beside memorywire's five.
    has_operations = True
    #: Whether nobody else is at work: only then can a scenario tell when something was written.
    is_alone = False
    #: How long a scenario may take: one that never ends shall not hold up all that follow.
    patience_s = 300.0
    #: A short life, long enough for the memory to answer twice.
    brief_ms = 3_000

    def __init__(
        self,
        memory: Memory,
        *,
        label: str,
        clock: Callable[[], int],
        size: Size = MODEST,
    ) -> None:
        """`label` keeps runs apart."""
        self.memory, self.size = memory, size
        self.user = "alice"
        self.agent = self._label = f"conformance-{label}"
        self._clock = clock
        self._agents: set[str] = set()
        self._stores: list[str] = []
        #: What could not be taken away again, in sentences.
        self.left_behind: list[str] = []

    @asynccontextmanager
    async def for_scenario(self, name: str) -> AsyncGenerator["Subject"]:
        """The subject for one scenario: the same memory, for another agent."""
        self.agent = f"{self._label}-{name}"
        self._agents = {self.agent}
        try:
            yield self
        finally:
            await self.tidy()

    def beside(self, name: str) -> str:
        """The name of another agent or of a memory store, that nobody else has."""
        own = f"{self.agent}-{name}"
        self._agents.add(own)
        return own

    async def tidy(self) -> None:
        """Take away what a scenario has written, and remember what would not go."""
        for agent in sorted(self._agents):
            await self._withdraw(agent)
            await self._forget(agent, await self._there(agent))
        for name in self._stores:
            try:
                await self.memory.delete_store(name, confirm=name, hard_delete=True)
            except QuipuError as error:
                self.left_behind.append(f"the memory store {name} ({error.code})")
        self._stores.clear()

    async def _withdraw(self, agent: str) -> None:
        """What still waits for a person is rejected: it shall not be approved by mistake later."""
        with suppress(QuipuError, Unpromised):
            for review in await self._reviews():
                if review.agent_id == agent:
                    await self.decide(review.id, is_approved=False)

    async def _there(self, agent: str) -> list[str]:
        ids: list[str] = []
        cursor: str | None = None
        states = ("live", "archived", "forgotten")
        with suppress(QuipuError):
            while True:
                page = await self.memory.list(agent_id=agent, states=states, limit=1000, cursor=cursor)
                ids += [record.id for record in page.records]
                cursor = page.next_cursor
                if cursor is None:
                    break
        return ids

    async def _forget(self, agent: str, every: Sequence[str]) -> None:
        for start in range(0, len(every), 1000):
            ids = every[start : start + 1000]
            said = f"{len(ids)} memories of {agent}"
            try:
                await self.memory.forget(agent_id=agent, ids=ids, hard_delete=True)
            except (QuipuError, Broken):
                try:
                    await self.memory.forget(agent_id=agent, ids=ids)
                    self.left_behind.append(f"{said}: forgotten, not erased")
                except (QuipuError, Broken):
                    self.left_behind.append(said)

    @property
    def held(self) -> object:
        """What a caller has in hand."""
        return self.memory

    # -- promises -------------------------------------------------------------------------------------------------

    @property
    def capabilities(self) -> set[str]:
        return self.memory.capabilities

    def promised(self, *names: str) -> None:
        """End the scenario unless the memory promises all of these."""
        for name in names:
            if name not in self.capabilities:
                raise Unpromised(f"it does not promise {name}")

    def extended(self) -> None:
        """End the scenario where v0 is all that the memory knows."""
        if not self.is_extended:
            raise Unpromised("it speaks memorywire v0 alone, and this is an addition of Quipu's")

    # -- requests -------------------------------------------------------------------------------------------------

    def _own(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"agent_id": self.agent, **given}

    async def remember(self, content: str | Mapping[str, Any], **given: Any) -> m.RememberResponse:
        return await self.memory.remember(content, **self._own({"user_id": self.user, **given}))

    async def kept(self, content: str | Mapping[str, Any], **given: Any) -> str:
        """The id of a new memory."""
        return (await self.remember(content, **given)).id

    async def kept_all(self, items: Sequence[Mapping[str, Any]]) -> list[str]:
        """The ids of many new memories, in order."""
        ids: list[str] = []
        whole = [self._own({"user_id": self.user, **item}) for item in items]
        if not self.is_extended:
            return [(await self.memory.remember(**item)).id for item in whole]
        for start in range(0, len(whole), _BATCH):
            batch = [m.RememberRequest.parse(item) for item in whole[start : start + _BATCH]]
            answer = await self.memory.remember_many(batch)
            for result in answer.results:
                if result.response is None:
                    raise Broken(f"one of many memories was refused: {result.error}")
                ids.append(result.response.id)
        return ids

    async def recall(self, query: str, **given: Any) -> m.RecallResponse:
        return await self.memory.recall(query, **self._own(given))

    async def found(self, query: str, **given: Any) -> list[str]:
        """The ids of everything in reach, best first, whatever its relevance."""
        answer = await self.recall(query, **{"min_relevance": "off", "k": 10, **given})
        return [hit.id for hit in answer]

    async def forget(self, *ids: str, **given: Any) -> m.ForgetResponse:
        return await self.memory.forget(ids=ids, **self._own(given))

    async def merge(self, canonical: str, *duplicates: str, **given: Any) -> m.MergeResponse:
        return await self.memory.merge(canonical, duplicates, **self._own(given))

    async def expire(self, policy: Mapping[str, Any], **given: Any) -> m.ExpireResponse:
        return await self.memory.expire(policy, **self._own(given))

    async def update(self, record_id: str, **given: Any) -> m.RememberResponse:
        return await self.memory.update(record_id, **self._own(given))

    async def create_store(self, name: str, **given: Any) -> None:
        await self.memory.create_store(name, **given)
        self._stores.append(name)

    async def listed(self, **given: Any) -> list[str]:
        """The ids of the agent's live memories, newest first."""
        answer = await self.memory.list(agent_id=self.agent, limit=1000, **given)
        return [record.id for record in answer.records]

    async def health(self) -> Mapping[str, Any]:
        return await self.memory.health()

    async def wire(self, name: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """One of the five as memorywire JSON, and its answer as JSON."""
        has_extensions = bool(body.get("extensions"))
        given = {field: value for field, value in body.items() if field != "extensions"}
        response: Response = await self.memory.call(name, **open_request(name, self._own(given)))
        return closed_answer(name, response, has_extensions=has_extensions)

    # -- time -----------------------------------------------------------------------------------------------------

    def now(self) -> int:
        return self._clock()

    async def travel(self, milliseconds: int) -> None:
        """Move the memory's clock forward."""
        if not isinstance(self._clock, MovedClock):
            raise Unpromised("the clock of a memory in use cannot be moved")
        self._clock.now += milliseconds

    async def outlast(self, milliseconds: int) -> None:
        """Let a short time pass."""
        if isinstance(self._clock, MovedClock):
            self._clock.now += milliseconds
        else:
            await asyncio.sleep(milliseconds / 1000 + 0.1)

    # -- reviews --------------------------------------------------------------------------------------------------

    async def _reviews(self) -> Sequence[Any]:
        if "list_reviews" not in catalogue.PLACES:
            raise Unpromised("it has no reviews")
        answer: Any = await self.memory.call("list_reviews", limit=1000)
        return answer.reviews

    async def waiting(self) -> Sequence[Any]:
        """The writes of this scenario that wait for a person."""
        return [review for review in await self._reviews() if review.agent_id in self._agents]

    async def shown(self, review_id: str) -> Any:
        """What waits, as its reviewer sees it."""
        return await self.memory.call("review", id=review_id)

    async def decide(self, review_id: str, *, is_approved: bool, etag: str | None = None) -> None:
        """`etag`: of what the reviewer was shown."""
        given: dict[str, Any] = {} if etag is None else {"etag": etag}
        try:
            await self.memory.call("decide", id=review_id, approved=is_approved, **given)
        except QuipuError as error:
            if error.reason == "self_approval":
                raise Unpromised(
                    "nobody may decide on what they wrote, and there is no second person"
                ) from error
            raise

    # -- what only the ledger knows ---------------------------------------------------------------------------------

    async def entries(self, op: str | None = None) -> Sequence[Entry]:
        """The journal's entries about this scenario's agent."""
        raise Unpromised("the journal of a memory in use is not looked at")

    async def sound(self, check: Check) -> None:
        """Chain, digests and index check out; asked where that can be asked."""
        if "verify" in catalogue.PLACES and self.has_operations:
            with suppress(QuipuError):  # a credential that may not verify
                report: Any = await self.memory.call("verify")
                faults = [*report.faults, *(fault for one in report.tenants for fault in one.faults)]
                check(report.verified, f"journal and records verify: {faults[:3]}")

    async def file_bytes(self) -> bytes:
        """Everything that is kept on disk."""
        raise Unpromised("the files of a memory in use are not looked at")


class OwnSubject(Subject):
    """A throw-away memory: its clock can be moved, and its ledger looked into."""

    is_alone = True
    brief_ms = 50

    def __init__(
        self,
        memory: Memory,
        *,
        clock: MovedClock,
        ledger: Ledger,
        read_log: ReadLog,
        files: Callable[[], Sequence[Path]] | None = None,
        size: Size = MODEST,
        label: str = "own",
    ) -> None:
        super().__init__(memory, label=label, clock=clock, size=size)
        self._ledger, self._read_log, self._files = ledger, read_log, files

    async def entries(self, op: str | None = None) -> Sequence[Entry]:
        await self._read_log.flush()
        found: list[Entry] = []
        seq = 0
        while page := await self._ledger.entries(_TENANT, JournalQuery(after=seq, op=op)):
            found += [entry for entry in page if entry.agent in self._agents]
            seq = page[-1].seq
        return found

    async def file_bytes(self) -> bytes:
        if self._files is None:
            raise Unpromised("it keeps no files that could be looked at")
        await self._read_log.flush()
        await self._ledger.scrub()
        return b"".join(path.read_bytes() for path in self._files())

    async def tidy(self) -> None:
        """It goes as a whole."""
