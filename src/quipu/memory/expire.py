"""Expire: policies that take memories out of use, and the sweep of what has had its time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quipu.errors import ConflictError
from quipu.fields import DAY_MS
from quipu.ledger.commit import Change, Close, Commit, Demote, Put
from quipu.ledger.ledger import Ledger
from quipu.memory import drafts
from quipu.memory.model import ExpireAction, ExpirePolicy, ExpireRequest, ExpireResponse
from quipu.memory.pipeline import Held, Pipeline, Plan, Planning, Write
from quipu.memory.read_log import ReadLog
from quipu.memory.remember import common_store, held_fields
from quipu.memory.scope import Scopes, in_scope, predicate, scope_among
from quipu.model.journal import Draft
from quipu.model.record import Mark, Record
from quipu.model.search import Selection, Snapshot
from quipu.model.store import Store
from quipu.operation import Context

#: So many are judged at a time: a policy may look at very many and match few.
_PAGE = 500
_OPS: dict[ExpireAction, str] = {"forget": "expire", "archive": "archive", "demote": "demote"}
_BEGINNING = -(2**62)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire:
    """Plans and carries out expiry, each as one commit."""

    ledger: Ledger
    pipeline: Pipeline
    scopes: Scopes
    read_log: ReadLog

    @property
    def write(self) -> Write[ExpireRequest, ExpireResponse]:
        return Write(
            operation="expire", request=ExpireRequest, response=ExpireResponse, plan=self.plan, held=_held
        )

    async def expire(self, ctx: Context, request: ExpireRequest) -> ExpireResponse:
        return await self.pipeline.write(ctx, self.write, request)

    async def plan(self, planning: Planning, request: ExpireRequest) -> Plan[ExpireResponse]:
        await self.read_log.flush()  # expiry never acts on stale recall marks
        stores = await self.scopes.stores(planning.tenant)
        records = await self._matching(planning, request, stores)
        answer = ExpireResponse(
            matched_count=0 if request.dry_run else len(records),
            action_taken=request.action,
            stores=(self.ledger.name,),
            ids=tuple(record.id for record in records),
            store=common_store(records, stores),
        )
        if not records:
            return Plan(commits=(), answer=lambda _: answer)
        commit = Commit(
            tenant=planning.tenant,
            draft=Draft(
                op=_OPS[request.action],
                actor=planning.author,
                at=planning.now,
                agent=request.agent,
                run=request.run_id,
                node=request.node_id,
            ),
            changes=tuple(_retired(planning, record, request.action) for record in records),
            reason=request.reason,
        )
        return Plan(
            commits=(commit,),
            answer=lambda done: answer.model_copy(update={"seq": done[-1].seq}) if done else answer,
            before=tuple(records),
            stores=stores,
        )

    async def _matching(
        self, planning: Planning, request: ExpireRequest, stores: Mapping[str, Store]
    ) -> list[Record]:
        """The records that the policy matches and that are not yet what it makes of them."""
        scope = scope_among(stores, planning, request.agent, request.user_id, request.store)
        policy = request.policy
        selection = Selection(
            tenant=scope.tenant,
            agent_id=scope.agent_id,
            user_id=scope.user_id,
            store_id=scope.store_id,
            types=frozenset() if policy.type is None else frozenset({policy.type}),
            matches=predicate(request.filter, stores),
            created_to=_created_to(policy, planning.now),
            confidence_below=policy.confidence_below,
        )
        found: list[Record] = []
        page: list[Record] = []
        async for record in self.ledger.scan(selection, Snapshot(None, planning.now)):
            if in_scope(record, scope):
                page.append(record)
            if len(page) == _PAGE:
                found += await self._judged(planning, request, page)
                page = []
        return found + await self._judged(planning, request, page)

    async def _judged(
        self, planning: Planning, request: ExpireRequest, records: Sequence[Record]
    ) -> list[Record]:
        marks = await self.ledger.marks(planning.tenant, [record.id for record in records])
        return [
            record
            for record in records
            if matches(request.policy, record, marks.get(record.id), planning.now)
            and not (request.action == "demote" and record.id in marks and marks[record.id].is_demoted)
        ]

    async def sweep(self, tenant: str, now: int) -> int:
        """Close for good what has expired; nobody saw it any more anyway. Returns how many."""
        swept = 0
        while records := await self.ledger.due(tenant, now):
            draft = Draft(op="sweep", actor="system", at=now)
            closed = tuple(Close(id=one.id, expects=one.version, ending="expired") for one in records)
            try:
                commit = Commit(tenant=tenant, draft=draft, changes=closed)
                await self.ledger.commit(*await self.pipeline.with_mirrors(tenant, [commit]))
            except ConflictError:  # one of them was changed meanwhile: look again
                continue
            swept += len(records)
        return swept


def matches(policy: ExpirePolicy, record: Record, mark: Mark | None, now: int) -> bool:
    """Whether every condition of the policy holds; an empty policy matches nothing."""
    tests: list[bool] = []
    if policy.older_than_days is not None:
        tests.append(record.created_at <= now - policy.older_than_days * DAY_MS)
    if policy.type is not None:
        tests.append(record.type == policy.type)
    if policy.confidence_below is not None:
        tests.append(record.confidence < policy.confidence_below)
    if policy.no_recall_in_days is not None:
        tests.append(_last_used_at(record, mark) < now - policy.no_recall_in_days * DAY_MS)
    return bool(tests) and all(tests)


def _created_to(policy: ExpirePolicy, now: int) -> int | None:
    """What is younger than this the policy does not match; None where it does not ask."""
    days = [days for days in (policy.older_than_days, policy.no_recall_in_days) if days is not None]
    return max(now - max(days) * DAY_MS, _BEGINNING) if days else None


def _last_used_at(record: Record, mark: Mark | None) -> int:
    recalled_at = None if mark is None else mark.last_recalled_at
    return record.created_at if recalled_at is None else max(record.created_at, recalled_at)


def _retired(planning: Planning, record: Record, action: ExpireAction) -> Change:
    if action == "forget":
        return Close(id=record.id, expects=record.version, ending="expired")
    if action == "demote":
        return Demote(id=record.id, expects=record.version)
    archived = drafts.revived(record, planning, state="archived")
    return Put(record=archived, expects=record.version, must_stand=True)


def _held(request: ExpireRequest, held: Held) -> ExpireResponse:
    return ExpireResponse(matched_count=0, action_taken=request.action, **held_fields(held))
