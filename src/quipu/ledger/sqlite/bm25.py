"""BM25 over the rows in reach, with a share of the neighbouring turns' words.

A neighbour's words count as a fraction of an occurrence, inside the saturation: a word said twice in a row is not
twice the evidence. Counts and lengths are taken over what the reader may see, so a score depends on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quipu.ledger.sqlite.postings import Mask, Postings
from quipu.ledger.sqlite.turns import SeenTurns
from quipu.model.search import Context
from quipu.rules.texts import is_common

K1 = 1.2
B = 0.75

Floats = NDArray[np.float32]
#: Rows → how long each is.
Lengths = Callable[[NDArray[np.int64]], Floats]


@dataclass(frozen=True, slots=True)
class KeywordScores:
    """BM25 per row, and the share of the query's weight of meaning that each row's own words cover."""

    scores: Floats
    coverage: Floats
    #: The share of the query's common words that each row has.
    common: Floats


@dataclass(frozen=True, slots=True)
class Corpus:
    """What a reader may see, and what is known of it."""

    postings: Postings
    scope: Mask
    lengths: NDArray[np.int32]
    in_reach: int
    turns: SeenTurns | None

    def scored(self, terms: Sequence[int], context: Context, common_from: float) -> KeywordScores:
        """Every row in reach against the query's terms."""
        size = len(self.scope)
        scores, covered, common = (np.zeros(size, np.float32) for _ in range(3))
        total, commons = 0.0, 0
        lengths, mean = self._lengths(context)
        for term in terms:
            posting = self.postings.of(term)
            seen = self.scope[posting.rows]
            own, counts = posting.rows[seen].astype(np.int64), posting.counts[seen].astype(np.float32)
            weight = _weight(len(own), self.in_reach)
            total += weight
            if not len(own):
                continue
            covered[own] += np.float32(weight)
            if is_common(len(own), self.in_reach, common_from):
                common[own] += 1
                commons += 1
            rows, frequency = self._spread(own, counts, context, size)
            norm = K1 * (1 - B + B * lengths(rows) / mean)
            gain = _weight(len(rows), self.in_reach) * (K1 + 1) * frequency / (frequency + norm)
            scores[rows] += gain.astype(np.float32)
        coverage = np.minimum(covered / np.float32(total), 1) if total else covered  # sums round differently
        return KeywordScores(scores, coverage, common / np.float32(max(commons, 1)))

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

    def _own_lengths(self, rows: NDArray[np.int64]) -> Floats:
        return self.lengths[rows].astype(np.float32)

    def _lengths(self, context: Context) -> tuple[Lengths, float]:
        """How long a row is, its neighbours' share included, and how long they are on average."""
        mean = max(float(self.lengths[self.scope].mean()), 1e-9)
        turns = self.turns
        if turns is None:
            return self._own_lengths, mean

        def mixed(rows: NDArray[np.int64]) -> Floats:
            length = self._own_lengths(rows)
            for share, others in (
                (context.previous_words, turns.before(rows)),
                (context.next_words, turns.after(rows)),
            ):
                length += share * np.where(others >= 0, self.lengths[others], 0)
            return length

        return mixed, mean * (1 + context.previous_words + context.next_words)


def _weight(having: int, in_reach: int) -> float:
    """Inverse document frequency: what a term says about which record is meant."""
    return float(np.log1p((in_reach - having + 0.5) / (having + 0.5)))
