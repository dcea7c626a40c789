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
#: For one page so many memories are looked at in turn, each for others like it, until so many candidates are found;
#: and so many are walked over at most, as a reviewer may not see them all.
_LOOKED_AT, _SHOWN, _WALKED = 100, 50, 5_000
#: So many are looked at together.
_TOGETHER = 20


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

    async def candidates(
        self, principal: Principal, agent_id: str | None = None, cursor: str | None = None
    ) -> Candidates:
        """What may go or belongs together, newest first, a stretch of the memories in reach at a time.

        `cursor` is where the stretch before ended; going on until there is none looks at every memory once. What waits
        already is no candidate. What is remembered at all is told with the first stretch.
        """
        self._access.authorise(principal, Permission.REVIEW, agent_id)
        waiting = await self._waiting(principal.tenant)
        stores = await self._access.stores_for(principal)
        found: dict[frozenset[str], Candidate] = {}
        looked, place = 0, cursor
        while looked < _LOOKED_AT and len(found) < _SHOWN:
            records, place = await self._live(principal, agent_id, place)
            looked += len(records)
            for one in await self._among(principal, records, waiting, stores):
                found.setdefault(frozenset(record.id for record in one.records), one)
            if place is None or not records:
                break
        return Candidates(
            candidates=tuple(found.values()),
            coverage=await self._coverage(principal, agent_id) if cursor is None else {},
            looked_at=looked,
            next_cursor=place,
        )

    async def _among(
        self,
        principal: Principal,
        records: Sequence[Record],
        waiting: frozenset[str],
        stores: frozenset[str] | None,
    ) -> list[Candidate]:
        free = [record for record in records if record.id not in waiting and not _is_secret(record)]
        both = [*await self._alone(principal.tenant, free), *await self._pairs(free, waiting, stores)]
        return [one for one in both if await self._is_for(principal, one)]

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
        stores = await self._access.stores_for(principal)
        both = [
            *await self._alone(principal.tenant, records),
            *await self._pairs(records[:1], waiting, stores),
        ]
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

    async def _live(
        self, principal: Principal, agent_id: str | None, below: str | None
    ) -> tuple[list[Record], str | None]:
        """The next few in reach, and where those behind them begin; None where there are no more."""
        is_mine = await self._access.reach(principal, agent_id)
        selection = Selection(tenant=principal.tenant, agent_id=agent_id, below=below)
        found: list[Record] = []
        walked = 0
        async for record in self._parts.ledger.scan(selection, Snapshot(None, self._parts.clock())):
            if len(found) == _TOGETHER:
                return found, found[-1].id
            if walked == _WALKED:
                return found, _about(record.id)
            walked += 1
            if is_mine(record):
                found.append(record)
        return found, None

    async def _coverage(self, principal: Principal, agent_id: str | None) -> dict[str, int]:
        """Live memories by type, among the newest."""
        is_mine = await self._access.reach(principal, agent_id)
        counts, walked = Counter[str](), 0
        selection = Selection(tenant=principal.tenant, agent_id=agent_id)
        async for record in self._parts.ledger.scan(selection, Snapshot(None, self._parts.clock())):
            counts.update([record.type.value] if is_mine(record) else ())
            if (walked := walked + 1) == _WALKED:
                break
        return dict(sorted(counts.items()))

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

    async def _pairs(
        self, records: Sequence[Record], waiting: frozenset[str], stores: frozenset[str] | None
    ) -> list[Candidate]:
        """By the index, one search for each, never every one against every other."""
        found: dict[frozenset[str], Candidate] = {}
        for record in records:
            for other, similarity in await self._resembling.to(record, stores):
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


def _about(record_id: str) -> str:
    """Where a record begins, roughly, without saying which it is: ids begin with their time. It is walked over again."""
    return record_id[:14] + "~"
