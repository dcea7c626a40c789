"""What goes along when memories are erased: what was made out of them, and what waits to be written beside them."""

from __future__ import annotations

from collections.abc import Sequence

from quipu.ports.ledger import Ledger, Proposals
from quipu.rules import staging

_PAGE = 1_000


async def with_derived(ledger: Ledger, tenant: str, ids: Sequence[str]) -> list[str]:
    """What was made out of something that is erased says what it said, so it goes too."""
    known = dict.fromkeys(ids)
    fresh = list(known)
    while fresh:
        found = await ledger.derived_from(tenant, fresh)
        fresh = [name for name in found if name not in known]
        known.update(dict.fromkeys(fresh))
    return list(known)


async def staged_for(ledger: Ledger, tenant: str, store: str) -> list[str]:
    """Proposals whose words are meant for a store: those that wait, and those that were kept after a decision."""
    found: list[str] = []
    place: tuple[int, str] | None = None
    while page := await ledger.proposals(tenant, None, Proposals(after=place, limit=_PAGE)):
        place = (page[-1].created_at, page[-1].id)
        found.extend(proposal.id for proposal in page if staging.is_for_store(proposal, store))
    return found
