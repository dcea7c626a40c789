"""Memory stores: creating, listing, deleting."""

from collections.abc import Sequence
from dataclasses import dataclass

from quipu.errors import ConflictError, Fault
from quipu.ledger.commit import Change, Close, Commit, Committed, Drop, Erase, Keep
from quipu.ledger.ledger import Ledger
from quipu.memory.forget import Forget
from quipu.memory.model import (
    CreateStoreRequest,
    DeleteStoreRequest,
    DeleteStoreResponse,
    ListStoresRequest,
    ListStoresResponse,
    StoreView,
)
from quipu.memory.pipeline import Guard, Pipeline, Plan
from quipu.memory.remember import store_view
from quipu.memory.scope import STORES, Scopes
from quipu.model.journal import Draft
from quipu.model.record import State
from quipu.model.search import Scope, Selection, Snapshot
from quipu.model.store import MAIN, Store
from quipu.operation import Context, invalid

_BEGINNING = -(2**62)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """The containers of a tenant."""

    ledger: Ledger
    pipeline: Pipeline
    scopes: Scopes
    forget: Forget

    async def create(self, ctx: Context, request: CreateStoreRequest) -> StoreView:
        await self.scopes.stores(ctx.tenant)  # so that `main` is there first, and its name is taken
        now, name = ctx.clock(), self.pipeline.new_id("ms")

        async def plan(guard: Guard) -> Plan[StoreView]:
            clean = guard.clean(request)
            store = Store(
                id=name,
                name=clean.name,
                scope=clean.scope,
                tier=clean.tier,
                namespace=clean.namespace,
                description=clean.description,
                created_at=now,
            )
            draft = Draft(op="create_store", actor=ctx.principal.name, at=now, store=store.id)
            commit = Commit(tenant=ctx.tenant, draft=draft, changes=(Keep(STORES, store, 0),))
            ctx.facts.store = store
            return Plan(commits=(commit,), answer=lambda _: store_view(store))

        return await self.pipeline.carry_out(ctx, plan)

    async def listed(self, ctx: Context, request: ListStoresRequest) -> ListStoresResponse:
        found = {store.id: store for store in (await self.scopes.stores(ctx.tenant)).values()}
        shown = [store for store in found.values() if ctx.principal.reaches_store(store.name)]
        return ListStoresResponse(
            stores=tuple(store_view(one) for one in sorted(shown, key=lambda one: one.name))
        )

    async def delete(self, ctx: Context, request: DeleteStoreRequest) -> DeleteStoreResponse:
        """Take a store away with all it holds; its name must be given twice."""
        store = await self.scopes.store(ctx.principal, request.name)
        ctx.facts.store = store
        if request.confirm != store.name:
            raise invalid([Fault("/confirm", "bad_value", "the name of the store once more")])
        if store.name == MAIN:
            raise ConflictError("The store main is always there.", reason="store_in_use")
        return await self.pipeline.carry_out(ctx, lambda _: self._deletion(ctx, store, request))

    async def _deletion(
        self, ctx: Context, store: Store, request: DeleteStoreRequest
    ) -> Plan[DeleteStoreResponse]:
        head = await self.ledger.head(ctx.tenant)
        states: frozenset[State] = frozenset(
            {"live", "archived", "forgotten"} if request.hard_delete else {"live", "archived"}
        )
        selection = Selection(tenant=ctx.tenant, store_id=store.id, states=states)
        records = [one async for one in self.ledger.scan(selection, Snapshot(None, _BEGINNING))]
        changes: list[Change] = [Close(id=one.id, expects=one.version, ending="forgotten") for one in records]
        if request.hard_delete:
            ids = await self.forget.with_derived(ctx.tenant, [one.id for one in records])
            changes = [Erase(id=name) for name in ids]
            scope = Scope(tenant=ctx.tenant, agent_id=None, store_id=store.id)
            for capability in self.forget.reach:
                changes.extend((await capability.reached(ctx.tenant, scope, (), ids)).changes)
        commit = Commit(
            tenant=ctx.tenant,
            draft=Draft(op="delete_store", actor=ctx.principal.name, at=ctx.clock(), store=store.id),
            changes=(*changes, Drop(STORES, (store.id,))),
            erases_as_of=head.seq if request.hard_delete else None,
        )
        answer = DeleteStoreResponse(name=store.name, removed=len(records), store=store_view(store))

        def answered(_: Sequence[Committed]) -> DeleteStoreResponse:
            return answer

        return Plan(commits=(commit,), answer=answered, before=tuple(records), erases=request.hard_delete)
