"""The bench measures what it says it measures."""

from __future__ import annotations

import math

import pytest

from bench import labelled, locomo, metrics
from bench.metrics import Answer


def test_recall_counts_the_share_of_gold_ids() -> None:
    assert metrics.recall_at(["a", "b", "c"], {"a", "c", "z"}, 2) == pytest.approx(1 / 3)
    assert metrics.recall_at(["a", "b", "c"], {"a", "c", "z"}, 3) == pytest.approx(2 / 3)
    assert metrics.recall_at([], {"a"}, 5) == 0.0


def test_a_query_without_gold_has_no_recall() -> None:
    with pytest.raises(ValueError, match="no-match"):
        metrics.recall_at(["a"], [], 5)


def test_hit_and_complete() -> None:
    assert metrics.hit_at(["a", "b"], {"b", "c"}, 2) == 1.0
    assert metrics.hit_at(["a", "b"], {"b", "c"}, 1) == 0.0
    assert metrics.complete_at(["a", "b"], {"b", "c"}, 2) == 0.0
    assert metrics.complete_at(["c", "b"], {"b", "c"}, 2) == 1.0


def test_reciprocal_rank_is_of_the_first_gold() -> None:
    assert metrics.reciprocal_rank(["x", "a", "b"], {"a", "b"}) == 0.5
    assert metrics.reciprocal_rank(["x"], {"a"}) == 0.0


def test_ndcg_is_one_only_for_the_ideal_order() -> None:
    assert metrics.ndcg_at(["a", "b", "x"], {"a", "b"}, 5) == pytest.approx(1.0)
    assert metrics.ndcg_at(["x", "a", "b"], {"a", "b"}, 5) == pytest.approx(
        (1 / math.log2(3) + 0.5) / (1 + 1 / math.log2(3))
    )


def test_precision_divides_by_what_was_returned() -> None:
    assert metrics.precision_at(["a", "x"], {"a"}, 5) == 0.5
    assert metrics.precision_at(["a", "x", "y", "z", "w", "a2"], {"a"}, 5) == 0.2
    assert metrics.precision_at([], {"a"}, 5) == 0.0


def test_percentile_interpolates() -> None:
    assert metrics.percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5
    assert metrics.percentile([5.0], 0.95) == 5.0
    assert math.isnan(metrics.percentile([], 0.5))
    with pytest.raises(ValueError, match="share"):
        metrics.percentile([1.0], 50)


def test_empty_rates_look_at_their_own_queries() -> None:
    given = [
        Answer("exact", ["a"], {"a"}),
        Answer("exact", [], {"b"}),
        Answer("none_known", [], set()),
        Answer("none_known", ["x"], set()),
    ]
    assert metrics.false_empty_rate(given) == 0.5
    assert metrics.no_match_rate(given) == 0.5
    summary = metrics.quality(given)
    assert summary["recall@5"] == 0.5
    assert summary["no_match_correct"] == 1.0
    assert summary["no_match_asked"] == 2.0


def test_evidence_share_by_kind_and_over_all() -> None:
    given = [
        Answer("temporal", ["a", "x"], {"a", "b"}),
        Answer("multi-hop", ["c"], {"c"}),
        Answer("multi-hop", ["c"], set()),
    ]
    table = metrics.evidence_share(given, ks=(1, 2))
    assert table["all"] == {"@1": 0.75, "@2": 0.75, "n": 2.0}
    assert table["temporal"]["@1"] == 0.5
    assert metrics.pooled_evidence_share(given, 5) == pytest.approx(2 / 3)


def test_the_corpus_is_as_described() -> None:
    assert labelled.faults() == []


def test_evidence_is_split_and_the_rest_counted() -> None:
    dropped = locomo.Dropped()
    present = {"D8:6", "D9:17", "D1:1"}
    assert locomo.evidence_ids(["D8:6; D9:17", "D:11:26", "D4:36", "D1:1 D8:6"], present, dropped) == (
        "D8:6",
        "D9:17",
        "D1:1",
    )
    assert (dropped.malformed, dropped.absent) == (1, 1)


def test_session_times_are_utc_milliseconds() -> None:
    assert locomo.session_time("1:56 pm on 8 May, 2023") == 1683554160000
