"""The ledger as a whole: copies, space, counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from quipu.model.principal import Permission, Principal
from quipu.ports.parts import Parts
from quipu.rules import validation, values
from quipu.service.access import Access
from quipu.service.notes import ReadNotes

_DAY_MS = 86_400_000


class Upkeep:
    """What keeps a ledger in order. A file is shared by all tenants, so most of it is for those who run the server."""

    def __init__(self, parts: Parts, access: Access, notes: ReadNotes) -> None:
        self._parts, self._access, self._notes = parts, access, notes

    async def backup(
        self, principal: Principal, target: Path, progress: Callable[[int, int], None] | None = None
    ) -> None:
        """A consistent copy of the whole ledger, every tenant's, while others go on writing."""
        self._access.authorise(principal, Permission.OPERATE)
        await self._notes.flush()
        await self._parts.ledger.backup(target, progress)

    async def vacuum(self, principal: Principal, keep_history_days: int | None = None) -> int:
        """Give space back; with `keep_history_days`, also empty the tenant's versions that ended before then.

        Emptying needs `memory:admin`, giving back needs `server:operate`: who has only the first leaves the file as
        large as it is.
        """
        if keep_history_days is None:
            self._access.authorise(principal, Permission.OPERATE)
        else:
            self._access.authorise(principal, Permission.ADMIN)
            # below 0 it would reach into the future, and empty what has just ended
            validation.checked_whole("/keep_history_days", keep_history_days, 0, values.INT64 // _DAY_MS - 1)
        emptied = 0
        if keep_history_days is not None:
            moment = self._parts.clock() - keep_history_days * _DAY_MS
            horizon = await self._parts.ledger.position_at(principal.tenant, moment)
            emptied = await self._parts.ledger.prune(principal.tenant, horizon)
        if principal.may(Permission.OPERATE):
            await self._parts.ledger.compact()
        return emptied

    async def statistics(self, principal: Principal) -> Mapping[str, int]:
        """Counts and sizes, for the tenant's admins and for those who run the server."""
        if not principal.may(Permission.OPERATE):
            self._access.authorise(principal, Permission.ADMIN)
        return await self._parts.ledger.statistics(principal.tenant)
