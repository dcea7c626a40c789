"""The ledger's mirrors: what they are owed is carried to them in the background, and answers say who has it.

A mirror never fails a write, and delays one at most once: whoever missed the write deadline is not waited for again
until it has caught up. Each mirror has a worker of its own, woken by commits, so that none holds up another.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from quipu.errors import QuipuError
from quipu.ledger.commit import Commit, Committed, Keep
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Reader
from quipu.memory.model import BackendResult, ForgetResponse, RememberManyResponse, WriteResponse
from quipu.mirrors.copies import Copies, Mirror
from quipu.mirrors.delivery import Delivery, Round, changed, with_outbox
from quipu.mirrors.model import COPIES, MIRRORS, OUTBOX, MirrorRow
from quipu.operation import Clock, Response

_log = logging.getLogger("quipu.mirrors")
R = TypeVar("R", bound=Response)
#: How often somebody who is behind is looked after, and how often everybody is.
_SOON_S: Final = 1.0
_SELDOM_TIMES: Final = 15
_REMEMBERED: Final = 4096
_MOST_MIRRORS: Final = 1000


@dataclass(eq=False, slots=True)
class _Waiter:
    """A write that waits for a mirror to have these records, each as of a position."""

    tenant: str
    wanted: dict[str, int]
    future: asyncio.Future[bool]


class Line:
    """One mirror, the tenants that have something for it, and whoever waits for that."""

    def __init__(self, mirror: Mirror, delivery: Delivery) -> None:
        self.mirror, self.delivery = mirror, delivery
        self.is_late = False
        #: Tenants to look at now, those that are known to be behind, and those for whom nothing gets through from here.
        self.due: deque[str] = deque()
        self.behind: set[str] = set()
        self._stuck: set[str] = set()
        self.woken = asyncio.Event()
        self._was_at_work = False
        self._waiters: set[_Waiter] = set()
        self._done: OrderedDict[tuple[str, str], int] = OrderedDict()

    def wake(self, tenant: str) -> None:
        if tenant not in self.due:
            self.due.append(tenant)
        self.woken.set()

    def is_idle(self) -> bool:
        """Whether nothing has been done since this was last asked."""
        was_at_work, self._was_at_work = self._was_at_work, False
        return not was_at_work and not self.due

    def note(self, tenant: str, went: Round) -> None:
        """How a round went."""
        self._was_at_work = self._was_at_work or bool(went.done or went.error or went.has_more)
        for record_id, position in went.done.items():
            self._done[tenant, record_id] = position
            self._done.move_to_end((tenant, record_id))
        while len(self._done) > _REMEMBERED:
            self._done.popitem(last=False)
        if went.error is not None or went.waits:
            self.behind.add(tenant)
        elif not went.has_more:
            self.behind.discard(tenant)
        if went.is_stuck:
            self._stuck.add(tenant)
        else:
            self._stuck.discard(tenant)
        if not went.has_more and went.error is None and went.is_ours:
            self.is_late = False
        for waiter in [one for one in self._waiters if one.tenant == tenant]:
            is_refused = went.is_stuck or not went.failed.isdisjoint(waiter.wanted)
            self._look(waiter, is_refused=is_refused)

    def _look(self, waiter: _Waiter, *, is_refused: bool = False) -> None:
        has_all = all(self._has(waiter.tenant, name, at) for name, at in waiter.wanted.items())
        if (has_all or is_refused) and not waiter.future.done():
            waiter.future.set_result(has_all)

    def _has(self, tenant: str, record_id: str, position: int) -> bool:
        return self._done.get((tenant, record_id), -1) >= position

    async def confirms(self, tenant: str, wanted: dict[str, int], seconds: float) -> bool:
        """Whether the mirror has these records as of these positions, now or in so many seconds."""
        waiter = _Waiter(tenant, wanted, asyncio.get_running_loop().create_future())
        self._look(waiter)
        if waiter.future.done():
            return True
        if self.is_late or tenant in self._stuck or self.mirror.backend.state == "open":
            return False
        self._waiters.add(waiter)
        try:
            async with asyncio.timeout(seconds):
                return await waiter.future
        except TimeoutError:
            self.is_late = True
            return False
        finally:
            self._waiters.discard(waiter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a mirror of a tenant stands."""

    row: MirrorRow
    waiting: int
    given_up: int
    #: When the oldest change that waits was made.
    oldest_at: int | None


@dataclass(slots=True, kw_only=True)
class Mirrors:
    """All of them. `start` begins to deliver; without mirrors there is nothing to start."""

    ledger: Ledger
    mirrors: tuple[Mirror, ...]
    clock: Clock
    new_id: Callable[[str], str]
    write_deadline_ms: int = 250
    #: Off: they are searched, and nothing is written to them.
    writes: bool = True
    #: Off: nothing is delivered but by `drained`.
    in_background: bool = True
    lines: tuple[Line, ...] = field(default=(), init=False)
    _known: set[str] = field(default_factory=set[str], init=False)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list["asyncio.Task[None]"], init=False)

    def __post_init__(self) -> None:
        holder = self.new_id("mirror") if self.mirrors else ""
        self.lines = tuple(
            Line(
                mirror,
                Delivery(
                    ledger=self.ledger,
                    copies=Copies(self.ledger, mirror, self.clock),
                    clock=self.clock,
                    holder=holder,
                ),
            )
            for mirror in self.mirrors
        )
        if self.lines and self.writes:
            self.ledger.on_commit(self._committed)

    # -- running ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Deliver from now on, on this event loop. One that has ended is left behind."""
        loop = asyncio.get_running_loop()
        if not self.lines or not self.in_background or (self._tasks and self._tasks[0].get_loop() is loop):
            return
        for line in self.lines:
            line.woken = asyncio.Event()
        self._tasks = [loop.create_task(self._look_around())]
        if self.writes:
            self._tasks += [loop.create_task(self._work(line)) for line in self.lines]

    async def stop(self) -> None:
        """Deliver nothing more in the background."""
        self.in_background = False
        ours = [task for task in self._tasks if task.get_loop() is asyncio.get_running_loop()]
        for task in ours:
            task.cancel()
        await asyncio.gather(*ours, return_exceptions=True)
        self._tasks = []

    async def close(self) -> None:
        """Break off what is under way: it is owed still, and whoever comes next carries on."""
        await self.stop()
        for line in self.lines:
            await self._quietly(line, line.delivery.release())
        await asyncio.gather(*(line.mirror.backend.close() for line in self.lines))

    async def registered(self, tenant: str) -> None:
        """See to it that the tenant has these mirrors."""
        if tenant in self._known or not self.lines or not self.writes:
            return

        def work(reader: Reader) -> tuple[None, list[Keep]]:
            added: list[Keep] = []
            for mirror in self.mirrors:
                if reader.get(MIRRORS, mirror.name) is None:
                    added.append(Keep(MIRRORS, MirrorRow(name=mirror.name)))
            return None, added

        if (await self.ledger.read(tenant, work))[1]:
            await self.ledger.settle(tenant, work)
        self._known.add(tenant)
        for line in self.lines:
            line.wake(tenant)

    def forget(self, tenant: str) -> None:
        """A mirror was dropped: it is looked up anew."""
        self._known.discard(tenant)

    async def contributed(self, tenant: str, commits: Sequence[Commit]) -> Sequence[Commit]:
        """The commits with what every mirror of the tenant is owed by them."""
        await self.registered(tenant)
        return [with_outbox(commit) for commit in commits]

    def _committed(self, tenant: str, _: int, commits: Sequence[Commit] | None) -> None:
        if commits is not None and not any(changed(commits)):
            return
        for line in self.lines:
            if tenant:
                line.wake(tenant)
            else:  # another process has committed, and does not say for whom
                for known in self._known:
                    line.wake(known)

    async def _work(self, line: Line) -> None:
        while True:
            if not line.due:
                line.woken.clear()
                await line.woken.wait()
            tenant = line.due.popleft()
            went = await self.round(line, tenant)
            if went.has_more and went.error is None:
                line.wake(tenant)

    async def round(self, line: Line, tenant: str) -> Round:
        """Carry out some of what one mirror is owed."""
        if line.mirror.backend.state == "open":
            went = Round(error="breaker_open")
            line.note(tenant, went)
            return went
        try:
            await self.registered(tenant)
            went = await line.delivery.round(tenant)
        except QuipuError as error:  # the ledger's own trouble: it is tried again
            _log.warning("The mirror %s has to wait: %s", line.mirror.name, error.code)
            went = Round(error=error.reason or error.code)
        except Exception as error:  # noqa: BLE001  an effect that breaks off unforeseen must not end all that follow
            _log.warning("The mirror %s has to wait: %s", line.mirror.name, type(error).__name__)
            went = Round(error="internal_error")
        line.note(tenant, went)
        return went

    async def _look_around(self) -> None:
        """Those that are behind are tried again soon; everybody at first and now and then, for what others have left."""
        for turn in range(1 << 62):
            if turn % _SELDOM_TIMES == 0:
                await self._look_at_everybody()
            for line in self.lines:
                for tenant in sorted(line.behind):
                    line.wake(tenant)
                idle = line.is_idle()
                await self._quietly(line, line.delivery.release() if idle else line.delivery.renew())
            await asyncio.sleep(_SOON_S)

    async def _look_at_everybody(self) -> None:
        try:
            tenants = [tenant async for tenant in self.ledger.journaled_tenants()]
            for tenant in tenants:
                await self.registered(tenant)
        except QuipuError as error:
            _log.warning("The tenants could not be read: %s", error.code)
            return
        for line in self.lines:
            for tenant in tenants:
                line.wake(tenant)

    async def _quietly(self, line: Line, work: Awaitable[None]) -> None:
        try:
            await work
        except QuipuError as error:
            _log.warning("The mirror %s could not be held or let go: %s", line.mirror.name, error.code)

    async def drained(self, tenant: str) -> bool:
        """Carry out everything that is due, here and now. False where something still waits."""
        await self.registered(tenant)
        for line in self.lines:
            while (went := await self.round(line, tenant)).has_more:
                pass
            if went.error is not None:
                return False
        standings = await self.standings(tenant)
        return all(not one.waiting for one in standings if self.line(one.row.name) is not None)

    def line(self, name: str) -> Line | None:
        return next((line for line in self.lines if line.mirror.name == name), None)

    # -- what answers and faces say of them ---------------------------------------------------------------------------

    async def standings(self, tenant: str) -> list[Standing]:
        """How each of the tenant's mirrors stands, also those that are not set up here."""

        def work(reader: Reader) -> list[Standing]:
            return [
                Standing(
                    row=row.value,
                    waiting=reader.count(OUTBOX, {"mirror": row.value.name, "status": "waiting"}),
                    given_up=reader.count(OUTBOX, {"mirror": row.value.name, "status": "given_up"}),
                    oldest_at=reader.least(OUTBOX, "at", {"mirror": row.value.name, "status": "waiting"}),
                )
                for row in reader.rows(MIRRORS, limit=_MOST_MIRRORS)
            ]

        return await self.ledger.read(tenant, work)

    async def confirm(
        self, tenant: str, commits: Sequence[Commit], done: Sequence[Committed], answer: R
    ) -> R:
        """The answer with who has it by now, and who will have it later. Never fails."""
        wanted = {
            name: committed.seq for ids, committed in zip(changed(commits), done, strict=True) for name in ids
        }
        if not self.lines or not self.writes or not wanted:
            return answer
        try:
            has = await self._confirmed(tenant, wanted)
            return await self._said(tenant, has, answer)
        except QuipuError as error:  # the ledger has it, and that is what was asked
            _log.warning("Mirrors could not be waited for: %s", error.code)
            return answer

    async def _confirmed(self, tenant: str, wanted: Mapping[str, int]) -> dict[str, bool]:
        if not self.in_background:
            return {line.mirror.name: False for line in self.lines}
        self.start()
        seconds = self.write_deadline_ms / 1000
        told = await asyncio.gather(*(line.confirms(tenant, dict(wanted), seconds) for line in self.lines))
        return {line.mirror.name: is_there for line, is_there in zip(self.lines, told, strict=True)}

    async def _said(self, tenant: str, has: Mapping[str, bool], answer: R) -> R:
        pending = tuple(name for name, is_there in has.items() if not is_there)
        there = tuple(name for name, is_there in has.items() if is_there)
        if isinstance(answer, ForgetResponse):
            rows = [
                await self._removed(tenant, name, answer.forgotten_ids, is_there=has[name]) for name in has
            ]
            return answer.model_copy(update={"stores": (*answer.stores, *rows), "stores_pending": pending})
        if isinstance(answer, RememberManyResponse):
            results = tuple(
                one
                if one.response is None
                else one.model_copy(update={"response": _with(one.response, there, pending)})
                for one in answer.results
            )
            return answer.model_copy(update={"results": results})
        return _with(answer, there, pending) if isinstance(answer, WriteResponse) else answer

    async def _removed(self, tenant: str, name: str, ids: Sequence[str], *, is_there: bool) -> BackendResult:
        """What one mirror did; its count is what is noted of its copies, never a guess."""
        if not is_there:
            return BackendResult(store=name, count=0, error="queued")
        rows = await self.ledger.matching(COPIES, tenant, "record_id", ids)
        gone = [row for row in rows if row.mirror == name and not row.is_current]
        return BackendResult(store=name, count=len(gone))


def _with(answer: R, there: tuple[str, ...], pending: tuple[str, ...]) -> R:
    stores: tuple[str, ...] = getattr(answer, "stores", ())
    return answer.model_copy(update={"stores": (*stores, *there), "stores_pending": pending})
