"""Search over partitions: what is in reach, the two legs, their union."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quipu.errors import InvalidError
from quipu.ledger.sqlite.bm25 import Corpus, KeywordScores
from quipu.ledger.sqlite.partition import BITS_FROM, Partition, bit_codes
from quipu.ledger.sqlite.postings import Mask
from quipu.ledger.sqlite.terms import Tokenizer
from quipu.ledger.sqlite.turns import SeenTurns
from quipu.model.search import Candidate, Context, Found, Search
from quipu.rules.texts import is_stop_word

#: How many of the nearest by bits are compared exactly, at least.
_RESCORED = 2000
#: When less than one in so many rows may be seen, they are taken out before anything is computed.
_SPARSE = 3
#: With turns, this many times the limit are looked at before context decides.
_WIDER = 2

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Reach:
    """What a reader may see of a partition: `scope` for statistics, `visible` (narrower) for results."""

    scope: Mask
    visible: Mask


def found(partition: Partition, search: Search, reach: Reach, tokenizer: Tokenizer) -> Found:
    """The best of both legs, with what each leg says of every one of them."""
    in_reach = int(np.count_nonzero(reach.scope))
    if not in_reach:
        return Found(candidates=(), in_reach=0)
    has_turns = not partition.turns.is_empty and not search.context.is_empty
    turns = partition.turns.seen(partition["record"], reach.scope) if has_turns else None
    corpus = Corpus(partition.postings, reach.scope, partition["length"], in_reach, turns)
    keywords = corpus.scored(query_terms(search.text, tokenizer), search.context, search.common_from)
    rows = best(np.where(reach.visible, keywords.scores, 0), search.limit, above=0)
    leg = None
    if search.vector is not None and partition.vectors is not None:
        if len(search.vector) != 4 * partition.dimensions:
            raise InvalidError.at(
                "/embedding", "embedding_mismatch", "The query's vector has the wrong dimensions."
            )
        query = np.frombuffer(search.vector, "<f4")
        leg = VectorLeg(partition, query, reach, turns, search.context)
        rows = np.union1d(rows, leg.nearest(search.limit))
    return Found(candidates=_candidates(partition, rows, keywords, leg), in_reach=in_reach)


def _candidates(
    partition: Partition, rows: Indices, keywords: KeywordScores, leg: VectorLeg | None
) -> tuple[Candidate, ...]:
    """What is known of each row, taken out of the arrays in one go per array."""
    absent: list[float | None] = [None] * len(rows)
    columns: Iterable[tuple[Any, ...]] = zip(
        rows.tolist(),
        partition["version"][rows].tolist(),
        partition["embedded"][rows].tolist(),
        *([absent] * 2 if leg is None else [part.tolist() for part in leg.judged(rows)]),
        keywords.scores[rows].tolist(),
        keywords.coverage[rows].tolist(),
        keywords.common[rows].tolist(),
        partition["session"][rows].tolist(),
        partition["subject"][rows].tolist(),
        partition["confidence"][rows].tolist(),
        partition["demoted"][rows].tolist(),
        partition["created"][rows].tolist(),
        partition["length"][rows].tolist(),
        partition["asks"][rows].tolist(),
        strict=True,
    )
    return tuple(_candidate(partition, *values) for values in columns)


def _candidate(
    partition: Partition,
    row: int,
    version: int,
    has_vector: bool,
    cosine: float | None,
    near: float | None,
    keyword: float,
    coverage: float,
    common: float,
    session: int,
    subject: int,
    confidence: float,
    is_demoted: bool,
    created_at: int,
    length: int,
    asks: bool,
) -> Candidate:
    return Candidate(
        id=partition.ids[row],
        version=version,
        cosine=cosine if has_vector else None,
        near=near if has_vector else None,
        keyword=keyword,
        coverage=coverage,
        common=common,
        session_id=partition.sessions.name(session),
        subject=partition.subjects.name(subject),
        confidence=confidence,
        is_demoted=is_demoted,
        created_at=created_at,
        length=length,
        asks=asks,
    )


def query_terms(text: str, tokenizer: Tokenizer) -> list[int]:
    """The distinct terms of a query's content words, or of all its words when it has no others.

    Stop words are told by the word as written: stemmed, a name can become one.
    """
    words = tokenizer.words(text)
    content = [terms for word, terms in words if not is_stop_word(word)]
    chosen = content or [terms for _, terms in words]
    return list(dict.fromkeys(term for terms in chosen for term in terms))


@dataclass(frozen=True, slots=True)
class VectorLeg:
    """Nearness to the query's vector, a turn's neighbours included."""

    _partition: Partition
    _query: Floats
    _reach: Reach
    _turns: SeenTurns | None
    _context: Context

    def nearest(self, limit: int) -> Indices:
        """The nearest rows. By cosine first, and if there are turns, by cosine with context among those around them."""
        by_cosine = self._nearest_by_cosine(limit if self._turns is None else limit * _WIDER)
        if self._turns is None or not len(by_cosine):
            return by_cosine
        around = np.concatenate([by_cosine, self._turns.before(by_cosine), self._turns.after(by_cosine)])
        rows = np.unique(around[around >= 0])
        rows = rows[(self._reach.visible & self._partition["embedded"])[rows]]
        return rows[best(self._with_context(rows, self._cosines(rows)), limit)]

    def judged(self, rows: Indices) -> tuple[Floats, Floats]:
        """Cosine, and cosine with context."""
        cosines = self._cosines(rows)
        return cosines, self._with_context(rows, cosines)

    @property
    def _vectors(self) -> Floats:
        vectors = self._partition.vectors
        if vectors is None:
            raise ValueError("a partition without vectors has no vector leg")
        return vectors

    def _cosines(self, rows: Indices) -> Floats:
        return self._vectors[rows] @ self._query

    def _with_context(self, rows: Indices, cosines: Floats) -> Floats:
        if self._turns is None:
            return cosines
        near = cosines.copy()
        for share, others in (
            (self._context.previous_vector, self._turns.before(rows)),
            (self._context.next_vector, self._turns.after(rows)),
        ):
            near += np.float32(share) * np.where(others >= 0, self._cosines(others), 0)
        return near

    def _nearest_by_cosine(self, limit: int) -> Indices:
        """Exact; for large partitions the ones to compare exactly are chosen by bits."""
        mask = self._reach.visible & self._partition["embedded"]
        count = int(np.count_nonzero(mask))
        if not count:
            return np.empty(0, np.int64)
        if count > BITS_FROM:
            keep = min(max(_RESCORED, 20 * limit, count // 50), count)
            rows = self._nearest_by_bits(mask, count, keep)
        elif count > len(mask) // _SPARSE:
            # Taking out most rows costs more than passing over the others.
            cosines = np.where(mask, self._vectors @ self._query, np.float32(-2))
            return best(cosines, min(limit, count))
        else:
            rows = np.flatnonzero(mask)
        return rows[best(self._cosines(rows), limit)]

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
