"""Whether what waits for a person is what the journal says was held: else somebody would say yes to another's words."""

from __future__ import annotations

from collections.abc import AsyncIterator

from quipu.errors import ConflictError
from quipu.model.change import Proposal
from quipu.model.journal import Entry, Op
from quipu.model.outcomes import Fault
from quipu.ports.ledger import Proposals
from quipu.ports.parts import Parts
from quipu.rules import staging

_PAGE = 200


async def check(parts: Parts, proposal: Proposal) -> None:
    """Raise where a proposal is not what was held."""
    if await _fault(parts, proposal) is not None:
        raise ConflictError(
            "What waits here is not what was held.",
            reason="altered_proposal",
            hint="It was altered from outside. Reject it, and have it proposed again.",
        )


async def faults(parts: Parts, tenant: str) -> AsyncIterator[Fault]:
    """Of everything that waits."""
    after: tuple[int, str] | None = None
    while page := await parts.ledger.proposals(tenant, "pending", Proposals(after=after, limit=_PAGE)):
        for proposal in page:
            if (fault := await _fault(parts, proposal)) is not None:
                yield fault
        after = (page[-1].created_at, page[-1].id)


async def _fault(parts: Parts, proposal: Proposal) -> Fault | None:
    """An entry never changes, and what it held was written with it, so nobody can be at work in between."""
    entry = await _entry(parts, proposal)
    if entry is None:
        return Fault(kind="altered_proposal", id=proposal.id, detail="no entry says that it was held")
    if staging.is_as_held(proposal, entry, parts.canonical):
        return None
    return Fault(kind="altered_proposal", seq=entry.seq, id=proposal.id, detail="it is not what was held")


async def _entry(parts: Parts, proposal: Proposal) -> Entry | None:
    """The one by which it was held: they have the same time."""
    ledger, tenant = parts.ledger, proposal.tenant
    after = await ledger.position_at(tenant, proposal.created_at - 1)
    while entries := await ledger.entries(tenant, after, _PAGE):
        for entry in entries:
            if entry.at > proposal.created_at:
                return None
            if entry.op is Op.HOLD and entry.detail.get("proposal") == proposal.id:
                return entry
        after = entries[-1].seq
    return None
