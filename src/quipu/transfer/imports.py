"""Bringing in a whole file: always tried first, then carried out, held where a rule says so.

The same file gives the same import id and the same ids of memories every time. So an import that was cut off is gone on
with by doing it again: what is in already is a duplicate.
"""

import asyncio
import hashlib
import tempfile
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast

from quipu.access.rules import Ownership, visible
from quipu.errors import Fault, InvalidError, NotFoundError, QuipuError, TamperedError
from quipu.governance.text_classes import has_instruction
from quipu.ledger.commit import Commit
from quipu.ledger.ledger import Ledger
from quipu.memory import operations as memory_ops
from quipu.memory.pipeline import Guard, Pipeline, Plan
from quipu.memory.scope import Scopes
from quipu.model.journal import Draft
from quipu.model.principal import Principal
from quipu.operation import Context, Facts, authorised, bound, dispatch, invalid
from quipu.sharing.dids import PublicKey
from quipu.sharing.identity import Documents
from quipu.sharing.items import Landing, derived_id, write_of
from quipu.transfer.model import (
    ADDED,
    IMPORTS,
    CommitImportRequest,
    ImportCounts,
    ImportedMemory,
    ImportFileRequest,
    ImportReport,
    ImportRow,
    ImportStatus,
    RefusedItem,
    SampleItem,
)
from quipu.transfer.owners import ImportsOfOwner, owner_mark
from quipu.transfer.tombstones import Tombstones
from quipu.transfer.writes import ImportWrites, Outcome, Row, kept_row

if TYPE_CHECKING:  # readers of files take a while to load, and most calls need none
    from quipu.transfer.formats.reading import Reading
    from quipu.transfer.formats.values import Found

#: Items that are one transaction, and bytes of text that end one earlier.
_CHUNK, _CHUNK_BYTES = 500, 4 << 20
_MOST_BYTES = 8 << 30
#: A file that was tried waits so long to be carried out, and so many of a host wait at a time.
_PATIENCE_MS, _MOST_WAITING = 3_600_000, 32
_MOST_REJECTED, _MOST_SHOWN, _LONGEST_SHOWN = 1_000, 20, 200


@dataclass(slots=True)
class _Job:
    """A file that was sent, and how far it is."""

    ctx: Context
    request: ImportFileRequest
    file: BinaryIO
    sha256: str
    until: int
    report: ImportReport
    work: asyncio.Task[None] | None = None
    #: What the journal is to have of the import.
    row: ImportRow | None = None

    @property
    def is_busy(self) -> bool:
        return self.work is not None and not self.work.done()

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


@dataclass(slots=True)
class _Tally:
    """The report as it grows."""

    job: _Job
    status: ImportStatus
    reading: "Reading"
    #: What runs before this one brought in, where the import was cut off.
    before: Mapping[str, int]
    counts: Counter[str] = field(default_factory=Counter[str])
    rejected: list[RefusedItem] = field(default_factory=list[RefusedItem])
    sample: list[SampleItem] = field(default_factory=list[SampleItem])

    def refuse(self, place: int, error: QuipuError) -> None:
        self.counts["refused"] += 1
        if len(self.rejected) < _MOST_REJECTED:
            reason = error.reason or error.code
            self.rejected.append(RefusedItem(place=place, reason=reason, message=error.message))

    def add(self, outcome: Outcome) -> None:
        for name in ("accepted", "held", "duplicate", "conflict", "updated"):
            self.counts[name] += getattr(outcome, name)
        self.reading.loss.dropped("links to memories out of reach", outcome.lost_links)
        for memory in outcome.written[: _MOST_SHOWN - len(self.sample)]:
            content = memory.content if isinstance(memory.content, str) else "(a procedure)"
            self.sample.append(
                SampleItem(type=memory.type, content=content[:_LONGEST_SHOWN], tags=memory.tags or ())
            )

    def so_far(self, outcome: Outcome | None = None) -> dict[str, int]:
        """What the row of the import says, with a chunk that is just being written."""
        more = {} if outcome is None else {name: getattr(outcome, name, 0) for name in ADDED}
        added = {name: self.counts[name] + more.get(name, 0) + self.before.get(name, 0) for name in ADDED}
        return {name: count for name, count in {**self.counts, **added}.items() if count}

    @property
    def row(self) -> Row | None:
        """Makes the row that is kept with a chunk; None in a trial."""
        kept = self.job.row
        return None if kept is None else lambda outcome: replace(kept, counts=self.so_far(outcome))

    def show(self, status: ImportStatus | None = None) -> None:
        self.job.report = self.job.report.model_copy(
            update={
                "status": status or self.status,
                "counts": ImportCounts(**self.counts),
                "rejected": tuple(self.rejected),
                "sample": tuple(self.sample),
                "loss": self.reading.loss.report(),
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Imports:
    """Tries files and carries them out."""

    ledger: Ledger
    pipeline: Pipeline
    scopes: Scopes
    documents: Documents
    writes: ImportWrites
    tombstones: Tombstones
    _jobs: OrderedDict[tuple[str, str], _Job] = field(
        default_factory=OrderedDict[tuple[str, str], _Job], init=False
    )

    # -- trying and carrying out --------------------------------------------------------------------------------------

    async def import_file(self, ctx: Context, request: ImportFileRequest) -> ImportReport:
        """What would come in. Nothing is written; the file waits for an hour to be carried out."""
        if ctx.upload is None:
            raise invalid([Fault("", "missing_field", "the file, as the body of the request")])
        guard = await self.pipeline.redactor.guard(ctx.tenant, None)
        clean = guard.clean(request.model_copy(update={"agent_id": request.agent}))
        file, sha256 = await _received(ctx.upload)
        try:
            reading = await self._opened(file, clean)
            job = self._job(ctx, clean, file, sha256, reading)
        except BaseException:
            file.close()
            raise
        key = ctx.tenant, job.report.import_id
        former = self._jobs.get(key)
        if former is not None and former.is_busy:  # the same file was sent before
            file.close()
            return await former.waited(request.wait_s)
        self._keep(key, job)
        job.work = asyncio.create_task(self._try(job, reading))
        try:
            return await job.waited(request.wait_s)
        except QuipuError:
            self._jobs.pop(key, None)
            await job.end()
            raise

    async def commit_import(self, ctx: Context, request: CommitImportRequest) -> ImportReport:
        """Carry out what was tried. What a rule holds waits for a person; the rest is in."""
        job = self._jobs.get((ctx.tenant, request.id))
        if job is None or job.until <= ctx.clock() or not _may_act(ctx.principal, job):
            raise NotFoundError(
                "No such import waits here.",
                reason="import",
                hint="Send the file again; nothing comes in twice.",
            )
        loop = asyncio.get_running_loop()
        end = loop.time() + request.wait_s
        if job.report.status == "checking":
            await job.waited(request.wait_s)
        if job.report.status in ("checked", "running") and not job.is_busy:
            job.ctx = replace(ctx, upload=None, shown=None, facts=Facts())
            job.work = asyncio.create_task(self._carry_out(job))
        return await job.waited(max(0.0, end - loop.time()))

    async def report_of(self, principal: Principal, import_id: str, wait_s: float = 0) -> ImportReport | None:
        """How far one is that this process knows, for who may see it."""
        job = self._jobs.get((principal.tenant, import_id))
        if job is None or not _may_act(principal, job):
            return None
        return await job.waited(wait_s) if wait_s else job.report

    async def stop(self, tenant: str, import_id: str) -> None:
        """Let go of one, wherever it is."""
        job = self._jobs.pop((tenant, import_id), None)
        if job is not None:
            await job.end()

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

    def _job(
        self, ctx: Context, request: ImportFileRequest, file: BinaryIO, sha256: str, reading: "Reading"
    ) -> _Job:
        import_id = derived_id(
            "imp", sha256, reading.format, request.agent, request.user_id or "", request.store or ""
        )
        report = ImportReport(
            import_id=import_id,
            status="checking",
            agent_id=request.agent,
            format=reading.format,
            file_name=request.file_name,
            sha256=sha256,
            signature=reading.signature,
            owner=reading.owner,
            export_id=reading.export_id,
        )
        own = replace(ctx, upload=None, shown=None, facts=Facts())
        return _Job(own, request, file, sha256, ctx.clock() + _PATIENCE_MS, report)

    # -- the work -----------------------------------------------------------------------------------------------------

    async def _try(self, job: _Job, reading: "Reading") -> None:
        tally = _Tally(job, "checking", reading, {})
        await self._gone_through(job, reading, tally)
        tally.show("checked")

    async def _carry_out(self, job: _Job) -> None:
        """From the beginning of the file, whatever an earlier try has brought in."""
        reading = await self._opened(job.file, job.request)
        await self._open_stores(job.ctx, job.request, reading)
        ctx, report = job.ctx, job.report
        former = await self.ledger.get(IMPORTS, ctx.tenant, report.import_id)
        before = {} if former is None or former.undone_at is not None else dict(former.counts)
        tally = _Tally(job, "running", reading, before)
        job.row = ImportRow(
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
        tally.show()
        await self._gone_through(job, reading, tally)
        row = replace(job.row, is_done=True, counts=tally.so_far())
        detail = {
            "import_id": report.import_id,
            "format": report.format,
            "sha256": report.sha256,
            "signature": report.signature,
            **tally.so_far(),
        }
        draft = Draft(op="commit_import", actor=row.actor, at=ctx.clock(), detail=detail)

        async def plan(guard: Guard) -> Plan[ImportReport]:
            commit = Commit(tenant=ctx.tenant, draft=draft, changes=(kept_row(guard, row),))
            return Plan(commits=(commit,), answer=lambda _: job.report)

        await self.pipeline.carry_out(ctx, plan)
        tally.show("done")
        job.report = job.report.model_copy(update={"by": row.actor, "at": row.at})
        job.file.close()

    async def _gone_through(self, job: _Job, reading: "Reading", tally: _Tally) -> None:
        """Everything that is in the file. A trial writes nothing, so it has to know by itself what comes twice."""
        ctx, request, import_id = job.ctx, job.request, job.report.import_id
        landing = await self._landing(ctx, request, reading)
        owner = None
        if reading.is_proven and reading.owner is not None:
            owner = ImportsOfOwner(
                ledger=self.ledger, tenant=ctx.tenant, owner=reading.owner, import_id=import_id
            )
        seen: set[bytes] | None = set() if job.row is None else None
        found = reading.items()
        while stretch := await asyncio.to_thread(_stretch, found):
            chunk: list[tuple[int, ImportedMemory]] = []
            for place, item in stretch:
                tally.counts["read"] += 1
                try:
                    memory = self._memory(ctx, item, landing, reading, import_id, request, tally)
                except QuipuError as error:
                    tally.refuse(place, error)
                    continue
                mark = _mark(memory)
                if seen is not None and mark in seen:
                    tally.counts["duplicate"] += 1
                    continue
                if seen is not None:
                    seen.add(mark)
                chunk.append((place, memory))
            if chunk:
                await self._chunk(job, chunk, owner if reading.is_incremental else None, tally)
            tally.show()
        if owner is not None:
            await self.tombstones.follow(ctx, reading, owner, request.agent, tally.counts, tally.row)
        else:
            reading.loss.dropped("tombstones", sum(1 for _ in reading.tombstones()))

    def _memory(
        self,
        ctx: Context,
        item: "Found | Any",
        landing: Landing,
        reading: "Reading",
        import_id: str,
        request: ImportFileRequest,
        tally: _Tally,
    ) -> ImportedMemory:
        """An item as a write that its sender may make. What could steer a model has to wait for a person."""
        if isinstance(item, QuipuError):
            raise item
        made = write_of(cast("Mapping[str, Any]", item), landing)
        asked = made.request
        if asked.user_id is None and request.user_id is not None:
            asked = asked.model_copy(update={"user_id": request.user_id})
        asked = bound(ctx.principal, asked)
        is_steering = isinstance(asked.content, str) and has_instruction(asked.content)
        tally.counts["instruction_like"] += is_steering
        waits = (is_steering or asked.type == "procedural") and not reading.is_proven
        fields: dict[str, Any] = {name: getattr(asked, name) for name in asked.model_fields_set}
        own = {
            "import_id": import_id,
            "record_id": made.record_id,
            "captured_at": made.captured_at,
            "created_at": made.created_at,
            "updated_at": made.updated_at,
            "state": made.state,
            "approval_required": waits,
        }
        return ImportedMemory.parse({**fields, **own})

    async def _chunk(
        self,
        job: _Job,
        chunk: Sequence[tuple[int, ImportedMemory]],
        owner: ImportsOfOwner | None,
        tally: _Tally,
    ) -> None:
        """One transaction; where one item spoils it, each by itself."""
        memories = [memory for _, memory in chunk]
        try:
            outcome = await self.writes.chunk(job.ctx, memories, owner, row=tally.row)
        except InvalidError as error:
            if len(chunk) == 1:
                tally.refuse(chunk[0][0], error)
                return
            for one in chunk:
                await self._chunk(job, [one], owner, tally)
            return
        tally.add(outcome)
        for index in sorted(outcome.refused):
            tally.refuse(chunk[index][0], outcome.refused[index])

    # -- stores -------------------------------------------------------------------------------------------------------

    async def _landing(self, ctx: Context, request: ImportFileRequest, reading: "Reading") -> Landing:
        there = {store.name for store in (await self.scopes.stores(ctx.tenant)).values()}
        brought = {one["name"] for one in _stores(reading)} if _may_create(ctx, request) else set[str]()
        is_own = reading.owner is not None and reading.owner == self.documents.keyring.did(ctx.tenant)
        return Landing(
            agent_id=request.agent,
            source=reading.source,
            most_confidence=reading.confidence(is_own=is_own),
            store=request.store,
            stores=frozenset(there | brought),
            now=ctx.clock(),
        )

    async def _open_stores(self, ctx: Context, request: ImportFileRequest, reading: "Reading") -> None:
        """The stores that the file brings, by the ordinary way; those of a name that is taken are the same."""
        if not _may_create(ctx, request):
            return
        there = await self.scopes.stores(ctx.tenant)
        for store in _stores(reading):
            if store["name"] not in there:
                await dispatch(ctx, memory_ops.CREATE_STORE, store)


def _may_act(principal: Principal, job: _Job) -> bool:
    """Whether it is theirs: sent by them, or within their limits."""
    request = job.request
    owner = Ownership(agent_id=request.agent, user_id=request.user_id, store=request.store)
    is_own = job.ctx.principal.name == principal.name and principal.may_act_for(request.agent)
    return is_own or visible(principal, owner)


def _may_create(ctx: Context, request: ImportFileRequest) -> bool:
    if request.store is not None:
        return False
    try:
        operation = memory_ops.CREATE_STORE
        authorised(ctx.principal, operation, operation.request.parse({"name": "any"}))
    except QuipuError:
        return False
    return True


def _stores(reading: "Reading") -> Iterator[dict[str, Any]]:
    """Stores as a bundle's manifest describes them, as requests."""
    known: dict[Literal["scope", "tier"], tuple[str, ...]] = {
        "scope": ("user", "session", "agent", "team", "global"),
        "tier": ("short_term", "long_term"),
    }
    for store in reading.stores:
        name = store.get("name")
        if not isinstance(name, str) or not 0 < len(name) <= 256 or "\0" in name:
            continue
        found: dict[str, Any] = {"name": name}
        found |= {word: store[word] for word, words in known.items() if store.get(word) in words}
        for word in ("namespace", "description"):
            text = store.get(word)
            if isinstance(text, str) and 0 < len(text) <= 256 and "\0" not in text:
                found[word] = text
        yield found


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


def _stretch(found: "Iterator[Found]") -> "list[Found]":
    """As many items as one transaction takes."""
    stretch: list[Found] = []
    size = 0
    for one in islice(found, _CHUNK):
        stretch.append(one)
        size += _size(one[1])
        if size > _CHUNK_BYTES:
            break
    return stretch


def _size(item: Any) -> int:
    content = cast("dict[str, Any]", item).get("content") if isinstance(item, dict) else None
    text = cast("dict[str, Any]", content).get("text") if isinstance(content, dict) else None
    return len(text) if isinstance(text, str) else 0


def _mark(memory: ImportedMemory) -> bytes:
    said = f"{memory.record_id}\n{memory.type}\n{memory.content}"
    return hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=8).digest()
