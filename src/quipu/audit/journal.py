"""Pages of the journal, as far as the caller may see it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from quipu.access.limits import Ownership, visible
from quipu.audit.checkpoints import statement
from quipu.audit.model import (
    CheckpointView,
    EntryView,
    HeadView,
    JournalHeadRequest,
    JournalRequest,
    JournalResponse,
    MentionView,
)
from quipu.errors import Fault
from quipu.ledger.ledger import JournalQuery, Ledger
from quipu.memory.scope import Scopes, reaches
from quipu.model.journal import WITNESS, Entry
from quipu.model.record import Record
from quipu.model.store import Store
from quipu.operation import Context, invalid

_PAGE = 500
#: Who may see little of a long journal is given a cursor after so many entries, even with nothing to show.
_MOST_READ = 20_000


@dataclass(frozen=True, slots=True)
class Journal:
    """Reads the journal for people."""

    ledger: Ledger
    scopes: Scopes

    async def head(self, ctx: Context, request: JournalHeadRequest) -> HeadView:
        head = await self.ledger.head(ctx.tenant)
        return HeadView(seq=head.seq, hash=head.hash.hex(), at=head.at)

    async def page(self, ctx: Context, request: JournalRequest) -> JournalResponse:
        query, stores = _query(request), await self.scopes.stores(ctx.tenant)
        shown: list[EntryView] = []
        read, last = 0, 0
        while len(shown) < request.limit and read < _MOST_READ:
            entries = await self.ledger.entries(ctx.tenant, query)
            for entry, view in await self._visible(ctx, request, entries, stores):
                last = entry.seq
                if view is not None:
                    shown.append(view)
                    if len(shown) == request.limit:
                        break
            if len(entries) < query.limit and len(shown) < request.limit:
                last = 0
                break
            read += len(entries)
            query = replace(query, **{"before" if query.newest_first else "after": last})
        signed = await self.ledger.last_checkpoint(ctx.tenant)
        return JournalResponse(
            entries=tuple(shown),
            next_cursor=str(last) if last else None,
            head=await self.head(ctx, JournalHeadRequest()),
            signed=None if signed is None else CheckpointView(**statement(ctx.tenant, signed)),
        )

    async def _visible(
        self, ctx: Context, request: JournalRequest, entries: Sequence[Entry], stores: Mapping[str, Store]
    ) -> list[tuple[Entry, EntryView | None]]:
        """Each entry, and what of it the caller may see: of memories within reach, or of an owner within reach."""
        is_whole = ctx.principal.is_whole and request.user_id is None
        records: Mapping[str, Record] = {}
        if not is_whole:
            ids = {mention.id for entry in entries for mention in entry.records}
            records = await self.ledger.newest_versions(ctx.tenant, sorted(ids))

        def is_shown(record: Record | None) -> bool:
            return (
                record is not None
                and reaches(ctx.principal, record, stores)
                and request.user_id in (None, record.user_id)
            )

        found: list[tuple[Entry, EntryView | None]] = []
        for entry in entries:
            if is_whole:
                found.append((entry, _view(entry, is_whole=True)))
                continue
            mentions = tuple(one for one in entry.records if is_shown(records.get(one.id)))
            store = stores.get(entry.store or "")
            owner = Ownership(agent_id=entry.agent, store=None if store is None else store.name)
            is_seen = bool(mentions) or (
                not entry.records and request.user_id is None and visible(ctx.principal, owner)
            )
            view = _view(replace(entry, records=mentions), is_whole=ctx.principal.is_whole)
            found.append((entry, view if is_seen else None))
        return found


def _query(request: JournalRequest) -> JournalQuery:
    cursor = 0
    if request.cursor is not None:
        if not request.cursor.isascii() or not request.cursor.isdigit() or len(request.cursor) > 18:
            raise invalid([Fault("/cursor", "bad_value", "next_cursor of the page before")])
        cursor = int(request.cursor)
    return JournalQuery(
        after=0 if request.newest_first else cursor,
        before=cursor if request.newest_first and cursor else None,
        op=request.op,
        actor=request.actor,
        agent=request.agent_id,
        run=request.run,
        record=request.record,
        since=request.since,
        until=request.until,
        newest_first=request.newest_first,
        limit=_PAGE,
    )


def _view(entry: Entry, *, is_whole: bool) -> EntryView:
    """For whoever has limits without what names other memories and rows."""
    hidden = {"nonce"} if is_whole else WITNESS
    return EntryView(
        seq=entry.seq,
        at=entry.at,
        actor=entry.actor,
        op=entry.op,
        agent_id=entry.agent,
        store=entry.store,
        run_id=entry.run,
        node_id=entry.node,
        records=tuple(
            MentionView(id=one.id, version=one.version, digest=one.digest) for one in entry.records
        ),
        detail={name: value for name, value in entry.detail.items() if name not in hidden},
        hash=entry.hash.hex(),
    )
