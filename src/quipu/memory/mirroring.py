"""Copies of the memory in other stores, as whoever runs it sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quipu.memory import arguments
from quipu.memory.session import Session

if TYPE_CHECKING:
    from quipu.model.mirrors import MirrorReport, MirrorStatus


class Mirroring(Session):
    """mirrors, verify_mirror, resync_mirror."""

    async def mirrors(self) -> tuple[MirrorStatus, ...]:
        """How far each mirror is behind, and what went wrong there last."""
        return await (await self._service()).mirror_checks.status(self._principal)

    async def verify_mirror(self, name: str, /) -> MirrorReport:
        """Hold a mirror against the ledger, record by record. Nothing is changed."""
        asked = arguments.text(name, "/name")
        return await (await self._service()).mirror_checks.verify(self._principal, asked)

    async def resync_mirror(self, name: str, /) -> MirrorReport:
        """Bring a mirror level: send what waits, also what was given up, and mend what differs."""
        asked = arguments.text(name, "/name")
        return await (await self._service()).mirror_checks.resync(self._principal, asked)
