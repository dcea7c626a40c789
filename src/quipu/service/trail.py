"""Looking back: pages of the journal, as far as somebody may see it."""

from __future__ import annotations

from dataclasses import replace

from quipu.errors import InvalidError
from quipu.model.journal import Checkpoint, Entry, Head
from quipu.model.outcomes import TrailPage
from quipu.model.principal import Permission, Principal
from quipu.model.trail import TrailRequest
from quipu.ports.parts import Parts
from quipu.rules import chain, moments
from quipu.service.access import Access
from quipu.service.notes import ReadNotes
from quipu.service.sight import Sight

_STRETCH = 1_000
#: So many entries are looked through for one page; the next one goes on from there.
_MOST = 20_000


class Trail:
    """One tenant's past at a time."""

    def __init__(self, parts: Parts, access: Access, notes: ReadNotes) -> None:
        self._parts, self._access, self._notes = parts, access, notes
        self._sight = Sight(parts, access)

    async def page(self, principal: Principal, wanted: TrailRequest) -> TrailPage:
        """Entries that were asked for and may be seen, oldest first."""
        self._access.authorise(principal, Permission.REVIEW, wanted.agent_id)
        if not 1 <= wanted.limit <= self._parts.limits.page:
            accepted = [f"from 1 to {self._parts.limits.page}"]
            raise InvalidError.at("/limit", "bad_value", "A page is not that long.", accepted=accepted)
        await self._notes.flush()
        head = await self._parts.ledger.head(principal.tenant)
        position, last = await self._bounds(principal.tenant, wanted, head)
        found: list[Entry] = []
        looked = 0
        while position < last and looked < _MOST:
            stretch = await self._parts.ledger.entries(principal.tenant, position, _STRETCH)
            stretch = [entry for entry in stretch if entry.seq <= last]
            seen = await self._sight.looked_back(principal, wanted, stretch)
            if len(found) + len(seen) > wanted.limit:
                found += seen[: wanted.limit - len(found)]
                position = found[-1].seq
                break
            found += seen
            position, looked = stretch[-1].seq if stretch else last, looked + len(stretch)
        return TrailPage(
            entries=tuple(found),
            next_cursor=position if position < last else None,
            head=self._signed(principal.tenant, head),
        )

    async def _bounds(self, tenant: str, wanted: TrailRequest, head: Head) -> tuple[int, int]:
        """Where to begin behind, and where to end."""
        first, last = 0, head.seq
        if wanted.since is not None:
            first = await self._parts.ledger.position_at(tenant, moments.moment(wanted.since, "/since") - 1)
        if wanted.until is not None:
            last = await self._parts.ledger.position_at(tenant, moments.moment(wanted.until, "/until"))
        return max(first, wanted.cursor or 0), last

    def _signed(self, tenant: str, head: Head) -> Checkpoint:
        """A statement of where the chain ends, signed for whoever takes the page away. It is not kept."""
        signer = self._parts.signer
        draft = Checkpoint(
            tenant=tenant,
            seq=head.seq,
            hash=head.hash,
            at=self._parts.clock(),
            key_id=signer.key_id,
            signature="",
        )
        return replace(draft, signature=signer.sign(self._parts.canonical(chain.checkpoint_body(draft))))
