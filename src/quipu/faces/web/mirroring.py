"""How mirrors stand, for pages that tell how the server is."""

from __future__ import annotations

from collections.abc import Sequence

from quipu.faces.web.visit import Visit
from quipu.model.mirrors import MirrorStatus
from quipu.model.principal import Permission


async def standing(visit: Visit) -> Sequence[MirrorStatus]:
    """Each mirror; nothing for who does not run the server."""
    if not visit.may(Permission.OPERATE):
        return ()
    return await visit.service.mirror_checks.status(visit.principal)
