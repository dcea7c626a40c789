"""What one grant covers, as its grantee sees it, and which of it answers a query.

Words point to the items that show them, so that a query looks at the items it may find and at no others. What is found,
its score and its order depend on the shown view alone (F19).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from quipu.model.disclosure import Standing
from quipu.model.grants import Asked, ItemFilter
from quipu.model.record import Record
from quipu.rules import grants
from quipu.rules.projection import Projected
from quipu.rules.projection_ranking import share, words


@dataclass(frozen=True, slots=True)
class Seen:
    """One item of a grant: the record, the whole item, what is left of it, and the words that a query may find."""

    record: Record
    item: dict[str, Any]
    projected: Projected
    words: frozenset[str]
    item_id: str
    captured_at: int
    #: The canonical bytes of what is left, member by member, once it was shown; they go with it.
    spelt: dict[str, bytes] = field(default_factory=dict[str, bytes], repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Ranked:
    """One item of an answer, in its place. `order` grows along the answer."""

    seen: Seen
    score: float
    order: tuple[float, str]


@dataclass(frozen=True, slots=True)
class Place:
    """Where in its owner's journal a grant was last looked at, and by which vectors."""

    seq: int
    space: tuple[str, int] | None

    def stands(self, standing: Standing) -> bool:
        """Whether nothing has changed since."""
        return standing.changed <= self.seq and standing.space == self.space


@dataclass(frozen=True, slots=True)
class Room:
    """What a grant may still show for the first time. Near its end the rest is not there: neither counted nor pointed at."""

    #: So many items are about to be shown at most.
    most: int
    #: How many of them may be new, and what is none any more; None where the end is far.
    left: int | None = None
    shown: frozenset[str] = frozenset()

    def within(self, found: Iterable[Ranked]) -> Iterator[Ranked]:
        """What may be shown, in order (D8)."""
        left = self.left
        for one in found:
            if left is None or one.seen.record.id in self.shown:
                yield one
            elif left > 0:
                left -= 1
                yield one

    def stands(self, left: int) -> bool:
        """Whether this was right, now that it is known how much is left."""
        return left > self.most if self.left is None else left == self.left


@dataclass(slots=True)
class Coverage:
    """What a grant covered at a place of the journal, by record, and the people whose names it must not show."""

    place: Place
    people: dict[str, frozenset[str]]
    items: dict[str, Seen] = field(default_factory=dict[str, Seen])
    _by_word: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    #: Their ids on the wire.
    _names: dict[str, str] = field(default_factory=dict[str, str])

    def add(self, found: Iterable[Seen]) -> None:
        """These, too."""
        for seen in found:
            self.items[seen.record.id] = seen
            self._names[seen.record.id] = seen.item_id
            for word in seen.words:
                self._by_word.setdefault(word, set()).add(seen.record.id)

    def drop(self, record_ids: Iterable[str]) -> None:
        """No longer these, where they were."""
        for name in record_ids:
            seen = self.items.pop(name, None)
            self._names.pop(name, None)
            for word in () if seen is None else seen.words:
                rest = self._by_word[word]
                rest.discard(name)
                if not rest:
                    del self._by_word[word]

    def ranked(self, asked: Asked, now: int) -> Iterator[Ranked]:
        """What answers a query, in order. A query's own filter sees what its asker sees, and no more (F19)."""
        is_wanted = _wanted(asked, now)
        if not asked.text:
            listed = [(-float(seen.captured_at), seen.item_id, seen) for seen in self.items.values()]
            found = (
                Ranked(seen, 1.0, (order, name))
                for order, name, seen in sorted(listed, key=lambda one: one[:2])
            )
        else:
            found = self._matching(frozenset(words(asked.text)), max(asked.min_score, 0.01))
        return (one for one in found if is_wanted(one.seen))

    def _matching(self, wanted: frozenset[str], least: float) -> Iterator[Ranked]:
        postings = [names for word in wanted if (names := self._by_word.get(word))]
        for count, names in _by_count(postings):
            score = share(count, len(wanted))
            if score < least:
                return
            for name in sorted(names, key=self._names.__getitem__):
                yield Ranked(self.items[name], score, (-score, self._names[name]))


def _by_count(postings: Sequence[set[str]]) -> Iterator[tuple[int, Iterable[str]]]:
    """Who stands in how many of them, the most first. Those who stand in all of them often are a whole answer."""
    if not postings:
        return
    least, *others = sorted(postings, key=len)
    yield len(postings), least.intersection(*others)
    hits = Counter(chain.from_iterable(postings))
    for count in range(len(postings) - 1, 0, -1):
        yield count, [name for name, many in hits.items() if many == count]


def _wanted(asked: Asked, now: int) -> Callable[[Seen], bool]:
    own = asked.filter or ItemFilter()
    limits = [moment for moment in (asked.as_of, own.as_of) if moment is not None]
    filters = [] if asked.filter is None else [own]
    if asked.kinds is not None:
        filters.append(ItemFilter(kinds=asked.kinds))

    def is_wanted(seen: Seen) -> bool:
        return (
            not seen.record.expired(now)
            and all(grants.admits(wanted, seen.projected.item) for wanted in filters)
            and all(_is_by(seen, moment) for moment in limits)
        )

    return is_wanted


def _is_by(seen: Seen, moment: int) -> bool:
    """Nothing newer than that; what was changed since is left out, rather than shown as it was."""
    return seen.record.updated_at <= moment and seen.captured_at <= moment
