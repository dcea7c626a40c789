"""A mirror held against the ledger, and mended: what changed behind our back is found and put right."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

from quipu.errors import ConflictError, NotFoundError, UnsupportedError
from quipu.model.mirrors import Difference, MirrorFault, MirrorReport, MirrorStatus
from quipu.model.principal import Permission, Principal
from quipu.model.record import Record
from quipu.model.search import Scope, Selection, Snapshot
from quipu.ports.backend import Capability, Container, Kept, Place
from quipu.ports.outbox import CopyState, Mirrored, Settlement
from quipu.ports.parts import Parts
from quipu.rules.mirroring import is_mirrored
from quipu.service.access import Access
from quipu.service.mirrors import Line, Mirrors

_PAGE: Final = 200
_MANY: Final = 1_000_000
_PATIENCE_S: Final = 10.0
_PAUSE_S: Final = 0.25


class MirrorChecks:
    """What an operator asks about mirrors: they are the server's, and every tenant has the same."""

    def __init__(self, parts: Parts, access: Access, mirrors: Mirrors) -> None:
        self._parts, self._access, self._mirrors = parts, access, mirrors
        self._outbox = parts.ledger.outbox

    async def status(self, principal: Principal) -> tuple[MirrorStatus, ...]:
        """How each mirror stands, also those that are configured elsewhere."""
        self._access.authorise(principal, Permission.OPERATE)
        now = self._parts.clock()
        await self._mirrors.registered(principal.tenant)
        lines = {line.mirror.name: line for line in self._mirrors.lines}
        return tuple(
            MirrorStatus(
                name=one.name,
                place=lines[one.name].mirror.shown if one.name in lines else "",
                is_written=one.is_written,
                is_filled=one.is_filled,
                waiting=one.waiting,
                dead=one.dead,
                oldest_ms=None if one.oldest_at is None else max(0, now - one.oldest_at),
                succeeded_at=one.succeeded_at,
                error=one.error,
                drift=one.drift,
                breaker=lines[one.name].breaker if one.name in lines else None,
            )
            for one in await self._mirrors.standings(principal.tenant)
        )

    async def verify(self, principal: Principal, name: str) -> MirrorReport:
        """Compare every record with its copy, and look for copies that should not be there. Nothing is changed."""
        self._access.authorise(principal, Permission.OPERATE)
        line, tenant = self._line(name), principal.tenant
        promised = line.mirror.backend.capabilities
        if Capability.LIST not in promised and Capability.GET_BY_ID not in promised:
            raise UnsupportedError("This mirror cannot tell what it holds.", reason="no_scan")
        held = [kept async for kept in self._held(line, tenant)]
        there = {kept.native_id: kept for kept in held}
        faults: list[MirrorFault] = []
        checked = 0
        async for page in self._pages(tenant):
            known = await self._outbox.mirrored(tenant, name, [record.id for record in page])
            if Capability.LIST not in promised:
                places = [_place(copy) for copy in known.values() if copy.native_id is not None]
                there |= {kept.native_id: kept for kept in await line.mirror.backend.get(places)}
            faults += self._compared(line, page, known, there)
            checked += sum(self._is_wanted(line, record) for record in page)
        extra, foreign = await self._extra(name, tenant, held)
        return MirrorReport(mirror=name, checked=checked, foreign=foreign, faults=(*faults, *extra))

    async def resync(self, principal: Principal, name: str) -> MirrorReport:
        """Verify, mend what differs, and carry out everything that waits, also what was given up."""
        self._access.authorise(principal, Permission.OPERATE)
        line, tenant = self._line(name), principal.tenant
        await self._mirrors.registered(tenant)
        await self._claim(line, tenant)
        await self._outbox.revive(tenant, name)
        await self._mirrors.drained(tenant)
        report = await self.verify(principal, name)
        await self._take_away(line, tenant, report.faults)
        wanted = list(dict.fromkeys(fault.record_id for fault in report.faults))
        failed: dict[str, str] = {}
        for start in range(0, len(wanted), _PAGE):
            failed |= await line.delivery.brought_level(tenant, wanted[start : start + _PAGE])
        mended = sum(fault.record_id not in failed for fault in report.faults)
        return MirrorReport(
            mirror=name, checked=report.checked, foreign=report.foreign, faults=report.faults, mended=mended
        )

    async def drop(self, principal: Principal, name: str) -> None:
        """The tenant has this mirror no more. What it holds stays there."""
        self._access.authorise(principal, Permission.OPERATE)
        if name not in {standing.name for standing in await self._mirrors.standings(principal.tenant)}:
            raise _unknown()
        await self._outbox.drop(principal.tenant, name)

    # -- comparing ------------------------------------------------------------------------------------------------

    def _line(self, name: str) -> Line:
        for line in self._mirrors.lines:
            if line.mirror.name == name:
                return line
        raise _unknown()

    async def _held(self, line: Line, tenant: str) -> AsyncIterator[Kept]:
        """Everything in the containers that we have written into."""
        if Capability.LIST not in line.mirror.backend.capabilities:
            return
        everything = Scope(tenant=tenant, agent_id=None)
        for container in await self._outbox.containers(everything, line.mirror.name, _MANY):
            async for kept in line.mirror.backend.scan(container):
                yield kept

    async def _pages(self, tenant: str) -> AsyncIterator[Sequence[Record]]:
        below: str | None = None
        while True:
            selection = Selection(tenant=tenant, below=below, limit=_PAGE)
            walk = self._parts.ledger.scan(selection, Snapshot(None, self._parts.clock()))
            page = [record async for record in walk]
            if page:
                yield page
            if len(page) < _PAGE:
                return
            below = page[-1].id

    def _is_wanted(self, line: Line, record: Record) -> bool:
        return is_mirrored(record, self._parts.clock(), line.mirror.backend.capabilities.types)

    def _compared(
        self,
        line: Line,
        page: Sequence[Record],
        known: Mapping[str, Mirrored],
        there: Mapping[str, Kept],
    ) -> list[MirrorFault]:
        is_verbatim = Capability.VERBATIM in line.mirror.backend.capabilities
        faults: list[MirrorFault] = []
        for record in page:
            if not self._is_wanted(line, record):
                continue
            copy = known.get(record.id)
            kept = None if copy is None else there.get(copy.native_id or "")
            if copy is None or kept is None or copy.state is not CopyState.KEPT:
                native_id = None if copy is None else copy.native_id
                faults.append(MirrorFault(Difference.MISSING, record.id, native_id))
            elif (is_verbatim and kept.text != record.content) or copy.version != record.version:
                faults.append(MirrorFault(Difference.ALTERED, record.id, copy.native_id))
        return faults

    async def _extra(self, name: str, tenant: str, held: Sequence[Kept]) -> tuple[list[MirrorFault], int]:
        """Copies of ours that should not be there, and how much is there that was never ours."""
        faults: list[MirrorFault] = []
        foreign = 0
        for start in range(0, len(held), _PAGE):
            page = held[start : start + _PAGE]
            known = await self._outbox.mirrored_as(tenant, name, [kept.native_id for kept in page])
            for kept in page:
                copy = known.get(kept.native_id)
                is_ours = copy is not None and copy.state in (CopyState.KEPT, CopyState.SENDING)
                if is_ours:
                    continue
                marked = copy.record_id if copy is not None else kept.record_id
                if marked is None:
                    foreign += 1
                else:
                    faults.append(MirrorFault(Difference.EXTRA, marked, kept.native_id))
        return faults, foreign

    # -- mending --------------------------------------------------------------------------------------------------

    async def _claim(self, line: Line, tenant: str) -> None:
        """Whoever else is at it lets go once nothing waits."""
        for _ in range(int(_PATIENCE_S / _PAUSE_S)):
            if await line.delivery.claimed(tenant):
                return
            await asyncio.sleep(_PAUSE_S)
        raise ConflictError("Another process is writing to this mirror.", reason="mirror_busy")

    async def _take_away(self, line: Line, tenant: str, faults: Sequence[MirrorFault]) -> None:
        """What is altered or should not be there goes; what should be there is sent afterwards."""
        backend, name = line.mirror.backend, line.mirror.name
        for fault in faults:
            if fault.native_id is None or fault.kind is Difference.MISSING:
                continue
            place = Place(await self._container(tenant, name, fault), fault.record_id, fault.native_id)
            await backend.delete([place])
        gone = [fault.record_id for fault in faults if fault.kind is not Difference.EXTRA]
        await self._outbox.settle(tenant, name, Settlement(gone=gone))

    async def _container(self, tenant: str, name: str, fault: MirrorFault) -> Container:
        """Where a copy is: where it was sent, or where its record belongs."""
        known = (await self._outbox.mirrored(tenant, name, [fault.record_id])).get(fault.record_id)
        if known is not None and known.state in (CopyState.KEPT, CopyState.SENDING):
            return known.container
        record = (await self._parts.ledger.read(tenant, [fault.record_id])).get(fault.record_id)
        if record is None:
            return Container(tenant=tenant, store_id="", agent_id="")
        return Container(
            tenant=tenant, store_id=record.store_id, agent_id=record.agent_id, user_id=record.user_id
        )


def _place(copy: Mirrored) -> Place:
    return Place(copy.container, copy.record_id, copy.native_id or "")


def _unknown() -> NotFoundError:
    return NotFoundError("There is no mirror of this name.", reason="mirror")
