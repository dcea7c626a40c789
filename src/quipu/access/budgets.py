"""How fast a credential may ask, and how many memories it may be given in an hour.

Rates are counted in each server process. Recall budgets are rows of the ledger, so that any server may answer: a server
takes a part of what is left out of the row, and gives memories out of that part. What all servers give out together
never exceeds a budget; what a server has taken and not given out is at most a fiftieth of it.
"""

import hashlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from quipu.errors import BackendUnavailableError, QuotaExceededError, RateLimitedError
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Reader
from quipu.ledger.table import Table
from quipu.model.principal import Principal
from quipu.operation import Context

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
#: A server takes at least this part of a budget at once, so that few recalls write to the ledger.
_PART = 50
#: Whoever was not seen for longest is forgotten beyond so many.
_MOST = 100_000

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallUse:
    """Memories that were given out in the hour that began at `since`, to a credential or for an agent."""

    #: The credential's name; empty where an agent's use is counted, whoever asks.
    principal: str
    #: SHA-256 of the agent's name; empty where a credential's use is counted, whatever the agent.
    agent_id: str
    since: int
    used: int


RECALL_USES = Table("recall_budget", RecallUse, key=("principal", "agent_id"), is_journaled=False)


# -- rules --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bucket:
    """How many requests are left, and when that was true. It refills evenly."""

    left: float
    at: int


def taken_from(bucket: Bucket | None, per_minute: int, now: int) -> tuple[Bucket, int | None]:
    """The bucket after one request, and None; or as it is, and the seconds until there is one again."""
    full = float(per_minute)
    before = Bucket(full, now) if bucket is None else bucket
    left = min(full, before.left + max(0, now - before.at) * per_minute / MINUTE_MS)
    if left < 1:
        return Bucket(left, now), _seconds((1 - left) * MINUTE_MS / per_minute)
    return Bucket(left - 1, now), None


def is_current(since: int, now: int) -> bool:
    """Whether an hour that began then goes on. Further ahead than an hour only a wrong clock can have been."""
    return abs(now - since) < HOUR_MS


def drawn(use: RecallUse, limit: int, wanted: int, now: int) -> tuple[RecallUse, int]:
    """The row after as much was taken as is wanted, or a larger part at once; and how much was taken."""
    current = use if is_current(use.since, now) else replace(use, since=now, used=0)
    count = max(0, min(limit - current.used, max(wanted, limit // _PART)))
    return replace(current, used=current.used + count), count


def _seconds(milliseconds: float) -> int:
    return max(1, -int(-milliseconds // 1000))


# -- counting -----------------------------------------------------------------------------------------------------

#: Tenant, principal, agent: one of the last two is empty.
_Key: TypeAlias = tuple[str, str, str]


@dataclass(slots=True)
class _Part:
    """What this server has taken of a budget and not given out yet."""

    since: int
    left: int


@dataclass(slots=True)
class Reservation:
    """So many memories may be shown; what is not spent is given back."""

    count: int
    is_cut: bool = False
    spent: int = 0

    def spend(self, count: int) -> None:
        self.spent += count


class Budgets:
    """Counts what each credential does, and what is read of each agent. Local use is not counted."""

    def __init__(self, ledger: Ledger, *, rate: int, recall_budget: int) -> None:
        """The server's own limits, for credentials that have none of their own; 0: no limit."""
        self._ledger, self._rate, self._recall_budget = ledger, rate, recall_budget
        self._buckets: dict[tuple[str, str], Bucket] = {}
        self._parts: dict[_Key, _Part] = {}
        #: The rows as they were last written, to go by while the ledger cannot be written.
        self._rows: dict[_Key, RecallUse] = {}

    # -- requests -------------------------------------------------------------------------------------------------

    def rate_of(self, principal: Principal) -> int | None:
        """Requests per minute; None: no limit."""
        if principal.is_local:
            return None
        return principal.rate or self._rate or None

    def charge(self, principal: Principal, operation: str, now: int) -> None:
        """One request of this credential."""
        rate = self.rate_of(principal)
        if rate is None:
            return
        key = (principal.tenant, principal.name)
        bucket, wait = taken_from(self._buckets.pop(key, None), rate, now)
        self._buckets[key] = bucket
        _bound(self._buckets)
        if wait is not None:
            raise RateLimitedError(
                "This credential sends requests too fast.",
                reason="request_rate",
                hint=f"At most {rate} a minute; wait {wait} s.",
                retry_after_s=wait,
            )

    # -- memories ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def reserved(self, ctx: Context, agent_id: str | None, count: int) -> AsyncGenerator[Reservation]:
        """As much of `count` as is left; or QuotaExceededError when nothing is. The rest is given back at the end."""
        limits = self._limits(ctx.principal, agent_id) if count > 0 else {}
        if not limits:
            yield Reservation(count)
            return
        now = ctx.clock()
        # Nobody else takes anything of these parts between here and the subtraction: there is no await.
        parts = await self._filled(limits, count, now)
        allowed = min(count, *(part.left for part in parts))
        if allowed <= 0:
            raise _spent(
                [pair for pair in zip(limits.values(), parts, strict=True) if pair[1].left <= 0], now
            )
        for part in parts:
            part.left -= allowed
        reservation = Reservation(allowed, is_cut=allowed < count)
        try:
            yield reservation
        finally:
            # More than was reserved counts too. A part of an hour that has ended is not looked at any more.
            for part in parts:
                part.left += allowed - reservation.spent

    async def left(self, principal: Principal, now: int) -> int | None:
        """Memories that a credential may still be given this hour; None: no limit."""
        for key, limit in self._limits(principal, None).items():
            row = await self._ledger.get(RECALL_USES, key[0], *key[1:])
            part = self._parts.get(key)
            used = row.used if row is not None and is_current(row.since, now) else 0
            return max(0, limit - used) + (
                part.left if part is not None and is_current(part.since, now) else 0
            )
        return None

    async def close(self) -> None:
        """Give back what was taken and not given out, so that other servers have it."""
        parts, self._parts = self._parts, {}
        for tenant in {key[0] for key in parts}:
            unspent = {key: part for key, part in parts.items() if key[0] == tenant and part.left > 0}

            def work(
                reader: Reader, unspent: Mapping[_Key, _Part] = unspent
            ) -> tuple[None, Sequence[RecallUse]]:
                rows: list[RecallUse] = []
                for key, part in unspent.items():
                    row = reader.get(RECALL_USES, *key[1:])
                    if row is not None and row.since == part.since:
                        rows.append(replace(row, used=max(0, row.used - part.left)))
                return None, rows

            if unspent:
                await self._ledger.revise(tenant, RECALL_USES, work)

    def _limits(self, principal: Principal, agent_id: str | None) -> dict[_Key, int]:
        """What is counted: the credential's own use, and the use of the agent's memories, whoever asks.

        A credential that was given a larger budget than the server's may use it up on one agent.
        """
        if principal.is_local:
            return {}
        limits: dict[_Key, int] = {}
        if own := principal.recall_budget or self._recall_budget:
            limits[principal.tenant, principal.name, ""] = own
        if agent_id is not None and self._recall_budget:
            limits[principal.tenant, "", _hidden(agent_id)] = max(self._recall_budget, own)
        return limits

    async def _filled(self, limits: Mapping[_Key, int], count: int, now: int) -> list[_Part]:
        """This server's parts, with as much in each as is wanted, as far as there is any."""
        exhausted: set[_Key] = set()
        while True:
            parts = {key: self._part(key, now) for key in limits}
            wanted = {
                key: count - part.left
                for key, part in parts.items()
                if part.left < count and key not in exhausted
            }
            if not wanted:
                return list(parts.values())
            for key, (row, amount) in (await self._drawn(limits, wanted, now)).items():
                part = self._part(key, now)
                if part.since != row.since:  # the hour began before this server first asked, or began anew
                    part = self._parts[key] = _Part(row.since, 0)
                part.left += amount
                if amount < wanted[key]:
                    exhausted.add(key)

    def _part(self, key: _Key, now: int) -> _Part:
        part = self._parts.pop(key, None)
        if part is None or not is_current(part.since, now):
            part = _Part(now, 0)
        self._parts[key] = part  # last in order: it was used last
        _bound(self._parts)
        return part

    async def _drawn(
        self, limits: Mapping[_Key, int], wanted: Mapping[_Key, int], now: int
    ) -> Mapping[_Key, tuple[RecallUse, int]]:
        """Take more of some budgets, all of one tenant: the rows afterwards, and how much was taken of each."""
        tenant = next(iter(wanted))[0]

        def draw(row_of: Callable[[_Key], RecallUse | None]) -> dict[_Key, tuple[RecallUse, int]]:
            return {
                key: drawn(row_of(key) or _unused(key, now), limits[key], more, now)
                for key, more in wanted.items()
            }

        def work(reader: Reader) -> tuple[dict[_Key, tuple[RecallUse, int]], Sequence[RecallUse]]:
            found = draw(lambda key: reader.get(RECALL_USES, *key[1:]))
            return found, [row for row, amount in found.values() if amount]

        try:
            found = await self._ledger.revise(tenant, RECALL_USES, work)
        except BackendUnavailableError:
            # A full disk stops writes, not reads: until it is over, this server counts for itself.
            found = draw(self._rows.get)
        for key, (row, _) in found.items():
            self._rows.pop(key, None)
            self._rows[key] = row
        _bound(self._rows)
        return found


def _spent(empty: Sequence[tuple[int, _Part]], now: int) -> QuotaExceededError:
    wait = min(_seconds(max(part.since for _, part in empty) + HOUR_MS - now), HOUR_MS // 1000)
    return QuotaExceededError(
        "The recall budget of this hour is spent.",
        reason="recall_budget",
        hint=f"At most {min(limit for limit, _ in empty)} memories an hour; try again in {wait} s.",
        retry_after_s=wait,
    )


def _hidden(agent_id: str) -> str:
    """What an agent's use is counted under: whoever reads may name an agent that nobody has checked for secrets."""
    return hashlib.sha256(agent_id.encode("utf-8", "surrogatepass")).hexdigest()


def _unused(key: _Key, now: int) -> RecallUse:
    return RecallUse(principal=key[1], agent_id=key[2], since=now, used=0)


def _bound(counts: dict[K, V]) -> None:
    while len(counts) > _MOST:
        del counts[next(iter(counts))]
