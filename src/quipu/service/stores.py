"""Memory stores: opening, listing, deleting."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from quipu.errors import ConflictError, InvalidError
from quipu.model.change import Change, Close, Commit, DropStore, Erase, OpenStore
from quipu.model.journal import Draft, Op
from quipu.model.operations import CreateStoreRequest
from quipu.model.principal import Permission, Principal
from quipu.model.record import Ending, State
from quipu.model.search import Selection, Snapshot
from quipu.model.store import MAIN, Store
from quipu.ports.parts import Parts
from quipu.rules.validation import checked_create_store
from quipu.service.access import Access
from quipu.service.committing import Plan, carried_out
from quipu.service.derived import staged_for, with_derived
from quipu.service.embedding import Vectors
from quipu.service.secrets import Checked, Secrets

#: Whoever was shown records that are erased is told.
Followed = Callable[[Principal, Sequence[str]], Awaitable[None]]


class Stores:
    """The containers of a tenant."""

    def __init__(
        self, parts: Parts, access: Access, secrets: Secrets, vectors: Vectors, followed: Followed
    ) -> None:
        self._parts, self._access, self._secrets, self._vectors = parts, access, secrets, vectors
        self._followed = followed

    async def create(self, principal: Principal, request: CreateStoreRequest) -> Store:
        self._access.authorise(principal, Permission.WRITE)
        checked_create_store(request, self._parts.limits)
        return await self._secrets.checking(
            principal.tenant, lambda checked: self._created(principal, request, checked)
        )

    async def _created(self, principal: Principal, request: CreateStoreRequest, checked: Checked) -> Store:
        checked.names({"/name": request.name, "/namespace": request.namespace})
        now = self._parts.clock()
        store = Store(
            tenant=principal.tenant,
            id=self._parts.mint_id("ms"),
            name=request.name,
            scope=request.scope,
            tier=request.tier,
            namespace=request.namespace,
            description=checked.reason(request.description, "/description"),
            created_at=now,
        )
        draft = Draft(op=Op.CREATE_STORE, actor=principal.name, at=now, store=store.id)
        await self._parts.ledger.commit(
            Commit(tenant=principal.tenant, draft=draft, changes=(OpenStore(store=store),)),
            guard=checked.position,
        )
        await self._access.stores(principal.tenant)
        return store

    async def list(self, principal: Principal) -> tuple[Store, ...]:
        self._access.authorise(principal, Permission.READ)
        found = await self._parts.ledger.stores(principal.tenant)
        return tuple(store for store in found if principal.reviews_store(store.name))

    async def delete(self, principal: Principal, name: str, confirm: str, *, hard_delete: bool) -> int:
        """Take a store away with all it holds; its name must be given twice. Returns how many records went."""
        self._access.authorise(principal, Permission.ADMIN)
        store = await self._access.store(principal.tenant, name)
        if confirm != store.name:
            raise InvalidError.at(
                "/confirm",
                "bad_value",
                "Deleting a store needs its name once more.",
                hint=f"Confirm with {store.name!r}.",
            )
        if store.name == MAIN:
            raise ConflictError("The store main is always there.", reason="store_in_use")
        try:
            removed = await carried_out(
                self._parts.ledger, lambda: self._deletion(principal, store, hard_delete)
            )
        finally:  # an erasure that was handed over is done, whether or not its caller still waits
            if hard_delete:
                self._vectors.forget_texts()
        await self._access.stores(principal.tenant)
        if hard_delete:
            await self._followed(principal, removed)
        return len(removed)

    async def _deletion(self, principal: Principal, store: Store, hard_delete: bool) -> Plan[Sequence[str]]:
        now = self._parts.clock()
        head = await self._parts.ledger.head(principal.tenant)
        # What retention has emptied stands as erased, and still says whose it was: an erasure takes it along.
        states = frozenset(State) if hard_delete else frozenset({State.LIVE, State.ARCHIVED})
        selection = Selection(tenant=principal.tenant, store_id=store.id, states=states)
        everything = Snapshot(None, -(1 << 62))
        records = [
            record
            async for record in self._parts.ledger.scan(selection, everything)
            if record.state is not State.ERASED
        ]
        gone = [record.id for record in records]
        changes: list[Change] = [Close(record=record, ending=Ending.FORGOTTEN) for record in records]
        if hard_delete:
            gone = await with_derived(self._parts.ledger, principal.tenant, gone)
            staged = await staged_for(self._parts.ledger, principal.tenant, store.name, gone)
            changes = [Erase(id=name) for name in (*gone, *staged)]
        commits_as = Op.ERASE if hard_delete and changes else Op.DELETE_STORE
        draft = Draft(op=commits_as, actor=principal.name, at=now, store=store.id)
        commit = Commit(
            tenant=principal.tenant,
            draft=draft,
            changes=(*changes, DropStore(store_id=store.id)),
            erases_as_of=head.seq if hard_delete else None,
        )
        return Plan(commit, lambda _: gone)
