"""Work that reviewers are offered: found among live memories, and put before them as ordinary proposals.

Whoever reviews may not write, and still approves what is proposed here. So nothing is proposed because a caller names
it: it must be a candidate when it is looked at again, it is proposed by the system, and what goes can be brought back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

from quipu.errors import NotFoundError
from quipu.model.governance import Effect, Verdict
from quipu.model.operations import ForgetRequest
from quipu.model.outcomes import ForgetResponse, MergeResponse
from quipu.model.principal import Permission, Principal
from quipu.model.record import Record, Sensitivity, State
from quipu.model.search import Selection, Snapshot
from quipu.model.tidying import Candidate, Candidates
from quipu.ports.parts import Parts
from quipu.rules import tidying, touching
from quipu.rules.texts import is_keepable
from quipu.service import answers
from quipu.service.access import Access
from quipu.service.gate import Gate
from quipu.service.governance import Governance
from quipu.service.notes import ReadNotes
from quipu.service.resembling import Resembling
from quipu.service.secrets import Checked, Secrets

RULE = "review-page"
#: So many memories are looked at, so many of them for others like them, and so many candidates are shown.
_LOOKED_AT, _COMPARED, _SHOWN = 5_000, 40, 50


class Tidying:
    """Looks, and proposes."""

    def __init__(
        self,
        parts: Parts,
        access: Access,
        secrets: Secrets,
        gate: Gate,
        governance: Governance,
        resembling: Resembling,
        notes: ReadNotes,
    ) -> None:
        self._parts, self._access, self._secrets, self._notes = parts, access, secrets, notes
        self._gate, self._governance, self._resembling = gate, governance, resembling

    async def candidates(self, principal: Principal, agent_id: str | None = None) -> Candidates:
        """What may go or belongs together, among the newest memories in reach; not what waits already."""
        self._access.authorise(principal, Permission.REVIEW, agent_id)
        records, is_cut = await self._live(principal, agent_id)
        waiting = await self._waiting(principal.tenant)
        free = [record for record in records if record.id not in waiting and not _is_secret(record)]
        found = [*await self._alone(principal.tenant, free), *await self._pairs(free[:_COMPARED], waiting)]
        return Candidates(
            candidates=tuple([one for one in found if await self._is_for(principal, one)][:_SHOWN]),
            coverage=dict(sorted(Counter(record.type.value for record in records).items())),
            looked_at=len(records),
            is_cut=is_cut,
        )

    async def propose(self, principal: Principal, ids: Sequence[str]) -> str:
        """Put a candidate before the reviewers; returns the proposal. What waits already is no candidate."""
        self._access.authorise(principal, Permission.REVIEW)
        found = await self._parts.ledger.read(principal.tenant, [name for name in ids if is_keepable(name)])
        is_mine = await self._access.reach(principal, None)
        records = [
            record
            for record in found.values()
            if is_mine(record) and record.standing is State.LIVE and not _is_secret(record)
        ]
        waiting = await self._waiting(principal.tenant)
        wanted = {*ids} if len(records) == len({*ids}) and not waiting & {*ids} else set[str]()
        both = [*await self._alone(principal.tenant, records), *await self._pairs(records[:1], waiting)]
        for candidate in both:
            named = {record.id for record in candidate.records}
            if named == wanted and await self._is_for(principal, candidate):
                return await self._held(principal.tenant, candidate)
        raise NotFoundError("This is no candidate, or no longer.", reason="candidate")

    async def _held(self, tenant: str, candidate: Candidate) -> str:
        system = Principal(tenant=tenant, name="system", permissions=frozenset())
        request = tidying.proposed(candidate)

        async def work(checked: Checked) -> ForgetResponse | MergeResponse:
            judged = await self._gate.judged(system, request, checked.position)
            is_held = judged.effect is Effect.HOLD
            verdict = judged if is_held else Verdict(Effect.HOLD, RULE, tidying.said(candidate))
            if isinstance(request, ForgetRequest):
                forgets = partial(answers.pending_forget, request, ledger=self._parts.ledger.name)
                return await self._governance.hold(system, request, verdict, forgets, guard=checked.position)
            merges = partial(answers.pending_merge, request)
            return await self._governance.hold(system, request, verdict, merges, guard=checked.position)

        told = await self._secrets.checking(tenant, work)
        return str(told.extensions["proposal_id"])

    # -- looking ------------------------------------------------------------------------------------------------

    async def _live(self, principal: Principal, agent_id: str | None) -> tuple[list[Record], bool]:
        is_mine = await self._access.reach(principal, agent_id)
        selection = Selection(tenant=principal.tenant, agent_id=agent_id)
        found: list[Record] = []
        async for record in self._parts.ledger.scan(selection, Snapshot(None, self._parts.clock())):
            if is_mine(record):
                if len(found) == _LOOKED_AT:
                    return found, True
                found.append(record)
        return found, False

    async def _waiting(self, tenant: str) -> frozenset[str]:
        """Memories that a proposal is about already."""
        found: set[str] = set()
        for proposal in await self._parts.ledger.proposals(tenant, "pending"):
            found |= touching.touched(proposal).records
        return frozenset(found)

    async def _alone(self, tenant: str, records: Sequence[Record]) -> list[Candidate]:
        await self._notes.flush()  # what was recalled just now is used
        marks = await self._parts.ledger.marks(tenant, [record.id for record in records])
        now = self._parts.clock()
        told = (tidying.alone(record, marks.get(record.id), now) for record in records)
        return [one for one in told if one is not None]

    async def _pairs(self, records: Sequence[Record], waiting: frozenset[str]) -> list[Candidate]:
        """By the index, one search for each, never every one against every other."""
        found: dict[frozenset[str], Candidate] = {}
        for record in records:
            for other, similarity in await self._resembling.to(record):
                candidate = None if other.id in waiting else tidying.pair(record, other, similarity)
                if candidate is not None:
                    found.setdefault(frozenset({record.id, other.id}), candidate)
        return list(found.values())

    async def _is_for(self, principal: Principal, candidate: Candidate) -> bool:
        """Whether the reviewer may see all of it, and decide on it."""
        if not principal.reviews_operation(candidate.operation):
            return False
        is_mine = await self._access.reach(principal, None)
        stores = {record.store_id for record in candidate.records}
        names = await self._access.store_names(principal.tenant, stores)
        return all(is_mine(record) for record in candidate.records) and all(
            principal.reviews_store(names.get(store, "")) for store in stores
        )


def _is_secret(record: Record) -> bool:
    return record.privacy is not None and record.privacy.sensitivity == Sensitivity.SECRET
