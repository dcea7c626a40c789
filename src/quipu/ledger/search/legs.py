"""Search over partitions: what is in reach, the two legs, their union."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from quipu.ledger.search.bm25 import KeywordScores, corpus_of
from quipu.ledger.search.naming import rows_of
from quipu.ledger.search.partition import BITS_FROM, Partition, bit_codes
from quipu.ledger.search.postings import Mask
from quipu.ledger.search.seen import Seen
from quipu.ledger.search.terms import Words
from quipu.ledger.search.turns import SeenTurns
from quipu.model.search import Candidate, Context, Found, Search
from quipu.rules.stop_words import is_stop_word

#: How many of the nearest by bits are compared exactly, at least.
_RESCORED = 2000
#: When less than one in so many rows may be seen, they are taken out before anything is computed.
_SPARSE = 3
#: When more than one in so many rows are compared, comparing all is faster than taking them out.
_DENSE = 2
#: With turns, this many times the limit are looked at before context decides.
_WIDER = 2

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]
Maybe = list[float | None]


@dataclass(frozen=True, slots=True)
class Reach:
    """What a reader may see of a partition: `seen` for statistics, `visible` (narrower) for results."""

    seen: Seen
    visible: Mask


class Nearness(Protocol):
    """Cosines between the query and the rows of a partition, wherever its vectors are."""

    def cosines(self, rows: Indices) -> Floats:
        """Of these rows; anything for a row without a vector, or where there is no row (-1)."""
        ...

    def nearest(self, mask: Mask, limit: int) -> Indices:
        """The rows nearest to the query among those of the mask, which all have vectors."""
        ...


def found(search: Search, reach: Reach, words: Words, near: Nearness | None = None) -> Found:
    """The best of both legs, with what each leg says of every one of them."""
    seen, visible = reach.seen, reach.visible
    if not seen.count:
        return Found(candidates=(), in_reach=0)
    partition = seen.partition
    corpus = corpus_of(seen, search.context)
    names, shared = (
        frozenset([term for word, terms in words if word in some for term in terms])
        for some in (search.names, search.shared_names)
    )
    keywords = corpus.scored(query_terms(words), search.common_from, names, shared)
    scores = keywords.scores if visible is seen.mask else np.where(visible, keywords.scores, 0)
    searched = seen.count if visible is seen.mask else int(np.count_nonzero(visible))
    leg = None if near is None else VectorLeg(partition, near, visible, corpus.turns, search.context)
    if search.restriction.ids is not None:
        rows = np.flatnonzero(visible)
    elif leg is None:
        rows = best(scores, search.limit, above=0)
    elif searched <= search.limit:  # there is nothing to choose
        rows = np.flatnonzero((scores > 0) | (visible & partition["embedded"]))
    else:
        rows = np.union1d(best(scores, search.limit, above=0), leg.nearest(search.limit))
        if search.users:
            theirs = replace(leg, _visible=rows_of(partition, visible, search.users))
            rows = np.union1d(rows, theirs.nearest(search.limit))
    return Found(
        candidates=_candidates(partition, rows, keywords, leg), in_reach=seen.count, searched=searched
    )


def _candidates(
    partition: Partition, rows: Indices, keywords: KeywordScores, leg: VectorLeg | None
) -> tuple[Candidate, ...]:
    """What is known of each row, taken out of the arrays in one go per array."""
    absent: list[float | None] = [None] * len(rows)
    cosines, near = (absent, absent) if leg is None else leg.judged(rows)
    words, covered, common, named = keywords.table[:, rows].tolist()
    ids, versions, sessions, subjects, *others, users = partition.told(rows)
    columns = (
        ids,
        versions,
        cosines,
        near,
        words,
        covered,
        common,
        sessions,
        subjects,
        *others,
        users,
        named,
    )
    return tuple(map(Candidate, *columns))


def _where(there: list[bool], values: list[float]) -> Maybe:
    return [value if is_there else None for is_there, value in zip(there, values, strict=True)]


def query_terms(words: Words) -> list[int]:
    """The distinct terms of a query's content words, or of all its words when it has no others.

    Stop words are told by the word as written: stemmed, a name can become one.
    """
    content = [terms for word, terms in words if not is_stop_word(word)]
    chosen = content or [terms for _, terms in words]
    return list(dict.fromkeys(term for terms in chosen for term in terms))


@dataclass(frozen=True, slots=True)
class VectorLeg:
    """Nearness to the query's vector, a turn's neighbours included."""

    _partition: Partition
    _near: Nearness
    _visible: Mask
    _turns: SeenTurns | None
    _context: Context

    def nearest(self, limit: int) -> Indices:
        """The nearest rows. By cosine first, and if there are turns, by cosine with context among those around them."""
        by_cosine = self._nearest_by_cosine(limit if self._turns is None else limit * _WIDER)
        if self._turns is None or not len(by_cosine):
            return by_cosine
        around = np.concatenate([by_cosine, self._turns.before(by_cosine), self._turns.after(by_cosine)])
        rows = np.unique(around[around >= 0])
        rows = rows[(self._visible & self._partition["embedded"])[rows]]
        return rows[best(self._with_context(rows, self._near.cosines(rows)), limit)]

    def judged(self, rows: Indices) -> tuple[Maybe, Maybe]:
        """Cosine, and cosine with context; None for what has no vector."""
        cosines = self._near.cosines(rows)
        near = self._with_context(rows, cosines)
        plain = cosines.tolist()
        nearness = plain if near is cosines else near.tolist()
        has_vector = self._partition["embedded"][rows]
        if has_vector.all():
            return plain, nearness
        there = has_vector.tolist()
        return _where(there, plain), _where(there, nearness)

    def _with_context(self, rows: Indices, cosines: Floats) -> Floats:
        if self._turns is None:
            return cosines
        near = cosines.copy()
        for share, others in (
            (self._context.previous_vector, self._turns.before(rows)),
            (self._context.next_vector, self._turns.after(rows)),
        ):
            near += np.float32(share) * np.where(others >= 0, self._near.cosines(others), 0)
        return near

    def _nearest_by_cosine(self, limit: int) -> Indices:
        return self._near.nearest(self._visible & self._partition["embedded"], limit)


@dataclass(slots=True)
class Matrix:
    """Nearness in a partition that holds its vectors."""

    _partition: Partition
    _query: Floats
    #: The cosines of all rows, once somebody has asked for them.
    _all: Floats | None = None

    def nearest(self, mask: Mask, limit: int) -> Indices:
        """Exact; for large partitions the ones to compare exactly are chosen by bits."""
        count = int(np.count_nonzero(mask))
        if not count:
            return np.empty(0, np.int64)
        if count > BITS_FROM:
            keep = min(max(_RESCORED, 20 * limit, count // 50), count)
            rows = self._nearest_by_bits(mask, count, keep)
        elif count > len(mask) // _SPARSE:
            # Taking out most rows costs more than passing over the others.
            cosines = self.cosines()
            return best(
                cosines if count == len(mask) else np.where(mask, cosines, np.float32(-2)), min(limit, count)
            )
        else:
            rows = np.flatnonzero(mask)
        return rows[best(self.cosines(rows), limit)]

    def _nearest_by_bits(self, mask: Mask, count: int, keep: int) -> Indices:
        """The rows whose signs differ least from the query's."""
        code = bit_codes(self._query[np.newaxis, :])[0]
        rows = None if count > len(mask) // _SPARSE else np.flatnonzero(mask)
        differing = np.zeros(len(mask) if rows is None else count, np.uint16)
        for words, word in zip(self._partition.bits, code, strict=True):
            differing += np.bitwise_count((words if rows is None else words[rows]) ^ word)
        if rows is None:
            differing[~mask] = np.iinfo(np.uint16).max
        nearest = np.argpartition(differing, keep - 1)[:keep]
        return nearest if rows is None else rows[nearest]

    @property
    def _vectors(self) -> Floats:
        vectors = self._partition.vectors
        if vectors is None:
            raise ValueError("a partition without vectors has no vector leg")
        return vectors

    def cosines(self, rows: Indices | None = None) -> Floats:
        """Of these rows, or of all. Row by row, so that a row's cosine depends on no other row, to the last bit.

        It also is faster than a product with the whole matrix: up to twice, and far more where other threads compute.
        """
        if rows is None:
            self._all = every = np.vecdot(self._vectors, self._query)
            return every
        every, vectors = self._all, self._vectors
        if every is None and len(vectors) > _DENSE * len(rows):
            return np.vecdot(vectors.take(rows, 0), self._query)
        return (self.cosines() if every is None else every)[rows]


def best(scores: Floats, limit: int, above: float | None = None) -> Indices:
    """The places of the highest scores, best first; equal scores by place, so that the answer is always the same."""
    if above is not None:
        places = np.flatnonzero(scores > above)
        return places[best(scores[places], limit)]
    if len(scores) > limit:
        # Everything that ties with the last one stays in, or which of them is kept would be chance.
        bound = np.partition(scores, len(scores) - limit)[len(scores) - limit]
        places = np.flatnonzero(scores >= bound)
    else:
        places = np.arange(len(scores))
    order = np.lexsort((places, -scores[places]))
    return places[order][:limit]
