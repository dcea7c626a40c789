"""One ranking from several: what each method believes, how ties fall, and what one backend can do to the others."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import BackendUnavailableError, InvalidError
from quipu.search.fusion import Fused, Fusion, Vote, check_quorum, final_score, fused, ordered

METHODS = get_args(Fusion)


def vote(id: str, score: float = 0.5, relevance: float = 0.5, is_foreign: bool = False) -> Vote:
    return Vote(id=id, score=score, relevance=relevance, is_foreign=is_foreign)


def ids(items: Sequence[Fused]) -> list[str]:
    return [item.id for item in items]


def test_rrf_adds_one_share_for_each_ranking() -> None:
    first, second, third = fused({"a": [vote("x"), vote("y")], "b": [vote("z"), vote("y"), vote("x")]}, "rrf")
    assert (first.id, first.score) == ("x", pytest.approx(1 / 60 + 1 / 62))
    assert (second.id, second.score) == ("y", pytest.approx(2 / 61))
    assert (third.id, third.score) == ("z", pytest.approx(1 / 60))


def test_max_takes_the_largest_score_and_weighted_their_sum() -> None:
    rankings = {"a": [vote("x", 0.2), vote("y", 0.8)], "b": [vote("x", 0.9)]}
    assert [(item.id, item.score) for item in fused(rankings, "max")] == [("x", 0.9), ("y", 0.8)]
    scores = {item.id: item.score for item in fused(rankings, "weighted", {"b": 0.5})}
    assert scores == {"x": pytest.approx(0.65), "y": pytest.approx(0.8)}


@pytest.mark.parametrize("method", ["max", "weighted"])
@pytest.mark.parametrize(
    ("claimed", "worth"), [(1e9, 1.0), (float("inf"), 1.0), (-3.0, 0.0), (float("nan"), 0.0)]
)
def test_a_claimed_score_is_held_within_bounds(method: Fusion, claimed: float, worth: float) -> None:
    assert fused({"a": [vote("x", claimed)]}, method)[0].score == worth


def test_an_id_that_a_backend_repeats_counts_once_and_pushes_nobody_down() -> None:
    once = fused({"a": [vote("x"), vote("y")]}, "rrf")
    assert fused({"a": [vote("x"), vote("x"), vote("x"), vote("y")]}, "rrf") == once
    assert fused({"a": [vote("x", 0.2), vote("x", 0.9)]}, "max")[0].score == 0.2


@pytest.mark.parametrize(
    ("rankings", "weights", "first"),
    [
        pytest.param(
            {"a": [vote("x", is_foreign=True)], "b": [vote("y")]}, {}, "y", id="known before foreign"
        ),
        pytest.param(
            {"a": [vote("x", 1.0)], "b": [vote("y", 0.6)], "c": [vote("y", 0.4)]}, {}, "y", id="in more"
        ),
        pytest.param(
            {"a": [vote("q", 0.0), vote("x", 0.7)], "b": [vote("y", 0.7)]}, {}, "y", id="better best rank"
        ),
        pytest.param(
            {"a": [vote("x", 0.5)], "b": [vote("y", 0.25)]}, {"b": 2.0}, "y", id="higher summed weight"
        ),
        pytest.param({"a": [vote("x")], "b": [vote("y", relevance=0.6)]}, {}, "y", id="higher relevance"),
        pytest.param({"a": [vote("y")], "b": [vote("x")]}, {}, "x", id="smaller id"),
        pytest.param(
            {"a": [vote("x", 0.5 + 1e-14)], "b": [vote("y", 0.5, relevance=0.9)]}, {}, "y", id="equal to 12"
        ),
        pytest.param(
            {"a": [vote("x", 0.5 + 1e-11)], "b": [vote("y", 0.5, relevance=0.9)]}, {}, "x", id="not equal"
        ),
    ],
)
def test_ties_are_broken_in_order(
    rankings: Mapping[str, list[Vote]], weights: Mapping[str, float], first: str
) -> None:
    assert fused(rankings, "weighted", weights)[0].id == first


def test_with_a_quorum_only_what_enough_backends_returned_counts_and_nothing_foreign() -> None:
    rankings = {"a": [vote("x"), vote("y")], "b": [vote("y")], "c": [vote("y"), vote("x")]}
    assert set(ids(fused(rankings, "rrf", quorum_k=2))) == {"x", "y"}
    assert ids(fused(rankings, "rrf", quorum_k=3)) == ["y"]
    foreign = {"a": [vote("x", is_foreign=True)], "b": [vote("x", is_foreign=True)]}
    assert ids(fused(foreign, "rrf")) == ["x"]
    assert fused(foreign, "rrf", quorum_k=2) == []


def test_a_quorum_that_cannot_be_reached_is_said_to_be_the_callers_or_the_backends_fault() -> None:
    check_quorum(2, configured=2, answered=2)
    with pytest.raises(InvalidError):
        check_quorum(3, configured=2, answered=2)
    with pytest.raises(BackendUnavailableError) as refused:
        check_quorum(2, configured=3, answered=1)
    assert refused.value.reason == "quorum_unreachable"


@pytest.mark.parametrize(
    ("hop", "confidence", "is_demoted", "score"),
    [
        (1.0, 1.0, False, 0.5),
        (1.05, 1.0, False, 0.525),
        (1.0, 0.5, False, 0.45),
        (1.0, 1.0, True, 0.125),
        (1.05, 0.0, True, 0.105),
    ],
)
def test_hop_confidence_and_demotion_multiply_the_score(
    hop: float, confidence: float, is_demoted: bool, score: float
) -> None:
    assert final_score(0.5, hop, confidence, is_demoted) == pytest.approx(score)


def test_the_final_score_decides_foreign_hits_come_last_and_ties_fall_as_in_fusion() -> None:
    x, y = fused({"a": [vote("x"), vote("y")]}, "rrf")
    assert ordered([(x, 0.1), (y, 0.2)]) == [(y, 0.2), (x, 0.1)]
    assert ordered([(y, 0.1), (x, 0.1)]) == [(x, 0.1), (y, 0.1)]
    items = fused({"a": [vote("x", 0.9, is_foreign=True), vote("y", 0.8), vote("z", 0.7)]}, "max")
    assert [item.id for item, _ in ordered([(item, item.score) for item in items])] == ["y", "z", "x"]


# -- properties ----------------------------------------------------------------------------------------------------------

SCORES = st.floats(0, 1)
VOTES = st.builds(vote, st.sampled_from("uvwxyz"), SCORES, st.sampled_from((0.25, 0.5)), st.booleans())
RANKINGS = st.dictionaries(st.sampled_from("abcde"), st.lists(VOTES, max_size=6), max_size=5)
WEIGHTS = st.dictionaries(st.sampled_from("abc"), st.floats(0, 3))


@given(
    RANKINGS,
    st.sampled_from(METHODS),
    WEIGHTS,
    st.sampled_from((None, "a", "b")),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_the_order_of_backends_never_matters(
    rankings: dict[str, list[Vote]],
    method: Fusion,
    weights: dict[str, float],
    trusted: str | None,
    quorum_k: int,
    random: Random,
) -> None:
    names = list(rankings)
    random.shuffle(names)
    shuffled = {name: rankings[name] for name in names}
    assert fused(shuffled, method, weights, quorum_k=quorum_k, trusted=trusted) == fused(
        rankings, method, weights, quorum_k=quorum_k, trusted=trusted
    )


@given(RANKINGS, st.data())
def test_reported_scores_play_no_part_in_rrf(rankings: dict[str, list[Vote]], data: st.DataObject) -> None:
    lied = {
        name: [replace(each, score=data.draw(SCORES)) for each in votes] for name, votes in rankings.items()
    }
    assert fused(lied, "rrf") == fused(rankings, "rrf")


@given(RANKINGS, st.sampled_from(METHODS))
def test_every_item_appears_once_best_first(rankings: dict[str, list[Vote]], method: Fusion) -> None:
    items = fused(rankings, method)
    assert sorted(ids(items)) == sorted({each.id for votes in rankings.values() for each in votes})
    scores = [round(item.score, 12) for item in items]
    assert scores == sorted(scores, reverse=True)


@given(RANKINGS, st.sampled_from(METHODS), st.integers(2, 5))
def test_a_quorum_only_takes_away(rankings: dict[str, list[Vote]], method: Fusion, quorum_k: int) -> None:
    assert fused(rankings, method, quorum_k=quorum_k) == [
        item for item in fused(rankings, method) if len(item.backends) >= quorum_k and not item.is_foreign
    ]


@given(RANKINGS, st.sampled_from("abc"))
def test_the_order_of_a_trusted_backend_stands_whatever_the_others_say(
    rankings: dict[str, list[Vote]], trusted: str
) -> None:
    own = list(dict.fromkeys(each.id for each in rankings.get(trusted, ())))
    order = ids(fused(rankings, "rrf", trusted=trusted))
    if len(rankings) > 1 and own:
        assert order[: len(own)] == own
