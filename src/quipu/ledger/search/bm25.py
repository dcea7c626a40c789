"""BM25 over the rows in reach, with a share of the neighbouring turns' words.

A neighbour's words count as a fraction of an occurrence, inside the saturation: a word said twice in a row is not
twice the evidence. Counts and lengths are taken over what the reader may see, so a score depends on nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quipu.ledger.search.postings import Mask, Posting, Postings
from quipu.ledger.search.turns import SeenTurns
from quipu.model.search import Context
from quipu.rules.texts import is_common

K1 = 1.2
B = 0.75
#: Up to so many rows, all of them are gone through once instead of those of each term.
_FEW = 4096

Floats = NDArray[np.float32]
#: Rows → by how much each one's length holds its words down.
Norms = Callable[[NDArray[np.int64]], Floats]


@dataclass(frozen=True, slots=True)
class KeywordScores:
    """BM25 per row, and the share of the query's weight of meaning that each row's own words cover."""

    scores: Floats
    coverage: Floats
    #: The share of the query's common words that each row has, and of the names in it.
    common: Floats
    named: Floats


@dataclass(frozen=True, slots=True)
class Corpus:
    """What a reader may see, and what is known of it."""

    postings: Postings
    scope: Mask
    lengths: NDArray[np.int32]
    in_reach: int
    turns: SeenTurns | None

    def scored(
        self, terms: Sequence[int], context: Context, common_from: float, names: Collection[int] = ()
    ) -> KeywordScores:
        """Every row in reach against the query's terms.

        Names are judged apart: they say whose records are meant, and are nothing of the query that could be covered.
        """
        size = len(self.scope)
        scores, covered, common, named = (np.zeros(size, np.float32) for _ in range(4))
        total, commons = 0.0, 0
        norms = self._norms(context)
        for term in terms:
            own, counts = self._seen(self.postings.of(term))
            if term in names:
                named[own] += 1
            else:
                weight = _weight(len(own), self.in_reach)
                total += weight
                covered[own] += np.float32(weight)
            if not len(own):
                continue
            if is_common(len(own), self.in_reach, common_from):
                common[own] += 1
                commons += 1
            rows, frequency = self._spread(own, counts, context, size)
            gain = _weight(len(rows), self.in_reach) * (K1 + 1) * frequency / (frequency + norms(rows))
            scores[rows] += gain
        coverage = np.minimum(covered / np.float32(total), 1) if total else covered  # sums round differently
        return KeywordScores(
            scores, coverage, common / np.float32(max(commons, 1)), named / np.float32(max(len(names), 1))
        )

    def _seen(self, posting: Posting) -> tuple[NDArray[np.int64], Floats]:
        """The rows in reach that have a term, and how often."""
        rows, counts = posting.rows, posting.counts
        if self.in_reach < len(self.scope):
            seen = self.scope[rows]
            rows, counts = rows[seen], counts[seen]
        return rows.astype(np.int64), counts.astype(np.float32)

    def _spread(
        self, own: NDArray[np.int64], counts: Floats, context: Context, size: int
    ) -> tuple[NDArray[np.int64], Floats]:
        """The rows that have a term, or stand beside one that has it, and how much of it."""
        if self.turns is None:
            return own, counts
        frequency = np.zeros(size, np.float32)
        frequency[own] = counts
        for share, others in (
            (context.previous_words, self.turns.after(own)),
            (context.next_words, self.turns.before(own)),
        ):
            there = others >= 0
            frequency[others[there]] += np.float32(share) * counts[there]
        rows = np.flatnonzero(frequency)
        return rows, frequency[rows]

    def _norms(self, context: Context) -> Norms:
        """What a row's length, its neighbours' share included, does to how much a word in it counts."""
        seen = self.lengths if self.in_reach == len(self.scope) else self.lengths[self.scope]
        mean = max(float(seen.mean()), 1e-9)
        turns = self.turns
        if turns is not None:
            mean *= 1 + context.previous_words + context.next_words

        def norms(rows: NDArray[np.int64]) -> Floats:
            length = self.lengths[rows].astype(np.float32)
            if turns is not None:
                for share, others in (
                    (context.previous_words, turns.before(rows)),
                    (context.next_words, turns.after(rows)),
                ):
                    length += share * np.where(others >= 0, self.lengths[others], 0)
            return K1 * (1 - B + B * length / mean)

        if turns is not None or len(self.scope) > _FEW:
            return norms
        every = norms(np.arange(len(self.scope)))
        return lambda rows: every[rows]


def _weight(having: int, in_reach: int) -> float:
    """Inverse document frequency: what a term says about which record is meant."""
    return math.log1p((in_reach - having + 0.5) / (having + 0.5))
