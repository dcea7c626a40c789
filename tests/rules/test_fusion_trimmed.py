"""Whose votes count: what is left out, and that a minority that lies moves nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.model.operations import Fusion
from quipu.rules.fusion import Fused, Vote, fused, trimmed, votes_for
from quipu.rules.fusion_trimmed import OUTVOTED
from tests.requirement import requirement


def votes(*ids: str) -> list[Vote]:
    return [Vote(id=id, similarity=0.5, relevance=0.5) for id in ids]


def ids(items: Sequence[Fused]) -> list[str]:
    return [item.id for item in items]


def scores(lists: Mapping[str, Sequence[Vote]], trusted: str | None = None) -> dict[str, float]:
    return {item.id: item.score for item in fused(lists, Fusion.RRF, trusted=trusted)}


# Among equals


def test_the_middle_votes_are_left() -> None:
    lists = {"a": votes("x"), "b": votes("q", "x"), "c": votes("r", "s", "x")}
    item = next(item for item in fused(lists, Fusion.RRF) if item.id == "x")
    assert item.score == pytest.approx(1 / 61)
    assert item.untrimmed == pytest.approx(1 / 60 + 1 / 61 + 1 / 62)


def test_of_three_and_four_the_second_best_vote_counts_and_of_five_and_six_the_third() -> None:
    four = {"a": votes("x"), "b": votes("q", "x"), "c": votes("q", "r", "x"), "d": votes("q")}
    assert scores(four)["x"] == pytest.approx(1 / 61)
    assert scores({**four, "e": votes("x")})["x"] == pytest.approx(1 / 61)
    assert scores({**four, "e": votes("q"), "f": []})["x"] == pytest.approx(1 / 62)
    assert votes_for("x", four, trimmed(four, Fusion.RRF))["left_out"] == ["a", "c"]


def test_of_an_even_number_nobody_has_the_casting_vote_by_leaving_out() -> None:
    """Two of three honest peers have the right answer first; the liar pushes what all of them have further down."""
    lists = {
        "a": votes("gold", "p", "x"),
        "b": votes("gold", "q", "x"),
        "c": votes("r", "s", "x"),
        "liar": votes("x"),
    }
    assert ids(fused(lists, Fusion.RRF))[0] == "gold"


def test_a_vote_that_stands_alone_is_outvoted_and_such_items_keep_the_order_of_the_plain_sum() -> None:
    foreign = Vote(id="z", similarity=0.5, relevance=0.5, foreign=True)
    items = fused({"a": [foreign, *votes("y")], "b": [], "c": []}, Fusion.RRF)
    assert [(item.id, item.score) for item in items] == [
        ("z", pytest.approx(OUTVOTED / 60)),
        ("y", pytest.approx(OUTVOTED / 61)),
    ]


def test_what_only_one_peer_knows_is_found_where_places_are_free() -> None:
    lists = {"a": votes("x", "y"), "b": votes("x"), "c": votes("only", "x")}
    assert ids(fused(lists, Fusion.RRF)) == ["x", "only", "y"]
    assert ids(fused(lists, Fusion.RRF, quorum_k=2)) == ["x"], "a quorum asks for more"


@pytest.mark.parametrize("method", Fusion)
def test_peers_that_share_nothing_are_ranked_by_the_plain_sum(method: Fusion) -> None:
    lists = {"home": votes("h1", "h2"), "work": votes("w1", "w2"), "club": votes("c1", "c2")}
    assert ids(fused(lists, method)) == ids(fused(lists, method, trim_votes=False))


@pytest.mark.parametrize("method", Fusion)
def test_only_rrf_leaves_votes_out_and_only_among_three(method: Fusion) -> None:
    two = {"a": votes("x"), "b": votes("x", "y")}
    assert fused(two, method) == fused(two, method, trim_votes=False)
    three = {**two, "c": votes("y")}
    assert (fused(three, method) == fused(three, method, trim_votes=False)) == (method is not Fusion.RRF)


def test_switched_off_it_is_the_published_sum() -> None:
    lists = {"a": votes("x", "y"), "b": votes("y"), "c": votes("y", "x")}
    found = {item.id: item.score for item in fused(lists, Fusion.RRF, trim_votes=False, trusted="a")}
    assert found == {"x": pytest.approx(1 / 60 + 1 / 61), "y": pytest.approx(1 / 61 + 2 / 60)}


# Beside a ledger


def test_what_the_ledger_found_stands_in_its_order_and_what_others_found_comes_behind() -> None:
    lists = {"ledger": votes("x", "y"), "mirror": votes("new", "y", "other")}
    assert ids(fused(lists, Fusion.RRF, trusted="ledger")) == ["x", "y", "new", "other"]
    assert scores(lists, "ledger")["y"] == pytest.approx(1 / 61), "as though it were alone"
    more = {**lists, "second": votes("other", "new"), "third": votes("other")}
    assert ids(fused(more, Fusion.RRF, trusted="ledger")) == ["x", "y", "other", "new"]


def test_one_that_has_no_vote_cannot_be_believed() -> None:
    lists = {"a": votes("x", "y"), "b": votes("y", "x"), "c": votes("y")}
    assert fused(lists, Fusion.RRF, trusted="ledger") == fused(lists, Fusion.RRF)


# What is told


def test_explain_names_places_and_whose_votes_were_left_out() -> None:
    lists = {"a": votes("x"), "b": votes("q", "x"), "c": votes("r", "s", "x")}
    trim = trimmed(lists, Fusion.RRF)
    places = {"a": 1, "b": 2, "c": 3}
    assert votes_for("x", lists, trim) == {"places": places, "left_out": ["a", "c"], "outvoted": False}
    assert votes_for("q", lists, trim) == {"places": {"b": 1}, "left_out": ["b"], "outvoted": True}
    assert votes_for("x", lists, None) == {"places": places, "left_out": [], "outvoted": False}
    trusting = trimmed(lists, Fusion.RRF, "b")
    assert votes_for("x", lists, trusting) == {
        "places": places,
        "left_out": ["a", "c"],
        "outvoted": False,
    }
    assert votes_for("r", lists, trusting) == {"places": {"c": 1}, "left_out": ["c"], "outvoted": True}


# Properties

SOME = st.lists(st.sampled_from("abcdefghijkl"), max_size=12)
TRUE = st.lists(st.sampled_from("abcdefghijkl"), unique=True, max_size=8)


@requirement("memorywire:router.adversarial")
@given(TRUE, st.integers(2, 5), st.data())
def test_no_minority_changes_what_a_majority_that_agrees_returns(
    true: list[str], honest: int, data: st.DataObject
) -> None:
    rogues = data.draw(st.integers(1, honest - 1))
    names = data.draw(st.permutations([f"n{number}" for number in range(honest + rogues)]))
    lists = {name: votes(*true) for name in names[:honest]}
    for name in names[honest:]:
        lists[name] = votes(
            *data.draw(st.one_of(SOME, SOME.map(lambda found: [f"new-{id}" for id in found])))
        )
    assert ids(fused(lists, Fusion.RRF))[: len(true)] == true


@requirement("memorywire:router.adversarial")
@given(TRUE, st.lists(SOME, min_size=1, max_size=4), st.integers(1, 3))
def test_nobody_beside_a_ledger_changes_what_it_returns(
    true: list[str], others: list[list[str]], quorum_k: int
) -> None:
    lists = {"ledger": votes(*true), **{f"m{n}": votes(*found) for n, found in enumerate(others)}}
    alone = fused({"ledger": votes(*true)}, Fusion.RRF)
    found = fused(lists, Fusion.RRF, trusted="ledger")
    assert [(item.id, item.score) for item in found][: len(true)] == [(item.id, item.score) for item in alone]
    if len(others) + 1 >= quorum_k:
        kept = fused(lists, Fusion.RRF, trusted="ledger", quorum_k=quorum_k)
        assert kept == [item for item in found if len(item.backends) >= quorum_k]


@given(
    st.dictionaries(st.sampled_from("vwxyz"), SOME, max_size=5),
    st.sampled_from((None, "v", "z")),
    st.randoms(use_true_random=False),
)
def test_the_order_of_peers_does_not_matter_and_nothing_is_lost(
    found: dict[str, list[str]], trusted: str | None, random: Random
) -> None:
    lists = {name: votes(*each) for name, each in found.items()}
    names = list(lists)
    random.shuffle(names)
    order = fused(lists, Fusion.RRF, trusted=trusted)
    assert fused({name: lists[name] for name in names}, Fusion.RRF, trusted=trusted) == order
    assert set(ids(order)) == {id for each in found.values() for id in each}
    assert all(item.score > 0 for item in order), "confidence and standing still count among the outvoted"
