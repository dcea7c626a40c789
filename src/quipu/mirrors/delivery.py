"""What one mirror is owed, carried to it: intent, effect, outcome.

The outbox names records; what is carried out is not a change but how each record stands *now*. So any number of changes
of a record are one effect, order among records does not matter, and doing it again changes nothing.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from quipu.ledger.commit import Close, Commit, Drop, Erase, ForEach, Keep, Put
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Reader
from quipu.mirrors.backend import Place
from quipu.mirrors.copies import Copies, Effects
from quipu.mirrors.guard import NOT_THERE
from quipu.mirrors.model import CONTAINERS, COPIES, MIRRORS, OUTBOX, ContainerRow, CopyRow, MirrorRow, Owed
from quipu.model.search import Selection, Snapshot
from quipu.operation import Clock

#: How long a process that was killed keeps others waiting. Whoever is at work renews it in time.
_LEASE_MS: Final = 20_000
_PAGE: Final = 200
#: How soon a record that failed is tried again, doubling up to the longest; and for how long.
_FIRST_MS: Final = 1_000
_LONGEST_MS: Final = 300_000
_GIVEN_UP_MS: Final = 24 * 3600 * 1000


# -- the outbox -------------------------------------------------------------------------------------------------------


def changed(commits: Sequence[Commit]) -> list[set[str]]:
    """For each commit, the records whose copies it concerns."""
    return [
        {
            change.record.id if isinstance(change, Put) else change.id
            for change in commit.changes
            if isinstance(change, Put | Close | Erase)
        }
        for commit in commits
    ]


def with_outbox(commit: Commit) -> Commit:
    """The commit, and with it what every mirror that the tenant has by then is owed."""
    (ids,) = changed([commit])
    if not ids:
        return commit

    def owed(mirror: Any, position: int, at: int) -> list[Owed]:
        assert isinstance(mirror, MirrorRow)
        return [Owed(mirror=mirror.name, record_id=name, position=position, at=at) for name in sorted(ids)]

    return replace(commit, changes=(*commit.changes, ForEach(MIRRORS, OUTBOX, owed)))


def tried(owed: Owed, error: str, now: int) -> Owed:
    """After another try that failed: again after a second, doubling to five minutes, for a day."""
    attempts = owed.attempts + 1
    pause = _LONGEST_MS if attempts > 9 else min(_FIRST_MS << (attempts - 1), _LONGEST_MS)
    is_over = now - owed.at >= _GIVEN_UP_MS
    return replace(
        owed,
        attempts=attempts,
        next_at=now + pause,
        error=error,
        status="given_up" if is_over else "waiting",
    )


# -- its delivery -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Round:
    """How one round went."""

    #: Record → the position up to which the mirror has it now.
    done: Mapping[str, int] = field(default_factory=dict[str, int])
    failed: frozenset[str] = frozenset()
    error: str | None = None
    #: Whether there may be more to do now; whether something failed and is not due yet.
    has_more: bool = False
    waits: bool = False
    #: Off: another process is at it.
    is_ours: bool = True

    @property
    def is_stuck(self) -> bool:
        """Whether nothing goes to the mirror now, whatever it is."""
        return not self.is_ours or (self.error is not None and (self.error in NOT_THERE or not self.failed))


@dataclass(slots=True)
class Delivery:
    """One mirror's share of the outbox."""

    ledger: Ledger
    copies: Copies
    clock: Clock
    #: Who we are, to other processes.
    holder: str
    #: Tenant → until when it is certainly us.
    _ours: dict[str, int] = field(default_factory=dict[str, int], init=False)
    #: A copy that one is sending must not be taken away by another before it has arrived.
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    @property
    def name(self) -> str:
        return self.copies.mirror.name

    # -- whose turn it is ---------------------------------------------------------------------------------------------

    async def claimed(self, tenant: str) -> bool:
        """Whether it is us who deliver to this mirror, for a while at least."""
        now = self.clock()
        if self._ours.get(tenant, 0) - now > _LEASE_MS // 2:
            return True
        is_ours = await self.ledger.claim(MIRRORS, tenant, (self.name,), self.holder, now, now + _LEASE_MS)
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
            await self.ledger.claim(MIRRORS, tenant, (self.name,), self.holder, self.clock(), 0)

    # -- one round ----------------------------------------------------------------------------------------------------

    async def round(self, tenant: str) -> Round:
        """Carry out what is due, some of it. Whoever else is at it is left to it."""
        if not await self.claimed(tenant):
            return Round(is_ours=False)
        async with self._turn:
            due, waits = await self.ledger.read(tenant, self._due)
            if due:
                effects = await self.copies.converged(tenant, [owed.record_id for owed in due])
                return await self._settled(tenant, due, effects)
            filled = await self._fill(tenant)
            return filled if filled is not None else Round(waits=waits)

    def _due(self, reader: Reader) -> tuple[list[Owed], bool]:
        """What is due, and whether something else waits for its time."""
        now, due, waits = self.clock(), list[Owed](), False
        after: tuple[str, str] | None = None
        equal = {"mirror": self.name, "status": "waiting"}
        while True:
            page = [row.value for row in reader.rows(OUTBOX, equal, after, _PAGE)]
            due += [owed for owed in page if owed.next_at <= now]
            waits = waits or any(owed.next_at > now for owed in page)
            if len(page) < _PAGE or len(due) >= _PAGE:
                return due[:_PAGE], waits
            after = (self.name, page[-1].record_id)

    async def take_away(self, tenant: str, places: Sequence[Place]) -> None:
        """Copies that are not as they should be, wherever nothing is noted of them; of erased records every byte."""
        async with self._turn:
            await self.copies.taken_away(tenant, places)

    async def _settled(self, tenant: str, due: Sequence[Owed], effects: Effects) -> Round:
        await self._note(tenant, effects, due)
        done = {owed.record_id: owed.position for owed in due if owed.record_id not in effects.failed}
        error = effects.error
        return Round(done, frozenset(effects.failed), error, has_more=error not in NOT_THERE)

    async def _note(
        self, tenant: str, effects: Effects, due: Sequence[Owed], fill: MirrorRow | None = None
    ) -> None:
        """Where copies are, before anything counts as done, all in one transaction. What was changed again meanwhile
        stays due; where the whole mirror is not there, everything stays as it is."""
        now = self.clock()

        def work(reader: Reader) -> tuple[None, list[Keep | Drop]]:
            mirror = reader.get(MIRRORS, self.name)
            if mirror is None:  # it was dropped meanwhile
                return None, []
            changes: list[Keep | Drop] = [Keep(COPIES, copy) for copy in effects.noted]
            changes += self._emptied(reader, tenant, effects.noted)
            for owed in due:
                current = reader.get(OUTBOX, self.name, owed.record_id)
                if current is None or current.position != owed.position:
                    continue
                reason = effects.failed.get(owed.record_id)
                if reason is None:
                    changes.append(Drop(OUTBOX, (self.name, owed.record_id)))
                elif reason not in NOT_THERE:
                    changes.append(Keep(OUTBOX, tried(owed, reason, now)))
            if effects.noted or effects.failed or fill is not None:
                mirror = replace(
                    mirror,
                    is_filled=mirror.is_filled if fill is None else fill.is_filled,
                    fill_below=mirror.fill_below if fill is None else fill.fill_below,
                    succeeded_at=now if effects.noted else mirror.succeeded_at,
                    error=effects.error,
                )
                changes.append(Keep(MIRRORS, mirror))
            return None, changes

        await self.ledger.settle(tenant, work)

    def _emptied(self, reader: Reader, tenant: str, noted: Sequence[CopyRow]) -> list[Drop]:
        """Containers that nothing of ours is in any more: their names are people's."""
        gone = [copy.record_id for copy in noted if copy.state == "gone"]
        leaving = [copy for copy in self.copies.rows(reader, gone).values() if copy.state != "gone"]
        drops: list[Drop] = []
        for place in dict.fromkeys(copy.container(tenant) for copy in leaving):
            row = ContainerRow.of(self.name, place)
            key = CONTAINERS.named(CONTAINERS.key_of(row))
            if reader.count(COPIES, key) <= sum(copy.container(tenant) == place for copy in leaving):
                drops.append(Drop(CONTAINERS, CONTAINERS.key_of(row)))
        return drops

    # -- what is older than the mirror --------------------------------------------------------------------------------

    async def _fill(self, tenant: str) -> Round | None:
        """A page of the records that the outbox does not name, because they are older than the mirror; None: it is done.

        What fails is owed from then on like everything else.
        """
        mirror = await self.ledger.get(MIRRORS, tenant, self.name)
        if mirror is None or mirror.is_filled:
            return None
        walk = self.ledger.scan(
            Selection(tenant=tenant, below=mirror.fill_below), Snapshot(None, self.clock())
        )
        ids: list[str] = []
        async for record in walk:
            ids.append(record.id)
            if len(ids) == _PAGE:
                break
        effects = await self.copies.converged(tenant, ids)
        if effects.error in NOT_THERE:
            await self._note(tenant, effects, ())
            return Round(error=effects.error)
        await self._owe(tenant, effects.failed)
        is_last = len(ids) < _PAGE
        place = replace(mirror, is_filled=is_last, fill_below=None if is_last else ids[-1])
        await self._note(tenant, effects, (), place)
        return Round(has_more=True)

    async def _owe(self, tenant: str, failed: Mapping[str, str]) -> None:
        if not failed:
            return
        now = self.clock()

        def work(reader: Reader) -> tuple[None, list[Keep]]:
            position = reader.head().seq
            owed = [
                Owed(mirror=self.name, record_id=name, position=position, at=now)
                for name in failed
                if reader.get(OUTBOX, self.name, name) is None
            ]
            return None, [Keep(OUTBOX, tried(one, failed[one.record_id], now)) for one in owed]

        await self.ledger.settle(tenant, work)
