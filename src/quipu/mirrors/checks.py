"""What an operator asks of mirrors: how they stand, whether they hold what the ledger holds, and that they shall.

A mirror is held against the ledger by what it says of itself: by everything that its containers hold, where it can tell
that, else by the copies that are known. What is found wrong is taken away and owed anew; delivery does the rest.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from quipu.errors import ConflictError, NotFoundError, UnsupportedError
from quipu.ledger.commit import Commit, Drop, Keep
from quipu.ledger.reader import Reader
from quipu.ledger.table import Table
from quipu.mirrors import operations as ops
from quipu.mirrors.backend import Container, Kept, Place
from quipu.mirrors.model import (
    CONTAINERS,
    COPIES,
    MIRRORS,
    OUTBOX,
    ContainerRow,
    CopyRow,
    DropMirrorRequest,
    DropMirrorResponse,
    ListMirrorsRequest,
    ListMirrorsResponse,
    MirrorFault,
    MirrorReport,
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


@dataclass(slots=True)
class _Found:
    """A mirror held against the ledger."""

    checked: int = 0
    foreign: int = 0
    faults: list[MirrorFault] = field(default_factory=list[MirrorFault])
    #: Where the copy of each fault is, as far as there is one.
    homes: dict[str, Container] = field(default_factory=dict[str, Container])

    def report(self, name: str, mended: int = 0) -> MirrorReport:
        return MirrorReport(
            name=name,
            checked=self.checked,
            foreign=self.foreign,
            faults=tuple(self.faults[:_SHOWN]),
            differing=len(self.faults),
            mended=mended,
        )


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

    def _status(self, name: str, standing: Standing | None, now: int) -> MirrorStatus:
        line = self._mirrors.line(name)
        place = None if line is None else line.mirror.shown
        breaker = None if line is None else line.mirror.backend.state
        if standing is None:  # it is only searched
            return MirrorStatus(
                name=name,
                place=place,
                breaker=breaker,
                writes=False,
                filled=False,
                waiting=0,
                given_up=0,
                drift=0,
            )
        row, oldest = standing.row, standing.oldest_at
        return MirrorStatus(
            name=name,
            place=place,
            breaker=breaker,
            writes=line is None or self._mirrors.writes,
            filled=row.is_filled,
            waiting=standing.waiting,
            given_up=standing.given_up,
            oldest_ms=None if oldest is None else max(0, now - oldest),
            succeeded_at=row.succeeded_at,
            error=row.error,
            drift=row.drift,
        )

    async def verify(self, ctx: Context, request: VerifyMirrorRequest) -> MirrorReport:
        return (await self._compared(ctx.tenant, self._line(request.name))).report(request.name)

    async def resync(self, ctx: Context, request: ResyncMirrorRequest) -> MirrorReport:
        line, tenant = self._line(request.name), ctx.tenant
        if request.dry_run:
            return (await self._compared(tenant, line)).report(request.name)
        self._check_writes()
        await self._mirrors.registered(tenant)
        await self._claim(tenant, line)
        await self._revive(tenant, line.mirror.name)
        await self._delivered(tenant, line)
        found = await self._compared(tenant, line)
        await self._mend(tenant, line, found)
        await self._delivered(tenant, line)
        owed = await self._owed(tenant, line.mirror.name, [fault.record_id for fault in found.faults])
        return found.report(request.name, mended=sum(fault.record_id not in owed for fault in found.faults))

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
        for table in (OUTBOX, COPIES, CONTAINERS):
            await self._cleared(tenant, table, name)
        return DropMirrorResponse(name=name, copies=copies)

    async def _cleared(self, tenant: str, table: Table[Any], name: str) -> None:
        while page := await self._ledger.page(table, tenant, {"mirror": name}, limit=1_000):
            await self._ledger.update(tenant, table, drop=[table.key_of(row) for row in page])

    def _line(self, name: str) -> Line:
        line = self._mirrors.line(name)
        if line is None:
            raise _unknown()
        return line

    def _check_writes(self) -> None:
        if not self._mirrors.writes:
            raise UnsupportedError(
                "Mirrors are only searched here.",
                reason="primary_only",
                hint="Open it with write_policy `all`.",
            )

    # -- comparing ----------------------------------------------------------------------------------------------------

    async def _compared(self, tenant: str, line: Line) -> _Found:
        """What is owed still is no difference: it is on its way."""
        backend = line.mirror.backend
        promised = backend.capabilities
        if "list" not in promised and "get_by_id" not in promised:
            raise UnsupportedError("This mirror cannot tell what it holds.", reason="no_scan")
        found = _Found()
        held: dict[str, tuple[Kept, Container]] = {}
        if "list" in promised:
            for container in await self._containers(tenant, line.mirror.name):
                async for kept in backend.scan(container):
                    held[kept.native_id] = kept, container
        seen: set[str] = set()
        walk = self._ledger.scan(Selection(tenant=tenant), Snapshot(None, self._mirrors.clock()))
        page: list[Record] = []
        async for record in walk:
            page.append(record)
            if len(page) == _PAGE:
                await self._compare(tenant, line, page, held, seen, found)
                page = []
        await self._compare(tenant, line, page, held, seen, found)
        await self._extras(tenant, line, held, seen, found)
        owed = await self._owed(
            tenant, line.mirror.name, [fault.record_id for fault in found.faults], "waiting"
        )
        found.faults = [fault for fault in found.faults if fault.record_id not in owed]
        return found

    async def _containers(self, tenant: str, name: str) -> list[Container]:
        rows: list[ContainerRow] = []
        after = None
        while page := await self._ledger.page(CONTAINERS, tenant, {"mirror": name}, after, limit=1_000):
            rows += page
            after = CONTAINERS.key_of(page[-1])
        return [row.container(tenant) for row in rows]

    async def _compare(
        self,
        tenant: str,
        line: Line,
        page: Sequence[Record],
        held: dict[str, tuple[Kept, Container]],
        seen: set[str],
        found: _Found,
    ) -> None:
        copies = line.delivery.copies
        wanted = [record for record in page if copies.is_wanted(record)]
        if not wanted:
            return
        _, known = await copies.known(tenant, [record.id for record in wanted])
        if "list" not in line.mirror.backend.capabilities:
            places = [_place(tenant, copy) for copy in known.values() if copy.native_id and copy.is_current]
            homes = {place.native_id: place.container for place in places}
            for kept in await line.mirror.backend.get(places):
                held[kept.native_id] = kept, homes[kept.native_id]
        is_verbatim = "verbatim" in line.mirror.backend.capabilities
        for record in wanted:
            found.checked += 1
            copy = known.get(record.id)
            native_id = None if copy is None or copy.state != "kept" else copy.native_id
            kept = None if native_id is None else held.get(native_id, (None,))[0]
            if kept is None or native_id is None:
                found.faults.append(MirrorFault(kind="missing", record_id=record.id, native_id=native_id))
                continue
            seen.add(native_id)
            if _is_altered(record, kept, is_verbatim=is_verbatim):
                found.homes[native_id] = held[native_id][1]
                found.faults.append(MirrorFault(kind="altered", record_id=record.id, native_id=native_id))

    async def _extras(
        self,
        tenant: str,
        line: Line,
        held: Mapping[str, tuple[Kept, Container]],
        seen: set[str],
        found: _Found,
    ) -> None:
        """Copies of ours that should not be there, and how much is there that was never ours."""
        left = [name for name in held if name not in seen]
        for start in range(0, len(left), _PAGE):
            some = left[start : start + _PAGE]
            rows = await self._ledger.matching(COPIES, tenant, "native_id", some)
            ours = {row.native_id: row.record_id for row in rows if row.mirror == line.mirror.name}
            for name in some:
                kept, home = held[name]
                marked = kept.mark.record_id if kept.mark is not None and kept.mark.tenant == tenant else None
                record_id = ours.get(name, marked)
                if record_id is None:
                    found.foreign += 1
                    continue
                found.homes[name] = home
                found.faults.append(MirrorFault(kind="extra", record_id=record_id, native_id=name))

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

    async def _delivered(self, tenant: str, line: Line) -> None:
        while (await self._mirrors.round(line, tenant)).has_more:
            pass

    async def _mend(self, tenant: str, line: Line, found: _Found) -> None:
        for start in range(0, len(found.faults), _PAGE):
            await self._mended(tenant, line, found.faults[start : start + _PAGE], found.homes)

    async def _mended(
        self, tenant: str, line: Line, faults: Sequence[MirrorFault], homes: Mapping[str, Container]
    ) -> None:
        """Take away what is altered or should not be there; what is missing then is owed from now on."""
        ids = list(dict.fromkeys(fault.record_id for fault in faults))
        places = [
            Place(homes[fault.native_id], fault.record_id, fault.native_id)
            for fault in faults
            if fault.native_id is not None and fault.native_id in homes
        ]
        await line.delivery.take_away(tenant, places)
        owed_again = {fault.record_id for fault in faults if fault.kind != "extra"}
        name, now = line.mirror.name, self._mirrors.clock()

        def work(reader: Reader) -> tuple[None, list[Keep | Drop]]:
            position = reader.head().seq
            changes: list[Keep | Drop] = [Drop(COPIES, (name, record_id)) for record_id in sorted(owed_again)]
            for record_id in ids:
                if reader.get(OUTBOX, name, record_id) is None:
                    owed = Owed(mirror=name, record_id=record_id, position=position, at=now)
                    changes.append(Keep(OUTBOX, owed))
            return None, changes

        await self._ledger.settle(tenant, work)

    async def _owed(self, tenant: str, name: str, ids: Sequence[str], status: str | None = None) -> set[str]:
        """Those of these records that the mirror is owed something for."""
        wanted = list(dict.fromkeys(ids))
        rows: list[Owed] = []
        for start in range(0, len(wanted), _PAGE):
            rows += await self._ledger.matching(OUTBOX, tenant, "record_id", wanted[start : start + _PAGE])
        return {row.record_id for row in rows if row.mirror == name and status in (None, row.status)}


def _place(tenant: str, copy: CopyRow) -> Place:
    return Place(copy.container(tenant), copy.record_id, copy.native_id or "")


def _is_altered(record: Record, kept: Kept, *, is_verbatim: bool) -> bool:
    is_older = kept.mark is None or kept.mark.version != record.version
    return is_older or (is_verbatim and kept.text != record.content)


def _unknown() -> NotFoundError:
    return NotFoundError(
        "There is no mirror of this name.", reason="mirror", hint="`quipu mirror list` shows them."
    )
