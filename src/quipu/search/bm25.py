"""BM25 over the rows in reach, with a share of the neighbouring turns' words.

A neighbour's words count as a fraction of an occurrence, inside the saturation: a word said twice in a row is not twice
the evidence. Counts and lengths are taken over what the reader may see, so a score depends on nothing else.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from quipu.model.search import SessionContext
from quipu.search.arrays import Floats, Rows
from quipu.search.query import SHARED_NAME
from quipu.search.terms import Words
from quipu.search.text import is_stop_word
from quipu.search.turns import VisibleTurns
from quipu.search.visibility import Visible

K1 = 1.2
B = 0.75
#: What long turns have of a neighbour's word is nothing.
_TRACE = 0.01


@dataclass(frozen=True, slots=True)
class KeywordScores:
    """What the words say of each row, as one table with a line for each of these:

    BM25; the share of the query's weight of meaning that the row's own words cover, and the same without people's names;
    and the share of the users' names in it.
    """

    table: Floats

    @property
    def scores(self) -> Floats:
        return self.table[0]


def query_terms(words: Words) -> list[int]:
    """The distinct terms of a query's content words, or of all its words when it has no others.

    Stop words are recognised as they are written: stemmed, a name can become one.
    """
    content = [terms for word, terms in words if not is_stop_word(word)]
    chosen = content or [terms for _, terms in words]
    return list(dict.fromkeys(term for terms in chosen for term in terms))


def keyword_scores(
    visible: Visible,
    context: SessionContext,
    terms: Sequence[int],
    people: Collection[int] = (),
    names: Collection[int] = (),
    shared_names: Collection[int] = (),
) -> KeywordScores:
    """Every row in reach against the query's terms.

    `people` are names of any kind, `names` those of users, `shared_names` users' names that may be ordinary words.
    """
    turns = None if context.is_empty or not visible.has_turns else visible.turns
    table = np.zeros((4, len(visible.mask)), np.float32)
    scores, covered, told, named = table
    total = total_told = 0.0
    having_shared_names: list[Rows] = []
    for term in terms:
        own, counts = visible.having(term)
        weight = _weight(len(own), visible.count)
        total += weight
        covered[own] += np.float32(weight)
        if term in names:
            named[own] += 1
        elif term in shared_names:
            having_shared_names.append(own)
        if term not in people:
            total_told += weight
            told[own] += np.float32(weight)
        if not len(own):
            continue
        rows, frequency = _spread(own, counts, visible, turns, context)
        most = _weight(len(rows), visible.count) * (K1 + 1)
        scores[rows] += most * frequency / (frequency + _norms(visible, rows, turns, context))
    if not total_told:  # nothing but names: then those are what is asked for
        told[:], total_told = covered, total
    for share, whole in ((covered, total), (told, total_told)):
        if whole:
            share /= np.float32(whole)
            np.minimum(share, 1, out=share)  # sums round differently
    if len(names) > 1:
        named /= np.float32(len(names))
    for rows in having_shared_names:
        named[rows] = np.maximum(named[rows], np.float32(SHARED_NAME))
    return KeywordScores(table)


def _spread(
    own: Rows, counts: Floats, visible: Visible, turns: VisibleTurns | None, context: SessionContext
) -> tuple[Rows, Floats]:
    """The rows that have a term, or stand next to one that has it, and how much of it."""
    if turns is None:
        return own, counts
    frequency = np.zeros(len(visible.mask), np.float32)
    frequency[own] = counts
    for share, others in (
        (context.previous_words, turns.after(own)),
        (context.next_words, turns.before(own)),
    ):
        there = others >= 0
        frequency[others[there]] += np.float32(share) * visible.brevity[others[there]] * counts[there]
    rows = np.flatnonzero(frequency > _TRACE)
    return rows, frequency[rows]


def _norms(visible: Visible, rows: Rows, turns: VisibleTurns | None, context: SessionContext) -> Floats:
    """By how much each row's length, its neighbours' share included, holds down what a word in it counts."""
    lengths = visible.partition["length"]
    length = lengths[rows].astype(np.float32)
    mean: float | Floats = max(visible.mean_length, 1e-9)
    if turns is not None:
        brevity = visible.brevity[rows]
        mean = mean * (1 + (context.previous_words + context.next_words) * brevity)
        for share, others in (
            (context.previous_words, turns.before(rows)),
            (context.next_words, turns.after(rows)),
        ):
            length += share * brevity * np.where(others >= 0, lengths[others], 0)
    return K1 * (1 - B + B * length / mean)


def _weight(having: int, in_reach: int) -> float:
    """Inverse document frequency: what a term says about which record is meant."""
    return math.log1p((in_reach - having + 0.5) / (having + 0.5))
