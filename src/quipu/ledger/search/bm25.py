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

from quipu.ledger.search.seen import Seen
from quipu.ledger.search.sizes import ARRAY, ENTRY, OBJECT
from quipu.model.search import Context
from quipu.rules.names import SHARED
from quipu.rules.texts import is_common

K1 = 1.2
B = 0.75
#: How many rows what is kept of terms may name, besides eight for each row there is; and what a term takes besides.
_HELD, _BESIDES = 8192, 8

Floats = NDArray[np.float32]
#: Rows → by how much each one's length holds its words down.
Norms = Callable[[NDArray[np.int64]], Floats]


@dataclass(slots=True)
class KeywordScores:
    """What the words say of each row, as one table with a line for each of these:

    BM25; the share of the query's weight of meaning that the row's own words cover; the share of the query's common
    words that it has; and of the names in it.
    """

    table: Floats

    @property
    def scores(self) -> Floats:
        return self.table[0]


@dataclass(slots=True)
class _Term:
    """What a term adds to the rows that have it."""

    own: NDArray[np.int64]
    having: int
    weight: float
    #: The rows that have it, or stand beside one that has it, and what that adds to their scores.
    rows: NDArray[np.int64]
    gain: Floats

    @property
    def nbytes(self) -> int:
        """What keeping it takes. Its own rows may be kept by the reader too, though not for as long."""
        arrays = ARRAY + self.own.nbytes
        if self.rows is not self.own:
            arrays += ARRAY + self.rows.nbytes
        return ENTRY + 2 * OBJECT + ARRAY + self.gain.nbytes + arrays


class Corpus:
    """What a reader may see, and what is known of it. Of few rows, what was worked out for a term is kept."""

    def __init__(self, seen: Seen, context: Context) -> None:
        self._seen, self._context = seen, context
        self.turns = None if context.is_empty or not seen.has_turns else seen.turns
        self._lengths: NDArray[np.int32] = seen.partition["length"]
        self._norms = self._normed()
        self._terms: dict[int, _Term] = {}
        self._held, self._most = 0, _HELD + 8 * len(seen.mask)
        self._bytes = 0

    def scored(
        self,
        terms: Sequence[int],
        common_from: float,
        names: Collection[int] = (),
        shared_names: Collection[int] = (),
    ) -> KeywordScores:
        """Every row in reach against the query's terms.

        Names are judged apart: they say whose records are meant, and are nothing of the query that could be covered.
        """
        in_reach = self._seen.count
        table = np.zeros((4, len(self._seen.mask)), np.float32)
        scores, covered, common, named = table
        total, commons = 0.0, 0
        shared: list[NDArray[np.int64]] = []
        for number in terms:
            term = self._terms.get(number) or self._worked_out(number)
            if number in names:
                named[term.own] += 1
            elif number in shared_names:
                shared.append(term.own)
            else:
                total += term.weight
                if term.having:
                    covered[term.own] += np.float32(term.weight)
            if not term.having:
                continue
            if is_common(term.having, in_reach, common_from):
                common[term.own] += 1
                commons += 1
            scores[term.rows] += term.gain
        if total:
            covered /= np.float32(total)
            np.minimum(covered, 1, out=covered)  # sums round differently
        if commons > 1:
            common /= np.float32(commons)
        if len(names) > 1:
            named /= np.float32(len(names))
        for rows in shared:
            named[rows] = np.maximum(named[rows], np.float32(SHARED))
        return KeywordScores(table)

    def _worked_out(self, number: int) -> _Term:
        in_reach = self._seen.count
        own, counts = self._seen.having(number)
        rows, gain = own, counts
        if len(own):
            rows, frequency = self._spread(own, counts)
            most = _weight(len(rows), in_reach) * (K1 + 1)
            gain = np.asarray(most * frequency / (frequency + self._norms(rows)), np.float32)
        term = _Term(own, len(own), _weight(len(own), in_reach), rows, gain)
        if self._seen.is_small:
            self._held += _BESIDES + len(own) + len(rows)
            if self._held > self._most:
                self._terms.clear()
                self._held = 0
                self._seen.nbytes -= self._bytes
                self._bytes = 0
            self._terms[number] = term
            self._bytes += (taken := term.nbytes)
            self._seen.nbytes += taken
        return term

    def _spread(self, own: NDArray[np.int64], counts: Floats) -> tuple[NDArray[np.int64], Floats]:
        """The rows that have a term, or stand beside one that has it, and how much of it."""
        if self.turns is None:
            return own, counts
        frequency = np.zeros(len(self._seen.mask), np.float32)
        frequency[own] = counts
        for share, others in (
            (self._context.previous_words, self.turns.after(own)),
            (self._context.next_words, self.turns.before(own)),
        ):
            there = others >= 0
            frequency[others[there]] += np.float32(share) * counts[there]
        rows = np.flatnonzero(frequency)
        return rows, frequency[rows]

    def _normed(self) -> Norms:
        """What a row's length, its neighbours' share included, does to how much a word in it counts."""
        seen, context, lengths, turns = self._seen, self._context, self._lengths, self.turns
        mean = max(float((lengths if seen.is_whole else lengths[seen.mask]).mean()), 1e-9)
        if turns is not None:
            mean *= 1 + context.previous_words + context.next_words

        def norms(rows: NDArray[np.int64]) -> Floats:
            length = lengths[rows].astype(np.float32)
            if turns is not None:
                for share, others in (
                    (context.previous_words, turns.before(rows)),
                    (context.next_words, turns.after(rows)),
                ):
                    length += share * np.where(others >= 0, lengths[others], 0)
            return K1 * (1 - B + B * length / mean)

        return norms


def corpus_of(seen: Seen, context: Context) -> Corpus:
    """The corpus of a reader, kept as long as what they see is kept."""
    corpus: Corpus | None = seen.corpora.get(context)
    if corpus is None:
        corpus = seen.corpora[context] = Corpus(seen, context)
    return corpus


def _weight(having: int, in_reach: int) -> float:
    """Inverse document frequency: what a term says about which record is meant."""
    return math.log1p((in_reach - having + 0.5) / (having + 0.5))
