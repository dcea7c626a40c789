"""Expire: policies that take memories out of use, and the sweep of what has had its time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from quipu.errors import ConflictError
from quipu.model.change import Change, Close, Commit, Demote, Put
from quipu.model.journal import Draft, Op
from quipu.model.operations import ExpireAction, ExpireRequest
from quipu.model.outcomes import ExpireResponse
from quipu.model.principal import Permission, Principal
from quipu.model.record import Ending, Record, State
from quipu.rules import drafting, expiry, validation
from quipu.service import answers
from quipu.service.committing import Plan, carried_out
from quipu.service.selecting import Selecting

_TOLD = 1_000
#: So many are judged at a time.
_TOGETHER = 500


class Expiring(Selecting):
    """Applies policies of expiry, each as one commit."""

    def accepted_expire(self, principal: Principal, request: ExpireRequest) -> ExpireRequest:
        needs = Permission.DELETE if request.action is ExpireAction.FORGET else Permission.WRITE
        self._access.authorise(principal, needs, request.agent_id)
        return validation.checked_expire(request, self._parts.limits)

    async def expired(
        self,
        principal: Principal,
        request: ExpireRequest,
        before: Sequence[Commit] = (),
        guard: int | None = None,
        rule: str | None = None,
    ) -> ExpireResponse:
        await self._notes.flush()  # expiry never acts on stale recall marks
        return await carried_out(
            self._parts.ledger,
            lambda: self.expiring(principal, request),
            before=before,
            guard=guard,
            rule=rule,
        )

    async def matching_policy(self, principal: Principal, request: ExpireRequest) -> list[Record]:
        """The records an expiry would act on."""
        now = self._parts.clock()
        scope = await self._access.scope(principal, request.agent_id, request.user_id, request.store)
        walk = self._matching(
            scope,
            frozenset({State.LIVE}),
            request.filter or None,
            now,
            types=frozenset() if request.policy.type is None else frozenset({request.policy.type}),
            created_to=expiry.created_to(request.policy, now),
            confidence_below=request.policy.confidence_below,
        )
        found: list[Record] = []
        some: list[Record] = []
        async for record in walk:  # a policy may look at very many and match few
            some.append(record)
            if len(some) == _TOGETHER:
                found += await self._of_policy(principal, request, some, now)
                some = []
        return found + await self._of_policy(principal, request, some, now)

    async def _of_policy(
        self, principal: Principal, request: ExpireRequest, records: Sequence[Record], now: int
    ) -> list[Record]:
        """Those that the policy matches and that are not yet what it makes of them."""
        marks = await self._parts.ledger.marks(principal.tenant, [record.id for record in records])
        return [
            record
            for record in records
            if expiry.matches_policy(request.policy, record, marks.get(record.id), now)
            and not (
                request.action is ExpireAction.DEMOTE and record.id in marks and marks[record.id].is_demoted
            )
        ]

    async def expiring(self, principal: Principal, request: ExpireRequest) -> Plan[ExpireResponse]:
        """How a policy is applied, as things stand."""
        now = self._parts.clock()
        records = await self.matching_policy(principal, request)
        answer = self._expire_answer(request, [record.id for record in records])
        if request.dry_run or (not records and request.idempotency_key is None):
            return Plan(None, lambda done: answers.settled(answer, done))
        ops = {
            ExpireAction.FORGET: Op.EXPIRE,
            ExpireAction.ARCHIVE: Op.ARCHIVE,
            ExpireAction.DEMOTE: Op.DEMOTE,
        }
        commit = Commit(
            tenant=principal.tenant,
            draft=Draft(op=ops[request.action], actor=principal.name, at=now, agent=request.agent_id),
            changes=tuple(self._retired(principal, record, request.action, now) for record in records),
            reason=request.reason,
            once=answers.once(principal, request, self._parts.canonical, answer),
        )
        return Plan(commit, lambda done: answers.settled(answer, done))

    def _retired(self, principal: Principal, record: Record, action: ExpireAction, now: int) -> Change:
        match action:
            case ExpireAction.FORGET:
                return Close(record=record, ending=Ending.EXPIRED)
            case ExpireAction.DEMOTE:
                return Demote(record=record)
            case ExpireAction.ARCHIVE:
                archived = drafting.revived(record, principal=principal, now=now, state=State.ARCHIVED)
                sealed = drafting.sealed(archived, self._parts.mint_salt(), self._parts.canonical)
                return Put(record=sealed, expects=record.version, must_stand=True)
            case _:
                assert_never(action)

    def _expire_answer(self, request: ExpireRequest, ids: Sequence[str]) -> ExpireResponse:
        return ExpireResponse(
            matched_count=0 if request.dry_run else len(ids),
            action_taken=request.action,
            stores=(self._parts.ledger.name,),
            extensions={"ids": list(ids[:_TOLD])},
        )

    async def sweep(self, principal: Principal) -> int:
        """Close for good what has expired; nobody saw it any more anyway. Returns how many."""
        self._access.authorise(principal, Permission.DELETE)
        swept = 0
        while records := await self._parts.ledger.due(principal.tenant, self._parts.clock()):
            now = self._parts.clock()
            draft = Draft(op=Op.SWEEP, actor="system", at=now)
            changes = tuple(Close(record=record, ending=Ending.EXPIRED) for record in records)
            try:
                await self._parts.ledger.commit(Commit(tenant=principal.tenant, draft=draft, changes=changes))
            except ConflictError:
                continue  # somebody changed one of them: look again
            swept += len(records)
        return swept
