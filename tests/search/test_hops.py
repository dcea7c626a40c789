"""Link distance between found memories, and where the best of them lead."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.model.search import Candidate, SharedWord
from quipu.search.blending import Blended
from quipu.search.hops import MAX_SUPPORTING, LinkDistance, distances, factor, leaders, led_on

CHAIN = {"a": frozenset({"b"}), "b": frozenset({"c"}), "c": frozenset({"d"}), "d": frozenset({"e"})}


def test_a_link_counts_in_both_directions() -> None:
    assert distances({"a": frozenset({"b"})}, ["a", "b"], 1) == {
        "a": LinkDistance(1, ("b",)),
        "b": LinkDistance(1, ("a",)),
    }


def test_a_way_may_lead_through_records_that_were_not_found() -> None:
    assert distances(CHAIN, ["a", "c"], 2) == {"a": LinkDistance(2, ("c",)), "c": LinkDistance(2, ("a",))}
    assert distances(CHAIN, ["a", "d"], 3)["a"].distance == 3


def test_nothing_is_near_beyond_the_hops() -> None:
    assert distances(CHAIN, ["a", "d"], 2) == {}
    assert distances(CHAIN, ["a", "b"], 0) == {}


def test_a_record_is_not_its_own_neighbour() -> None:
    assert distances({"a": frozenset({"a"})}, ["a"], 3) == {}


def test_supporting_lists_the_nearest_first_and_then_by_id() -> None:
    neighbours = {"m": frozenset({"z", "b"}), "z": frozenset({"a"})}
    assert distances(neighbours, ["m", "z", "b", "a"], 3)["m"] == LinkDistance(1, ("b", "z", "a"))


def test_supporting_lists_at_most_ten() -> None:
    others = [f"r{number:02}" for number in range(15)]
    near = distances({"m": frozenset(others)}, ["m", *others], 3)["m"]
    assert near == LinkDistance(1, tuple(others[:MAX_SUPPORTING]))


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
            expected[member] = LinkDistance(near[0][0], tuple(other for _, other in near))
    assert distances(graph, members, hops) == expected


@given(GRAPHS, st.frozensets(NODES), st.integers(1, 3))
def test_nothing_new_is_introduced(
    graph: dict[str, frozenset[str]], members: frozenset[str], hops: int
) -> None:
    for member, near in distances(graph, members, hops).items():
        assert {member, *near.supporting} <= members
        assert member not in near.supporting
        assert 1 <= near.distance <= hops


# -- what leads from the best turns to others -----------------------------------------------------------------------


def turn(id: str, score: float, session: str | None = "s1", length: int = 10) -> Blended:
    known = Candidate(id, 1, 0.5, 0.5, 1.0, 0.5, 0.0, session, None, 1.0, False, 0, length, False)
    return Blended(known, score, 0, 0, 0, 0, 0)


def order(ranking: Sequence[Blended]) -> list[str]:
    return [item.candidate.id for item in ranking]


def word(share: float, leaders: str, members: str) -> SharedWord:
    return SharedWord(share, frozenset(leaders), frozenset(members))


def test_the_best_turns_lead_and_only_to_other_sessions() -> None:
    ranking = [turn("f", 9, None), *(turn(id, 8 - n, f"s{n}") for n, id in enumerate("abcdefg"))]
    assert leaders(ranking) == ["a", "b", "c", "d", "e"]
    assert leaders([turn("f", 9, None), turn("a", 2), turn("b", 1)]) == []


def test_a_rare_word_of_the_best_turn_lifts_a_turn_of_another_session() -> None:
    ranking = [turn("a", 3, "s1"), turn("b", 1.02, "s2"), turn("c", 1, "s3")]
    after = led_on(ranking, ["a"], [word(0.01, "a", "ac")])
    assert order(after) == ["a", "c", "b"]
    assert [item.score for item in after] == pytest.approx(
        [item.hops + before for item, before in zip(after, (3, 1, 1.02), strict=True)]
    )


def test_a_rare_word_lifts_nothing_in_its_own_session() -> None:
    ranking = [turn("a", 3, "s1"), turn("b", 1.02, "s2"), turn("c", 1, "s1")]
    assert order(led_on(ranking, ["a"], [word(0.01, "a", "ac")])) == ["a", "b", "c"]


def test_rarer_words_of_better_turns_and_shorter_members_count_more() -> None:
    ranking = [turn("a", 3, "s1"), turn("b", 1, "s2"), turn("c", 1, "s3"), turn("d", 1, "s4", length=40)]
    by_rarity = led_on(ranking, ["a"], [word(0.04, "a", "b"), word(0.01, "a", "c")])
    assert order(by_rarity)[:3] == ["a", "c", "b"]
    by_leader = led_on(
        ranking, ["a", "b"], [word(0.01, "b", "c"), word(0.01, "a", "d"), word(0.01, "a", "b")]
    )
    assert order(by_leader)[:2] == ["a", "b"]
    by_length = led_on(ranking, ["a"], [word(0.01, "a", "cd")])
    assert next(item.hops for item in by_length if item.candidate.id == "c") > next(
        item.hops for item in by_length if item.candidate.id == "d"
    )


def test_each_further_turn_of_a_session_gives_way_a_little() -> None:
    ranking = [turn("a", 3), turn("b", 2.9), turn("c", 2.8), turn("d", 2.75, "s2")]
    after = led_on(ranking, ["a"], [])
    assert order(after) == ["a", "d", "b", "c"]
    assert [item.hops for item in after] == pytest.approx(
        [0, 0, -0.3 * math.log(2), -0.3 * math.log(3)], abs=1e-12
    )


def test_what_is_no_turn_keeps_its_score() -> None:
    facts = [turn("f", 2, None), turn("g", 1.9, None)]
    after = led_on([*facts, turn("a", 1, "s1"), turn("b", 0.5, "s2")], ["a"], [word(0.01, "a", "fgb")])
    assert [item for item in after if item.candidate.session_id is None] == facts


@given(
    st.lists(st.tuples(st.floats(-9, 9), st.sampled_from(["s1", "s2", "s3", None])), max_size=8),
    st.lists(st.tuples(st.floats(0.001, 0.05), st.frozensets(NODES), st.frozensets(NODES)), max_size=4),
)
def test_leading_on_brings_nothing_in_and_loses_nothing(
    given_turns: list[tuple[float, str | None]],
    words: list[tuple[float, frozenset[str], frozenset[str]]],
) -> None:
    ranking = [
        turn(id, score, session) for id, (score, session) in zip("abcdefgh", given_turns, strict=False)
    ]
    ranking.sort(key=lambda item: (-item.score, item.candidate.id))
    after = led_on(ranking, leaders(ranking), [SharedWord(*word) for word in words])
    assert sorted(order(after)) == sorted(order(ranking))
    assert [item.score for item in after] == sorted((item.score for item in after), reverse=True)
