"""Copies of records in one mirror, brought to how the records stand.

Before a copy is sent, the ledger notes that it may be there; so a crash between effect and outcome is found out about,
even when the record was forgotten meanwhile.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from quipu.errors import BackendUnavailableError
from quipu.model.record import MemoryType, Record
from quipu.model.search import Selection, Snapshot
from quipu.ports.backend import Capability, Container, Copy, Erasing, Mirror, Place, Sent
from quipu.ports.outbox import CopyState, Mirrored
from quipu.ports.parts import Parts
from quipu.rules.mirroring import is_mirrored

#: Records sent together.
_BATCH: Final = 32
#: What a whole mirror says; anything else may be about one record.
NOT_THERE: Final = frozenset({"breaker_open", "mirror_late", "mirror_unreachable", "embedding_mismatch"})
#: Stands for a text that is no more, while its place is looked for.
_NOTHING: Final = "-"


@dataclass(slots=True)
class Effects:
    """What became of copies: those that are kept, or deleted with something left; gone for good; failed, and why."""

    kept: list[Mirrored] = field(default_factory=list[Mirrored])
    gone: list[str] = field(default_factory=list[str])
    failed: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def error(self) -> str | None:
        """Why something failed: that the mirror is not there at all before anything else."""
        reasons = sorted(self.failed.values(), key=lambda reason: reason not in NOT_THERE)
        return next(iter(reasons), None)


def container_of(record: Record) -> Container:
    """Where a record belongs."""
    return Container(
        tenant=record.tenant, store_id=record.store_id, agent_id=record.agent_id, user_id=record.user_id
    )


def copy_of(record: Record, native_id: str | None, sent: Sent = Sent.BEGUN) -> Copy:
    """What a mirror is given of a record."""
    return Copy(
        container=container_of(record),
        record_id=record.id,
        version=record.version,
        type=record.type,
        content=record.content,
        metadata=record.metadata,
        tags=record.tags,
        session_id=record.session_id,
        source=record.source,
        confidence=record.confidence,
        created_at=record.created_at,
        updated_at=record.updated_at,
        expires_at=record.expires_at,
        native_id=native_id,
        sent=sent,
    )


class Copies:
    """What one mirror holds of the ledger."""

    def __init__(self, parts: Parts, mirror: Mirror) -> None:
        self._parts, self._mirror = parts, mirror
        self._outbox, self._backend = parts.ledger.outbox, mirror.backend
        #: Where each tenant's journal stood when this process took the mirror up.
        self._since: dict[str, int] = {}

    def begin(self, tenant: str, position: int) -> None:
        """From here on whoever sends a record of this tenant notes it first."""
        self._since.setdefault(tenant, position)

    def forget(self, tenant: str) -> None:
        """What was noted is gone: the mirror was taken away, and is back."""
        self._since.pop(tenant, None)

    async def converged(self, tenant: str, ids: Sequence[str], *, is_forced: bool = False) -> Effects:
        """Send what is missing, take away what should not be there. Forced: send also what is noted as kept."""
        now, types = self._parts.clock(), self._backend.capabilities.types
        records = await self._parts.ledger.read(tenant, ids)
        known = await self._outbox.mirrored(tenant, self._mirror.name, ids)
        effects = Effects()
        wanted: list[Record] = []
        for record_id in ids:
            record, copy = records.get(record_id), known.get(record_id)
            if record is not None and is_mirrored(record, now, types):
                if is_forced or not _is_kept(record, copy):
                    wanted.append(record)
            elif copy is not None and copy.state is not CopyState.GONE:
                await _tried(effects, record_id, self._removed(effects, copy, record))
        for start in range(0, len(wanted), _BATCH):
            await self._send(tenant, wanted[start : start + _BATCH], known, effects)
        return effects

    # -- sending --------------------------------------------------------------------------------------------------

    async def _send(
        self, tenant: str, records: Sequence[Record], known: Mapping[str, Mirrored], effects: Effects
    ) -> None:
        """A batch; where it fails and the mirror is there, one by one, so that one record stops no other."""
        try:
            effects.kept += await self._sent(tenant, records, known)
        except BackendUnavailableError as error:
            reason = error.reason or error.code
            if reason in NOT_THERE or len(records) == 1:
                effects.failed |= dict.fromkeys((record.id for record in records), reason)
                return
            for record in records:
                await self._send(tenant, [record], known, effects)

    async def _sent(
        self, tenant: str, records: Sequence[Record], known: Mapping[str, Mirrored]
    ) -> list[Mirrored]:
        natives: dict[str, str | None] = {}
        for record in records:
            natives[record.id] = await self._ready_for(record, known.get(record.id))
        sending = [
            Mirrored(
                record_id=record.id,
                container=container_of(record),
                version=record.version,
                state=CopyState.SENDING,
                native_id=natives[record.id],
            )
            for record in records
        ]
        await self._outbox.sending(tenant, self._mirror.name, sending)
        given = await self._backend.put(
            [copy_of(record, natives[record.id], self._sent_before(record, known)) for record in records]
        )
        return [
            replace(copy, state=CopyState.KEPT, native_id=native)
            for copy, native in zip(sending, given, strict=True)
        ]

    def _sent_before(self, record: Record, known: Mapping[str, Mirrored]) -> Sent:
        since = self._since.get(record.tenant)
        if since is None or record.id in known:
            return Sent.BEGUN
        return Sent.NEVER if record.version == 1 and record.born > since else Sent.UNKNOWN

    async def _ready_for(self, record: Record, copy: Mirrored | None) -> str | None:
        """The native id to change, once nothing stands in the way of the new version."""
        if copy is None or copy.state in (CopyState.GONE, CopyState.DELETED):
            return None
        if Capability.UPDATE in self._backend.capabilities or copy.version == record.version:
            return copy.native_id
        await self._backend.delete(await self._places(copy, record))
        return None

    # -- taking away ----------------------------------------------------------------------------------------------

    async def _removed(self, effects: Effects, copy: Mirrored, record: Record | None) -> None:
        """A deletion for a record that is forgotten; for one that is erased, nothing may be left."""
        is_erased = record is None or record.is_emptied
        if copy.state is CopyState.DELETED and not is_erased:
            return
        places = await self._places(copy, record)
        if copy.state is not CopyState.DELETED:
            await self._backend.delete(places)
        is_hard = Capability.HARD_DELETE in self._backend.capabilities
        if not is_hard and is_erased and isinstance(self._backend, Erasing):
            await self._backend.erase(places, self._remaining)
            is_hard = True
        if is_erased and await self._has_still(places):
            raise BackendUnavailableError("The mirror still has what was erased.", reason="mirror_failed")
        if is_hard:
            effects.gone.append(copy.record_id)
        else:
            effects.kept.append(replace(copy, state=CopyState.DELETED, native_id=places[-1].native_id))

    async def _has_still(self, places: Sequence[Place]) -> bool:
        """Whether what was taken away is there all the same: that it is gone is not believed, as far as it can be seen."""
        promised = self._backend.capabilities
        if Capability.GET_BY_ID in promised:
            return bool(await self._backend.get(places))
        return Capability.DELETE_REPORTS_ABSENCE in promised and await self._backend.delete(places) > 0

    async def _places(self, copy: Mirrored, record: Record | None) -> list[Place]:
        """Where a copy is. One that was on its way when somebody crashed is found by sending its like once more:
        an adapter knows its own mark and makes no second one. What is noted then may be where an older one was."""
        natives = [] if copy.native_id is None else [copy.native_id]
        if not natives or copy.state is CopyState.SENDING:
            blank = Copy(
                container=copy.container,
                record_id=copy.record_id,
                version=copy.version,
                # Some find their mark by these.
                type=MemoryType.SEMANTIC if record is None else record.type,
                content=_NOTHING,
                created_at=0 if record is None else record.created_at,
                updated_at=0,
            )
            natives += await self._backend.put([blank])
        return [Place(copy.container, copy.record_id, name) for name in dict.fromkeys(natives)]

    async def _remaining(self, container: Container) -> AsyncIterator[Copy]:
        """The live copies a container should still hold."""
        now, types = self._parts.clock(), self._backend.capabilities.types
        selection = Selection(
            tenant=container.tenant,
            agent_id=container.agent_id,
            user_id=container.user_id,
            store_id=container.store_id,
        )
        async for record in self._parts.ledger.scan(selection, Snapshot(None, now)):
            if container_of(record) == container and is_mirrored(record, now, types):
                known = await self._outbox.mirrored(container.tenant, self._mirror.name, [record.id])
                copy = known.get(record.id)
                yield copy_of(record, None if copy is None else copy.native_id)


async def _tried(effects: Effects, record_id: str, work: Awaitable[None]) -> None:
    try:
        await work
    except BackendUnavailableError as error:
        effects.failed[record_id] = error.reason or error.code


def _is_kept(record: Record, copy: Mirrored | None) -> bool:
    return copy is not None and copy.state is CopyState.KEPT and copy.version == record.version
