"""Search over partitions: what is in reach, the two legs, their union."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quipu.ledger.sqlite.partition import BITS_FROM, Partition, bit_codes
from quipu.ledger.sqlite.postings import KeywordScores, Mask, keyword_scores
from quipu.ledger.sqlite.terms import Tokenizer
from quipu.model.search import Candidate, Found, Search
from quipu.rules.texts import is_stop_word

#: How many of the nearest by bits are compared exactly, at least.
_RESCORED = 400
#: The scope's mean vector is taken over this many records, the first in reach: enough, and the same each time.
_MEAN_OF = 512
#: Rows whose keyword score is passed on to their neighbours in a session: this many times the limit.
_SPREADING = 4

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
    keywords = _keywords(partition, search, reach, tokenizer, in_reach)
    context = _with_context(partition, keywords.scores, search, reach.visible)
    rows = _best(np.where(reach.visible, context, 0), search.limit, above=0)
    cosines = centred = None
    if search.vector is not None and partition.vectors is not None:
        query = np.frombuffer(search.vector, "<f4")
        near = _nearest(partition, query, reach.visible & partition["embedded"], search.limit)
        rows = np.union1d(rows, near)
        cosines, centred = _cosines(partition, query, rows, reach.scope)
    candidates = tuple(
        _candidate(partition, int(row), place, keywords, context, cosines, centred)
        for place, row in enumerate(rows)
    )
    return Found(candidates=candidates, in_reach=in_reach)


def _candidate(
    partition: Partition,
    row: int,
    place: int,
    keywords: KeywordScores,
    context: Floats,
    cosines: Floats | None,
    centred: Floats | None,
) -> Candidate:
    has_vector = cosines is not None and bool(partition["embedded"][row])
    return Candidate(
        id=partition.ids[row],
        version=int(partition["version"][row]),
        cosine=float(cosines[place]) if cosines is not None and has_vector else None,
        centred=float(centred[place]) if centred is not None and has_vector else None,
        keyword=float(keywords.scores[row]),
        context=float(context[row]),
        coverage=float(keywords.coverage[row]),
        session_id=partition.sessions.name(int(partition["session"][row])),
        subject=partition.subjects.name(int(partition["subject"][row])),
        confidence=float(partition["confidence"][row]),
        is_demoted=bool(partition["demoted"][row]),
        created_at=int(partition["created"][row]),
    )


# -- the keyword leg --------------------------------------------------------------------------------------------


def query_terms(text: str, tokenizer: Tokenizer) -> list[int]:
    """The distinct terms of a query's content words, or of all its words when it has no others."""
    words = tokenizer.words(text)
    content = [terms for word, terms in words if not is_stop_word(word)]
    chosen = content or [terms for _, terms in words]
    return list(dict.fromkeys(term for terms in chosen for term in terms))


def _keywords(
    partition: Partition, search: Search, reach: Reach, tokenizer: Tokenizer, in_reach: int
) -> KeywordScores:
    lengths = partition["length"]
    mean = float(lengths[reach.scope].mean())
    return keyword_scores(
        partition.postings, query_terms(search.text, tokenizer), reach.scope, lengths, in_reach, mean
    )


def _with_context(partition: Partition, scores: Floats, search: Search, visible: Mask) -> Floats:
    """Add to each turn a share of what the turns before and after it score.

    Done at query time over what the reader may see: a neighbour's words are nowhere kept with the turn, so an erased
    or invisible neighbour leaves nothing behind.
    """
    if not partition.turns or not (search.previous_turn or search.next_turn):
        return scores
    context = scores.copy()
    sources = _best(np.where(visible, scores, 0), search.limit * _SPREADING, above=0)
    for row in sources.tolist():
        before, after = adjacent(partition, row, visible)
        if after is not None:
            context[after] += search.previous_turn * scores[row]
        if before is not None:
            context[before] += search.next_turn * scores[row]
    return context


def adjacent(partition: Partition, row: int, visible: Mask) -> tuple[int | None, int | None]:
    """The visible turns before and after a turn in its session."""
    turns = partition.turns.get(int(partition["session"][row]))
    if turns is None:
        return None, None
    place = _place(turns, (int(partition["moment"][row]), row))
    return _seek(turns, place, -1, row, partition, visible), _seek(turns, place, 1, row, partition, visible)


def _place(turns: Sequence[tuple[int, int]], turn: tuple[int, int]) -> int:
    low, high = 0, len(turns)
    while low < high:
        middle = (low + high) // 2
        if turns[middle] < turn:
            low = middle + 1
        else:
            high = middle
    return low


def _seek(
    turns: Sequence[tuple[int, int]], place: int, step: int, row: int, partition: Partition, visible: Mask
) -> int | None:
    """The next visible row of another record of the same user, a few versions away at most."""
    user = partition["user"]
    for offset in range(1, 9):
        at = place + step * offset
        if not 0 <= at < len(turns):
            return None
        other = turns[at][1]
        if visible[other] and user[other] == user[row] and partition.ids[other] != partition.ids[row]:
            return other
    return None


# -- the vector leg ---------------------------------------------------------------------------------------------


def _nearest(partition: Partition, query: Floats, mask: Mask, limit: int) -> Indices:
    """The rows nearest to the query among those of the mask. Exact; for large partitions chosen by bits first."""
    rows = np.flatnonzero(mask)
    vectors, bits = partition.vectors, partition.bits
    if vectors is None or bits is None or not len(rows):
        return np.empty(0, np.int64)
    if len(rows) > BITS_FROM:
        code = bit_codes(query[np.newaxis, :])[0]
        chosen = bits if len(rows) == len(partition) else bits[rows]
        differing = np.bitwise_count(chosen ^ code).sum(axis=1, dtype=np.uint16)
        keep = min(max(_RESCORED, 4 * limit), len(rows))
        rows = rows[np.argpartition(differing, keep - 1)[:keep]]
    similarities = vectors @ query if len(rows) == len(partition) else vectors[rows] @ query
    return rows[_best(similarities, limit)]


def _cosines(partition: Partition, query: Floats, rows: Indices, scope: Mask) -> tuple[Floats, Floats]:
    """Cosine of each row with the query, plain and with the scope's mean taken out of both."""
    vectors = partition.vectors
    if vectors is None:
        raise ValueError("a partition without vectors has no cosines")
    near = vectors[rows]
    sample = np.flatnonzero(scope & partition["embedded"])[:_MEAN_OF]
    mean = vectors[sample].mean(axis=0) if len(sample) else np.zeros_like(query)
    moved, away = near - mean, query - mean
    norms = np.linalg.norm(moved, axis=1) * float(np.linalg.norm(away))
    return near @ query, (moved @ away) / np.maximum(norms, 1e-9)


def _best(scores: Floats, limit: int, above: float | None = None) -> Indices:
    """The places of the highest scores, best first; equal scores by place, so that the answer is always the same."""
    if above is not None:
        places = np.flatnonzero(scores > above)
        return places[_best(scores[places], limit)]
    if len(scores) > limit:
        # Everything that ties with the last one stays in, or which of them is kept would be chance.
        bound = np.partition(scores, len(scores) - limit)[len(scores) - limit]
        places = np.flatnonzero(scores >= bound)
    else:
        places = np.arange(len(scores))
    order = np.lexsort((places, -scores[places]))
    return places[order][:limit]
