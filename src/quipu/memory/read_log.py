"""What every read does beside reading: it stays within a budget, is journaled, and marks what it returned.

Entries and marks are written in batches, off the hot path.

While nothing can be written, as on a full disk, entries wait in memory, but not without end: what is read beyond that is
counted, and the journal says how much it was as soon as it can.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from quipu.errors import QuipuError
from quipu.ledger.commit import Commit, Touch
from quipu.ledger.ledger import Ledger
from quipu.model.journal import Draft, Mention
from quipu.model.record import Record
from quipu.operation import Context

CleanNames: TypeAlias = Callable[[Sequence[Commit]], Awaitable[Sequence[Commit]]]

_log = logging.getLogger("quipu.read_log")
_DELAY_S = 0.5
#: Beyond so many waiting entries they are written at once.
_MOST_BATCHED = 512
#: So many mentions of memories may wait while nothing can be written; an entry without any counts as one.
_MOST_WAITING = 200_000


class Reservation(Protocol):
    """So many may be shown; what is not spent is given back."""

    @property
    def count(self) -> int: ...
    @property
    def is_cut(self) -> bool:
        """Whether less is left than was asked for."""
        ...

    def spend(self, count: int) -> None: ...


class RecallBudget(Protocol):
    def reserved(
        self, ctx: Context, agent_id: str | None, count: int
    ) -> AbstractAsyncContextManager[Reservation]:
        """Raises QuotaExceededError when nothing is left."""
        ...


@dataclass(slots=True)
class _Blocked:
    """A tenant whose entries could not be written the last time."""

    waiting: int = 0
    dropped: int = 0
    dropped_at: int = 0


class ReadLog:
    """Collects entries and writes them together: after a moment, when many wait, before they matter, and at the end."""

    def __init__(self, ledger: Ledger, clean: CleanNames) -> None:
        """`clean`: takes out of entries of one tenant the names that hold a secret."""
        self._ledger, self._clean = ledger, clean
        self._waiting: list[Commit] = []
        self._blocked: dict[str, _Blocked] = {}
        self._timer: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    def recalled(
        self,
        ctx: Context,
        agent_id: str,
        store: str | None,
        k: int,
        records: Sequence[Record],
        *,
        counts: bool,
    ) -> None:
        """A recall returned these."""
        if ctx.shown is not None:
            ctx.shown.extend(records)
            return
        draft = Draft(
            op="recall",
            actor=ctx.principal.name,
            at=ctx.clock(),
            store=store,
            agent=agent_id,
            detail={"k": k, "returned": len(records)},
        )
        ids = tuple(record.id for record in records) if counts else ()
        self._add(ctx.tenant, draft, records, ids)

    def read(self, ctx: Context, agent_id: str | None, records: Sequence[Record]) -> None:
        """These were shown by id, list or history."""
        if ctx.shown is not None:
            ctx.shown.extend(records)
            return
        self._add(
            ctx.tenant,
            Draft(op="read", actor=ctx.principal.name, at=ctx.clock(), agent=agent_id),
            records,
            (),
        )

    def used(self, ctx: Context, records: Sequence[Record]) -> None:
        """These were used, of what a recall that did not count had returned."""
        draft = Draft(
            op="recall", actor=ctx.principal.name, at=ctx.clock(), detail={"returned": len(records)}
        )
        self._add(ctx.tenant, draft, records, tuple(record.id for record in records))

    def _add(self, tenant: str, draft: Draft, records: Sequence[Record], ids: tuple[str, ...]) -> None:
        commit = Commit(
            tenant=tenant,
            draft=draft,
            mentions=tuple(Mention(record.id, record.version, record.digest) for record in records),
            changes=(Touch(ids=ids, at=draft.at),) if ids else (),
        )
        blocked = self._blocked.get(tenant)
        if blocked is not None and sum(one.waiting for one in self._blocked.values()) >= _MOST_WAITING:
            if not blocked.dropped:
                _log.error(
                    "Too many entries of reads wait to be written: from here on reads are only counted."
                )
            blocked.dropped += 1
            blocked.dropped_at = draft.at
        else:
            self._waiting.append(commit)
            if blocked is not None:
                blocked.waiting += _weight(commit)
        if self._timer is None or self._timer.done():
            self._timer = asyncio.create_task(self._later())

    async def _later(self) -> None:
        for _ in range(10):
            if len(self._waiting) >= _MOST_BATCHED and not self._blocked:
                break
            await asyncio.sleep(_DELAY_S / 10)
        try:
            await self.flush()
        except QuipuError as error:
            _log.warning("Entries of %d reads could not be written: %s", len(self._waiting), error.code)

    async def flush(self) -> None:
        """Write what waits. On failure it goes on waiting, and keeps no other tenant's from being written."""
        async with self._lock:
            waiting, self._waiting = self._waiting, []
            failed: list[Commit] = []
            failure: QuipuError | None = None
            try:
                for tenant in dict.fromkeys((*(commit.tenant for commit in waiting), *self._blocked)):
                    theirs = [commit for commit in waiting if commit.tenant == tenant]
                    try:
                        await self._write(tenant, theirs)
                    except QuipuError as error:
                        failure, failed = failure or error, failed + theirs
                        blocked = self._blocked.setdefault(tenant, _Blocked())
                        blocked.waiting = sum(map(_weight, theirs))
                    waiting = [commit for commit in waiting if commit.tenant != tenant]
            finally:  # also when it is cancelled
                self._waiting = failed + waiting + self._waiting
            if failure is not None:
                raise failure

    async def _write(self, tenant: str, commits: Sequence[Commit]) -> None:
        counted, dropped = self._dropped(tenant)
        if commits or dropped:
            clean = await self._clean(commits) if commits else ()
            await self._ledger.commit(*clean, *dropped)
        blocked = self._blocked.pop(tenant, None)
        if blocked is not None and blocked.dropped > counted:  # others came meanwhile
            self._blocked[tenant] = _Blocked(0, blocked.dropped - counted, blocked.dropped_at)

    def _dropped(self, tenant: str) -> tuple[int, list[Commit]]:
        """The entry that says how many reads left none."""
        blocked = self._blocked.get(tenant)
        if blocked is None or not blocked.dropped:
            return 0, []
        draft = Draft(
            op="read", actor="system", at=blocked.dropped_at, detail={"not_logged": blocked.dropped}
        )
        return blocked.dropped, [Commit(tenant=tenant, draft=draft)]

    async def close(self) -> None:
        if self._timer is not None and not self._timer.done():
            self._timer.cancel()
            await asyncio.gather(self._timer, return_exceptions=True)
        self._timer = None
        try:
            await self.flush()
        except QuipuError as error:  # such as a full disk: whoever closes has lost nothing that they wrote
            _log.warning("Entries of %d reads could not be written: %s", len(self._waiting), error.reason)


def _weight(commit: Commit) -> int:
    return max(1, len(commit.mentions))
