"""The change feed: the journal as it grows, told to those who may hear it.

1. Each tenant's journal is read once for all who follow it: by one poller, woken at once by writes of this process.
2. Every position is looked at once and in order, so a reader that comes back with the last one it saw loses nothing
   and hears nothing twice.
3. Who the reader is, is asked again before anything is told. When the credential ends, so does the feed.
4. A reader that is behind what is kept in memory reads the ledger at its own pace.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from quipu.errors import ForbiddenError, InvalidError, QuipuError, UnauthenticatedError
from quipu.model.feed import FeedEvent, FeedRequest
from quipu.model.journal import Entry
from quipu.model.principal import Permission, Principal
from quipu.ports.announcing import Announcing
from quipu.ports.parts import Parts
from quipu.rules import feed
from quipu.rules.feed import Place, Wanted
from quipu.service.access import Access
from quipu.service.sight import Sight

#: Who is it now? Raises UnauthenticatedError when the credential has ended.
Renewed: TypeAlias = Callable[[], Awaitable[Principal]]

_log = logging.getLogger("quipu.changes")
#: How long a write of another process may go unnoticed.
_POLL_S = 0.25
_PAGE = 500
#: So many entries, and mentions in them, are kept for readers that are near the end.
_KEPT_ENTRIES = 2_000
_KEPT_MENTIONS = 20_000


@dataclass(frozen=True, slots=True)
class _Seen:
    """An entry, and where the records that it mentions lie."""

    entry: Entry
    places: dict[str, Place]


class Changes:
    """Feeds of every tenant that somebody follows."""

    def __init__(self, parts: Parts, access: Access) -> None:
        self._parts, self._access = parts, access
        self._sight = Sight(parts, access)
        self._tails: dict[str, _Tail] = {}
        self._is_closed = False
        if isinstance(parts.ledger, Announcing):
            parts.ledger.on_commit(self._wake)

    async def follow(
        self, principal: Principal, request: FeedRequest, renewed: Renewed, *, idle_s: float = 15.0
    ) -> AsyncGenerator[tuple[FeedEvent, ...]]:
        """Events in order, a few at a time; an empty tuple says that nothing happened for a while."""
        self._access.authorise(principal, Permission.READ, request.agent_id)
        wanted = await self._wanted(principal, request)
        head = await self._parts.ledger.head(principal.tenant)
        since = head.seq if request.since is None else request.since
        if not 0 <= since <= head.seq:
            raise InvalidError.at(
                "/since",
                "bad_value",
                "The journal does not go that far.",
                accepted=["a position of the journal"],
            )
        return self._followed(principal, wanted, since, renewed, idle_s)

    async def _wanted(self, principal: Principal, request: FeedRequest) -> Wanted:
        store = None if request.store is None else await self._access.store_for(principal, request.store)
        return Wanted(
            agent_id=request.agent_id,
            store_id=None if store is None else store.id,
            is_shared=store is not None and store.scope.is_shared,
            types=frozenset(request.types),
        )

    async def _followed(
        self, principal: Principal, wanted: Wanted, position: int, renewed: Renewed, idle_s: float
    ) -> AsyncGenerator[tuple[FeedEvent, ...]]:
        now = asyncio.get_running_loop().time
        async with self._joined(principal.tenant) as tail:
            due = now() + idle_s
            while not self._is_closed:
                page = await tail.after(position)
                position = page[-1].entry.seq if page else position
                if not _told(page, principal, wanted) and now() < due:
                    patience = min(due, self._end(principal, now())) - now()
                    if page or await tail.moved(position, patience):
                        continue
                try:
                    principal = await renewed()
                    self._access.authorise(principal, Permission.READ, wanted.agent_id)
                except (UnauthenticatedError, ForbiddenError):
                    return
                events = await self._sight.events(principal, _told(page, principal, wanted))
                if events or now() >= due:
                    yield events
                    due = now() + idle_s

    def _end(self, principal: Principal, now: float) -> float:
        """When to look at the credential at the latest, by the event loop's time."""
        if principal.expires_at is None:
            return float("inf")
        return now + max(0, principal.expires_at - self._parts.clock()) / 1000

    async def moved(self, tenant: str, position: int, within_s: float) -> bool:
        """Wait until the journal has gone beyond a position; False when it did not in time."""
        async with self._joined(tenant) as tail:
            return await tail.moved(position, within_s) and not self._is_closed

    @contextlib.asynccontextmanager
    async def _joined(self, tenant: str) -> AsyncGenerator[_Tail]:
        """The tenant's tail, read on as long as somebody follows it."""
        tail = self._tails.get(tenant)
        if tail is None:
            tail = self._tails[tenant] = _Tail(tenant, self._parts, self._access)
        tail.followers += 1
        try:
            yield tail
        finally:
            tail.followers -= 1
            if not tail.followers:
                self._tails.pop(tenant, None)
                await tail.close()

    def _wake(self, tenants: frozenset[str]) -> None:
        for tenant in tenants & self._tails.keys():
            self._tails[tenant].look()

    async def close(self) -> None:
        """End every feed."""
        self._is_closed = True
        for tail in list(self._tails.values()):
            await tail.close()


class _Tail:
    """The end of one tenant's journal."""

    def __init__(self, tenant: str, parts: Parts, access: Access) -> None:
        self._tenant, self._parts, self._access = tenant, parts, access
        self._kept: deque[_Seen] = deque()
        self._mentions = 0
        #: The last position that was read; 0 before the first look.
        self._last = 0
        self._moved = asyncio.Event()
        self._asked = asyncio.Event()
        self._is_closed = False
        self.followers = 0
        self._poller = asyncio.create_task(self._poll())

    def look(self) -> None:
        """Something was written."""
        self._asked.set()

    async def after(self, position: int) -> Sequence[_Seen]:
        """Some of what follows a position: from memory, or for those further behind from the ledger."""
        first = self._kept[0].entry.seq if self._kept else self._last + 1
        if position >= first - 1 and self._last:
            return list(islice(self._kept, position - first + 1, position - first + 1 + _PAGE))
        return await self._read(position)

    async def moved(self, position: int, within_s: float) -> bool:
        """Wait until there is more than a position; also ends when the feed does."""
        try:
            async with asyncio.timeout(max(0.0, within_s)):
                while self._last <= position and not self._is_closed:
                    await self._moved.wait()
        except TimeoutError:
            return False
        return True

    async def _poll(self) -> None:
        is_well = True
        while True:
            self._asked.clear()
            try:
                await self._read_on()
                is_well = True
            except QuipuError as error:
                if is_well:
                    _log.warning("The journal cannot be followed: %s", error.code)
                is_well = False
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await self._asked.wait()

    async def _read_on(self) -> None:
        head = await self._parts.ledger.head(self._tenant)
        if not self._last:  # what was there before the first look is in the ledger for those who want it
            self._last = head.seq
            self._announce()
        while self._last < head.seq:
            page = await self._read(self._last)
            self._kept.extend(page)
            self._mentions += sum(len(seen.places) for seen in page)
            while len(self._kept) > _KEPT_ENTRIES or self._mentions > _KEPT_MENTIONS:
                self._mentions -= len(self._kept.popleft().places)
            self._last = page[-1].entry.seq
            self._announce()

    def _announce(self) -> None:
        waiting, self._moved = self._moved, asyncio.Event()
        waiting.set()

    async def _read(self, position: int) -> Sequence[_Seen]:
        entries = await self._parts.ledger.entries(self._tenant, position, _PAGE)
        ids = {mention.id for entry in entries if feed.is_change(entry) for mention in entry.records}
        if not ids:
            return [_Seen(entry, {}) for entry in entries]
        records = await self._parts.ledger.read(self._tenant, sorted(ids))
        names = await self._access.store_names(self._tenant, {row.store_id for row in records.values()})
        places = {row.id: Place.of(row, names.get(row.store_id)) for row in records.values()}
        return [_seen(entry, places) for entry in entries]

    async def close(self) -> None:
        self._is_closed = True
        self._announce()
        self._poller.cancel()
        await asyncio.gather(self._poller, return_exceptions=True)


def _seen(entry: Entry, places: dict[str, Place]) -> _Seen:
    if not feed.is_change(entry):
        return _Seen(entry, {})
    return _Seen(entry, {mention.id: places[mention.id] for mention in entry.records if mention.id in places})


def _told(page: Sequence[_Seen], reader: Principal, wanted: Wanted) -> tuple[FeedEvent, ...]:
    events = (feed.told(seen.entry, seen.places, reader, wanted) for seen in page)
    return tuple(event for event in events if event is not None)
