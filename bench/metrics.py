"""Retrieval metrics as pure functions over ranked ids and gold ids.

A ranking is a sequence of ids, best first; gold is the set of ids that answer the query. A query without
gold ids has no recall: it belongs to the no-match rate, and the functions here refuse it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass


def _checked(gold: Collection[str]) -> set[str]:
    """The gold ids as a set; refuses a query without any."""
    if not gold:
        raise ValueError("a query without gold ids has no recall: count it in the no-match rate")
    return set(gold)


def recall_at(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """The share of gold ids among the first k."""
    wanted = _checked(gold)
    return len(wanted.intersection(ranked[:k])) / len(wanted)


def hit_at(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """1.0 when any gold id is among the first k, else 0.0."""
    return 1.0 if _checked(gold).intersection(ranked[:k]) else 0.0


def complete_at(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """1.0 when all gold ids are among the first k, else 0.0."""
    return 1.0 if _checked(gold).issubset(ranked[:k]) else 0.0


def precision_at(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """The share of the returned ids, at most k of them, that are gold; 0.0 when nothing was returned."""
    wanted = _checked(gold)
    shown = ranked[:k]
    return sum(1 for one in shown if one in wanted) / len(shown) if shown else 0.0


def reciprocal_rank(ranked: Sequence[str], gold: Collection[str]) -> float:
    """1 / rank of the first gold id, 0.0 when none was returned."""
    wanted = _checked(gold)
    for rank, one in enumerate(ranked, start=1):
        if one in wanted:
            return 1.0 / rank
    return 0.0


def ndcg_at(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """Normalised discounted cumulative gain over the first k, with gains of 0 and 1."""
    wanted = _checked(gold)
    gain = sum(1.0 / math.log2(rank + 1) for rank, one in enumerate(ranked[:k], start=1) if one in wanted)
    ideal = sum(1.0 / math.log2(rank + 1) for rank in range(1, min(k, len(wanted)) + 1))
    return gain / ideal


def random_recall_at(k: int, candidates: int) -> float:
    """The expected recall@k of a random order over so many candidates."""
    return min(1.0, k / candidates)


def mean(values: Iterable[float]) -> float:
    """The arithmetic mean; NaN for no values."""
    kept = list(values)
    return math.fsum(kept) / len(kept) if kept else math.nan


def percentile(values: Iterable[float], share: float) -> float:
    """The value below which `share` (0..1) of the values lie, linearly interpolated; NaN for no values."""
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"a share lies between 0 and 1, not {share}")
    kept = sorted(values)
    if not kept:
        return math.nan
    position = share * (len(kept) - 1)
    low = math.floor(position)
    high = math.ceil(position)
    return kept[low] + (kept[high] - kept[low]) * (position - low)


def latency_summary(millis: Iterable[float]) -> dict[str, float]:
    """p50, p95, p99 and the number of the given times in milliseconds."""
    kept = list(millis)
    return {
        "p50_ms": percentile(kept, 0.50),
        "p95_ms": percentile(kept, 0.95),
        "p99_ms": percentile(kept, 0.99),
        "n": float(len(kept)),
    }


@dataclass(frozen=True)
class Answer:
    """What one query returned, and what it should have."""

    kind: str
    ranked: Sequence[str]
    gold: Collection[str]

    @property
    def is_answerable(self) -> bool:
        return bool(self.gold)


def no_match_rate(answers: Iterable[Answer]) -> float:
    """Among queries without gold: the share answered with nothing."""
    return mean(float(not one.ranked) for one in answers if not one.is_answerable)


def false_empty_rate(answers: Iterable[Answer]) -> float:
    """Among queries with gold: the share answered with nothing."""
    return mean(float(not one.ranked) for one in answers if one.is_answerable)


def quality(answers: Sequence[Answer]) -> dict[str, float]:
    """All corpus measures over a set of answers."""
    asked = [one for one in answers if one.is_answerable]
    empty = [one for one in answers if not one.is_answerable]
    return {
        "recall@1": mean(recall_at(one.ranked, one.gold, 1) for one in asked),
        "recall@3": mean(recall_at(one.ranked, one.gold, 3) for one in asked),
        "recall@5": mean(recall_at(one.ranked, one.gold, 5) for one in asked),
        "hit@1": mean(hit_at(one.ranked, one.gold, 1) for one in asked),
        "mrr": mean(reciprocal_rank(one.ranked, one.gold) for one in asked),
        "ndcg@5": mean(ndcg_at(one.ranked, one.gold, 5) for one in asked),
        "precision@5": mean(precision_at(one.ranked, one.gold, 5) for one in asked),
        "false_empty": false_empty_rate(asked),
        "no_match": no_match_rate(empty),
        "no_match_correct": float(sum(not one.ranked for one in empty)),
        "no_match_asked": float(len(empty)),
    }


def evidence_share(
    answers: Sequence[Answer], ks: Sequence[int] = (5, 10, 25)
) -> Mapping[str, dict[str, float]]:
    """Mean share of evidence returned at each k, by kind and over `all`; answers without evidence are left out."""
    asked = [one for one in answers if one.is_answerable]
    table: dict[str, dict[str, float]] = {}
    for kind in ["all", *sorted({one.kind for one in asked})]:
        chosen = [one for one in asked if kind in ("all", one.kind)]
        row = {f"@{k}": mean(recall_at(one.ranked, one.gold, k) for one in chosen) for k in ks}
        row["n"] = float(len(chosen))
        table[kind] = row
    return table


def pooled_evidence_share(answers: Sequence[Answer], k: int) -> float:
    """Evidence ids returned over evidence ids asked for, pooled over all questions."""
    asked = [one for one in answers if one.is_answerable]
    found = sum(len(set(one.gold).intersection(one.ranked[:k])) for one in asked)
    wanted = sum(len(set(one.gold)) for one in asked)
    return found / wanted if wanted else math.nan
