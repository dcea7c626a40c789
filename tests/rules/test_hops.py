"""Link distance between found memories."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.rules.hops import MAX_SUPPORTING, Nearness, distances, factor

CHAIN = {"a": frozenset({"b"}), "b": frozenset({"c"}), "c": frozenset({"d"}), "d": frozenset({"e"})}


def test_a_link_counts_in_both_directions() -> None:
    assert distances({"a": frozenset({"b"})}, ["a", "b"], 1) == {
        "a": Nearness(1, ("b",)),
        "b": Nearness(1, ("a",)),
    }


def test_a_way_may_lead_through_records_that_were_not_found() -> None:
    assert distances(CHAIN, ["a", "c"], 2) == {"a": Nearness(2, ("c",)), "c": Nearness(2, ("a",))}
    assert distances(CHAIN, ["a", "d"], 3)["a"].distance == 3


def test_nothing_is_near_beyond_the_hops() -> None:
    assert distances(CHAIN, ["a", "d"], 2) == {}
    assert distances(CHAIN, ["a", "b"], 0) == {}


def test_a_record_is_not_its_own_neighbour() -> None:
    assert distances({"a": frozenset({"a"})}, ["a"], 3) == {}


def test_supporting_lists_the_nearest_first_and_then_by_id() -> None:
    neighbours = {"m": frozenset({"z", "b"}), "z": frozenset({"a"})}
    assert distances(neighbours, ["m", "z", "b", "a"], 3)["m"] == Nearness(1, ("b", "z", "a"))


def test_supporting_lists_at_most_ten() -> None:
    others = [f"r{number:02}" for number in range(15)]
    near = distances({"m": frozenset(others)}, ["m", *others], 3)["m"]
    assert near == Nearness(1, tuple(others[:MAX_SUPPORTING]))


@pytest.mark.parametrize(("distance", "boost"), [(1, 1.05), (2, 1.0333), (3, 1.025)])
def test_a_nearer_neighbour_is_worth_more(distance: int, boost: float) -> None:
    assert factor(distance) == pytest.approx(boost, abs=5e-5)


NODES = st.sampled_from("abcdefgh")
GRAPHS = st.dictionaries(NODES, st.frozensets(NODES, max_size=3))


@given(GRAPHS, st.frozensets(NODES), st.integers(0, 3))
def test_distances_are_those_of_the_shortest_ways(
    graph: dict[str, frozenset[str]], members: frozenset[str], hops: int
) -> None:
    lengths = {(a, b): 0 if a == b else 99 for a in "abcdefgh" for b in "abcdefgh"}
    for a, others in graph.items():
        for b in others - {a}:
            lengths[a, b] = lengths[b, a] = 1
    for via in "abcdefgh":
        for a in "abcdefgh":
            for b in "abcdefgh":
                lengths[a, b] = min(lengths[a, b], lengths[a, via] + lengths[via, b])
    expected = {}
    for member in members:
        near = sorted(
            (lengths[member, other], other) for other in members - {member} if lengths[member, other] <= hops
        )
        if near:
            expected[member] = Nearness(near[0][0], tuple(other for _, other in near))
    assert distances(graph, members, hops) == expected


@given(GRAPHS, st.frozensets(NODES), st.integers(1, 3))
def test_nothing_new_is_introduced(
    graph: dict[str, frozenset[str]], members: frozenset[str], hops: int
) -> None:
    for member, near in distances(graph, members, hops).items():
        assert {member, *near.supporting} <= members
        assert member not in near.supporting
        assert 1 <= near.distance <= hops
