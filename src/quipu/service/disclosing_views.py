"""What a grant covers now, as its grantee sees it: found by the filter, projected, and kept until something changes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from quipu.model.grants import Grant, ItemFilter
from quipu.model.journal import Op
from quipu.model.record import MemoryType, Record, State
from quipu.model.search import Selection, Snapshot
from quipu.model.value import Json
from quipu.ports.parts import Parts
from quipu.rules import grants, grants_items, projection
from quipu.rules.projection import View
from quipu.rules.projection_ranking import seen_words
from quipu.service.disclosing_coverage import Coverage, Place, Seen
from quipu.service.lending import lending_parts

#: The kind of entity that is somebody.
_CONTACT = "oap.entity.contact"
_KEPT_GRANTS = 64
_KEPT_VIEWS = 20_000
#: More entries than this since the last look: everything is read again.
_CATCH_UP = 500
#: What changes no record, and what changes more than its entry mentions.
_READS = frozenset({Op.RECALL, Op.READ, Op.EXPORT})
_ANEW = frozenset({Op.PRUNE, Op.REEMBED, Op.DELETE_STORE})
_TYPES: dict[str, frozenset[MemoryType]] = {
    "preference": frozenset({MemoryType.SEMANTIC}),
    "summary": frozenset({MemoryType.SEMANTIC}),
    "document_reference": frozenset({MemoryType.SEMANTIC}),
    "conversation_turn": frozenset({MemoryType.EPISODIC}),
    "observation": frozenset({MemoryType.EPISODIC}),
    "fact": frozenset({MemoryType.SEMANTIC, MemoryType.PROCEDURAL, MemoryType.EMOTIONAL}),
}


class Views:
    """Reads what grants cover."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._grants: OrderedDict[tuple[str, str, int], Coverage] = OrderedDict()
        self._views: OrderedDict[tuple[Any, ...], Seen] = OrderedDict()

    async def covered(self, tenant: str, grant: Grant, *, as_last_seen: bool = False) -> Coverage:
        """Every item that the grant admits, projected: at this moment, or when it was last looked at."""
        key = (tenant, grant.hash, grants.level_of(grant, lending_parts(self._parts).limits)[0])
        kept = self._grants.get(key)
        if kept is not None and as_last_seen:
            self._grants.move_to_end(key)
            return kept
        head = await self._parts.ledger.head(tenant)
        if kept is None or not await self._caught_up(tenant, grant, kept, head.seq):
            kept = self._grants[key] = await self._read(tenant, grant, head.seq)
            if len(self._grants) > _KEPT_GRANTS:
                self._grants.popitem(last=False)
        return kept

    async def _caught_up(self, tenant: str, grant: Grant, kept: Coverage, seq: int) -> bool:
        """Look again at what the journal says has changed since; False where it is easier to read everything."""
        after, space = kept.place.seq, await self._space(tenant)
        if space != kept.place.space:
            return False
        if after == seq:
            return True
        entries = await self._parts.ledger.entries(tenant, after, _CATCH_UP)
        if len(entries) == _CATCH_UP:
            return False
        changed = {mention.id for entry in entries if entry.op not in _READS for mention in entry.records}
        if any(entry.op in _ANEW for entry in entries):
            return False
        records = dict(await self._parts.ledger.read(tenant, list(changed)))
        before = [kept.items[name].record for name in changed if name in kept.items]
        if any(_is_person(record) for record in (*before, *records.values())):
            return False
        fresh = [record for record in records.values() if self._may_be_shown(record, grant)]
        if fresh and grant.filter.as_of is not None:
            return False
        seen = self._seen_of(tenant, grant, fresh, kept.people, space)
        if kept.place.seq != after:
            return kept.place.seq >= seq  # somebody else has caught up meanwhile
        kept.drop(changed)  # nothing is waited for from here on: nobody sees half of it
        kept.add(seen)
        kept.place = Place(max(seq, entries[-1].seq if entries else seq), space)
        return True

    @staticmethod
    def _may_be_shown(record: Record, grant: Grant) -> bool:
        return (
            not record.is_emptied
            and record.standing is State.LIVE
            and record.died is None
            and grants_items.scope_of(record) == grant.scope_id
            and grants_items.may_leave(record, grant.grantee)
        )

    def forget(self, tenant: str) -> None:
        """After an erasure nothing of it stays in memory."""
        for key in [key for key in self._grants if key[0] == tenant]:
            del self._grants[key]
        for view in [view for view in self._views if view[0] == tenant]:
            del self._views[view]

    def view(self, grant: Grant, people: dict[str, frozenset[str]]) -> View:
        """Through which eyes the grantee looks."""
        own = lending_parts(self._parts)
        level, _ = grants.level_of(grant, own.limits)
        return View(
            profile=grant.profile,
            level=level,
            labels=grant.filter.labels,
            mode=own.text_mode,
            people=people,
        )

    async def _read(self, tenant: str, grant: Grant, seq: int) -> Coverage:
        now = self._parts.clock()
        snapshot = Snapshot(None, now)
        if grant.filter.as_of is not None:
            snapshot = Snapshot(await self._parts.ledger.position_at(tenant, grant.filter.as_of), now)
        wanted = selection(tenant, grant.filter)
        records = [record async for record in self._lendable(wanted, grant, snapshot)]
        if snapshot.seq is not None:
            newest = await self._parts.ledger.read(tenant, [record.id for record in records])
            records = [
                record
                for record in records
                if (now_is := newest.get(record.id)) is not None and self._may_be_shown(now_is, grant)
            ]
        people = await self._people(tenant, now, records)
        space = await self._space(tenant)
        covered = Coverage(Place(seq, space), people)
        covered.add(self._seen_of(tenant, grant, records, people, space))
        return covered

    async def _lendable(self, wanted: Selection, grant: Grant, snapshot: Snapshot) -> AsyncIterator[Record]:
        async for record in self._parts.ledger.scan(wanted, snapshot):
            if (
                grants_items.scope_of(record) == grant.scope_id
                and grants_items.may_leave(record, grant.grantee)
                and not record.is_emptied
            ):
                yield record

    async def newest(self, tenant: str, grant: Grant, limit: int) -> list[Seen]:
        """The items that were written last of those that a grant admits, as its grantee sees them now.

        They are looked for one by one, and nothing is kept: a draft may be about everything there is.
        """
        snapshot, space = Snapshot(None, self._parts.clock()), await self._space(tenant)
        wanted = selection(tenant, grant.filter)
        people = await self._people_among(wanted, grant, snapshot)
        found: list[Seen] = []
        async for record in self._lendable(wanted, grant, snapshot):
            found += self._seen_of(tenant, grant, [record], people, space)
            if len(found) >= limit:
                break
        return sorted(found, key=lambda seen: (-seen.captured_at, seen.item_id))

    async def _people_among(
        self, wanted: Selection, grant: Grant, snapshot: Snapshot
    ) -> dict[str, frozenset[str]]:
        """Whose names must not be shown, without reading what tells of nobody."""
        telling = replace(wanted, in_metadata=f'"{_CONTACT}"')
        records = [record async for record in self._lendable(telling, grant, snapshot)]
        return await self._people(wanted.tenant, snapshot.now, records)

    async def _space(self, tenant: str) -> tuple[str, int] | None:
        found = await self._parts.ledger.space(tenant)
        return None if found is None else (found.model, found.dimensions)

    def _seen_of(
        self,
        tenant: str,
        grant: Grant,
        records: list[Record],
        people: dict[str, frozenset[str]],
        space: tuple[str, int] | None,
    ) -> list[Seen]:
        if not records:
            return []
        vectors = None if space is None else grants_items.Space(*space)
        owner = lending_parts(self._parts).keyring.did(tenant)
        pairs = [(record, grants_items.item_of(record, owner, vectors)) for record in records]
        view = self.view(grant, people)
        return [
            self._seen(record, item, view, grant)
            for record, item in pairs
            if grants.admits(grant.filter, item)
        ]

    async def _people(self, tenant: str, now: int, records: list[Record]) -> dict[str, frozenset[str]]:
        """Names of people in the owner's entities: none of them is shown where a code is expected."""
        wanted: dict[str, Json] = {"metadata.structured.entity_type": _CONTACT}
        people: dict[str, frozenset[str]] = {}
        structures = [record.metadata.get("structured") for record in records]
        async for record in self._parts.ledger.scan(
            Selection(tenant=tenant, filter=wanted), Snapshot(None, now)
        ):
            structures.append(record.metadata.get("structured"))
        for structure in structures:
            for person, names in projection.people_of(structure):
                people[person] = people.get(person, frozenset()) | names
        return people

    def _seen(self, record: Record, item: dict[str, Any], view: View, grant: Grant) -> Seen:
        people = hash(frozenset(view.people.items()))
        key = (record.tenant, record.id, record.version, item["owner_did"], view.profile, view.level)
        key = (*key, view.labels, view.mode, people, str(item.get("embedding")), grant.scope_id)
        known = self._views.get(key)
        if known is None:
            left = projection.projected(item, view)
            known = Seen(
                record,
                item,
                left,
                seen_words(left.item),
                item["item_id"],
                grants_items.captured_at(record),
            )
            self._views[key] = known
            if len(self._views) > _KEPT_VIEWS:
                self._views.popitem(last=False)
        return known


def selection(tenant: str, wanted: ItemFilter) -> Selection:
    """What of a filter the ledger can look for itself; the rest is judged item by item."""
    types: frozenset[MemoryType] = frozenset()
    if wanted.kinds is not None:
        types = types.union(*(_TYPES[kind] for kind in wanted.kinds))
    filter: dict[str, Json] = {}
    labels = wanted.labels_any
    if labels is not None and not any(label.startswith("memory_type:") for label in labels):
        # One label is looked for by the ledger before it unpacks anything.
        filter["tags"] = next(iter(labels)) if len(labels) == 1 else {"$in": sorted(labels)}
    return Selection(tenant=tenant, types=types, states=frozenset({State.LIVE}), filter=filter or None)


def _is_person(record: Record) -> bool:
    """Whether a record tells of people: whose names may be shown then has to be asked anew."""
    return any(True for _ in projection.people_of(record.metadata.get("structured")))
