"""Which memories an erasure is about: those that are asked for, what was made out of them, and what waits with their words."""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from quipu.errors import NotFoundError
from quipu.ledger.commit import Change, Drop, Keep
from quipu.ledger.ledger import Ledger
from quipu.memory.forget import Forget
from quipu.model.record import Record, State
from quipu.model.search import Scope, Selection, Snapshot
from quipu.operation import Request
from quipu.sharing import receipts
from quipu.sharing.grants.filters import ItemFilter, admits
from quipu.sharing.host_messages import EraseRequest
from quipu.sharing.identity import Keyring
from quipu.sharing.items import DEFAULT_SCOPE, item_id, item_of, scope_of
from quipu.sharing.model import GRANTS, SHARED_ITEMS

_ERASABLE: frozenset[State] = frozenset({"live", "archived", "forgotten"})
#: An erasure also reaches what has expired: a clock at the beginning of time sees everything.
_EVER = Snapshot(None, -(2**62))
_PAGE = 1000


class _ByContent(Request):
    """What memories must be like."""

    filter: ItemFilter | None = None


class HeldWrites(Protocol):
    """Writes that wait for a person, and those that were kept after a decision."""

    async def emptied(
        self, tenant: str, is_meant: Callable[[Mapping[str, Any]], bool], gone: Collection[str]
    ) -> list[Change]: ...


@dataclass(slots=True)
class Chosen:
    """What goes."""

    ids: list[str]
    #: H of the sorted ids that others know them by.
    digest: str
    #: What goes beside the memories: words of theirs in writes that wait, and in runs.
    changes: list[Change] = field(default_factory=list[Change])


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Finds what is meant. It changes nothing."""

    ledger: Ledger
    keyring: Keyring
    forget: Forget
    held: HeldWrites

    async def chosen(self, tenant: str, wanted: EraseRequest) -> Chosen:
        """Everything that an erasure takes along, as things stand."""
        ids = await self._with_made_of(tenant, await self._meant(tenant, wanted))
        scope = Scope(tenant=tenant, agent_id=None)
        changes: list[Change] = []
        for capability in self.forget.reach:
            found = await capability.reached(tenant, scope, wanted.ids or (), ids)
            ids = list(dict.fromkeys([*ids, *found.ids]))
            changes += found.changes
        if wanted.ids is not None and not ids and not await self.ledger.newest_versions(tenant, wanted.ids):
            raise NotFoundError("There are no such memories.", reason="record")
        if wanted.all or (wanted.scope_id is not None and wanted.filter is None):
            changes += await self.held.emptied(tenant, _of_scope(wanted.scope_id), frozenset(ids))
        newest = await self.ledger.newest_versions(tenant, ids)
        names = [item_id(newest[name]) if name in newest else name for name in ids]
        return Chosen(ids, receipts.hashed(sorted(names)), _once(changes))

    async def _meant(self, tenant: str, wanted: EraseRequest) -> list[str]:
        """The memories that are asked for."""
        if wanted.ids is not None:
            return await self._named(tenant, wanted.ids)
        if wanted.grant_id is not None:
            return await self._shown_under(tenant, wanted.grant_id)
        owner, by = self.keyring.did(tenant), _ByContent.parse({"filter": wanted.filter}).filter
        return [
            record.id
            async for record in self._everything(tenant)
            if (wanted.scope_id is None or scope_of(record) == wanted.scope_id) and _fits(by, record, owner)
        ]

    async def _named(self, tenant: str, names: Sequence[str]) -> list[str]:
        """By their own ids, and by those that they came with from elsewhere."""
        newest = await self.ledger.newest_versions(tenant, names)
        ids = [name for name in names if name in newest and newest[name].standing in _ERASABLE]
        foreign = frozenset(name for name in names if name not in newest)
        if foreign:

            def is_one(record: Record) -> bool:
                return record.metadata.get("item_id") in foreign

            ids += [record.id async for record in self._everything(tenant, is_one)]
        return list(dict.fromkeys(ids))

    async def _shown_under(self, tenant: str, grant_id: str) -> list[str]:
        if await self.ledger.get(GRANTS, tenant, grant_id) is None:
            raise NotFoundError("There is no such grant.", reason="grant")
        found: list[str] = []
        after: tuple[str, str] | None = None
        while rows := await self.ledger.page(
            SHARED_ITEMS, tenant, {"grant_id": grant_id}, after=after, limit=_PAGE
        ):
            after = (grant_id, rows[-1].record_id)
            newest = await self.ledger.newest_versions(tenant, [row.record_id for row in rows])
            found += [record.id for record in newest.values() if record.standing in _ERASABLE]
        return found

    def _everything(
        self, tenant: str, is_one: Callable[[Record], bool] | None = None
    ) -> AsyncIterator[Record]:
        return self.ledger.scan(Selection(tenant=tenant, states=_ERASABLE, matches=is_one), _EVER)

    async def _with_made_of(self, tenant: str, ids: Sequence[str]) -> list[str]:
        """These, what says that it was made out of them, and what took words of theirs in a merge."""
        known = dict.fromkeys(ids)
        fresh = list(known)
        while fresh:
            made = list(await self.ledger.made_of(tenant, fresh))
            for gone in (await self.ledger.newest_versions(tenant, fresh)).values():
                into = gone.merged_into
                if into is not None and await self.forget.took_words(tenant, into, gone):
                    made.append(into)
            fresh = [name for name in dict.fromkeys(made) if name not in known]
            known.update(dict.fromkeys(fresh))
        return list(known)


def _fits(wanted: ItemFilter | None, record: Record, owner: str) -> bool:
    return wanted is None or admits(wanted, item_of(record, owner))


def _of_scope(scope_id: str | None) -> Callable[[Mapping[str, Any]], bool]:
    """Whether what a held write would write is of a scope; None: of any."""

    def is_meant(body: Mapping[str, Any]) -> bool:
        metadata = body.get("metadata")
        given = cast("Mapping[str, Any]", metadata).get("scope_id") if isinstance(metadata, Mapping) else None
        return scope_id is None or (given or DEFAULT_SCOPE) == scope_id

    return is_meant


def _once(changes: Iterable[Change]) -> list[Change]:
    """One change for each row: several reasons may lead to the same."""
    found: dict[object, Change] = {}
    for change in changes:
        match change:
            case Keep():
                found[change.table.name, change.table.key_of(change.value)] = change
            case Drop():
                found[change.table.name, change.key] = change
            case _:
                found[id(change)] = change
    return list(found.values())
