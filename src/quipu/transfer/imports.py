"""Bringing in a whole file: always tried first, then carried out, held where a rule says so.

The same file gives the same import id and the same ids of memories every time. So an import that was cut off is gone on
with by doing it again: what is in already is a duplicate.
"""

import asyncio
import hashlib
import tempfile
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from quipu.access.rules import Ownership, visible
from quipu.errors import ConflictError, Fault, InvalidError, NotFoundError, QuipuError, TamperedError
from quipu.ledger.commit import Commit
from quipu.memory.pipeline import Guard, Plan
from quipu.model.journal import Draft
from quipu.model.principal import Principal
from quipu.operation import Context, Facts, invalid
from quipu.sharing.dids import PublicKey
from quipu.sharing.identity import Documents
from quipu.sharing.items import derived_id
from quipu.transfer.import_run import ImportRun
from quipu.transfer.model import (
    IMPORTS,
    CommitImportRequest,
    ImportCounts,
    ImportFileRequest,
    ImportReport,
    ImportRow,
    ImportStatus,
)
from quipu.transfer.placement import owner_mark
from quipu.transfer.waiting import WaitingFiles
from quipu.transfer.writes import ImportWrites, kept_row

if TYPE_CHECKING:  # readers of files take a while to load, and most calls need none
    from quipu.transfer.formats.reading import Reading

_MOST_BYTES = 8 << 30
#: A file that was tried waits so long to be carried out, and so many of a host wait at a time.
_PATIENCE_MS, _MOST_WAITING = 3_600_000, 32


@dataclass(slots=True)
class _Job:
    """A file that was sent, and how far it is."""

    ctx: Context
    #: Who sent it.
    sender: str
    request: ImportFileRequest
    file: BinaryIO
    until: int
    report: ImportReport
    work: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        return self.work is not None and not self.work.done()

    def tell(self, more: Mapping[str, Any]) -> None:
        """The report says more now."""
        self.report = self.report.model_copy(update=dict(more))

    async def waited(self, seconds: float) -> ImportReport:
        """The report when it is done, or as it is by then. Whoever waits may go away, the work goes on."""
        work = self.work
        if work is not None:
            await asyncio.wait({work}, timeout=seconds)
            if work.done():
                work.result()
        return self.report

    async def end(self) -> None:
        if self.work is not None and self.is_busy:
            self.work.cancel()
            with suppress(asyncio.CancelledError, QuipuError):
                await self.work
        self.file.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Imports:
    """Tries files and carries them out."""

    writes: ImportWrites
    documents: Documents
    files: WaitingFiles
    _jobs: OrderedDict[tuple[str, str], _Job] = field(
        default_factory=OrderedDict[tuple[str, str], _Job], init=False
    )

    # -- trying and carrying out --------------------------------------------------------------------------------------

    async def import_file(self, ctx: Context, request: ImportFileRequest) -> ImportReport:
        """What would come in. Nothing is written; the file waits for an hour to be carried out."""
        if ctx.upload is None:
            raise invalid([Fault("", "missing_field", "the file, as the body of the request")])
        guard = await self.writes.pipeline.redactor.guard(ctx.tenant, None)
        clean = guard.clean(request.model_copy(update={"agent_id": request.agent}))
        file, sha256 = await _received(ctx.upload)
        try:
            reading = await self._opened(file, clean)
        except BaseException:
            file.close()
            raise
        report = ImportReport(
            import_id=derived_id(
                "imp", sha256, reading.format, clean.agent, clean.user_id or "", clean.store or ""
            ),
            status="checking",
            agent_id=clean.agent,
            format=reading.format,
            file_name=clean.file_name,
            sha256=sha256,
            signature=reading.signature,
            owner=reading.owner,
            export_id=reading.export_id,
        )
        own = replace(ctx, upload=None, shown=None, facts=Facts())
        job = _Job(own, ctx.principal.name, clean, file, ctx.clock() + _PATIENCE_MS, report)
        key = ctx.tenant, report.import_id
        former = self._jobs.get(key)
        if former is not None and former.is_busy:  # the same file was sent before
            file.close()
            return await former.waited(request.wait_s)
        if self.files.are_shared:
            known = await self.files.find(*key)
            if known is not None and self.files.is_elsewhere(known, ctx.clock()):
                file.close()
                return await self._from_elsewhere(ctx, key[1], request.wait_s)
            await self.files.keep(ctx.tenant, file, clean, job.sender, job.report, job.until, ctx.clock())
        self._keep(key, job)
        job.work = asyncio.create_task(self._try(job, reading))
        try:
            return await job.waited(request.wait_s)
        except QuipuError:
            await self.stop(*key)
            raise

    async def commit_import(self, ctx: Context, request: CommitImportRequest) -> ImportReport:
        """Carry out what was tried. What a rule holds waits for a person; the rest is in."""
        loop = asyncio.get_running_loop()
        end = loop.time() + request.wait_s
        job = await self._job_of(ctx, request.id)
        if job is not None and job.report.status == "checking":
            await job.waited(request.wait_s)
        if self.files.are_shared and (job is None or not (job.is_busy or job.report.status == "done")):
            job = await self._taken(ctx, request.id, job)
            if job is None:
                return await self._from_elsewhere(ctx, request.id, request.wait_s)
        if job is None or job.until <= ctx.clock():
            raise _not_waiting()
        if job.report.status in ("checked", "running") and not job.is_busy:
            job.ctx = replace(ctx, upload=None, shown=None, facts=Facts())
            job.work = asyncio.create_task(self._carry_out(job))
        return await job.waited(max(0.0, end - loop.time()))

    async def _taken(self, ctx: Context, import_id: str, job: _Job | None) -> _Job | None:
        """What waits in the database, held by this process from now on; None where another one holds it."""
        known = await self.files.find(ctx.tenant, import_id)
        now = ctx.clock()
        if (
            known is None
            or known.row.until <= now
            or not _may_act(ctx.principal, known.request, known.sender)
        ):
            raise _not_waiting()
        if self.files.is_elsewhere(known, now) or not await self.files.hold(ctx.tenant, import_id, now):
            return None
        if job is None:
            if known.report.status != "checked":  # whoever tried it has died over that
                raise _not_waiting()
            file = await self.files.opened(ctx.tenant, known)
            job = _Job(ctx, known.sender, known.request, file, known.row.until, known.report)
            self._keep((ctx.tenant, import_id), job)
        return job

    async def report_of(self, ctx: Context, import_id: str, wait_s: float = 0) -> ImportReport | None:
        """How far one is that is under way, for who may see it."""
        job = await self._job_of(ctx, import_id)
        if job is not None:
            return await job.waited(wait_s) if wait_s else job.report
        known = await self.files.find(ctx.tenant, import_id) if self.files.are_shared else None
        if known is None or not _may_act(ctx.principal, known.request, known.sender):
            return None
        return await self._from_elsewhere(ctx, import_id, wait_s)

    async def _job_of(self, ctx: Context, import_id: str) -> _Job | None:
        """What this process has of it, for who may act on it; not what another one has gone on with since."""
        key = ctx.tenant, import_id
        job = self._jobs.get(key)
        if job is None or not _may_act(ctx.principal, job.request, job.sender):
            return None
        if self.files.are_shared and not job.is_busy:
            known = await self.files.find(*key)
            is_done = job.report.status == "done"
            if is_done != (known is None) or (known and self.files.is_elsewhere(known, ctx.clock())):
                self._jobs.pop(key).file.close()
                return None
        return job

    async def _from_elsewhere(self, ctx: Context, import_id: str, wait_s: float) -> ImportReport:
        """How far another process is, as far as it has said."""
        known = await self.files.find(ctx.tenant, import_id)
        if known is not None and self.files.is_elsewhere(known, ctx.clock()):
            await asyncio.sleep(min(wait_s, 1))
            known = await self.files.find(ctx.tenant, import_id)
        row = await self.writes.ledger.get(IMPORTS, ctx.tenant, import_id)
        if row is not None and (known is None or not row.is_done):
            return report_of_row(row)
        if known is None:
            raise _not_waiting()
        is_running = known.report.status == "checked" and self.files.is_elsewhere(known, ctx.clock())
        return known.report.model_copy(update={"status": "running"}) if is_running else known.report

    async def stop(self, tenant: str, import_id: str) -> None:
        """Let go of one, wherever it is."""
        job = self._jobs.pop((tenant, import_id), None)
        if job is not None:
            await job.end()
        if self.files.are_shared:
            await self.files.drop(tenant, import_id)

    async def close(self) -> None:
        """Let go of what waits, and stop what goes on: it is gone on with by sending the file again."""
        while self._jobs:
            await self._jobs.popitem()[1].end()

    # -- files --------------------------------------------------------------------------------------------------------

    def _keep(self, key: tuple[str, str], job: _Job) -> None:
        now = job.ctx.clock()
        gone = [
            name for name, one in self._jobs.items() if (one.until <= now or name == key) and not one.is_busy
        ]
        idle = [name for name, one in self._jobs.items() if name not in gone and not one.is_busy]
        gone += idle[: max(0, len(self._jobs) - len(gone) - _MOST_WAITING + 1)]
        for name in gone:
            self._jobs.pop(name).file.close()
        self._jobs[key] = job

    async def _opened(self, file: BinaryIO, request: ImportFileRequest) -> "Reading":
        """The file, checked as a whole: bounds, signature, digests. A signature that is wrong ends it here."""
        from quipu.transfer.formats import registry
        from quipu.transfer.formats.archive import Source

        loop = asyncio.get_running_loop()
        now = self.documents.clock()

        def key(kid: str) -> PublicKey | None:
            return asyncio.run_coroutine_threadsafe(self.documents.key(kid), loop).result()

        def work() -> "Reading":
            return registry.opened(Source(file, request.file_name), request.format, keys=key, now=now)

        try:
            reading = await asyncio.to_thread(work)
        except TamperedError as error:
            # Nothing of ours was altered: what was sent is not good.
            raise InvalidError(error.message, reason=error.reason, hint=error.hint) from error
        if reading.signature == "unknown" and not request.foreign_owner:
            raise InvalidError(
                "The file is signed with a key that cannot be had.",
                reason="unknown_key",
                hint="Try again when its owner's server can be reached, or say that it may be a foreign owner's "
                "(foreign_owner); it is then trusted no more than any file.",
            )
        return reading

    # -- the work -----------------------------------------------------------------------------------------------------

    async def _try(self, job: _Job, reading: "Reading") -> None:
        await self._run(job, reading, "checking").through()
        job.tell({"status": "checked"})
        if self.files.are_shared:
            await self.files.tried(job.ctx.tenant, job.report)

    async def _carry_out(self, job: _Job) -> None:
        """From the beginning of the file, whatever an earlier try has brought in."""
        await self._hold(job)
        reading = await self._opened(job.file, job.request)
        ctx, report = job.ctx, job.report
        former = await self.writes.ledger.get(IMPORTS, ctx.tenant, report.import_id)
        row = ImportRow(
            id=report.import_id,
            agent_id=report.agent_id,
            format=report.format,
            file_name=report.file_name,
            sha256=report.sha256,
            owner=owner_mark(reading.owner) if reading.owner is not None and reading.is_proven else None,
            export_id=None if reading.export_id is None else reading.export_id[:256] or None,
            actor=ctx.principal.name,
            at=ctx.clock(),
        )
        run = self._run(job, reading, "running")
        run.row = row
        run.before = {} if former is None or former.undone_at is not None else dict(former.counts)
        run.tell()
        await run.through()
        row = replace(row, is_done=True, counts=run.so_far())
        detail = {
            "import_id": report.import_id,
            "format": report.format,
            "sha256": report.sha256,
            "signature": report.signature,
            **row.counts,
        }
        draft = Draft(op="commit_import", actor=row.actor, at=ctx.clock(), detail=detail)

        async def plan(guard: Guard) -> Plan[ImportReport]:
            commit = Commit(tenant=ctx.tenant, draft=draft, changes=(kept_row(guard, row),))
            return Plan(commits=(commit,), answer=lambda _: job.report)

        await self.writes.pipeline.carry_out(ctx, plan)
        job.tell({"status": "done", "by": row.actor, "at": row.at})
        job.file.close()
        if self.files.are_shared:
            await self.files.drop(ctx.tenant, report.import_id)

    def _run(self, job: _Job, reading: "Reading", status: ImportStatus) -> ImportRun:
        return ImportRun(
            writes=self.writes,
            ctx=job.ctx,
            request=job.request,
            reading=reading,
            import_id=job.report.import_id,
            is_own=reading.owner is not None and reading.owner == self.documents.keyring.did(job.ctx.tenant),
            hold=lambda: self._hold(job),
            show=lambda more: job.tell({"status": status, **more}),
        )

    async def _hold(self, job: _Job) -> None:
        """Go on being the one who works on it."""
        key = job.ctx.tenant, job.report.import_id
        if self.files.are_shared and not await self.files.hold(*key, job.ctx.clock()):
            raise ConflictError(
                "Another server goes on with this import.",
                reason="import_elsewhere",
                hint="Ask how far it is.",
            )


def _not_waiting() -> NotFoundError:
    return NotFoundError(
        "No such import waits here.", reason="import", hint="Send the file again; nothing comes in twice."
    )


def report_of_row(row: ImportRow, waiting: int = 0) -> ImportReport:
    """An import as it is kept."""
    known = ImportCounts.model_fields
    return ImportReport(
        import_id=row.id,
        status="done" if row.is_done else "running",
        agent_id=row.agent_id,
        format=row.format,
        file_name=row.file_name,
        sha256=row.sha256,
        signature="absent" if row.owner is None else "valid",
        export_id=row.export_id,
        counts=ImportCounts(**{name: count for name, count in row.counts.items() if name in known}),
        waiting=waiting,
        by=row.actor,
        at=row.at,
        undone_at=row.undone_at,
    )


def _may_act(principal: Principal, request: ImportFileRequest, sender: str) -> bool:
    """Whether it is theirs: sent by them, or within their limits."""
    owner = Ownership(agent_id=request.agent, user_id=request.user_id, store=request.store)
    is_own = sender == principal.name and principal.may_act_for(request.agent)
    return is_own or visible(principal, owner)


async def _received(pieces: AsyncIterator[bytes]) -> tuple[BinaryIO, str]:
    """What is sent, in a file of its own that goes when it is closed."""
    file = tempfile.TemporaryFile(prefix="quipu-import-")  # noqa: SIM115  it outlives this call
    digest, size = hashlib.sha256(), 0
    try:
        async for piece in pieces:
            size = _within(size + len(piece))
            digest.update(piece)
            file.write(piece)
        file.flush()
    except BaseException:
        file.close()
        raise
    return cast("BinaryIO", file), digest.hexdigest()


def _within(size: int) -> int:
    if size > _MOST_BYTES:
        raise InvalidError(
            "The file is too large.", reason="too_large", hint=f"At most {_MOST_BYTES >> 30} GiB."
        )
    return size
