"""Reading by id, by page and by history, and the memories around one."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quipu.errors import Fault, ForbiddenError, NotFoundError
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Reader
from quipu.memory import operations as ops
from quipu.memory.model import (
    AgentView,
    Edge,
    GetRequest,
    HistoryRequest,
    HistoryResponse,
    HistoryVersion,
    ListAgentsRequest,
    ListAgentsResponse,
    ListRequest,
    ListResponse,
    NoteRecalledRequest,
    NoteRecalledResponse,
    RecordView,
    RelatedRequest,
    RelatedResponse,
)
from quipu.memory.read_log import ReadLog, RecallBudget
from quipu.memory.scope import Scopes, in_scope, no_record, predicate, reaches
from quipu.memory.snapshots import Snapshots
from quipu.memory.views import is_secret, record_fields, record_view
from quipu.model.principal import Permission
from quipu.model.record import Record
from quipu.model.search import Scope, Selection, Snapshot
from quipu.model.store import Store
from quipu.operation import AnyBinding, Binding, Context, invalid

if TYPE_CHECKING:
    from quipu.search.engine import SearchEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Reads that do not rank. Each is journaled, and counts in the recall budget."""

    ledger: Ledger
    scopes: Scopes
    snapshots: Snapshots
    read_log: ReadLog
    budget: RecallBudget

    @property
    def bindings(self) -> tuple[AnyBinding, ...]:
        return (
            Binding(ops.GET, self.get),
            Binding(ops.LIST, self.page),
            Binding(ops.LIST_AGENTS, self.agents),
            Binding(ops.HISTORY, self.history),
            Binding(ops.NOTE_RECALLED, self.note_recalled),
        )

    async def get(self, ctx: Context, request: GetRequest) -> RecordView:
        """The memory as it stands, or stood. Archived ones can be read; forgotten and expired ones not."""
        snapshot = await self.snapshots.of(ctx, request.as_of)
        stores = await self.scopes.stores(ctx.tenant)
        found = (await self.ledger.records(ctx.tenant, [request.id], snapshot.seq)).get(request.id)
        if found is None or found.is_expired(snapshot.now) or not reaches(ctx.principal, found, stores):
            raise await self._absent(ctx, request.id, stores)
        ctx.facts.store = stores.get(found.store_id)
        marks = await self.ledger.marks(ctx.tenant, [found.id])
        async with self.budget.reserved(ctx, found.agent_id, 1) as allowed:
            allowed.spend(1)
        self.read_log.read(ctx, found.agent_id, [found])
        return record_view(found, stores, is_masked=_is_masked(ctx, found), mark=marks.get(found.id))

    async def _absent(self, ctx: Context, record_id: str, stores: Mapping[str, Store]) -> NotFoundError:
        """That there is no such memory, and which one it was merged into if that may be seen."""
        last = (await self.ledger.newest_versions(ctx.tenant, [record_id])).get(record_id)
        into = None if last is None or not reaches(ctx.principal, last, stores) else last.merged_into
        if into is None:
            return no_record()
        survivor = (await self.ledger.records(ctx.tenant, [into])).get(into)
        if survivor is None or not reaches(ctx.principal, survivor, stores):
            return no_record()
        return NotFoundError("There is no such memory.", reason="record", hint=f"It was merged into {into}.")

    async def history(self, ctx: Context, request: HistoryRequest) -> HistoryResponse:
        """All versions, oldest first."""
        stores = await self.scopes.stores(ctx.tenant)
        versions = await self.ledger.versions(ctx.tenant, request.id)
        # Of an erased version nobody knows any more which user's it was; a user's credential is shown none.
        shown = [version for version in versions if reaches(ctx.principal, version, stores)]
        if not shown:
            raise no_record()
        ctx.facts.store = stores.get(shown[-1].store_id)
        whole = [version for version in shown if not version.is_emptied]
        async with self.budget.reserved(ctx, shown[-1].agent_id, len(whole)) as allowed:
            allowed.spend(len(whole))
        if whole:
            self.read_log.read(ctx, whole[-1].agent_id, whole)
        reasons = await self.ledger.reasons(ctx.tenant, request.id)
        return HistoryResponse(
            versions=tuple(
                HistoryVersion(
                    **record_fields(version, stores, is_masked=_is_masked(ctx, version)),
                    reason=_reason(version, reasons),
                )
                for version in shown
            )
        )

    async def page(self, ctx: Context, request: ListRequest) -> ListResponse:
        """A page of memories, newest first."""
        if request.all_agents and not ctx.principal.is_whole:
            raise ForbiddenError(hint="It needs a credential without limits to agents, users or stores.")
        agent = None if request.all_agents else request.agent
        scope = await self.scopes.of(ctx.principal, agent, request.user_id, request.store)
        snapshot = await self.snapshots.of(ctx, request.as_of)
        stores = await self.scopes.stores(ctx.tenant)
        ctx.facts.store = None if scope.store_id is None else stores.get(scope.store_id)
        async with self.budget.reserved(ctx, agent, request.limit) as allowed:
            records = await self._selected(scope, snapshot, stores, request, allowed.count + 1)
            page = records[: allowed.count]
            allowed.spend(len(page))
        marks = await self.ledger.marks(ctx.tenant, [record.id for record in page])
        # Who has the file need not ask, and looking at a copy leaves it as it is.
        if page and not ctx.principal.is_local:
            self.read_log.read(ctx, agent, page)
        return ListResponse(
            records=tuple(
                record_view(one, stores, is_masked=_is_masked(ctx, one), mark=marks.get(one.id))
                for one in page
            ),
            next_cursor=_cursor(page[-1].id) if len(records) > len(page) and page else None,
        )

    async def agents(self, ctx: Context, request: ListAgentsRequest) -> ListAgentsResponse:
        """Counted in what the caller reaches: their agents, their user, their stores."""
        stores, principal = await self.scopes.stores(ctx.tenant), ctx.principal
        found: dict[str, AgentView] = {}
        for one in await self.ledger.counts(ctx.tenant, principal.user_id, ctx.clock()):
            store = stores.get(one.store_id)
            is_seen = "*" in principal.review_stores or (
                store is not None and principal.reaches_store(store.name)
            )
            if not (is_seen and principal.may_act_for(one.agent_id)):
                continue
            agent = found.get(one.agent_id)
            counts = {} if agent is None else agent.counts
            places = {} if agent is None else agent.stores
            name = one.store_id if store is None else store.name
            found[one.agent_id] = AgentView(
                agent_id=one.agent_id,
                counts={**counts, one.type: counts.get(one.type, 0) + one.count},
                stores={**places, name: places.get(name, 0) + one.count},
                newest_at=max(one.newest_at, 0 if agent is None else agent.newest_at),
            )
        most_first = sorted(found.values(), key=lambda one: (-sum(one.counts.values()), one.agent_id))
        return ListAgentsResponse(agents=tuple(most_first))

    async def _selected(
        self, scope: Scope, snapshot: Snapshot, stores: Mapping[str, Store], request: ListRequest, limit: int
    ) -> list[Record]:
        selection = Selection(
            tenant=scope.tenant,
            agent_id=scope.agent_id,
            user_id=scope.user_id,
            session_id=request.session_id,
            store_id=scope.store_id,
            types=frozenset(request.types),
            states=frozenset(request.states),
            matches=predicate(request.filter, stores),
            below=None if request.cursor is None else _below(request.cursor),
        )
        found: list[Record] = []
        async for record in self.ledger.scan(selection, snapshot):
            if in_scope(record, scope) and not record.is_expired(snapshot.now):
                found.append(record)
                if len(found) == limit:
                    break
        return found

    async def note_recalled(self, ctx: Context, request: NoteRecalledRequest) -> NoteRecalledResponse:
        stores = await self.scopes.stores(ctx.tenant)
        found = await self.ledger.records(ctx.tenant, request.ids)
        mine = [record for record in found.values() if reaches(ctx.principal, record, stores)]
        if mine:
            self.read_log.used(ctx, mine)
        return NoteRecalledResponse(counted=len(mine))


@dataclass(frozen=True, slots=True, kw_only=True)
class Related:
    """The memories around one: those that it names, that name it, and that were merged into it."""

    read: Read
    engine: "SearchEngine"

    async def related(self, ctx: Context, request: RelatedRequest) -> RelatedResponse:
        """The memories around one, ring by ring."""
        snapshot = await self.read.snapshots.of(ctx, request.as_of)
        stores = await self.read.scopes.stores(ctx.tenant)
        root = (await self.read.ledger.records(ctx.tenant, [request.id], snapshot.seq)).get(request.id)
        if root is None or root.is_expired(snapshot.now) or not reaches(ctx.principal, root, stores):
            raise no_record()
        scope = await self.read.scopes.of(ctx.principal, root.agent_id, ctx.principal.user_id)
        async with self.read.budget.reserved(ctx, root.agent_id, request.limit) as allowed:
            found, is_cut = await self._rings(ctx, root, scope, snapshot, stores, request.hops, allowed.count)
            allowed.spend(len(found))
        self.read.read_log.read(ctx, root.agent_id, list(found.values()))
        edges = await self._edges(ctx.tenant, found, snapshot)
        return RelatedResponse(
            nodes=tuple(record_view(one, stores, is_masked=_is_masked(ctx, one)) for one in found.values()),
            edges=edges,
            truncated=is_cut,
        )

    async def _edges(self, tenant: str, found: Mapping[str, Record], snapshot: Snapshot) -> tuple[Edge, ...]:
        """The links between these; one whose target was merged away leads to what that was merged into."""
        links = [(record.id, link) for record in found.values() for link in record.links]
        names = [link.to for _, link in links if link.to not in found]

        def passed_on(reader: Reader) -> dict[str, set[str]]:
            return reader.survivors(names, reader.head().seq if snapshot.seq is None else snapshot.seq)

        survivors = await self.read.ledger.read(tenant, passed_on) if names else {}
        edges: dict[Edge, None] = {}
        for source, link in links:
            targets = {link.to, *survivors.get(link.to, ())} & found.keys() - {source}
            edges.update((Edge(source=source, target=one, rel=link.rel), None) for one in sorted(targets))
        return tuple(edges)

    async def _rings(
        self,
        ctx: Context,
        root: Record,
        scope: Scope,
        snapshot: Snapshot,
        stores: Mapping[str, Store],
        hops: int,
        limit: int,
    ) -> tuple[dict[str, Record], bool]:
        found, ring, is_cut = {root.id: root}, [root.id], False
        for _ in range(hops):
            here = tuple(ring)
            near = await self.read.ledger.read(
                ctx.tenant, lambda reader, ids=here: self.engine.neighbours(reader, scope, snapshot, ids)
            )
            beyond = {other for name in ring for other in near.get(name, frozenset())}
            beyond |= {link.to for name in ring for link in found[name].links}
            names = sorted(beyond - found.keys())
            records = await self.read.ledger.records(ctx.tenant, names, snapshot.seq)
            seen = [
                record
                for name in names
                if (record := records.get(name)) is not None
                and reaches(ctx.principal, record, stores)
                and not record.is_expired(snapshot.now)
            ]
            room = max(0, limit - len(found))
            is_cut = is_cut or len(seen) > room
            found.update({record.id: record for record in seen[:room]})
            ring = [record.id for record in seen[:room]]
        return found, is_cut


def _is_masked(ctx: Context, record: Record) -> bool:
    return is_secret(record) and not ctx.principal.may(Permission.ADMIN)


def _reason(version: Record, reasons: Mapping[int, str]) -> str | None:
    """Why it began or ended. What replaced it has its own reason."""
    if version.born in reasons or version.died is None or version.ending == "replaced":
        return reasons.get(version.born)
    return reasons.get(version.died)


def _cursor(record_id: str) -> str:
    return base64.urlsafe_b64encode(record_id.encode()).decode("ascii").rstrip("=")


def _below(cursor: str) -> str:
    try:
        return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (binascii.Error, ValueError):
        raise invalid([Fault("/cursor", "bad_value", "next_cursor of the page before")]) from None
