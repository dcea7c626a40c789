"""Many memories in one call: each for itself, or all or none of them.

Plain new memories are embedded in one go and committed together. What changes a record, carries a key of its own or has
to wait for a person takes the way of a single write.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from quipu.errors import ConflictError, InvalidError, QuipuError
from quipu.ledger.commit import Commit, Committed, Once
from quipu.memory import drafts
from quipu.memory.model import (
    ItemError,
    ItemResult,
    RememberManyRequest,
    RememberManyResponse,
    RememberRequest,
    RememberResponse,
)
from quipu.memory.pipeline import Held, Pipeline, Plan, Planning, Write, once_of, without_foreign_vector
from quipu.memory.remember import Remember, held_answer, store_view
from quipu.memory.scope import no_store
from quipu.model.journal import Draft
from quipu.model.record import Record
from quipu.model.store import Store
from quipu.operation import Context, bound

#: So many single writes are under way at once.
_AT_ONCE = 16
_MOST_ATTEMPTS = 16


@dataclass(frozen=True, slots=True)
class _New:
    """A new memory that may be written as it is."""

    request: RememberRequest
    record: Record
    store: Store


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
        items = tuple(_scoped(request, item) for item in request.items)
        if request.atomic:
            items = tuple(bound(ctx.principal, item) for item in items)
            return await self.pipeline.write(ctx, self.write, request.model_copy(update={"items": items}))
        once = once_of(ctx.principal, self.write.operation, request)
        if (
            once is not None
            and (first := await self.pipeline.first_answer(ctx, self.write, once)) is not None
        ):
            return first
        return await self._each(ctx, request, items, once)

    # -- each for itself ----------------------------------------------------------------------------------------------

    async def _each(
        self,
        ctx: Context,
        request: RememberManyRequest,
        items: Sequence[RememberRequest],
        once: Once | None,
    ) -> RememberManyResponse:
        """Single writes first, each under a key of its own where the batch has one; then the plain ones, with the whole
        answer under the batch's key. Whoever repeats it after a crash in between writes nothing twice."""
        results: dict[int, ItemResult] = {}
        for attempt in range(_MOST_ATTEMPTS):
            guard = await self.pipeline.redactor.guard(ctx.tenant, request.run_id)
            guard.clean(
                request.model_copy(update={"items": ()})
            )  # the batch's own key and names are kept too
            planning = self.pipeline.planning(ctx.principal, ctx.clock(), guard)
            together = await self._allowed_as_they_are(ctx, planning, items, results)
            await self._singly(ctx, request, items, together, results)
            plan = await self._creations(planning, together, results)
            try:
                return await self.pipeline.commit(ctx, plan, guard, once=once)
            except ConflictError as conflict:
                if conflict.reason != "secrets_changed" or attempt + 1 == _MOST_ATTEMPTS:
                    raise
        raise ConflictError  # unreachable: the last turn raises or returns

    async def _allowed_as_they_are(
        self,
        ctx: Context,
        planning: Planning,
        items: Sequence[RememberRequest],
        results: dict[int, ItemResult],
    ) -> dict[int, _New]:
        """Plain new memories that no rule has a word on, without secrets. What is refused is answered."""
        stores = await self.remember.scopes.stores(planning.tenant)
        allowed: dict[int, _New] = {}
        own: dict[int, RememberRequest] = {}
        for index, item in enumerate(items):
            if index not in results and _is_plain(item):
                try:
                    own[index] = bound(ctx.principal, item)
                except QuipuError as error:
                    results[index] = _refused(index, error)
        cleaned = planning.guard.clean_each(list(own.values()))
        for (index, given), found in zip(own.items(), cleaned, strict=True):
            try:
                if isinstance(found, QuipuError):
                    raise found
                clean = without_foreign_vector(given, found)

                async def planned(one: RememberRequest = clean) -> Plan[RememberResponse]:
                    return await self.remember.plan(planning, one)

                verdict = await self.pipeline.governor.judge(ctx, "remember", clean, planning.guard, planned)
                if verdict.effect == "allow" and not verdict.rules:
                    allowed[index] = await self._draft(planning, clean, stores)
            except QuipuError as error:
                results[index] = _refused(index, error)
        return allowed

    async def _draft(self, planning: Planning, item: RememberRequest, stores: Mapping[str, Store]) -> _New:
        """What would be written; raises what writing it would raise."""
        store = stores.get(item.store)
        if store is None or not planning.reaches_store(store.name):
            raise no_store()
        await self.remember.check_links(planning, item)
        await self.remember.embedding.check(planning.tenant, item.embedding)
        record_id = planning.new_id("mem")
        record = drafts.new_record(item, planning, self.remember.limits, store=store, record_id=record_id)
        return _New(item, record, store)

    async def _singly(
        self,
        ctx: Context,
        request: RememberManyRequest,
        items: Sequence[RememberRequest],
        together: Mapping[int, _New],
        results: dict[int, ItemResult],
    ) -> None:
        """Those that go the way of a single write."""
        single = asyncio.Semaphore(_AT_ONCE)

        async def write(index: int) -> None:
            async with single:
                try:
                    item = bound(ctx.principal, _keyed(request, items[index], index))
                    results[index] = ItemResult(index=index, response=await self.remember.remember(ctx, item))
                except QuipuError as error:
                    results[index] = _refused(index, error)

        async with asyncio.TaskGroup() as group:
            for index in range(len(items)):
                if index not in results and index not in together:
                    group.create_task(write(index))

    # -- all or none --------------------------------------------------------------------------------------------------

    async def plan(self, planning: Planning, request: RememberManyRequest) -> Plan[RememberManyResponse]:
        if all(_is_plain(item) for item in request.items):
            stores = await self.remember.scopes.stores(planning.tenant)
            together: dict[int, _New] = {}
            for index, item in enumerate(request.items):
                try:
                    together[index] = await self._draft(planning, item, stores)
                except InvalidError as error:
                    raise _at(error, index) from error
            return await self._creations(planning, together, {})
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

    # -- new memories -------------------------------------------------------------------------------------------------

    async def _creations(
        self, planning: Planning, together: Mapping[int, _New], others: Mapping[int, ItemResult]
    ) -> Plan[RememberManyResponse]:
        """New memories by their places in the answer, embedded in one go, one journal entry per agent, store, run and
        node. What stands at the other places is known already."""
        remember = self.remember
        made = list(together.values())
        vectors = await remember.embedding.of_records(
            planning.tenant, [one.record for one in made], [one.request.embedding for one in made]
        )
        puts = [
            remember.put(planning.tenant, one.record, vector)
            for one, vector in zip(made, vectors, strict=True)
        ]
        groups: dict[tuple[str, str, str | None, str | None], list[int]] = {}
        for number, one in enumerate(made):
            key = (one.record.agent_id, one.record.store_id, one.request.run_id, one.request.node_id)
            groups.setdefault(key, []).append(number)
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
                changes=tuple(puts[number] for number in members),
            )
            for (agent, store, run, node), members in groups.items()
        )
        commit_of = {number: index for index, members in enumerate(groups.values()) for number in members}
        views = {one.store.id: store_view(one.store) for one in made}

        def answered(done: Sequence[Committed]) -> RememberManyResponse:
            results = dict(others)
            for number, (place, one) in enumerate(together.items()):
                answer = RememberResponse(
                    id=one.record.id,
                    stored_at=planning.now,
                    stores=(remember.ledger.name,),
                    store=views[one.store.id],
                    seq=done[commit_of[number]].seq if done else None,
                )
                results[place] = ItemResult(index=place, response=answer)
            return RememberManyResponse(results=tuple(results[place] for place in sorted(results)))

        return Plan(commits=commits, answer=answered, after=tuple(one.record for one in made))


def _scoped(batch: RememberManyRequest, item: RememberRequest) -> RememberRequest:
    """Agent and user of an item default to those of the batch."""
    update: dict[str, Any] = {}
    if item.agent_id is None and batch.agent_id is not None:
        update["agent_id"] = batch.agent_id
    if item.user_id is None and batch.user_id is not None:
        update["user_id"] = batch.user_id
    return item.model_copy(update=update) if update else item


def _keyed(batch: RememberManyRequest, item: RememberRequest, index: int) -> RememberRequest:
    """Where the batch has a key, each of its items has one: the whole may be repeated after half of it was done."""
    if batch.idempotency_key is None or item.idempotency_key is not None:
        return item
    key = hashlib.sha256(f"{batch.idempotency_key}/{index}".encode()).hexdigest()
    return item.model_copy(update={"idempotency_key": f"batch-{key}"})


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
