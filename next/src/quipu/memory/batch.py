"""Many memories in one call: each for itself, or all or none of them.

Plain new memories are embedded in one go and committed together. What changes a record, carries a key of its own or has
to wait for a person takes the way of a single write.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from quipu.errors import InvalidError, QuipuError
from quipu.ledger.commit import Commit, Committed
from quipu.memory import drafts
from quipu.memory.model import (
    ItemError,
    ItemResult,
    RememberManyRequest,
    RememberManyResponse,
    RememberRequest,
    RememberResponse,
)
from quipu.memory.pipeline import Held, Pipeline, Plan, Planning, Write
from quipu.memory.remember import Remember, held_answer, placed, store_view
from quipu.model.journal import Draft
from quipu.model.record import Record
from quipu.operation import Context, bound

#: So many single writes are under way at once.
_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Writes many."""

    pipeline: Pipeline
    remember: Remember

    @property
    def write(self) -> Write[RememberManyRequest, RememberManyResponse]:
        """All or none: one plan, one decision, one transaction."""
        return Write(
            operation="remember_many",
            request=RememberManyRequest,
            response=RememberManyResponse,
            plan=self.plan,
            held=_held,
        )

    async def remember_many(self, ctx: Context, request: RememberManyRequest) -> RememberManyResponse:
        items = [_scoped(request, item) for item in request.items]
        if request.atomic or request.idempotency_key is not None:
            checked = tuple(bound(ctx.principal, item) for item in items)
            return await self.pipeline.write(ctx, self.write, request.model_copy(update={"items": checked}))
        results: list[ItemResult | None] = [None] * len(items)
        plain = [index for index, item in enumerate(items) if _is_plain(item)]
        await self._created_at_once(ctx, items, plain, results)
        single = asyncio.Semaphore(_AT_ONCE)

        async def write(index: int) -> None:
            async with single:
                try:
                    answer = await self.remember.remember(ctx, bound(ctx.principal, items[index]))
                    results[index] = ItemResult(index=index, response=answer)
                except QuipuError as error:
                    results[index] = _refused(index, error)

        async with asyncio.TaskGroup() as group:
            for index, result in enumerate(results):
                if result is None:
                    group.create_task(write(index))
        return RememberManyResponse(results=tuple(result for result in results if result is not None))

    async def _created_at_once(
        self,
        ctx: Context,
        items: Sequence[RememberRequest],
        plain: Sequence[int],
        results: list[ItemResult | None],
    ) -> None:
        """Commit those that are allowed as they are; what is left undone here goes its own way."""
        guard = await self.pipeline.redactor.guard(ctx.tenant, None)
        planning = self.pipeline.planning(ctx.principal, ctx.clock(), guard)
        allowed: list[tuple[int, RememberRequest]] = []
        for index in plain:
            try:
                clean = guard.clean(bound(ctx.principal, items[index]))
            except QuipuError as error:
                results[index] = _refused(index, error)
                continue

            async def planned(one: RememberRequest = clean) -> Plan[RememberResponse]:
                return await self.remember.plan(planning, one)

            verdict = await self.pipeline.governor.judge(ctx, "remember", clean, planned)
            if verdict.effect == "allow" and clean is items[index] and not verdict.rules:
                allowed.append((index, clean))
        if not allowed:
            return
        try:
            plan = await self._creations(planning, [item for _, item in allowed])
            answer = await self.pipeline.commit(ctx, plan, guard)
        except QuipuError:  # one of them cannot be written: each finds out for itself
            return
        for (index, _), result in zip(allowed, answer.results, strict=True):
            results[index] = result.model_copy(update={"index": index})

    async def plan(self, planning: Planning, request: RememberManyRequest) -> Plan[RememberManyResponse]:
        if all(_is_plain(item) for item in request.items):
            return await self._creations(planning, request.items)
        plans: list[Plan[RememberResponse]] = []
        for index, item in enumerate(request.items):
            try:
                plans.append(await self.remember.plan(planning, item))
            except InvalidError as error:
                raise _at(error, index) from error
        ends = [sum(len(plan.commits) for plan in plans[: index + 1]) for index in range(len(plans))]

        def answered(done: Sequence[Committed]) -> RememberManyResponse:
            return RememberManyResponse(
                results=tuple(
                    ItemResult(index=index, response=plan.answer(done[end - len(plan.commits) : end]))
                    for index, (plan, end) in enumerate(zip(plans, ends, strict=True))
                )
            )

        return Plan(
            commits=tuple(commit for plan in plans for commit in plan.commits),
            answer=answered,
            before=tuple(record for plan in plans for record in plan.before),
            after=tuple(record for plan in plans for record in plan.after),
        )

    async def _creations(
        self, planning: Planning, items: Sequence[RememberRequest]
    ) -> Plan[RememberManyResponse]:
        """New memories: embedded in one go, one journal entry per agent, store, run and node."""
        stores = await self.remember.scopes.stores(planning.tenant)
        records: list[Record] = []
        for index, item in enumerate(items):
            store = stores.get(item.store) or await self.remember.scopes.store(planning, item.store)
            if not planning.reaches_store(store.name):
                store = await self.remember.scopes.store(
                    planning, item.store
                )  # says that there is no such store
            try:
                await self.remember.check_links(planning, item)
                record = drafts.new_record(
                    item, planning, self.remember.limits, store=store, record_id=planning.new_id("mem")
                )
            except InvalidError as error:
                raise _at(error, index) from error
            records.append(record)
        given = [item.embedding for item in items]
        vectors = await self.remember.embedding.of_records(planning.tenant, records, given)
        puts = [
            self.remember.put(planning.tenant, record, vector)
            for record, vector in zip(records, vectors, strict=True)
        ]
        groups: dict[tuple[str, str, str | None, str | None], list[int]] = {}
        for place, (item, record) in enumerate(zip(items, records, strict=True)):
            groups.setdefault((record.agent_id, record.store_id, item.run_id, item.node_id), []).append(place)
        commits = tuple(
            Commit(
                tenant=planning.tenant,
                draft=Draft(
                    op="remember",
                    actor=planning.author,
                    at=planning.now,
                    store=store,
                    agent=agent,
                    run=run,
                    node=node,
                ),
                changes=tuple(puts[place] for place in places),
            )
            for (agent, store, run, node), places in groups.items()
        )
        commit_of = {place: index for index, places in enumerate(groups.values()) for place in places}
        answers = [
            RememberResponse(
                id=record.id,
                stored_at=planning.now,
                stores=(self.remember.ledger.name,),
                store=store_view(stores[record.store_id]),
            )
            for record in records
        ]

        def answered(done: Sequence[Committed]) -> RememberManyResponse:
            return RememberManyResponse(
                results=tuple(
                    ItemResult(
                        index=place, response=placed(answer, [done[commit_of[place]]]) if done else answer
                    )
                    for place, answer in enumerate(answers)
                )
            )

        return Plan(commits=commits, answer=answered, after=tuple(records))


def _scoped(batch: RememberManyRequest, item: RememberRequest) -> RememberRequest:
    """Agent and user of an item default to those of the batch."""
    update: dict[str, Any] = {}
    if item.agent_id is None and batch.agent_id is not None:
        update["agent_id"] = batch.agent_id
    if item.user_id is None and batch.user_id is not None:
        update["user_id"] = batch.user_id
    return item.model_copy(update=update) if update else item


def _is_plain(item: RememberRequest) -> bool:
    """A new memory without anything that concerns another record or another call."""
    return not (
        item.id or item.key or item.supersedes or item.idempotency_key or item.dry_run or item.find_similar
    )


def _refused(index: int, error: QuipuError) -> ItemResult:
    return ItemResult(
        index=index, error=ItemError(code=error.code, reason=error.reason, message=error.message)
    )


def _at(error: InvalidError, index: int) -> InvalidError:
    """The error of an item, with pointers into the batch."""
    faults = [replace(fault, pointer=f"/items/{index}{fault.pointer}") for fault in error.faults]
    return type(error)(error.message, reason=error.reason, hint=error.hint, faults=faults)


def _held(request: RememberManyRequest, held: Held) -> RememberManyResponse:
    return RememberManyResponse(
        results=tuple(
            ItemResult(index=index, response=held_answer(request, held, index))
            for index in range(len(request.items))
        )
    )
