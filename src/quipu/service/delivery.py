"""Effects carried to one mirror: intent, effect, outcome.

An intent names records; what is carried out is not the change but how each record stands *now*. So any number of
intents about a record are one effect, order among records does not matter, and doing it again changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from quipu.model.search import Selection, Snapshot
from quipu.ports.backend import Mirror
from quipu.ports.outbox import Intent, Retry, Settlement, Standing
from quipu.ports.parts import Parts
from quipu.rules.mirroring import is_given_up, next_try
from quipu.service.copies import NOT_THERE, Copies, Effects

_INTENTS: Final = 64
#: How long a process that was killed keeps others waiting. Whoever is at work renews it in time.
_LEASE_MS: Final = 20_000
_PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class Round:
    """How one round went: positions that were carried out, why something failed, whether there may be more to do now."""

    done: tuple[int, ...] = ()
    error: str | None = None
    has_more: bool = False
    #: Whether something failed before and is not due yet.
    waits: bool = False


@dataclass(slots=True)
class _Left:
    """What a fill could not send: it goes on without that, and comes back for it."""

    ids: set[str] = field(default_factory=set[str])
    #: How far the fill has come meanwhile, and whether it has come to the end.
    below: str | None = None
    is_walked: bool = False
    attempts: int = 0
    next_at: int = 0


class Delivery:
    """One mirror's share of the outbox."""

    def __init__(self, parts: Parts, mirror: Mirror, holder: str) -> None:
        self._parts, self._name, self._holder = parts, mirror.name, holder
        self._outbox = parts.ledger.outbox
        self.copies = Copies(parts, mirror)
        #: Until when it is certainly us, by tenant.
        self._ours: dict[str, int] = {}
        self._left: dict[str, _Left] = {}
        #: Tenants whose fill has begun at least.
        self._begun: set[str] = set()
        #: A copy that one is sending must not be taken away by another before it has arrived.
        self._turn = asyncio.Lock()

    async def claimed(self, tenant: str) -> bool:
        """Whether it is us who carry effects to this mirror, for a while at least."""
        now = self._parts.clock()
        if self._ours.get(tenant, 0) - now > _LEASE_MS // 2:
            return True
        is_ours = await self._outbox.claim(tenant, self._name, self._holder, now, now + _LEASE_MS)
        self._ours[tenant] = now + _LEASE_MS if is_ours else 0
        return is_ours

    async def renew(self) -> None:
        """It is still us, during an effect that takes long."""
        for tenant in [tenant for tenant, until in self._ours.items() if until]:
            await self.claimed(tenant)

    async def release(self) -> None:
        """Let others carry on at once."""
        for tenant in [tenant for tenant, until in self._ours.items() if until]:
            self._ours[tenant] = 0
            await self._outbox.claim(tenant, self._name, self._holder, self._parts.clock(), 0)

    async def round(self, tenant: str) -> Round:
        """Carry out what is due, some of it. Whoever else is at it is left to it."""
        if not await self.claimed(tenant):
            return Round()
        async with self._turn:
            return await self._carried(tenant)

    async def _carried(self, tenant: str) -> Round:
        intents = await self._outbox.intents(tenant, self._name, self._parts.clock(), _INTENTS)
        if not intents:
            return await self._fill(tenant)
        intents = _some(intents)
        ids = list(dict.fromkeys(record_id for intent in intents for record_id in intent.record_ids))
        effects = await self.copies.converged(tenant, ids)
        return await self._settled(tenant, intents, effects)

    async def brought_level(self, tenant: str, ids: Sequence[str]) -> dict[str, str]:
        """Bring copies to how the records stand, whatever was noted of them; tells which failed, and why."""
        async with self._turn:
            effects = await self.copies.converged(tenant, ids, is_forced=True)
            await self._settle(tenant, effects)
        return effects.failed

    async def _settle(
        self, tenant: str, effects: Effects, done: Sequence[int] = (), retries: Sequence[Retry] = ()
    ) -> None:
        has_succeeded = bool(done or effects.kept or effects.gone)  # an empty page proves nothing
        settlement = Settlement(
            kept=effects.kept,
            gone=effects.gone,
            done=done,
            retries=retries,
            succeeded_at=self._parts.clock() if has_succeeded else None,
            error=effects.error,
        )
        await self._outbox.settle(tenant, self._name, settlement)

    async def _settled(self, tenant: str, intents: Sequence[Intent], effects: Effects) -> Round:
        now, failed = self._parts.clock(), effects.failed
        waiting = [intent for intent in intents if not failed.keys().isdisjoint(intent.record_ids)]
        kept_waiting = {intent.seq for intent in waiting}
        done = tuple(intent.seq for intent in intents if intent.seq not in kept_waiting)
        await self._settle(tenant, effects, done, [_retry(intent, failed, now) for intent in waiting])
        return Round(done, effects.error, has_more=effects.error not in NOT_THERE)

    async def _fill(self, tenant: str) -> Round:
        """A page of the records that no intent speaks of, because they are older than the mirror."""
        standings = await self._outbox.standings(tenant)
        mine = next((one for one in standings if one.name == self._name), None)
        if mine is not None:
            self._look_for_beginning(tenant, mine)
        if mine is None or mine.is_filled or not mine.is_written:
            self._left.pop(tenant, None)
            is_due = await self._outbox.intents(tenant, self._name, self._parts.clock(), 1)
            return Round(has_more=bool(is_due), waits=mine is not None and mine.waiting > 0 and not is_due)
        left = self._left.get(tenant)
        if left is not None and left.is_walked:
            return await self._come_back(tenant, left)
        below = mine.fill_below if left is None else left.below
        selection = Selection(tenant=tenant, below=below, limit=_PAGE)
        walk = self._parts.ledger.scan(selection, Snapshot(None, self._parts.clock()))
        ids = [record.id async for record in walk]
        effects = await self.copies.converged(tenant, ids)
        await self._settle(tenant, effects)
        if effects.error in NOT_THERE:
            return Round(error=effects.error)
        is_last = len(ids) < _PAGE
        last = None if is_last else ids[-1]
        if effects.failed:
            left = self._left.setdefault(tenant, _Left())
            left.ids |= effects.failed.keys()
        if left is None:
            await self._outbox.note_fill(tenant, self._name, last, is_filled=is_last)
        else:  # what is noted stays where the first was left, so that a restart finds it
            left.below, left.is_walked = last, is_last
        return Round(has_more=True)

    def _look_for_beginning(self, tenant: str, mine: Standing) -> None:
        if mine.is_filled or mine.fill_below is not None:
            self._begun.add(tenant)
        elif tenant in self._begun:  # somebody has taken the mirror away and added it again
            self._begun.discard(tenant)
            self.copies.forget(tenant)

    async def _come_back(self, tenant: str, left: _Left) -> Round:
        """Once more, what a fill left behind. No intent speaks of it, so the mirror is filled when it is there."""
        now = self._parts.clock()
        if now < left.next_at:
            return Round()
        effects = await self.copies.converged(tenant, sorted(left.ids))
        await self._settle(tenant, effects)
        left.ids = set(effects.failed)
        if left.ids:
            left.attempts += 1
            left.next_at = next_try(left.attempts, now)
            return Round(error=effects.error)
        del self._left[tenant]
        await self._outbox.note_fill(tenant, self._name, None, is_filled=True)
        return Round(has_more=True)


def _some(intents: Sequence[Intent]) -> Sequence[Intent]:
    """As many as name a page of records, and one at least: what is carried out is soon noted, whoever stops us."""
    count = 0
    for place, intent in enumerate(intents):
        count += len(intent.record_ids)
        if count > _PAGE and place:
            return intents[:place]
    return intents


def _retry(intent: Intent, failed: dict[str, str], now: int) -> Retry:
    error = next(failed[name] for name in intent.record_ids if name in failed)
    attempts = intent.attempts + 1
    return Retry(intent.seq, attempts, next_try(attempts, now), error, is_given_up(intent.at, now))
