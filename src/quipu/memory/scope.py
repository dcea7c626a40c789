"""Whose records a request is about: from a caller and a request to a scope. Out of reach is the same as not there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from quipu.errors import ConflictError, NotFoundError
from quipu.ledger.commit import Commit, Keep
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Reader
from quipu.ledger.table import Table
from quipu.memory.views import is_secret
from quipu.model.journal import Draft
from quipu.model.principal import Principal
from quipu.model.record import Record
from quipu.model.search import Scope, Selection, Snapshot
from quipu.model.store import MAIN, Store
from quipu.model.value import JsonObject
from quipu.search.filter_tree import Missing, metadata_at, paths
from quipu.search.filters import canonical, compiled, matches

#: A write is refused when stores have changed since it was checked: none goes into one that is just deleted.
STORES = Table("store", Store, key=("id",), unique=("name",), guards=True)
#: A tenant has few stores; beyond this many a name may not be found.
_MOST_STORES = 10_000


class Reach(Protocol):
    """Who asks: a principal, or a write that is being planned."""

    @property
    def tenant(self) -> str: ...
    @property
    def reaches_store(self) -> Callable[[str], bool]: ...


@dataclass(frozen=True, slots=True)
class Scopes:
    """Looks up stores and makes scopes."""

    ledger: Ledger
    clock: Callable[[], int]
    new_id: Callable[[str], str]
    #: Told of the store `main` of a tenant that had none.
    created: Callable[[str, Store], None] | None = None
    #: Tenant → the stores, and the position that they were read at.
    _known: dict[str, tuple[int, Mapping[str, Store]]] = field(default_factory=dict[str, Any], init=False)

    async def stores(self, tenant: str, checked_at: int | None = None) -> Mapping[str, Store]:
        """The tenant's stores by name and by id. `main` is made when it is first asked for.

        checked_at: The position that a write is checked at: what was read at this one need not be read again.
        """
        known = self._known.get(tenant)
        if known is not None and known[0] == checked_at:
            return known[1]
        _, found = await self.ledger.read(tenant, self.read, is_brief=True)
        if MAIN not in found:
            main = await self._main(tenant)
            return {**found, main.id: main, main.name: main}
        return found

    def read(self, reader: Reader) -> tuple[int, Mapping[str, Store]]:
        """The position that writes must be checked at, and the stores of it; `main` may be missing."""
        at = reader.head().guarded
        known = self._known.get(reader.tenant)
        if known is None or known[0] != at:
            known = (at, stores_in(reader))
            if MAIN in known[1]:
                self._known[reader.tenant] = known
        return known

    async def _main(self, tenant: str) -> Store:
        now = self.clock()
        store = Store(id=self.new_id("ms"), name=MAIN, created_at=now)
        draft = Draft(op="create_store", actor="system", at=now, store=store.id)
        try:
            await self.ledger.commit(Commit(tenant=tenant, draft=draft, changes=(Keep(STORES, store, 0),)))
        except ConflictError:  # somebody else made it at the same time
            (store,) = await self.ledger.matching(STORES, tenant, "name", [MAIN])
        else:
            if self.created is not None:
                self.created(tenant, store)
        return store

    async def store(self, reach: Reach, name: str, checked_at: int | None = None) -> Store:
        """A store by name or id; one that the caller does not see is as if it were not there."""
        found = (await self.stores(reach.tenant, checked_at)).get(name)
        if found is None or not reach.reaches_store(found.name):
            raise no_store()
        return found

    async def of(
        self, reach: Reach, agent_id: str | None, user_id: str | None = None, store: str | None = None
    ) -> Scope:
        """What a request reaches."""
        return scope_among(await self.stores(reach.tenant), reach, agent_id, user_id, store)


def stores_in(reader: Reader) -> Mapping[str, Store]:
    """The stores that are there, by name and by id."""
    found = [row.value for row in reader.rows(STORES, limit=_MOST_STORES)]
    return {store.id: store for store in found} | {store.name: store for store in found}


def scope_among(
    stores: Mapping[str, Store],
    reach: Reach,
    agent_id: str | None,
    user_id: str | None = None,
    store: str | None = None,
) -> Scope:
    """What a request reaches. Naming a shared store reaches all agents' records in it."""
    found = None if store is None else stores.get(store)
    if store is not None and (found is None or not reach.reaches_store(found.name)):
        raise no_store()
    seen = {one.id for one in stores.values() if reach.reaches_store(one.name)}
    return Scope(
        tenant=reach.tenant,
        agent_id=None if found is not None and found.is_shared else agent_id,
        user_id=user_id,
        store_id=None if found is None else found.id,
        reader=agent_id,
        stores=None if len(seen) == len({one.id for one in stores.values()}) else frozenset(seen),
    )


def no_store() -> NotFoundError:
    return NotFoundError(
        "There is no such memory store.",
        reason="store",
        hint="`quipu store list` shows them; `main` is always there.",
    )


def no_record() -> NotFoundError:
    return NotFoundError("There is no such memory.", reason="record")


def in_scope(record: Record, scope: Scope) -> bool:
    """The scope's own record, or one of a shared store that may be shared with the reader."""
    if scope.agent_id is not None and record.agent_id != scope.agent_id:
        return False
    if scope.user_id is not None and record.user_id != scope.user_id:
        return False
    if scope.store_id is not None and record.store_id != scope.store_id:
        return False
    if scope.stores is not None and record.store_id not in scope.stores:
        return False
    if scope.agent_id is None and scope.store_id is not None and record.agent_id != scope.reader:
        return may_share(None if record.privacy is None else record.privacy.share_with, scope.reader)
    return True


def may_share(share_with: Sequence[str] | None, reader: str | None) -> bool:
    """Whether somebody else's record may be read by this agent. Without a list the store's own rule holds: it may."""
    return share_with is None or "*" in share_with or (reader is not None and reader in share_with)


def reaches(principal: Principal, record: Record, stores: Mapping[str, Store]) -> bool:
    """Whether a record that is named by its id is one of the caller's."""
    store = stores.get(record.store_id)
    return (
        principal.may_act_for(record.agent_id)
        and principal.user_id in (None, record.user_id)
        and ("*" in principal.review_stores or (store is not None and principal.reaches_store(store.name)))
    )


def predicate(filter: JsonObject | None, stores: Mapping[str, Store]) -> Callable[[Record], bool] | None:
    """What a filter says of a record; None where there is none."""
    if not filter:
        return None
    wanted = canonical(filter, plain_names="fields")
    return lambda record: matches(
        wanted, record, stores[record.store_id].name if record.store_id in stores else ""
    )


# -- keys that no memory has --------------------------------------------------------------------------------------


#: So many of the newest memories are looked at.
_MOST = 1000


async def warnings_of(
    ledger: Ledger, scope: Scope, snapshot: Snapshot, filter: JsonObject | None
) -> tuple[str, ...]:
    """Which keys of metadata that a filter names none of the newest memories in reach has.

    Asked where a filter found nothing. What is labelled secret counts as having none: nobody learns of it here.
    """
    if not filter:
        return ()
    missing = {path for path in paths(compiled(filter, plain_names="fields")) if path.field is None}
    selection = Selection(
        tenant=scope.tenant, agent_id=scope.agent_id, user_id=scope.user_id, store_id=scope.store_id
    )
    looked_at = 0
    if missing:
        async for record in ledger.scan(selection, snapshot):
            if not in_scope(record, scope):
                continue
            looked_at += 1
            if not is_secret(record):
                missing = {one for one in missing if isinstance(metadata_at(record.metadata, one), Missing)}
            if not missing or looked_at == _MOST:
                break
    names = sorted(".".join(("metadata", *path.segments)) for path in missing)
    where = f"None of the newest {_MOST:,} memories" if looked_at == _MOST else "No memory in reach"
    return tuple(f"{where} has {name}, which the filter asks for." for name in names)
