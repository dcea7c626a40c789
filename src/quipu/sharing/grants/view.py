"""What a grant covers now, as its grantee sees it: found by its filter, projected, and kept until something changes.

What a query finds, its score and its order follow from the query and from each item as it is shown, never from what was
taken away and never from other items.
"""

import re
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, cast

from quipu.ledger.index import Space
from quipu.ledger.reader import JournalQuery
from quipu.model.journal import Head
from quipu.model.record import Record
from quipu.model.search import Selection, Snapshot
from quipu.search import terms
from quipu.search.text import is_stop_word
from quipu.sharing.grants.filters import ItemFilter, admits, selection
from quipu.sharing.grants.projection import FreeText, Projected, View, people_in, projected
from quipu.sharing.grants.terms import Grant
from quipu.sharing.host import Host
from quipu.sharing.items import Item, captured_at, item_of, kind_of, may_leave, scope_of

_MOST_GRANTS = 64
#: More entries than this since the last look: everything is read again.
_CATCH_UP = 500
#: What changes more than its entry names.
_ANEW = frozenset({"prune", "delete_store"})


@dataclass(frozen=True, slots=True, eq=False)
class CoveredItem:
    """An item of a grant: its record, the whole item, and what is left of it."""

    record: Record
    item: Item
    shown: Projected
    #: What a query may find it by.
    words: frozenset[int]

    @property
    def id(self) -> str:
        return str(self.item["item_id"])


@dataclass(frozen=True, slots=True)
class Ranked:
    """An item of an answer. `order` grows along the answer."""

    shared: CoveredItem
    score: float
    order: tuple[float, str]


@dataclass(slots=True)
class Coverage:
    """Everything that a grant covered at a position of the journal."""

    seq: int
    space: Space | None
    people: Mapping[str, frozenset[str]]
    items: dict[str, CoveredItem] = field(default_factory=dict[str, CoveredItem])
    _by_word: dict[int, set[str]] = field(default_factory=dict[int, set[str]])

    def stands(self, head: Head, space: Space | None) -> bool:
        """Whether no memory has changed since."""
        return head.changed <= self.seq and space == self.space

    def add(self, found: Iterable[CoveredItem]) -> None:
        for shared in found:
            self.items[shared.record.id] = shared
            for word in shared.words:
                self._by_word.setdefault(word, set()).add(shared.record.id)

    def drop(self, record_ids: Iterable[str]) -> None:
        for record_id in record_ids:
            shared = self.items.pop(record_id, None)
            for word in () if shared is None else shared.words:
                rest = self._by_word[word]
                rest.discard(record_id)
                if not rest:
                    del self._by_word[word]

    def ranked(self, query: str, wanted: Sequence[ItemFilter], now: int) -> Iterator[Ranked]:
        """What answers a query, in order; without one the newest first. `wanted` are judged on what is shown."""
        found = self._matching(query_words(query)) if query.strip() else self._newest()
        return (
            one
            for one in found
            if not one.shared.record.is_expired(now)
            and all(admits(filter, one.shared.shown.item) for filter in wanted)
        )

    def _newest(self) -> Iterator[Ranked]:
        listed = ((-float(captured_at(one.record)), one.id, one) for one in self.items.values())
        for at, name, shared in sorted(listed, key=lambda one: one[:2]):
            yield Ranked(shared, 1.0, (at, name))

    def _matching(self, words: frozenset[int]) -> Iterator[Ranked]:
        hits = Counter(chain.from_iterable(self._by_word.get(word, ()) for word in words))
        scored = (
            (-score(count, len(words)), self.items[name].id, self.items[name]) for name, count in hits.items()
        )
        for negative, name, shared in sorted(scored, key=lambda one: one[:2]):
            if negative:
                yield Ranked(shared, -negative, (negative, name))


def score(found: int, wanted: int) -> float:
    """The share of a query's words that an item has, rounded to two places."""
    return round(found / wanted, 2) if wanted else 0.0


def query_words(query: str) -> frozenset[int]:
    """The words that a query is about: all of it, where it has nothing but words that every text has."""
    written = terms.words(query)
    telling = [found for word, found in written if not is_stop_word(word)]
    return frozenset(chain.from_iterable(telling or (found for _, found in written)))


def shown_words(item: Mapping[str, Any]) -> frozenset[int]:
    """The words of an item as it is shown: text, structure, labels and kind."""
    content = cast("Mapping[str, Any]", item["content"])
    parts = (content.get("text"), content.get("structured"), item.get("labels"), item.get("kind"))
    written = terms.words("\n".join(text for part in parts for text in _texts(part)))
    return frozenset(chain.from_iterable(found for _, found in written))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield re.sub(r"[_-]+", " ", value)
    elif isinstance(value, Mapping):
        for name, part in cast("Mapping[str, Any]", value).items():
            yield re.sub(r"[_-]+", " ", name)
            yield from _texts(part)
    elif isinstance(value, list | tuple):
        for part in cast("Sequence[Any]", value):
            yield from _texts(part)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


# -- views of grants ----------------------------------------------------------------------------------------------


class GrantViews:
    """Reads what grants cover, and keeps it up to date along the journal."""

    def __init__(self, host: Host, free_text: FreeText) -> None:
        self._host = host
        self._free_text: FreeText = free_text
        self._kept: OrderedDict[tuple[str, str], Coverage] = OrderedDict()

    async def covered(self, tenant: str, grant: Grant) -> Coverage:
        """Every item that the grant covers at this moment."""
        key = (tenant, grant.hash)
        kept, ledger = self._kept.get(key), self._host.ledger
        head, space = await ledger.head(tenant), await ledger.space(tenant)
        if kept is None or not await self._caught_up(tenant, grant, kept, head, space):
            kept = self._kept[key] = await self.read(tenant, grant)
            if len(self._kept) > _MOST_GRANTS:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return kept

    def forget(self) -> None:
        """After an erasure nothing of it stays in memory."""
        self._kept.clear()

    async def read(self, tenant: str, grant: Grant) -> Coverage:
        """The same, read from the ledger."""
        ledger, now = self._host.ledger, self._host.clock()
        head, space = await ledger.head(tenant), await ledger.space(tenant)
        people = await self._people(tenant, now)
        wanted = selection(tenant, grant.terms.filter)
        records = [record async for record in ledger.scan(wanted, Snapshot(None, now))]
        coverage = Coverage(head.seq, space, people)
        coverage.add(self._shared(tenant, grant, records, people, space))
        return coverage

    async def _caught_up(
        self, tenant: str, grant: Grant, kept: Coverage, head: Head, space: Space | None
    ) -> bool:
        """Look again at what the journal says has changed since; False where it is easier to read everything."""
        if space != kept.space:
            return False
        if kept.stands(head, space):
            return True
        ledger, after = self._host.ledger, kept.seq
        entries = await ledger.entries(tenant, JournalQuery(after=after, limit=_CATCH_UP))
        if len(entries) == _CATCH_UP or any(entry.op in _ANEW for entry in entries):
            return False
        changed = {mention.id for entry in entries for mention in entry.records}
        records = await ledger.records(tenant, list(changed))
        before = [kept.items[name].record for name in changed if name in kept.items]
        if any(_tells_of_people(record) for record in (*before, *records.values())):
            return False  # a name may be masked in any item
        fresh = list(self._shared(tenant, grant, records.values(), kept.people, space))
        if kept.seq != after:
            return kept.stands(head, space)  # somebody else has caught up meanwhile
        kept.drop(changed)  # nothing is waited for from here on: nobody sees half of it
        kept.add(fresh)
        kept.seq = max(head.seq, entries[-1].seq if entries else 0)
        return True

    def _shared(
        self,
        tenant: str,
        grant: Grant,
        records: Iterable[Record],
        people: Mapping[str, frozenset[str]],
        space: Space | None,
    ) -> Iterator[CoveredItem]:
        owner = self._host.keyring.did(tenant)
        view = View(
            profile=grant.terms.redaction_profile,
            level=grant.level,
            labels=grant.terms.filter.labels,
            free_text=self._free_text,
            people=people,
        )
        for record in records:
            if not _may_be_shared(record, grant):
                continue
            item = item_of(record, owner, space)
            if admits(grant.terms.filter, item):
                shown = projected(item, view)
                yield CoveredItem(record, item, shown, shown_words(shown.item))

    async def _people(self, tenant: str, now: int) -> Mapping[str, frozenset[str]]:
        """The names in all contacts of the owner, whoever may see those."""
        found: dict[str, frozenset[str]] = {}
        wanted = Selection(tenant=tenant, matches=_tells_of_people)
        async for record in self._host.ledger.scan(wanted, Snapshot(None, now)):
            for person, words in people_in(record.metadata.get("structured")):
                found[person] = found.get(person, frozenset()) | words
        return found


def _may_be_shared(record: Record, grant: Grant) -> bool:
    """What no filter decides: it stands, it is of the grant's scope, and its owner's own word lets it go."""
    kinds = grant.terms.filter.kinds
    return (
        not record.is_emptied
        and record.standing == "live"
        and record.died is None
        and scope_of(record) == grant.scope_id
        and (kinds is None or kind_of(record) in kinds)
        and may_leave(record, grant.grantee)
    )


def _tells_of_people(record: Record) -> bool:
    return any(True for _ in people_in(record.metadata.get("structured")))
