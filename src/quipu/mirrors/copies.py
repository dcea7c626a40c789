"""Copies of records in one mirror, brought to how the records stand.

Before a copy is sent, the ledger notes that it may be there; so a crash between effect and outcome is found out about,
even when the record was forgotten meanwhile.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from quipu.errors import BackendUnavailableError
from quipu.ledger.commit import Keep
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Reader
from quipu.mirrors.backend import Container, Copy, Place
from quipu.mirrors.guard import NOT_THERE, GuardedBackend
from quipu.mirrors.model import CONTAINERS, COPIES, ContainerRow, CopyRow, whose
from quipu.model.record import Record
from quipu.model.search import Selection, Snapshot
from quipu.operation import Clock

#: Records sent together.
_BATCH: Final = 32
#: Stands for a text that is no more, while its place is looked for.
_NOTHING: Final = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """A place that holds copies, as this process is set up with it."""

    name: str
    backend: GuardedBackend
    #: Where it is, without any credential.
    shown: str
    weight: float = 1.0
    #: It holds memories that did not come from the ledger.
    has_own_contents: bool = False


@dataclass(slots=True)
class Effects:
    """What became of copies."""

    #: Where they are, or that they are deleted or gone.
    noted: list[CopyRow] = field(default_factory=list[CopyRow])
    #: Record → why it failed.
    failed: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def error(self) -> str | None:
        """Why something failed: that the mirror is not there at all before anything else."""
        reasons = sorted(self.failed.values(), key=lambda reason: reason not in NOT_THERE)
        return next(iter(reasons), None)


@dataclass(frozen=True, slots=True)
class Copies:
    """What one mirror holds of the ledger."""

    ledger: Ledger
    mirror: Mirror
    clock: Clock

    async def known(
        self, tenant: str, ids: Sequence[str]
    ) -> tuple[Mapping[str, Record], Mapping[str, CopyRow]]:
        """How the records stand, and what is known of their copies here."""

        def work(reader: Reader) -> tuple[Mapping[str, Record], Mapping[str, CopyRow]]:
            return reader.newest_versions(ids), self.rows(reader, ids)

        return await self.ledger.read(tenant, work)

    def rows(self, reader: Reader, ids: Sequence[str]) -> dict[str, CopyRow]:
        found = reader.matching(COPIES, "record_id", list(ids)) if ids else []
        return {row.value.record_id: row.value for row in found if row.value.mirror == self.mirror.name}

    async def converged(self, tenant: str, ids: Sequence[str]) -> Effects:
        """Send what is missing, take away what should not be there."""
        records, known = await self.known(tenant, ids)
        effects = Effects()
        wanted: list[Record] = []
        for record_id in ids:
            record, copy = records.get(record_id), known.get(record_id)
            if record is not None and self.is_wanted(record):
                if copy is None or (copy.state, copy.version) != ("kept", record.version):
                    wanted.append(record)
            elif copy is not None and copy.state != "gone":
                try:
                    if (now := await self._removed(tenant, copy, record)) != copy:
                        effects.noted.append(now)
                except BackendUnavailableError as error:
                    effects.failed[record_id] = error.reason or error.code
        for start in range(0, len(wanted), _BATCH):
            await self._send(tenant, wanted[start : start + _BATCH], known, effects)
        return effects

    def is_wanted(self, record: Record) -> bool:
        """Whether the mirror holds this version: it stands, in time, is of a type that the mirror takes, and no secret."""
        is_secret = record.privacy is not None and record.privacy.sensitivity == "secret"
        stands = record.standing == "live" and record.ending is None and not record.is_expired(self.clock())
        return stands and not is_secret and record.type in self.mirror.backend.capabilities.types

    # -- sending ------------------------------------------------------------------------------------------------------

    async def _send(
        self, tenant: str, records: Sequence[Record], known: Mapping[str, CopyRow], effects: Effects
    ) -> None:
        """A batch; where it fails and the mirror is there, one by one, so that one record stops no other."""
        try:
            effects.noted += await self._sent(tenant, records, known)
        except BackendUnavailableError as error:
            reason = error.reason or error.code
            if reason in NOT_THERE or len(records) == 1:
                effects.failed |= dict.fromkeys((record.id for record in records), reason)
                return
            for record in records:
                await self._send(tenant, [record], known, effects)

    async def _sent(
        self, tenant: str, records: Sequence[Record], known: Mapping[str, CopyRow]
    ) -> list[CopyRow]:
        native = {
            record.id: await self._ready_for(tenant, record, known.get(record.id)) for record in records
        }
        sending = [
            CopyRow(
                mirror=self.mirror.name,
                record_id=record.id,
                native_id=native[record.id],
                version=record.version,
                store_id=record.store_id,
                agent_id=record.agent_id,
                whose=whose(record.user_id),
                state="sending",
            )
            for record in records
        ]
        containers = {ContainerRow.of(self.mirror.name, copy.container(tenant)) for copy in sending}
        # Before the effect: these may be there from now on.
        noted = [*(Keep(COPIES, copy) for copy in sending), *(Keep(CONTAINERS, one) for one in containers)]
        await self.ledger.settle(tenant, lambda _: (None, noted))
        given = await self.mirror.backend.put(
            [copy_of(tenant, record, native[record.id]) for record in records]
        )
        return [
            replace(copy, state="kept", native_id=name) for copy, name in zip(sending, given, strict=True)
        ]

    async def _ready_for(self, tenant: str, record: Record, copy: CopyRow | None) -> str | None:
        """The native id to change, once nothing stands in the way of the new version."""
        if copy is None or not copy.is_current:
            return None
        if "update" in self.mirror.backend.capabilities or copy.version == record.version:
            return copy.native_id
        await self.mirror.backend.delete(await self._places(tenant, copy, record))
        return None

    # -- taking away --------------------------------------------------------------------------------------------------

    async def _removed(self, tenant: str, copy: CopyRow, record: Record | None) -> CopyRow:
        """Deleted where the record is forgotten; where it is erased, nothing may be left. What is known of the copy then."""
        is_erased = record is None or record.is_emptied
        if copy.state == "deleted" and not is_erased:
            return copy
        backend = self.mirror.backend
        places = await self._places(tenant, copy, record)
        if copy.state != "deleted":
            await backend.delete(places)
        if is_erased:
            if "hard_delete" not in backend.capabilities:
                await backend.erase(places, self._remaining)
            if await self._has_still(places):
                raise BackendUnavailableError("The mirror still has what was erased.", reason="mirror_failed")
        there = replace(copy, state="deleted", native_id=places[-1].native_id)
        return there.gone() if is_erased or "hard_delete" in backend.capabilities else there

    async def taken_away(self, tenant: str, places: Sequence[Place]) -> None:
        """Natively, whatever is noted of them; of erased records every byte."""
        if not places:
            return
        backend = self.mirror.backend
        records, _ = await self.known(tenant, [place.record_id for place in places])
        await backend.delete(places)
        erased = [one for one in places if one.record_id not in records or records[one.record_id].is_emptied]
        if erased and "hard_delete" not in backend.capabilities:
            await backend.erase(erased, self._remaining)

    async def _has_still(self, places: Sequence[Place]) -> bool:
        """Whether what was erased is there all the same: that it is gone is not believed, as far as it can be seen."""
        backend = self.mirror.backend
        if "get_by_id" in backend.capabilities:
            return bool(await backend.get(places))
        return "delete_reports_absence" in backend.capabilities and await backend.delete(places) > 0

    async def _places(self, tenant: str, copy: CopyRow, record: Record | None) -> list[Place]:
        """Where a copy is. One that was on its way when somebody crashed is found by sending its like once more:
        an adapter knows its own mark and makes no second one. What is noted then may be where an older one was."""
        container = copy.container(tenant)
        native = [] if copy.native_id is None else [copy.native_id]
        if not native or copy.state == "sending":
            blank = Copy(
                container=container,
                record_id=copy.record_id,
                version=copy.version,
                # Some find their mark by these.
                type="semantic" if record is None else record.type,
                content=_NOTHING,
                created_at=0 if record is None else record.created_at,
            )
            native += await self.mirror.backend.put([blank])
        return [Place(container, copy.record_id, name) for name in dict.fromkeys(native)]

    async def _remaining(self, container: Container) -> AsyncIterator[Copy]:
        """The live copies that a container should still hold, for those whose native ids follow from the records."""
        selection = Selection(
            tenant=container.tenant,
            agent_id=container.agent_id,
            user_id=container.user_id,
            store_id=container.store_id,
        )
        async for record in self.ledger.scan(selection, Snapshot(None, self.clock())):
            if container_of(container.tenant, record) == container and self.is_wanted(record):
                yield copy_of(container.tenant, record, None)


def container_of(tenant: str, record: Record) -> Container:
    return Container(
        tenant=tenant, store_id=record.store_id, agent_id=record.agent_id, user_id=record.user_id
    )


def copy_of(tenant: str, record: Record, native_id: str | None) -> Copy:
    """What a mirror is given of a record."""
    return Copy(
        container=container_of(tenant, record),
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
        native_id=native_id,
    )
