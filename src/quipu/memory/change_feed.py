"""The journal as events: woken by commits of this process, and by a look every quarter of a second for the others'."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from quipu.errors import Fault
from quipu.ledger.ledger import JournalQuery, Ledger
from quipu.memory.model import ChangeEvent, ChangesRequest
from quipu.memory.scope import Scopes, reaches
from quipu.model.journal import WITNESS, Entry
from quipu.operation import Context, invalid

_PAGE = 500
_POLL_S = 0.25
#: What an entry is called as an event; others are no changes of memory, or not for followers.
EVENTS = {
    "remember": "memory.remembered",
    "update": "memory.updated",
    "import": "memory.remembered",
    "forget": "memory.forgotten",
    "erase": "memory.erased",
    "merge": "memory.merged",
    "expire": "memory.expired",
    "sweep": "memory.expired",
    "archive": "memory.archived",
    "demote": "memory.demoted",
    "restore": "memory.restored",
    "hold": "proposal.held",
    "approve": "proposal.approved",
    "reject": "proposal.rejected",
    "create_store": "store.created",
    "delete_store": "store.deleted",
}


class CommitSignal:
    """Wakes whoever waits for the journal of a tenant to move."""

    def __init__(self, ledger: Ledger) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}
        ledger.on_commit(self._committed)

    def _committed(self, tenant: str, seq: int, commits: object) -> None:
        for event in self._waiting.get(tenant, ()):
            event.set()

    async def wait(self, tenant: str, timeout_s: float) -> None:
        """Return when something was committed, or after so long."""
        event = asyncio.Event()
        waiting = self._waiting.setdefault(tenant, set())
        waiting.add(event)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await event.wait()
        finally:
            waiting.discard(event)
            if not waiting:
                self._waiting.pop(tenant, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFeed:
    """Follows the journal as a caller may see it."""

    ledger: Ledger
    scopes: Scopes
    signal: CommitSignal

    async def changes(self, ctx: Context, request: ChangesRequest) -> AsyncIterator[ChangeEvent]:
        head = await self.ledger.head(ctx.tenant)
        position = head.seq if request.since is None else request.since
        if position > head.seq:
            raise invalid([Fault("/since", "bad_value", f"a journal position up to {head.seq}")])
        store = None if request.store is None else await self.scopes.store(ctx.principal, request.store)
        while True:
            entries = await self.ledger.entries(ctx.tenant, JournalQuery(after=position, limit=_PAGE))
            for event in await self._visible(ctx, entries):
                is_wanted = (
                    (request.agent_id is None or event.agent_id == request.agent_id)
                    and (store is None or event.store == store.id)
                    and (not request.types or event.type in request.types)
                )
                if is_wanted:
                    yield event
            if entries:
                position = entries[-1].seq
            else:
                await self.signal.wait(ctx.tenant, _POLL_S)

    async def _visible(self, ctx: Context, entries: Sequence[Entry]) -> list[ChangeEvent]:
        """Events of these entries, each with the records that the caller may see; without any it is not shown."""
        changes = [entry for entry in entries if entry.op in EVENTS]
        ids = {mention.id for entry in changes for mention in entry.records}
        if not changes:
            return []
        records = await self.ledger.newest_versions(ctx.tenant, sorted(ids))
        stores = await self.scopes.stores(ctx.tenant)
        events: list[ChangeEvent] = []
        for entry in changes:
            shown = [
                mention.id
                for mention in entry.records
                if (record := records.get(mention.id)) is not None and reaches(ctx.principal, record, stores)
            ]
            if shown or (not entry.records and ctx.principal.is_whole):
                events.append(_event(entry, shown))
        return events


def _event(entry: Entry, record_ids: list[str]) -> ChangeEvent:
    detail = {name: value for name, value in entry.detail.items() if name not in WITNESS}
    return ChangeEvent(
        seq=entry.seq,
        type=EVENTS[entry.op],
        at=entry.at,
        actor=entry.actor,
        agent_id=entry.agent,
        store=entry.store,
        run_id=entry.run,
        record_ids=tuple(record_ids),
        detail=detail,
    )
