"""Bringing many memories in and taking them out."""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from quipu.errors import InternalError, InvalidError, QuipuError
from quipu.formats.seen import Seen
from quipu.model.journal import Draft, Op
from quipu.model.operations import Line, ListRequest
from quipu.model.outcomes import ImportedLine, ImportSummary
from quipu.model.principal import Permission, Principal
from quipu.model.record import Record, State
from quipu.ports.parts import Parts
from quipu.rules import validation
from quipu.rules.import_reports import told_line
from quipu.service.access import Access
from quipu.service.exporting_watch import Fresh
from quipu.service.gate import Gate
from quipu.service.import_trying import Trying
from quipu.service.lines import Lines
from quipu.service.notes import ReadNotes
from quipu.service.observing import Observing
from quipu.service.reading import Reading
from quipu.service.secrets import Secrets
from quipu.service.writing import Writing

#: Lines that are one transaction.
_CHUNK = 500
_IMPORT = re.compile(r"imp_[0-9A-Z]{26}")
_TOLD = 1_000
#: Records that are handed out together, and how long they may wait before somebody looks again whether they were erased.
_STRETCH, _STALE_S = 100, 0.05
#: Told after each chunk: lines read so far.
Progress = Callable[[int], None]


@dataclass(slots=True)
class _Chunk:
    """Lines that are written together, in order; one that is wrong stands as its error."""

    lines: list[tuple[int, Line | QuipuError]] = field(default_factory=list[tuple[int, Line | QuipuError]])

    @property
    def accepted(self) -> list[tuple[int, Line]]:
        return [(number, line) for number, line in self.lines if isinstance(line, Line)]

    @property
    def ids(self) -> frozenset[str]:
        """Those that its lines ask for."""
        return frozenset(line.record_id for _, line in self.accepted if line.record_id is not None)

    @property
    def targets(self) -> frozenset[str]:
        """What its lines lead to."""
        return frozenset(link.to for _, line in self.accepted for link in line.request.links or ())


@dataclass(frozen=True, slots=True)
class _Begun:
    """A chunk that is being written, and the ids that its lines ask for."""

    work: asyncio.Task[tuple[ImportedLine, ...]]
    ids: frozenset[str]

    async def done(self) -> None:
        """Once all of it is kept. Raises where it cannot be; whoever waits may go away, the work goes on."""
        await asyncio.wait((self.work,))
        self.work.result()


class Exchange:
    """Import and export of records."""

    def __init__(
        self,
        parts: Parts,
        access: Access,
        writing: Writing,
        lines: Lines,
        reading: Reading,
        notes: ReadNotes,
        gate: Gate,
        secrets: Secrets,
        observing: Observing,
    ) -> None:
        self._parts, self._access = parts, access
        self._observing = observing
        self._trying = Trying(parts, access, writing, gate, secrets)
        self._writing, self._lines, self._reading, self._notes = writing, lines, reading, notes

    async def import_lines(
        self,
        principal: Principal,
        lines: AsyncIterable[Line | QuipuError],
        *,
        dry_run: bool = False,
        stop_on_error: bool = False,
        progress: Progress | None = None,
        import_id: str | None = None,
    ) -> ImportSummary:
        """Write lines in chunks, each one transaction. A line that is no request arrives as its error.

        `import_id` goes on with an import whose earlier lines came by themselves.
        """
        errors: list[tuple[int, str]] = []
        summary: ImportSummary | None = None
        numbered = _numbered(lines)
        arriving = self.imported(
            principal, numbered, dry_run=dry_run, stop_on_error=stop_on_error, import_id=import_id
        )
        async with aclosing(arriving):
            async for outcome in arriving:
                if isinstance(outcome, ImportSummary):
                    summary = outcome
                    continue
                if progress is not None and outcome:
                    progress(outcome[-1].line)
                failed = [line for line in outcome if line.error is not None]
                errors += [
                    (line.line, told_line(line.error))
                    for line in failed[: _TOLD - len(errors)]
                    if line.error is not None
                ]
        if summary is None:
            raise InternalError("An import ended without a summary.")
        return replace(summary, errors=tuple(errors))

    def imported(
        self,
        principal: Principal,
        lines: AsyncIterable[tuple[int, Line | QuipuError]],
        *,
        dry_run: bool = False,
        stop_on_error: bool = False,
        import_id: str | None = None,
    ) -> AsyncGenerator[tuple[ImportedLine, ...] | ImportSummary]:
        """What became of each numbered line, a chunk at a time and in order, and at the end the summary."""
        self._access.authorise(principal, Permission.WRITE)
        if import_id is not None and not _IMPORT.fullmatch(import_id):
            raise InvalidError.at("/import_id", "bad_value", "This is no import of ours.")
        name = import_id or self._parts.mint_id("imp")
        return self._imported(principal, lines, name, dry_run=dry_run, stop_on_error=stop_on_error)

    async def _imported(
        self,
        principal: Principal,
        lines: AsyncIterable[tuple[int, Line | QuipuError]],
        import_id: str,
        *,
        dry_run: bool,
        stop_on_error: bool,
    ) -> AsyncGenerator[tuple[ImportedLine, ...] | ImportSummary]:
        """One chunk is written while the next is read and embedded; in the journal they follow each other as in the file.

        What was begun is finished, also when `lines` breaks off; lines that were not a whole chunk by then are dropped,
        and what `lines` failed with is raised behind the summary.
        """
        summary = ImportSummary(import_id=import_id, read=0, stored=0, held=0, failed=0)
        begun: deque[_Begun] = deque()
        seen = Seen() if dry_run else None
        # Where a bad line stops it, the next chunk is not even read before this one is known to be good.
        at_once = 1 if stop_on_error else 2
        broken: Exception | None = None
        is_going_on = True
        try:
            async with aclosing(self._chunks(principal, lines, stop_on_error=stop_on_error)) as chunks:
                while is_going_on or begun:
                    while is_going_on and len(begun) < at_once:
                        chunk = await anext(chunks, None)
                        if not isinstance(chunk, _Chunk):
                            broken, is_going_on = chunk, False
                            break
                        work = self._write(principal, chunk, import_id, begun[-1] if begun else None, seen)
                        begun.append(_Begun(asyncio.create_task(work), chunk.ids))
                    if begun:
                        outcome = await begun[0].work
                        begun.popleft()
                        summary = _counted(summary, outcome, dry_run=dry_run)
                        yield outcome
                        if stop_on_error and any(line.error is not None for line in outcome):
                            is_going_on = False
        finally:
            await asyncio.gather(*(one.work for one in begun), return_exceptions=True)
        yield summary
        if broken is not None:
            raise broken

    async def _chunks(
        self,
        principal: Principal,
        lines: AsyncIterable[tuple[int, Line | QuipuError]],
        *,
        stop_on_error: bool,
    ) -> AsyncGenerator[_Chunk | Exception]:
        """Whole chunks, then the last lines; or, where the source breaks off, why."""
        chunk = _Chunk()
        try:
            async for number, line in lines:
                accepted = self._accepted(principal, line)
                chunk.lines.append((number, accepted))
                if stop_on_error and isinstance(accepted, QuipuError):
                    break
                if len(chunk.lines) >= _CHUNK:
                    yield chunk
                    chunk = _Chunk()
        except Exception as error:  # noqa: BLE001  raised once it is told what was written
            yield error
            return
        if chunk.lines:
            yield chunk

    def _accepted(self, principal: Principal, line: Line | QuipuError) -> Line | QuipuError:
        if isinstance(line, QuipuError):
            return line
        try:
            if line.state not in (State.LIVE, State.ARCHIVED):
                raise InvalidError.at(
                    "/state",
                    "bad_value",
                    "What was forgotten cannot be brought in.",
                    accepted=["live", "archived"],
                )
            if line.record_id is not None or line.created_at is not None or line.updated_at is not None:
                self._access.authorise(principal, Permission.ADMIN)
            return replace(line, request=self._writing.accepted(principal, line.request))
        except QuipuError as error:
            return error

    async def _write(
        self, principal: Principal, chunk: _Chunk, import_id: str, before: _Begun | None, seen: Seen | None
    ) -> tuple[ImportedLine, ...]:
        """What became of the lines of a chunk. Nothing of it is kept before all of the chunk `before` it is.

        With `seen`, the ids that earlier lines asked for, it is a dry run.
        """
        outcomes = {
            number: ImportedLine(line=number, error=line)
            for number, line in chunk.lines
            if isinstance(line, QuipuError)
        }
        accepted = chunk.accepted
        if seen is not None:
            outcomes |= await self._trying.lines(principal, accepted, seen)
        else:
            if before is not None and before.ids & (chunk.ids | chunk.targets):
                await before.done()  # which ids are free and which are there is known then
            fresh = await self._with_free_ids(principal, [line for _, line in accepted])
            turn = None if before is None else before.done
            answers = await self._observing.remember_many(
                principal,
                [line.request for line in fresh],
                lambda: self._lines.many_stored(principal, fresh, import_id=import_id, turn=turn),
            )
            for (number, line), answer in zip(accepted, answers, strict=True):
                # What waits for a person gets its id now, and its times when it is approved.
                outcomes[number] = (
                    ImportedLine(line=number, error=answer)
                    if isinstance(answer, QuipuError)
                    else ImportedLine(
                        line=number,
                        id=answer.id,
                        other_id=_other(line.record_id, answer.id),
                        is_held=answer.pending_approval,
                    )
                )
        return tuple(outcomes[number] for number, _ in chunk.lines)

    async def _with_free_ids(self, principal: Principal, lines: list[Line]) -> list[Line]:
        """An id is kept if it is free in the tenant; otherwise the record gets a new one."""
        wanted = [line.record_id for line in lines if line.record_id is not None]
        taken = set(await self._parts.ledger.read(principal.tenant, wanted) if wanted else ())
        result: list[Line] = []
        for line in lines:
            is_free = line.record_id is not None and line.record_id not in taken
            if line.record_id is not None:
                taken.add(line.record_id)
            result.append(line if is_free else replace(line, record_id=None))
        return result

    async def export(self, principal: Principal, request: ListRequest) -> AsyncGenerator[Record]:
        """All records a list request means, one by one; what is erased meanwhile is not among them.

        It is noted in the journal as an export, also when it is broken off.
        """
        self._access.authorise(principal, Permission.ADMIN, request.agent_id)
        validation.checked_list(request, self._parts.limits)  # its agent will stand in the journal
        fresh, count = await Fresh.begun(self._parts, principal.tenant), 0
        try:
            async for stretch in self._stretches(principal, request, fresh):
                waiting, checked = stretch, time.monotonic()
                while waiting:
                    count += 1
                    yield waiting.pop(0)
                    if time.monotonic() - checked > _STALE_S:
                        waiting, checked = await fresh.of(waiting), time.monotonic()
        finally:
            self._note_export(principal, request, count)

    async def export_stretches(
        self, principal: Principal, request: ListRequest
    ) -> AsyncGenerator[Sequence[Record]]:
        """The same, a stretch at a time; each was looked at again just before it is handed out."""
        self._access.authorise(principal, Permission.ADMIN, request.agent_id)
        validation.checked_list(request, self._parts.limits)  # its agent will stand in the journal
        fresh, count = await Fresh.begun(self._parts, principal.tenant), 0
        try:
            async for stretch in self._stretches(principal, request, fresh):
                count += len(stretch)
                yield stretch
        finally:
            self._note_export(principal, request, count)

    async def _stretches(
        self, principal: Principal, request: ListRequest, fresh: Fresh
    ) -> AsyncIterator[list[Record]]:
        waiting: list[Record] = []
        async for record in self._reading.walk(principal, request):
            waiting.append(record)
            if len(waiting) == _STRETCH:
                yield await fresh.of(waiting)
                waiting = []
        yield await fresh.of(waiting)

    def _note_export(self, principal: Principal, request: ListRequest, count: int) -> None:
        draft = Draft(
            op=Op.EXPORT,
            actor=principal.name,
            at=self._parts.clock(),
            agent=request.agent_id,
            detail={"records": count},
        )
        self._notes.add(principal.tenant, draft, [], is_recall=False)


async def _numbered(
    lines: AsyncIterable[Line | QuipuError],
) -> AsyncGenerator[tuple[int, Line | QuipuError]]:
    number = 0
    async for line in lines:
        number += 1
        yield number, line


def _other(asked: str | None, given: str | None) -> str | None:
    """The id that was asked for, where another one was given."""
    return None if asked == given else asked


def _counted(summary: ImportSummary, outcome: Sequence[ImportedLine], *, dry_run: bool) -> ImportSummary:
    failed = sum(line.error is not None for line in outcome)
    held = sum(line.is_held for line in outcome)
    # Nothing would come of a line whose key was used before.
    known = sum(line.id is not None and not line.is_held for line in outcome) if dry_run else 0
    return replace(
        summary,
        read=summary.read + len(outcome),
        stored=summary.stored + len(outcome) - failed - held - known,
        held=summary.held + held,
        failed=summary.failed + failed,
    )
