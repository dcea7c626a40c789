"""What an operator asks of mirrors: how they stand, whether they hold what the ledger holds, and that they shall.

A mirror is held against the ledger by what it says of itself: by everything that its containers hold, where it can tell
that, else by the copies that are known. What is found wrong is taken away and owed anew; delivery does the rest.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from quipu.errors import ConflictError, NotFoundError, UnsupportedError
from quipu.ledger.commit import Commit, Drop, Keep
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Reader
from quipu.mirrors import operations as ops
from quipu.mirrors.backend import Container, Kept, Place
from quipu.mirrors.model import (
    CONTAINERS,
    COPIES,
    MIRRORS,
    OUTBOX,
    TABLES,
    DropMirrorRequest,
    DropMirrorResponse,
    ListMirrorsRequest,
    ListMirrorsResponse,
    MirrorFault,
    MirrorReport,
    MirrorRow,
    MirrorStatus,
    Owed,
    ResyncMirrorRequest,
    VerifyMirrorRequest,
)
from quipu.mirrors.service import Line, Mirrors, Standing
from quipu.model.journal import Draft
from quipu.model.record import Record
from quipu.model.search import Selection, Snapshot
from quipu.operation import AnyBinding, Binding, Context

_PAGE: Final = 200
_SHOWN: Final = 1_000
_PATIENCE_S: Final = 10.0
_PAUSE_S: Final = 0.25
#: States of copies that a mirror may hold still.
_HELD: Final = ("sending", "kept", "deleted")


class MirrorChecks:
    """Each asks for the mirrors of one tenant."""

    def __init__(self, mirrors: Mirrors) -> None:
        self._mirrors, self._ledger = mirrors, mirrors.ledger

    @property
    def bindings(self) -> tuple[AnyBinding, ...]:
        return (
            Binding(ops.LIST_MIRRORS, self.listed),
            Binding(ops.VERIFY_MIRROR, self.verify),
            Binding(ops.RESYNC_MIRROR, self.resync),
            Binding(ops.DROP_MIRROR, self.drop),
        )

    async def listed(self, ctx: Context, request: ListMirrorsRequest) -> ListMirrorsResponse:
        await self._mirrors.registered(ctx.tenant)
        standings = {one.row.name: one for one in await self._mirrors.standings(ctx.tenant)}
        names = sorted({*standings, *(mirror.name for mirror in self._mirrors.mirrors)})
        return ListMirrorsResponse(
            mirrors=tuple(self._status(name, standings.get(name), ctx.clock()) for name in names)
        )

    def _status(self, name: str, known: Standing | None, now: int) -> MirrorStatus:
        """One that is not known to the ledger is only searched."""
        line = self._mirrors.line(name)
        standing = known or Standing(row=MirrorRow(name=name), waiting=0, given_up=0, oldest_at=None)
        row, oldest = standing.row, standing.oldest_at
        return MirrorStatus(
            name=name,
            place=None if line is None else line.mirror.shown,
            breaker=None if line is None else line.mirror.backend.state,
            writes=known is not None and (line is None or self._mirrors.writes),
            filled=row.is_filled,
            waiting=standing.waiting,
            given_up=standing.given_up,
            oldest_ms=None if oldest is None else max(0, now - oldest),
            succeeded_at=row.succeeded_at,
            error=row.error,
            drift=row.drift,
        )

    async def verify(self, ctx: Context, request: VerifyMirrorRequest) -> MirrorReport:
        return (await self._compared(ctx.tenant, self._line(request.name))).report()

    async def resync(self, ctx: Context, request: ResyncMirrorRequest) -> MirrorReport:
        line, tenant = self._line(request.name), ctx.tenant
        if request.dry_run:
            return (await self._compared(tenant, line)).report()
        if not self._mirrors.writes:
            raise UnsupportedError(
                "Mirrors are only searched here.",
                reason="primary_only",
                hint="Open it with write_policy `all`.",
            )
        await self._mirrors.registered(tenant)
        await self._claim(tenant, line)
        await self._revive(tenant, line.mirror.name)
        await self._deliver(tenant, line)
        found = await self._compared(tenant, line)
        for start in range(0, len(found.faults), _PAGE):
            await self._mend(tenant, line, found.faults[start : start + _PAGE])
        await self._deliver(tenant, line)
        owed = await found.owed()
        return found.report(mended=sum(fault.record_id not in owed for fault, _ in found.faults))

    async def drop(self, ctx: Context, request: DropMirrorRequest) -> DropMirrorResponse:
        name, tenant = request.name, ctx.tenant
        if self._mirrors.line(name) is not None and self._mirrors.writes:
            raise ConflictError(
                "This mirror is set up, and would come back at the next write.",
                reason="mirror_in_use",
                hint="Take it out of QUIPU_MIRRORS or of `stores` first.",
            )
        if await self._ledger.get(MIRRORS, tenant, name) is None:
            raise _unknown()
        counts = [
            await self._ledger.count(COPIES, tenant, {"mirror": name, "state": state}) for state in _HELD
        ]
        copies = sum(counts)
        draft = Draft(op="drop_mirror", actor=ctx.principal.name, at=ctx.clock(), detail={"copies": copies})
        await self._ledger.commit(Commit(tenant=tenant, draft=draft))
        await self._ledger.update(tenant, MIRRORS, drop=[(name,)])  # first: from now on nothing new is owed
        for table in TABLES[1:]:
            while page := await self._ledger.page(table, tenant, {"mirror": name}, limit=1_000):
                await self._ledger.update(tenant, table, drop=[table.key_of(row) for row in page])
        return DropMirrorResponse(name=name, copies=copies)

    def _line(self, name: str) -> Line:
        line = self._mirrors.line(name)
        if line is None:
            raise _unknown()
        return line

    async def _compared(self, tenant: str, line: Line) -> "_Comparison":
        comparison = _Comparison(self._ledger, line, tenant, self._mirrors.clock())
        await comparison.make()
        return comparison

    # -- mending ------------------------------------------------------------------------------------------------------

    async def _claim(self, tenant: str, line: Line) -> None:
        """Whoever else is at it lets go once nothing waits."""
        for _ in range(int(_PATIENCE_S / _PAUSE_S)):
            if await line.delivery.claimed(tenant):
                return
            await asyncio.sleep(_PAUSE_S)
        raise ConflictError(
            "Another process is writing to this mirror.",
            reason="mirror_busy",
            hint="Try it again in a minute.",
        )

    async def _revive(self, tenant: str, name: str) -> None:
        """What was given up, or waits for its next try, is due now, and its day begins anew."""
        after = None
        while page := await self._ledger.page(OUTBOX, tenant, {"mirror": name}, after, limit=_PAGE):
            after = OUTBOX.key_of(page[-1])
            late = [owed.record_id for owed in page if owed.status == "given_up" or owed.attempts]

            def work(reader: Reader, late: Sequence[str] = late) -> tuple[None, list[Keep]]:
                now = self._mirrors.clock()
                rows = [reader.get(OUTBOX, name, record_id) for record_id in late]
                return None, [
                    Keep(OUTBOX, Owed(mirror=name, record_id=row.record_id, position=row.position, at=now))
                    for row in rows
                    if row is not None
                ]

            if late:
                await self._ledger.settle(tenant, work)

    async def _deliver(self, tenant: str, line: Line) -> None:
        while (await self._mirrors.round(line, tenant)).has_more:
            pass

    async def _mend(
        self, tenant: str, line: Line, faults: Sequence[tuple[MirrorFault, Place | None]]
    ) -> None:
        """Take away what is altered or should not be there; what is missing then is owed from now on."""
        await line.delivery.take_away(tenant, [place for _, place in faults if place is not None])
        ids = list(dict.fromkeys(fault.record_id for fault, _ in faults))
        unknown = {fault.record_id for fault, _ in faults if fault.kind != "extra"}
        name, now = line.mirror.name, self._mirrors.clock()

        def work(reader: Reader) -> tuple[None, list[Keep | Drop]]:
            position = reader.head().seq
            changes: list[Keep | Drop] = [Drop(COPIES, (name, record_id)) for record_id in sorted(unknown)]
            for record_id in ids:
                if reader.get(OUTBOX, name, record_id) is None:
                    owed = Owed(mirror=name, record_id=record_id, position=position, at=now)
                    changes.append(Keep(OUTBOX, owed))
            return None, changes

        await self._ledger.settle(tenant, work)


@dataclass(slots=True)
class _Comparison:
    """A mirror held against the ledger."""

    ledger: Ledger
    line: Line
    tenant: str
    now: int
    checked: int = 0
    foreign: int = 0
    #: Each difference, and where the copy is that makes it.
    faults: list[tuple[MirrorFault, Place | None]] = field(
        default_factory=list[tuple[MirrorFault, Place | None]]
    )
    #: What the mirror holds, by native id; in the end, what no record asked for.
    held: dict[str, tuple[Kept, Container]] = field(default_factory=dict[str, tuple[Kept, Container]])

    def report(self, mended: int = 0) -> MirrorReport:
        return MirrorReport(
            name=self.line.mirror.name,
            checked=self.checked,
            foreign=self.foreign,
            faults=tuple(fault for fault, _ in self.faults[:_SHOWN]),
            differing=len(self.faults),
            mended=mended,
        )

    async def make(self) -> None:
        """What is owed still is no difference: it is on its way."""
        backend = self.line.mirror.backend
        if not {"list", "get_by_id"} & backend.capabilities.promises:
            raise UnsupportedError("This mirror cannot tell what it holds.", reason="no_scan")
        if "list" in backend.capabilities:
            for container in await self._containers():
                self.held |= {kept.native_id: (kept, container) async for kept in backend.scan(container)}
        page: list[Record] = []
        async for record in self.ledger.scan(Selection(tenant=self.tenant), Snapshot(None, self.now)):
            if self.line.delivery.copies.is_wanted(record):
                page.append(record)
            if len(page) == _PAGE:
                await self._compare(page)
                page = []
        await self._compare(page)
        left = list(self.held)
        for start in range(0, len(left), _PAGE):
            await self._extra(left[start : start + _PAGE])
        owed = await self.owed("waiting")
        self.faults = [one for one in self.faults if one[0].record_id not in owed]

    async def _containers(self) -> list[Container]:
        found: list[Container] = []
        after, mine = None, {"mirror": self.line.mirror.name}
        while page := await self.ledger.page(CONTAINERS, self.tenant, mine, after, limit=1_000):
            found += [row.container(self.tenant) for row in page]
            after = CONTAINERS.key_of(page[-1])
        return found

    async def _compare(self, wanted: Sequence[Record]) -> None:
        backend, tenant = self.line.mirror.backend, self.tenant
        _, known = await self.line.delivery.copies.known(tenant, [record.id for record in wanted])
        if "list" not in backend.capabilities:
            places = {
                copy.native_id: Place(copy.container(tenant), copy.record_id, copy.native_id)
                for copy in known.values()
                if copy.native_id and copy.is_current
            }
            for kept in await backend.get(list(places.values())):
                self.held[kept.native_id] = kept, places[kept.native_id].container
        for record in wanted:
            self.checked += 1
            copy = known.get(record.id)
            native_id = None if copy is None or copy.state != "kept" else copy.native_id
            held = None if native_id is None else self.held.pop(native_id, None)
            if held is None or native_id is None:
                self._note("missing", record.id, native_id)
                continue
            kept, home = held
            is_older = kept.mark is None or kept.mark.version != record.version
            if is_older or ("verbatim" in backend.capabilities and kept.text != record.content):
                self._note("altered", record.id, native_id, home)

    async def _extra(self, names: Sequence[str]) -> None:
        """Copies of ours that should not be there, and how much is there that was never ours."""
        rows = await self.ledger.matching(COPIES, self.tenant, "native_id", names)
        ours = {row.native_id: row.record_id for row in rows if row.mirror == self.line.mirror.name}
        for name in names:
            kept, home = self.held[name]
            marked = (
                kept.mark.record_id if kept.mark is not None and kept.mark.tenant == self.tenant else None
            )
            record_id = ours.get(name, marked)
            if record_id is None:
                self.foreign += 1
            else:
                self._note("extra", record_id, name, home)

    def _note(self, kind: Any, record_id: str, native_id: str | None, home: Container | None = None) -> None:
        place = None if home is None or native_id is None else Place(home, record_id, native_id)
        self.faults.append((MirrorFault(kind=kind, record_id=record_id, native_id=native_id), place))

    async def owed(self, status: str | None = None) -> set[str]:
        """Those of the records that differ for which the mirror is owed something."""
        wanted = list(dict.fromkeys(fault.record_id for fault, _ in self.faults))
        rows: list[Owed] = []
        for start in range(0, len(wanted), _PAGE):
            rows += await self.ledger.matching(
                OUTBOX, self.tenant, "record_id", wanted[start : start + _PAGE]
            )
        mine: Iterable[Owed] = (row for row in rows if row.mirror == self.line.mirror.name)
        return {row.record_id for row in mine if status in (None, row.status)}


def _unknown() -> NotFoundError:
    return NotFoundError(
        "There is no mirror of this name.", reason="mirror", hint="`quipu mirror list` shows them."
    )
