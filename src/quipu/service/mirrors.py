"""The ledger's mirrors: effects are carried to them in the background, and answers tell who has them.

A mirror never fails a write, and delays one at most once: whoever missed the write deadline is not waited for again
until it has caught up.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeVar, cast

from quipu.errors import QuipuError
from quipu.model.mirrors import MirrorNumbers
from quipu.model.outcomes import (
    ExpireResponse,
    ForgetResponse,
    ForgetRow,
    MergeResponse,
    RememberResponse,
)
from quipu.model.value import Json
from quipu.ports.announcing import Announcing
from quipu.ports.backend import Breaking, Mirror
from quipu.ports.outbox import CopyState, Standing
from quipu.ports.parts import Parts
from quipu.service.delivery import Delivery, Round

_log = logging.getLogger("quipu.mirrors")
R = TypeVar("R", RememberResponse, ForgetResponse, MergeResponse, ExpireResponse)
#: How often somebody who is behind is looked after, and how often everybody is.
_SOON_S: Final = 1.0
_SELDOM_S: Final = 15.0
_REMEMBERED: Final = 4096


class Line:
    """One mirror, the tenants that have something for it, and whoever waits for that."""

    def __init__(self, parts: Parts, mirror: Mirror, holder: str) -> None:
        self.mirror = mirror
        self.delivery = Delivery(parts, mirror, holder)
        self.is_late = False
        self.is_busy = self._was_at_work = False
        #: Tenants to look at now, and those that are known to be behind.
        self.due: deque[str] = deque()
        self.behind: set[str] = set()
        self.woken = asyncio.Event()
        self.one_at_a_time = asyncio.Lock()
        self._done: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._waiting: dict[tuple[str, int], asyncio.Future[bool]] = {}

    @property
    def breaker(self) -> str:
        backend = self.mirror.backend
        return backend.breaker if isinstance(backend, Breaking) else "closed"

    def is_idle(self) -> bool:
        """Whether nothing has been done for a while; asked now and then."""
        was_at_work, self._was_at_work = self._was_at_work, False
        return not was_at_work and not self.due and not self.is_busy

    def wake(self, tenant: str) -> None:
        if tenant not in self.due:
            self.due.append(tenant)
        self.woken.set()

    def note(self, tenant: str, round: Round) -> None:
        """How a round went."""
        self._was_at_work = True
        for seq in round.done:
            self._done[tenant, seq] = None
            self._answer((tenant, seq), has_it=True)
        while len(self._done) > _REMEMBERED:
            self._done.popitem(last=False)
        if round.error is not None or round.waits:
            self.behind.add(tenant)
            for key in [key for key in self._waiting if key[0] == tenant]:
                self._answer(key, has_it=False)
        elif not round.has_more:
            self.behind.discard(tenant)
            self.is_late = self.is_late and bool(self.behind)

    def _answer(self, key: tuple[str, int], *, has_it: bool) -> None:
        waiter = self._waiting.pop(key, None)
        if waiter is not None and not waiter.done():
            waiter.set_result(has_it)

    async def confirms(self, tenant: str, seq: int, seconds: float) -> bool:
        """Whether the mirror has a position, now or in so many seconds."""
        if (tenant, seq) in self._done:
            return True
        if self.is_late or self.breaker == "open" or tenant in self.behind:
            return False
        waiter = self._waiting.setdefault((tenant, seq), asyncio.get_running_loop().create_future())
        try:
            return await asyncio.wait_for(asyncio.shield(waiter), seconds)
        except TimeoutError:
            self.is_late = True
            self._waiting.pop((tenant, seq), None)
            return False


class Mirrors:
    """All of them."""

    def __init__(self, parts: Parts) -> None:
        self._parts, self._routing = parts, parts.routing
        holder = parts.mint_id("mirror") if parts.mirrors else ""
        self.lines = [Line(parts, mirror, holder) for mirror in parts.mirrors]
        self._registered: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_started = False

    # -- running --------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Carry effects from now on, in the background. Without mirrors there is nothing to start."""
        if self._is_started or not self.lines:
            return
        self._is_started = True
        for tenant in await self._parts.ledger.tenants():
            await self._register(tenant.id)
        if not self._routing.is_written:
            return
        ledger = self._parts.ledger
        if isinstance(ledger, Announcing):
            ledger.on_commit(self._told)
        for line in self.lines:
            self._tasks.append(asyncio.create_task(self._work(line)))
        self._tasks.append(asyncio.create_task(self._look_around()))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        for line in self.lines:
            await self._let_go(line)
            await line.mirror.backend.close()

    async def _let_go(self, line: Line) -> None:
        """Another process may carry on at once."""
        try:
            await line.delivery.release()
        except QuipuError as error:
            _log.warning("The mirror %s could not be let go: %s", line.mirror.name, error.code)

    async def registered(self, tenant: str) -> None:
        """See to it that the tenant has these mirrors."""
        if tenant not in self._registered:
            await self._register(tenant)

    async def _register(self, tenant: str) -> None:
        position = (await self._parts.ledger.head(tenant)).seq
        for line in self.lines:
            line.delivery.copies.begin(tenant, position)
            await self._parts.ledger.outbox.register(
                tenant, line.mirror.name, is_written=self._routing.is_written
            )
        self._registered.add(tenant)
        for line in self.lines:
            line.wake(tenant)

    def _told(self, tenants: frozenset[str]) -> None:
        """Somebody has committed."""
        for tenant in tenants:
            for line in self.lines:
                line.wake(tenant)

    async def _work(self, line: Line) -> None:
        while True:
            if not line.due:
                line.woken.clear()
                await line.woken.wait()
            tenant = line.due.popleft()
            round = await self._round(line, tenant)
            if round.has_more and round.error is None:
                line.wake(tenant)

    async def _round(self, line: Line, tenant: str) -> Round:
        async with line.one_at_a_time:
            return await self._made_round(line, tenant)

    async def _made_round(self, line: Line, tenant: str) -> Round:
        line.is_busy = True
        try:
            await self.registered(tenant)
            round = await line.delivery.round(tenant)
        except QuipuError as error:  # the ledger's own trouble: it is tried again
            _log.warning("Effects for the mirror %s wait: %s", line.mirror.name, error.code)
            round = Round(error=error.reason or error.code)
        except Exception:  # noqa: BLE001  an effect that breaks off unforeseen must not end all that follow
            _log.exception("Effects for the mirror %s broke off.", line.mirror.name)
            round = Round(error="internal_error")
        finally:
            line.is_busy = False
        line.note(tenant, round)
        return round

    async def _look_around(self) -> None:
        """Those that are behind are tried again soon; everybody now and then, for what others have left."""
        since = 0.0
        while True:
            await asyncio.sleep(_SOON_S)
            since += _SOON_S
            if since >= _SELDOM_S:
                since = 0.0
                try:
                    self._told(frozenset(tenant.id for tenant in await self._parts.ledger.tenants()))
                except QuipuError as error:
                    _log.warning("The tenants could not be read: %s", error.code)
            for line in self.lines:
                for tenant in sorted(line.behind):
                    line.wake(tenant)
                if line.is_idle():
                    await self._let_go(line)
                else:
                    await self._renewed(line)

    async def _renewed(self, line: Line) -> None:
        try:
            await line.delivery.renew()
        except QuipuError as error:
            _log.warning("The mirror %s could not be held: %s", line.mirror.name, error.code)

    async def drained(self, tenant: str) -> bool:
        """Carry out everything that is due, here and now. False where something still waits."""
        await self.registered(tenant)
        for line in self.lines:
            while (round := await self._round(line, tenant)).has_more:
                pass
            if round.error is not None:
                return False
        return all(not standing.waiting for standing in await self.standings(tenant))

    # -- telling --------------------------------------------------------------------------------------------------

    async def standings(self, tenant: str) -> Sequence[Standing]:
        """How each of the tenant's mirrors stands, also those that are not configured here."""
        return await self._parts.ledger.outbox.standings(tenant)

    async def numbers(self) -> list[MirrorNumbers]:
        """Each mirror's lag over all tenants."""
        if not self.lines:
            return []
        now, told = self._parts.clock(), list[Standing]()
        for tenant in await self._parts.ledger.tenants():
            told += await self.standings(tenant.id)
        return [
            _numbers(line, [one for one in told if one.name == line.mirror.name], now) for line in self.lines
        ]

    async def health(self, tenant: str) -> list[dict[str, Json]]:
        """How each mirror is, as seen from here: asked now, with what it has still to get."""
        if not self.lines:
            return []
        waiting = {standing.name: standing for standing in await self.standings(tenant)}
        return list(
            await asyncio.gather(*(self._health(line, waiting.get(line.mirror.name)) for line in self.lines))
        )

    @staticmethod
    async def _health(line: Line, standing: Standing | None) -> dict[str, Json]:
        started = time.perf_counter()
        is_up = (await line.mirror.backend.health()).is_up
        lag = 0 if standing is None else standing.waiting + standing.dead
        row: dict[str, Json] = {
            "backend": line.mirror.name,
            "role": "mirror",
            "status": "ok" if is_up and not lag else "degraded" if is_up else "error",
            "lag": lag,
            "breaker": line.breaker,
            "latency_ms": int((time.perf_counter() - started) * 1000),
        }
        return row if is_up else {**row, "error": "does not answer"}

    async def told(self, tenant: str, answer: R) -> R:
        """The answer to a write, with who has it by now and who will have it later."""
        seq = answer.extensions.get("seq")
        is_written = self._routing.is_written and not answer.pending_approval and not answer.is_replayed
        if not self.lines or not is_written or not isinstance(seq, int):
            return answer
        has = await self._confirmed(tenant, seq)
        extensions = dict(answer.extensions)
        if pending := [name for name, is_there in has.items() if not is_there]:
            extensions["stores_pending"] = cast("list[Json]", pending)
        if isinstance(answer, RememberResponse):
            stores = (*answer.stores, *(name for name, is_there in has.items() if is_there))
            return replace(answer, stores=stores, extensions=extensions)
        if isinstance(answer, ForgetResponse):
            rows = [await self._row(tenant, name, answer, is_there=has[name]) for name in has]
            return replace(answer, stores=(*answer.stores, *rows), extensions=extensions)
        return replace(answer, extensions=extensions)

    async def _confirmed(self, tenant: str, seq: int) -> dict[str, bool]:
        is_new = (
            tenant not in self._registered
        )  # another process has made it: this write is carried out later
        if is_new:
            await self._register(tenant)
        if is_new or not self._is_started:
            return {line.mirror.name: False for line in self.lines}
        seconds = self._routing.write_deadline_ms / 1000
        told = await asyncio.gather(*(line.confirms(tenant, seq, seconds) for line in self.lines))
        return {line.mirror.name: is_there for line, is_there in zip(self.lines, told, strict=True)}

    async def _row(self, tenant: str, name: str, answer: ForgetResponse, *, is_there: bool) -> ForgetRow:
        """What one mirror did; its count is what the id map says, never a guess."""
        if not is_there:
            return ForgetRow(store=name, count=0, error="queued")
        known = await self._parts.ledger.outbox.mirrored(tenant, name, answer.forgotten_ids)
        gone = [copy for copy in known.values() if copy.state in (CopyState.DELETED, CopyState.GONE)]
        return ForgetRow(store=name, count=len(gone))


def _numbers(line: Line, standings: Sequence[Standing], now: int) -> MirrorNumbers:
    oldest = [one.oldest_at for one in standings if one.oldest_at is not None]
    return MirrorNumbers(
        name=line.mirror.name,
        waiting=sum(one.waiting for one in standings),
        dead=sum(one.dead for one in standings),
        oldest_ms=max(0, now - min(oldest)) if oldest else 0,
        drift=sum(one.drift for one in standings),
        is_open=line.breaker == "open",
    )
