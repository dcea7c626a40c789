"""Bringing many memories in and taking them out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Self

from quipu.errors import InvalidError, QuipuError
from quipu.model.journal import Draft, Op
from quipu.model.operations import ListRequest
from quipu.model.outcomes import ImportSummary
from quipu.model.principal import Permission, Principal
from quipu.model.record import Record, State
from quipu.ports.parts import Parts
from quipu.service.access import Access
from quipu.service.governance import Governance
from quipu.service.notes import ReadNotes
from quipu.service.reading import Reading
from quipu.service.writing import Line, Writing

_CHUNK = 500
_TOLD = 1_000
#: Told after each chunk: lines read so far.
Progress = Callable[[int], None]


@dataclass(slots=True)
class _Tally:
    read: int = 0
    stored: int = 0
    held: int = 0
    failed: int = 0
    errors: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    #: Ids that lines of this import have used, also those still on their way into the ledger.
    used_ids: set[str] = field(default_factory=set[str])

    def fail(self, number: int, error: QuipuError) -> None:
        self.failed += 1
        if len(self.errors) < _TOLD:
            self.errors.append((number, f"{error.code}: {error.message}"))


class _UnderWay:
    """One chunk is written while the next is read and embedded; what was begun is finished, also after an error."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    async def add(self, work: Coroutine[object, object, None]) -> None:
        previous, self._task = self._task, asyncio.create_task(work)
        if previous is not None:
            await previous

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            await self._task


class Exchange:
    """Import and export of records."""

    def __init__(
        self,
        parts: Parts,
        access: Access,
        writing: Writing,
        reading: Reading,
        notes: ReadNotes,
        governance: Governance,
    ) -> None:
        self._parts, self._access, self._governance = parts, access, governance
        self._writing, self._reading, self._notes = writing, reading, notes

    async def import_lines(
        self,
        principal: Principal,
        lines: AsyncIterable[Line | QuipuError],
        *,
        dry_run: bool = False,
        stop_on_error: bool = False,
        progress: Progress | None = None,
    ) -> ImportSummary:
        """Write lines in chunks, each one transaction. A line that is no request arrives as its error."""
        self._access.authorise(principal, Permission.WRITE)
        import_id = self._parts.mint_id("imp")
        tally = _Tally()
        chunk: list[tuple[int, Line]] = []
        async with _UnderWay() as under_way:
            async for line in lines:
                tally.read += 1
                accepted = self._accepted(principal, line)
                if isinstance(accepted, QuipuError):
                    tally.fail(tally.read, accepted)
                    if stop_on_error:
                        break
                    continue
                chunk.append((tally.read, accepted))
                if len(chunk) >= _CHUNK:
                    await under_way.add(self._write(principal, chunk, tally, import_id, dry_run=dry_run))
                    chunk = []
                    if progress is not None:
                        progress(tally.read)
            await under_way.add(self._write(principal, chunk, tally, import_id, dry_run=dry_run))
        if progress is not None:
            progress(tally.read)
        return ImportSummary(
            import_id=import_id,
            read=tally.read,
            stored=tally.stored,
            held=tally.held,
            failed=tally.failed,
            errors=tuple(tally.errors),
        )

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
        self,
        principal: Principal,
        chunk: list[tuple[int, Line]],
        tally: _Tally,
        import_id: str,
        *,
        dry_run: bool,
    ) -> None:
        held = [(number, line) for number, line in chunk if line.request.approval_required]
        direct = [(number, line) for number, line in chunk if not line.request.approval_required]
        if dry_run:
            tally.held += len(held)
            tally.stored += len(direct)
            return
        for number, line in held:
            await self._hold(principal, number, line, tally)
        fresh = await self._with_free_ids(principal, [line for _, line in direct], tally.used_ids)
        answers = await self._writing.many_stored(principal, fresh, import_id=import_id)
        for (number, _), answer in zip(direct, answers, strict=True):
            if isinstance(answer, QuipuError):
                tally.fail(number, answer)
            else:
                tally.stored += 1

    async def _hold(self, principal: Principal, number: int, line: Line, tally: _Tally) -> None:
        """A line that asks for approval waits for it; its id and times are given when it is approved."""
        try:
            await self._writing.check_target(principal, line.request)
        except QuipuError as error:
            tally.fail(number, error)
        else:
            await self._governance.hold(principal, line.request, ("caller",))
            tally.held += 1

    async def _with_free_ids(self, principal: Principal, lines: list[Line], used: set[str]) -> list[Line]:
        """An id is kept if it is free in the tenant; otherwise the record gets a new one."""
        wanted = [line.record_id for line in lines if line.record_id is not None]
        taken = {record_id for record_id in wanted if record_id in used}
        used.update(wanted)
        if wanted:
            taken |= set(await self._parts.ledger.read(principal.tenant, wanted))
        result: list[Line] = []
        for line in lines:
            is_free = line.record_id is not None and line.record_id not in taken
            if line.record_id is not None:
                taken.add(line.record_id)
            result.append(line if is_free else replace(line, record_id=None))
        return result

    async def export(self, principal: Principal, request: ListRequest) -> AsyncIterator[Record]:
        """All records a list request means, noted in the journal as an export."""
        self._access.authorise(principal, Permission.ADMIN, request.agent_id)
        count = 0
        async for record in self._reading.walk(principal, request):
            count += 1
            yield record
        draft = Draft(
            op=Op.EXPORT,
            actor=principal.name,
            at=self._parts.clock(),
            agent=request.agent_id,
            detail={"records": count},
        )
        self._notes.add(principal.tenant, draft, [], is_recall=False)
