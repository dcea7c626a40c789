"""Search terms by today's rules. Texts are cut otherwise by a later build, and what was written before is not found."""

from __future__ import annotations

from collections.abc import AsyncIterator

from quipu.ports.ledger import Indexed, Ledger
from quipu.service.rechecking import indexed_text

_BATCH = 500


async def renewed(ledger: Ledger, tenant: str) -> AsyncIterator[int]:
    """Hold every version's terms against its text, and mend them; yields how many were mended each time.

    Stops and resumes anywhere: terms that are right are not written again. What others write meanwhile is cut by their
    own rules, so that one build should be at work by then.
    """
    waiting: list[Indexed] = []
    async for record in ledger.every_version(tenant):
        waiting.append(Indexed(record=record, search_text=indexed_text(record)))
        if len(waiting) >= _BATCH:
            if count := await ledger.renew_terms(tenant, waiting):
                yield count
            waiting.clear()
    if count := await ledger.renew_terms(tenant, waiting):
        yield count
    await ledger.settle_terms(tenant)
