"""Taking a decision back: who decided may do so for a minute, whichever process is asked.

What was proposed stays in the ledger for as long as that, told to nobody, and a sweep lets it go afterwards; a decision
that is not to be taken back lets it go at once.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from quipu.errors import ConflictError
from quipu.model.change import Commit, Erase, Proposal
from quipu.model.journal import Draft, Op
from quipu.model.principal import Permission, Principal
from quipu.model.recovery import RecoverRequest
from quipu.ports.parts import Parts
from quipu.rules import learning, staging
from quipu.service.access import Access
from quipu.service.governance import Governance, held_request
from quipu.service.recovery import Recovery

#: How long a reviewer may take a decision back.
UNDO_MS = 60_000


@dataclass(frozen=True, slots=True)
class Undone:
    """The proposal that waits again, None where not all that had been done could be undone; and whether it was a yes."""

    proposal_id: str | None
    was_approved: bool


class Undoing:
    """Over what the ledger knows of a decision."""

    def __init__(self, parts: Parts, access: Access, governance: Governance, recovery: Recovery) -> None:
        self._parts, self._access = parts, access
        self._governance, self._recovery = governance, recovery

    async def undo(self, principal: Principal, proposal_id: str) -> Undone:
        """What a yes did is undone, and what was proposed waits again, under who wrote it; once."""
        self._access.authorise(principal, Permission.REVIEW)
        was = await self._governance.found(principal, proposal_id)
        if not self._is_kept(was) or not is_fresh(was, principal, self._parts.clock()):
            raise _too_late()
        known = await self._parts.ledger.read(principal.tenant, sorted(staging.made_by(was)))
        if any(record.is_emptied for record in known.values()):
            raise _erased()
        # Whoever asks and goes away in between leaves no half of it: what was undone waits again.
        return await asyncio.shield(self._taken_back(principal, was))

    async def _taken_back(self, principal: Principal, was: Proposal) -> Undone:
        if was.status == "approved" and not await self._undone(principal, was):
            return Undone(None, was_approved=True)
        if not await self._parts.ledger.let_go_of(principal.tenant, was.id):
            raise _too_late()  # somebody else was faster
        again = await self._reopened(principal, was)
        known = await self._parts.ledger.read(principal.tenant, sorted(staging.made_by(was)))
        # The words were out of the ledger for a moment, and an erasure did not find them.
        if any(record.is_emptied for record in known.values()):
            draft = Draft(op=Op.ERASE, actor=principal.name, at=self._parts.clock(), agent=was.agent_id)
            commit = Commit(tenant=principal.tenant, draft=draft, changes=(Erase(id=again.id),))
            await self._parts.ledger.commit(commit)
            raise _erased()
        return Undone(again.id, was.status == "approved")

    async def can_undo(self, principal: Principal, proposal_id: str) -> bool:
        """Whether there is still something to take back."""
        was = await self._governance.found(principal, proposal_id)
        return self._is_kept(was) and is_fresh(was, principal, self._parts.clock())

    async def let_go(self, tenant: str) -> int:
        """Forget what was kept so that decisions could be taken back, once they cannot; of how many."""
        return await self._parts.ledger.let_go(
            tenant, self._parts.clock() - UNDO_MS, keeps_rejected=self._parts.keeps_rejected
        )

    @staticmethod
    def _is_kept(was: Proposal) -> bool:
        # Nothing brings back what was erased.
        is_final = was.status == "approved" and was.request.get("hard_delete") is True
        return was.status != "pending" and bool(was.salt and was.request) and not is_final

    async def _undone(self, principal: Principal, was: Proposal) -> bool:
        """Just what the yes did goes back; False where not all of it could."""
        # A reviewer let it through without being allowed to write; so it goes back.
        able = replace(
            principal, permissions=frozenset(Permission), review_stores=("*",), review_operations=("*",)
        )
        asked = RecoverRequest(
            agent_id=was.agent_id, proposal_id=was.id, dry_run=False, reason=f"{was.id} taken back"
        )
        done = await self._recovery.recover(able, asked)
        return bool(done.findings) and all(one.outcome == "done" for one in done.findings)

    async def _reopened(self, principal: Principal, was: Proposal) -> Proposal:
        """Ids of memories that a yes made stay taken, so that those it proposes now get others.

        It waits as long as any other: who takes a decision back just before it lapses has not rejected it.
        """
        is_undone, now = was.status == "approved", self._parts.clock()
        again = replace(
            staging.renamed(was, lambda: self._parts.mint_id("mem")) if is_undone else was,
            id=self._parts.mint_id("prp"),
            status="pending",
            given=(),
            created_at=now,
            lapses_at=now + self._parts.proposal_life_ms,
            salt=self._parts.mint_salt(),
            traits=was.traits or learning.traits(held_request(was)),
        )
        return await self._governance.stage_again(principal, was, again)


def is_fresh(settled: Proposal, principal: Principal, now: int) -> bool:
    """Whether who decided may still take it back."""
    return (
        settled.reviewer == principal.name
        and settled.reviewed_at is not None
        and now - settled.reviewed_at <= UNDO_MS
    )


def _erased() -> ConflictError:
    return ConflictError("It has been erased meanwhile.", reason="too_late")


def _too_late() -> ConflictError:
    return ConflictError("It is too late to take this back.", reason="too_late")
