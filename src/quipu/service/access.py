"""Who may do what to which records: from a principal and a request to a scope."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from quipu.errors import BackendUnavailableError, ForbiddenError, NotFoundError
from quipu.model.operations import RememberRequest
from quipu.model.principal import Permission, Principal
from quipu.model.record import Record
from quipu.model.search import Scope
from quipu.model.store import MAIN, Store
from quipu.ports.ledger import Ledger
from quipu.rules.reach import in_hand, in_reach
from quipu.rules.texts import is_keepable

#: Under how many names one store is known: its own and its id.
_OF_ONE = 2


class Access:
    """Answers for one ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._stores: dict[str, dict[str, Store]] = {}

    def authorise(self, principal: Principal, permission: Permission, agent_id: str | None = None) -> None:
        if not principal.may(permission):
            raise ForbiddenError(f"This needs {permission.value}.", reason="missing_scope")
        if agent_id is not None and not principal.may_act_for(agent_id):
            raise ForbiddenError("This credential may not act for that agent.", reason="agent_not_allowed")

    def authorise_whole(self, principal: Principal) -> None:
        """For what belongs to no store: who is limited to some stores sees none of it."""
        if "*" not in principal.review_stores:
            raise ForbiddenError("This credential is limited to some stores.", reason="review_reach")

    def bound(self, principal: Principal, request: RememberRequest) -> RememberRequest:
        """The request as far as the credential goes: one that is bound to a user writes for that user."""
        if principal.user_id is None:
            return request
        self._check_user(principal, request.user_id)
        return replace(request, user_id=principal.user_id)

    @staticmethod
    def _check_user(principal: Principal, user_id: str | None) -> None:
        if principal.user_id is not None and user_id not in (None, principal.user_id):
            raise ForbiddenError("This credential is bound to another user.", reason="user_not_allowed")

    def lasting(self, tenant: str, name: str) -> Store | None:
        """A store that is known and stays: `main`; any other may have been deleted by another process."""
        return self._stores.get(tenant, {}).get(name) if name == MAIN else None

    async def store(self, tenant: str, name: str) -> Store:
        """A memory store by its name or id."""
        known = self.lasting(tenant, name) or (await self.stores(tenant)).get(name)
        if known is not None:
            return known
        raise _no_main() if name == MAIN else _no_store()

    async def store_for(self, principal: Principal, name: str) -> Store:
        """The same for somebody who asks for it: a store beyond a reviewer's limits is as if it were not there."""
        found = await self.store(principal.tenant, name)
        if not principal.reviews_store(found.name):
            raise _no_store()
        return found

    async def stores_for(self, principal: Principal) -> frozenset[str] | None:
        """The ids of the stores that somebody sees; None where there are no limits."""
        if "*" in principal.review_stores:
            return None
        known = (await self.stores(principal.tenant)).values()
        return frozenset(store.id for store in known if principal.reviews_store(store.name))

    def known(self, tenant: str, name: object) -> Store | None:
        """A store by its name or id as it was last read; without a name, the only one there was.

        Who tells of a request that was refused asks too, so the name may be anything.
        """
        stores = self._stores.get(tenant, {})
        if name is not None:
            return stores.get(name) if isinstance(name, str) else None
        if len(stores) > _OF_ONE:
            return None
        found = [*stores.values()]
        return found[0] if found and found[0] is found[-1] else None

    async def stores(self, tenant: str) -> dict[str, Store]:
        """The tenant's stores, by name and by id, read anew."""
        stores = await self._ledger.stores(tenant)
        by_name = {store.name: store for store in stores} | {store.id: store for store in stores}
        self._stores[tenant] = by_name
        return by_name

    async def store_names(self, tenant: str, wanted: Collection[str]) -> dict[str, str]:
        """Names by id, of these stores and no others. A store that has been deleted has none."""
        known = self._stores.get(tenant, {})
        if not known.keys() >= set(wanted):
            known = await self.stores(tenant)
        return {name: known[name].name for name in wanted if name in known}

    async def scope(
        self, principal: Principal, agent_id: str, user_id: str | None = None, store_name: str | None = None
    ) -> Scope:
        """Whose records the request is about. Naming a shared store reaches all agents' records in it."""
        store = None if store_name is None else await self.store_for(principal, store_name)
        self._check_user(principal, user_id)
        return Scope(
            tenant=principal.tenant,
            agent_id=None if store is not None and store.scope.is_shared else agent_id,
            user_id=principal.user_id if user_id is None else user_id,
            store_id=None if store is None else store.id,
            reader=agent_id,
            stores=await self.stores_for(principal),
        )

    async def reach(self, principal: Principal, agent_id: str | None) -> Callable[[Record], bool]:
        """Which records can be named by id: those of the agent; without one, of every agent it may act for."""
        if agent_id is None:
            seen = await self.stores_for(principal)
            return lambda record: in_hand(record, principal) and (seen is None or record.store_id in seen)
        scope = await self.scope(principal, agent_id)
        return lambda record: in_reach(record, scope)

    async def newest(self, scope: Scope, ids: Sequence[str]) -> dict[str, Record]:
        """The newest version of each id that is in reach, in the order asked."""
        found = await self._ledger.read(scope.tenant, [name for name in ids if is_keepable(name)])
        return {
            record_id: found[record_id]
            for record_id in dict.fromkeys(ids)
            if record_id in found and in_reach(found[record_id], scope)
        }


def _no_main() -> BackendUnavailableError:
    """It is made with the tenant and cannot be deleted: whoever asks for it has done nothing wrong."""
    return BackendUnavailableError(
        "The database has lost its store main.",
        reason="corrupt",
        hint="Something else has altered it. Restore the latest backup.",
    )


def _no_store() -> NotFoundError:
    return NotFoundError(
        "There is no such memory store.",
        reason="store",
        hint="`quipu store list` shows them; `main` is always there.",
    )
