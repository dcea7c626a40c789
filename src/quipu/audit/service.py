"""The capability put together: every operation of audit and the function that does it. Reading the journal stands here."""

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace

from quipu.access.rules import Ownership, visible
from quipu.audit import operations as ops
from quipu.audit.anchors import Anchor
from quipu.audit.checkpoints import Checkpoints, statement
from quipu.audit.export import Exporter
from quipu.audit.keys import Signer
from quipu.audit.model import (
    ANCHORS,
    EVERY_TENANT,
    Anchored,
    AnchorRequest,
    AnchorResponse,
    AnchorView,
    CheckpointView,
    EntryView,
    ExportJournalRequest,
    ExportLine,
    Faults,
    HeadView,
    JournalHeadRequest,
    JournalRequest,
    JournalResponse,
    ListCheckpointsRequest,
    ListCheckpointsResponse,
    MentionView,
    SignCheckpointRequest,
    TenantReport,
    Unverifiable,
    VerifyRequest,
    VerifyResponse,
)
from quipu.audit.remedy import Detect
from quipu.audit.undo import Undo, UndoneImports
from quipu.audit.verify import Verifier
from quipu.errors import Fault, NotFoundError, QuipuError, UnsupportedError
from quipu.ledger.commit import Commit, Keep
from quipu.ledger.ledger import JournalQuery, Ledger
from quipu.memory.scope import Scopes, reaches
from quipu.memory.service import MemoryService
from quipu.model.journal import WITNESS, Checkpoint, Draft, Entry
from quipu.model.principal import Permission
from quipu.model.record import Record
from quipu.model.store import Store
from quipu.operation import AnyBinding, Binding, Context, invalid

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
            signed=None if signed is None else _view(ctx.tenant, signed),
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
                found.append((entry, _entry_view(entry, is_whole=True)))
                continue
            mentions = tuple(one for one in entry.records if is_shown(records.get(one.id)))
            store = stores.get(entry.store or "")
            owner = Ownership(agent_id=entry.agent, store=None if store is None else store.name)
            is_seen = bool(mentions) or (
                not entry.records and request.user_id is None and visible(ctx.principal, owner)
            )
            view = _entry_view(replace(entry, records=mentions), is_whole=ctx.principal.is_whole)
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


def _entry_view(entry: Entry, *, is_whole: bool) -> EntryView:
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


_log = logging.getLogger("quipu.audit")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditService:
    """What audit does."""

    ledger: Ledger
    checkpoints: Checkpoints
    anchors: Sequence[Anchor]
    verifier: Verifier
    exporter: Exporter
    journal: Journal
    undo: Undo

    @property
    def bindings(self) -> tuple[AnyBinding, ...]:
        return (
            Binding(ops.VERIFY, self.verify),
            Binding(ops.JOURNAL, self.journal.page),
            Binding(ops.JOURNAL_HEAD, self.journal.head),
            Binding(ops.LIST_CHECKPOINTS, self.list_checkpoints),
            Binding(ops.SIGN_CHECKPOINT, self.sign_checkpoint),
            Binding(ops.ANCHOR, self.anchor),
            Binding(ops.EXPORT_JOURNAL, self.export),
            Binding(ops.UNDO, self.undo.undo),
        )

    async def close(self) -> None:
        """Sign what is due."""
        await self.checkpoints.close()

    # -- verification -------------------------------------------------------------------------------------------------

    async def verify(self, ctx: Context, request: VerifyRequest) -> VerifyResponse:
        """One tenant, or every one; each is named. The schema is everybody's."""
        faults, unverifiable = await self.verifier.database()
        known = await self.verifier.tenants()
        if request.tenant == EVERY_TENANT:
            wanted = known
        elif request.tenant is None:
            wanted = [ctx.tenant]
        elif request.tenant in known:
            wanted = [request.tenant]
        else:
            raise NotFoundError(
                "There is no such tenant.", reason="tenant", hint="`quipu tenant list` shows them."
            )
        reports = [await self.verifier.tenant(name) for name in wanted]
        return _answer(reports, faults, unverifiable, names_database=ctx.principal.may(Permission.OPERATE))

    # -- signatures ---------------------------------------------------------------------------------------------------

    async def list_checkpoints(
        self, ctx: Context, request: ListCheckpointsRequest
    ) -> ListCheckpointsResponse:
        points = await self.ledger.checkpoints(ctx.tenant, request.after, request.limit)
        return ListCheckpointsResponse(
            checkpoints=tuple(_view(ctx.tenant, point) for point in points),
            keys=dict(self.checkpoints.signer.known_keys),
        )

    async def sign_checkpoint(self, ctx: Context, request: SignCheckpointRequest) -> CheckpointView:
        return _view(ctx.tenant, await self.checkpoints.sign(ctx.tenant, ctx.principal.name))

    async def anchor(self, ctx: Context, request: AnchorRequest) -> AnchorResponse:
        if not self.anchors:
            raise UnsupportedError(
                "There is no place to publish to.",
                reason="anchor",
                hint="Name one with the setting audit_anchor: file:///path or https://host/path.",
            )
        wanted = [one for one in self.anchors if request.target in (None, one.target)]
        if not wanted:
            accepted = f"one of {', '.join(one.target for one in self.anchors)}"
            raise invalid([Fault("/target", "bad_value", accepted)])
        checkpoint = await self.checkpoints.sign(ctx.tenant, ctx.principal.name)
        published = [await self._publish(one, ctx.tenant, ctx.principal.name, checkpoint) for one in wanted]
        return AnchorResponse(
            anchors=tuple(
                AnchorView(target=one.target, seq=one.entry, hash=one.hash, proof=one.proof)
                for one in published
            )
        )

    async def publish_due(self, tenant: str, checkpoint: Checkpoint) -> None:
        """Publish a position that was signed because it was due; a place that does not answer is tried with the next."""
        for anchor in self.anchors:
            try:
                await self._publish(anchor, tenant, "system", checkpoint)
            except QuipuError as error:
                _log.warning("A signed position could not be published: %s", error.message)

    async def _publish(self, anchor: Anchor, tenant: str, actor: str, checkpoint: Checkpoint) -> Anchored:
        proof = await anchor.publish(tenant, checkpoint)
        anchored = Anchored(
            target=anchor.target,
            entry=checkpoint.seq,
            hash=checkpoint.hash.hex(),
            at=checkpoint.at,
            proof=proof,
        )
        draft = Draft(op="anchor", actor=actor, at=checkpoint.at, detail={"checkpoint": checkpoint.seq})
        commit = Commit(tenant=tenant, draft=draft, changes=(Keep(ANCHORS, anchored),))
        await self.ledger.commit(commit)
        return anchored

    # -- export -------------------------------------------------------------------------------------------------------

    async def export(self, ctx: Context, request: ExportJournalRequest) -> AsyncIterator[ExportLine]:
        lines = self.exporter.lines(ctx.tenant, ctx.principal.name, with_records=request.with_records)
        async for line in lines:
            yield line


def audit_service(
    *,
    ledger: Ledger,
    memory: MemoryService,
    signer: Signer,
    checkpoints: Checkpoints,
    anchors: Sequence[Anchor],
    detect: Detect,
    imports: UndoneImports,
) -> AuditService:
    """Everything of audit, from its parts."""
    return AuditService(
        ledger=ledger,
        checkpoints=checkpoints,
        anchors=anchors,
        verifier=Verifier(ledger=ledger, signer=signer, anchors=anchors),
        exporter=Exporter(ledger=ledger, checkpoints=checkpoints),
        journal=Journal(ledger, memory.read.scopes),
        undo=Undo(ledger=ledger, memory=memory, detect=detect, imports=imports),
    )


def _answer(
    reports: Sequence[TenantReport], faults: Faults, unverifiable: Unverifiable, *, names_database: bool
) -> VerifyResponse:
    """What the database's own pages say may name other tenants' things: that is for who runs the server."""
    return VerifyResponse(
        verified=not faults.count and all(report.is_verified for report in reports),
        tenants=tuple(reports),
        faults=faults.named if names_database else faults.kinds,
        unverifiable=tuple(unverifiable.values()),
    )


def _view(tenant: str, checkpoint: Checkpoint) -> CheckpointView:
    return CheckpointView(**statement(tenant, checkpoint))
