"""What was asked from outside and has been over for a while is forgotten: requests, and tasks with files."""

from __future__ import annotations

from quipu.ports.parts import Parts
from quipu.rules.export_tasks import TOLD_MS


async def tidy(parts: Parts, tenant: str) -> None:
    """Whom nobody asked for access need not open what lending is made of, to learn how long requests are kept."""
    if parts.lender is None:
        return
    kept, now = parts.ledger.lending, parts.clock()
    await kept.drop_tasks(tenant, now - TOLD_MS)
    if any(row.is_request for row in await kept.grants(tenant)) and parts.lending is not None:
        await kept.drop_requests(tenant, now - parts.lending.request_life_ms)
