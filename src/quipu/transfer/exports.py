"""Taking memories out: walked through once at one position, spooled, written, signed, sealed, and only then sent.

A file is made whole before its first byte is sent, and never held in memory. It is made anew where something is erased
meanwhile, and breaks off where that happens while it is sent. Every export has its journal entry before it leaves.
"""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any, BinaryIO, cast

from quipu._version import __version__
from quipu.errors import ConflictError, Fault
from quipu.ledger.commit import Commit
from quipu.ledger.ledger import JournalQuery, Ledger
from quipu.ledger.reader import Reader
from quipu.memory.model import RecordView
from quipu.memory.scope import Scopes, no_store, predicate
from quipu.memory.snapshots import Snapshots
from quipu.memory.views import record_view
from quipu.model.journal import Draft, Head
from quipu.model.record import Record
from quipu.model.search import Selection, Snapshot
from quipu.model.store import Store
from quipu.operation import AnyBinding, Binding, Context, FilePart, invalid
from quipu.sharing import receipts
from quipu.sharing.grants.service import Grants
from quipu.sharing.host import Host, kept
from quipu.sharing.model import GRANTS, Receipt
from quipu.sharing.times import rfc3339
from quipu.transfer import age
from quipu.transfer import operations as ops
from quipu.transfer.formats import registry
from quipu.transfer.formats.loss import Loss
from quipu.transfer.formats.spool import Contents
from quipu.transfer.model import Export, ExportFileRequest, ExportRecordsRequest, ExportReport
from quipu.transfer.spooling import ContentsSpool

_PAGE = 1_000


class ErasureWatch:
    """Follows a tenant's journal, whichever process writes it."""

    def __init__(self, ledger: Ledger, tenant: str, head: Head) -> None:
        self._ledger, self._tenant = ledger, tenant
        #: Where the journal ended when this began.
        self.head, self._seq = head, head.seq
        self._has_erased = False

    @classmethod
    async def begun(cls, ledger: Ledger, tenant: str) -> "ErasureWatch":
        """From now on."""
        return cls(ledger, tenant, await ledger.head(tenant))

    async def has_erased(self) -> bool:
        """Whether anything was erased since this began, or old versions were emptied."""
        if not self._has_erased and (await self._ledger.head(self._tenant)).seq > self._seq:
            while entries := await self._ledger.entries(
                self._tenant, JournalQuery(after=self._seq, limit=_PAGE)
            ):
                self._seq = entries[-1].seq
                if any(entry.op == "prune" or entry.detail.get("erased") for entry in entries):
                    self._has_erased = True
                    break
        return self._has_erased

    async def check(self) -> None:
        """ConflictError once something was erased."""
        if await self.has_erased():
            raise erased_meanwhile()


def erased_meanwhile() -> ConflictError:
    return ConflictError(
        "Something was erased while the file was made or sent.",
        reason="erased_meanwhile",
        hint="Ask for the file again: it comes without what was erased.",
    )


_PIECE = 256 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedFile:
    """A whole file from its beginning, what is reported of it, and what is checked while it is sent."""

    data: BinaryIO
    size: int
    sha256: str
    name: str
    media_type: str
    report: ExportReport
    watch: ErasureWatch

    async def parts(self, check: Callable[[], Awaitable[None]] | None = None) -> AsyncIterator[FilePart]:
        """The file, piece by piece; ConflictError once something is erased, and what `check` raises. Closes it."""
        first = FilePart(
            data=b"",
            file_name=self.name,
            media_type=self.media_type,
            size=self.size,
            sha256=self.sha256,
            report=self.report.to_dict(),
        )
        part: FilePart | None = first
        with self.data:
            while part is not None:
                await self.watch.check()
                if check is not None:
                    await check()
                yield part
                piece = await asyncio.to_thread(self.data.read, _PIECE)
                part = FilePart(data=piece) if piece else None


def written(
    contents: Contents,
    loss: Loss,
    report: ExportReport,
    watch: ErasureWatch,
    at: int,
    encrypt_to: Sequence[str],
) -> ExportedFile:
    """What was spooled, as a file; readable only for `encrypt_to` where there is somebody. Blocks."""
    format_ = registry.named(report.format)
    target: IO[bytes] = tempfile.TemporaryFile(prefix="quipu-export-")  # noqa: SIM115  handed on
    try:
        assert format_.write is not None
        format_.write(cast("BinaryIO", target), contents, loss)
        if encrypt_to:
            target = _sealed(target, encrypt_to)
        target.seek(0)
        sha256 = hashlib.file_digest(cast("Any", target), "sha256").hexdigest()
        size = target.tell()
        target.seek(0)
    except BaseException:
        target.close()
        raise
    suffix, media_type = format_.suffix, format_.media_type
    if contents.as_lines and report.format == "bundle":
        suffix, media_type = ".bundle.ndjson", "application/x-ndjson"
    if encrypt_to:
        suffix, media_type = f"{suffix}.age", "application/octet-stream"
    return ExportedFile(
        data=cast("BinaryIO", target),
        size=size,
        sha256=sha256,
        name=f"memories-{rfc3339(at)[:10]}{suffix}",
        media_type=media_type,
        report=report.model_copy(update={"loss": loss.report(), "is_sealed": bool(encrypt_to)}),
        watch=watch,
    )


def _sealed(plain: IO[bytes], recipients: Sequence[str]) -> IO[bytes]:
    """The same, readable only for these."""
    sealed = tempfile.TemporaryFile(prefix="quipu-export-")  # noqa: SIM115  handed on
    try:
        plain.seek(0)
        age.seal(cast("BinaryIO", plain), cast("BinaryIO", sealed), recipients)
    except BaseException:
        sealed.close()
        raise
    plain.close()
    return sealed


_STRETCH = 200
#: So often a file is made anew because something was erased meanwhile.
_ATTEMPTS = 5
#: How the reason of a removal begins that an undo gives.
_UNDO = "undo:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exports:
    """Writes memories into files, and hands them out one by one."""

    host: Host
    scopes: Scopes
    snapshots: Snapshots
    grants: Grants

    @property
    def bindings(self) -> tuple[AnyBinding, ...]:
        return (
            Binding(ops.EXPORT_FILE, self.file),
            Binding(ops.EXPORT_RECORDS, self.records),
        )

    @property
    def ledger(self) -> Ledger:
        return self.host.ledger

    # -- one by one -----------------------------------------------------------------------------------------------------

    async def records(self, ctx: Context, request: ExportRecordsRequest) -> AsyncIterator[RecordView]:
        stores = await self.scopes.stores(ctx.tenant)
        watch = await ErasureWatch.begun(self.ledger, ctx.tenant)
        selection = self._selection(ctx, request, stores)
        snapshot = await self._snapshot(ctx, request, watch.head)
        await self._note(ctx, self.host.new_id("exp"), {"format": "records"})
        async for stretch in self._stretches(selection, snapshot):
            standing = stretch
            if await watch.has_erased():
                keys = [(record.id, record.version) for record in stretch]
                left = await self.ledger.read(ctx.tenant, lambda reader, keys=keys: reader.not_emptied(keys))
                standing = [record for record in stretch if (record.id, record.version) in left]
            for record in standing:
                yield record_view(record, stores, is_masked=False)

    # -- a file ---------------------------------------------------------------------------------------------------------

    async def file(self, ctx: Context, request: ExportFileRequest) -> AsyncIterator[FilePart]:
        file = await self.made(ctx, request)
        async for part in file.parts():
            yield part

    async def made(self, ctx: Context, request: ExportFileRequest) -> ExportedFile:
        """The whole file. Whoever asks for it closes it, as `parts` does."""
        check(request)
        for _ in range(_ATTEMPTS):
            watch = await ErasureWatch.begun(self.ledger, ctx.tenant)
            file = await self._written(ctx, request, watch)
            if not await watch.has_erased():
                told = {"format": request.format, "items": file.report.items, "sha256": file.sha256}
                await self._note(ctx, file.report.export_id, told)
                return file
            file.data.close()
        raise erased_meanwhile()

    async def _written(self, ctx: Context, request: ExportFileRequest, watch: ErasureWatch) -> ExportedFile:
        stores, loss = await self.scopes.stores(ctx.tenant), Loss()
        spool = ContentsSpool(self.ledger, ctx.tenant, self.host.owner(ctx.principal), request, loss, stores)
        try:
            head = await self._spooled(ctx, request, watch.head, spool)
            return await self._file(ctx, request, spool, head, watch)
        finally:
            spool.close()

    async def _spooled(
        self, ctx: Context, request: ExportFileRequest, end: Head, spool: ContentsSpool
    ) -> Mapping[str, Any]:
        """Everything that goes into the file; and what its manifest says."""
        since = await self._since(ctx, request, end)
        snapshot = await self._snapshot(ctx, request, end)
        selection = self._selection(ctx, request, spool.stores)
        await spool.begin()
        async for stretch in self._stretches(selection, snapshot):
            await spool.add([record for record in stretch if record.born > since])
        if request.format == "bundle" and request.as_of is None:
            await self._tombstones(selection, since, end.seq, spool)
        await spool.finish(await self._granted(ctx.tenant) if spool.grants is not None else ())
        head: dict[str, Any] = {
            "export_id": self.host.new_id("exp"),
            "exported_at": rfc3339(self.host.clock(), fraction=True),
            "exporter": f"quipu/{__version__}",
            "owner": spool.owner,
            "export_type": "full" if request.since is None else "incremental",
            "chain_head": {"seq": end.seq, "hash": f"sha256:{end.hash.hex()}"},
            **spool.told(),
        }
        if request.since is not None:
            head["since"] = request.since
        if request.base_export_id is not None:
            head["base_export_id"] = request.base_export_id
        return head

    async def _file(
        self,
        ctx: Context,
        request: ExportFileRequest,
        spool: ContentsSpool,
        head: Mapping[str, Any],
        watch: ErasureWatch,
    ) -> ExportedFile:
        by = self.host.keyring.signatory(ctx.tenant) if request.format == "bundle" else None
        contents = Contents(
            items=spool.items,
            head=head,
            others=spool.files(),
            vectors=spool.vectors,
            by=by,
            as_lines=request.as_lines,
        )
        report = ExportReport(
            export_id=str(head["export_id"]),
            format=request.format,
            items=len(spool.items),
            withheld=spool.withheld,
            tombstones=len(spool.tombstones),
            position=watch.head.seq,
            signed_by=None if by is None else by.kid,
        )
        at = self.host.clock()
        return await asyncio.to_thread(written, contents, spool.loss, report, watch, at, request.encrypt_to)

    # -- which ----------------------------------------------------------------------------------------------------------

    def _selection(self, ctx: Context, request: Export, stores: Mapping[str, Store]) -> Selection:
        store = None if request.store is None else stores.get(request.store)
        if request.store is not None and store is None:
            raise no_store()
        fits, agents = predicate(request.filter, stores), frozenset(request.agents)
        return Selection(
            tenant=ctx.tenant,
            agent_id=request.agents[0] if len(agents) == 1 else None,
            user_id=request.user_id,
            store_id=None if store is None else store.id,
            types=frozenset(request.types),
            states=frozenset({"live", "archived"}),
            matches=fits
            if len(agents) < 2
            else lambda record: record.agent_id in agents and (fits is None or fits(record)),
        )

    async def _snapshot(self, ctx: Context, request: Export, end: Head) -> Snapshot:
        """Everything is as of one position, however long it takes."""
        if request.as_of is not None:
            return await self.snapshots.of(ctx, request.as_of)
        return Snapshot(end.seq, ctx.clock())

    async def _since(self, ctx: Context, request: ExportFileRequest, end: Head) -> int:
        """The position that a file goes on from; 0 where it holds everything."""
        if request.since is None:
            return 0
        text = request.since.strip()
        if text.isascii() and text.isdigit() and len(text) <= 18 and int(text) <= end.horizon:
            return int(text)  # what retention has emptied since is still named by its tombstones
        found = (await self.snapshots.of(ctx, text)).seq
        if found is None or text.startswith("run_"):
            raise invalid([Fault("/since", "bad_value", "a journal position, or a moment with its zone")])
        return found

    async def _stretches(self, selection: Selection, snapshot: Snapshot) -> AsyncIterator[list[Record]]:
        waiting: list[Record] = []
        async for record in self.ledger.scan(selection, snapshot):
            waiting.append(record)
            if len(waiting) == _STRETCH:
                yield waiting
                waiting = []
        if waiting:
            yield waiting

    async def _tombstones(self, selection: Selection, since: int, end: int, spool: ContentsSpool) -> None:
        """What was forgotten or erased since. An import that was undone leaves none: its file may come again."""
        gone = replace(selection, states=frozenset({"forgotten", "erased"}))
        times: dict[int, int] = {}
        async for record in _gone(self.ledger, gone, self.host.clock()):
            died = record.died or 0
            if not since < died <= end:
                continue
            if record.provenance.import_id is not None:
                reasons = await self.ledger.reasons(selection.tenant, record.id)
                if reasons.get(died, "").startswith(_UNDO):
                    continue
            if died not in times:
                query = JournalQuery(after=died - 1, limit=1)
                times[died] = (await self.ledger.entries(selection.tenant, query))[0].at
            spool.add_tombstone(record, times[died])

    async def _granted(self, tenant: str) -> Sequence[Mapping[str, Any]]:
        """Every grant as it was signed, and what it is worth now."""
        found: list[Mapping[str, Any]] = []
        after: tuple[str] | None = None
        while page := await self.ledger.page(GRANTS, tenant, after=after, limit=_PAGE):
            for row in page:
                status = await self.grants.status(tenant, row)
                told: dict[str, Any] = {"grant": dict(row.body), "grant_hash": row.hash, "status": status}
                told |= {"registered_at": rfc3339(row.registered_at), "uses": row.uses}
                told["items_disclosed"] = row.disclosed
                if row.revoked_at is not None:
                    told["revoked_at"] = rfc3339(row.revoked_at)
                found.append(told)
            after = (page[-1].id,)
        return found

    async def _note(self, ctx: Context, export_id: str, told: Mapping[str, Any]) -> None:
        """The journal says that it left before it leaves, and where others reach this host, so does a receipt."""
        detail = {"export_id": export_id, **told}
        draft = Draft(op="export", actor=ctx.principal.name, at=ctx.clock(), detail=detail)

        def work(reader: Reader) -> tuple[None, Sequence[Commit]]:
            changes = (kept(self._receipt(reader, ctx, detail)),) if self.host.keyring.is_public else ()
            return None, [Commit(tenant=ctx.tenant, draft=draft, changes=changes)]

        await self.ledger.locked(ctx.tenant, work)

    def _receipt(self, reader: Reader, ctx: Context, told: Mapping[str, Any]) -> Receipt:
        return self.host.receipt(
            reader,
            "invocation",
            at=ctx.clock(),
            agent=self.host.owner(ctx.principal),
            action_id="memory_export",
            action_version="1.0.0",
            input_hash=receipts.salted("input", {"export_id": told["export_id"]}, self.host.salt()),
            output_hash=receipts.salted("output", dict(told), self.host.salt()),
            policy_decisions=[self.host.decision("allow", "memory.owner")],
            provenance_tags_out=[],
        )


async def _gone(ledger: Ledger, selection: Selection, now: int) -> AsyncIterator[Record]:
    """What ended for good, newest id first, also what is emptied: of that nobody knows any more what a filter asks for."""
    wanted = selection.matches is not None or selection.types or selection.user_id or selection.store_id
    snapshot, below = Snapshot(None, now), None
    while True:
        start: str | None = below
        page = await ledger.read(
            selection.tenant, lambda reader, at=start: reader.page(selection, snapshot, at, _PAGE)
        )
        for record in page:
            if record.standing not in selection.states or record.died is None:
                continue
            if record.is_emptied and wanted:
                continue
            if selection.types and record.type not in selection.types:
                continue
            if selection.matches is None or selection.matches(record):
                yield record
        if len(page) < _PAGE:
            return
        below = page[-1].id


def check(request: ExportFileRequest) -> None:
    """Such a file can be written."""
    is_bundle = request.format == "bundle"
    faults: list[Fault] = []
    if request.as_lines and not is_bundle:
        faults.append(Fault("/as_lines", "bad_value", "only for a bundle"))
    if request.since is not None and (not is_bundle or request.as_of is not None):
        faults.append(Fault("/since", "bad_value", "only for a bundle of today, without as_of"))
    if request.include and not is_bundle:
        faults.append(Fault("/include", "bad_value", "only for a bundle"))
    if "embeddings" in request.include and request.as_lines:
        faults.append(Fault("/include", "bad_value", "embeddings only for an archive: vectors are no lines"))
    if request.base_export_id is not None and request.since is None:
        faults.append(Fault("/since", "missing_field", "where the other export ended"))
    if faults:
        raise invalid(faults)
    age.check_recipients(request.encrypt_to)
