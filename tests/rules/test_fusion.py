"""One ranking from several, and what an attacker among the backends can do to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import BackendUnavailableError, InvalidError
from quipu.model.operations import Fusion
from quipu.rules.fusion import (
    Foreign,
    Fused,
    Vote,
    checked_quorum,
    checked_weights,
    final_score,
    fused,
    ordered,
)


def vote(id: str, similarity: float = 0.5, relevance: float = 0.5, foreign: bool = False) -> Vote:
    return Vote(id=id, similarity=similarity, relevance=relevance, foreign=foreign)


def ids(items: Sequence[Fused]) -> list[str]:
    return [item.id for item in items]


# Scores


def test_rrf_adds_one_share_per_list() -> None:
    first, second, third = fused(
        {"a": [vote("x"), vote("y")], "b": [vote("z"), vote("y"), vote("x")]}, Fusion.RRF
    )
    assert (first.id, first.score) == ("x", pytest.approx(1 / 60 + 1 / 62))
    assert (second.id, second.score) == ("y", pytest.approx(2 / 61))
    assert (third.id, third.score) == ("z", pytest.approx(1 / 60))


def test_the_best_single_vote_and_two_first_places_are_worth_what_the_contract_says() -> None:
    assert fused({"a": [vote("x")]}, Fusion.RRF)[0].score == pytest.approx(0.0167, abs=5e-5)
    assert fused({"a": [vote("x")], "b": [vote("x")]}, Fusion.RRF)[0].score == pytest.approx(0.0333, abs=5e-5)


def test_max_takes_the_largest_similarity() -> None:
    lists = {"a": [vote("x", 0.2), vote("y", 0.8)], "b": [vote("x", 0.9)]}
    assert [(item.id, item.score) for item in fused(lists, Fusion.MAX)] == [("x", 0.9), ("y", 0.8)]


def test_weighted_adds_weight_times_similarity_and_defaults_to_one() -> None:
    lists = {"a": [vote("x", 0.2), vote("y", 0.8)], "b": [vote("x", 0.9)]}
    scores = {item.id: item.score for item in fused(lists, Fusion.WEIGHTED, {"b": 0.5})}
    assert scores == {"x": pytest.approx(0.65), "y": pytest.approx(0.8)}


@pytest.mark.parametrize("method", [Fusion.MAX, Fusion.WEIGHTED])
@pytest.mark.parametrize(
    ("claimed", "worth"), [(1e9, 1.0), (float("inf"), 1.0), (-3.0, 0.0), (float("nan"), 0.0)]
)
def test_a_claimed_similarity_is_held_within_bounds(method: Fusion, claimed: float, worth: float) -> None:
    assert fused({"a": [vote("x", claimed)]}, method)[0].score == worth


def test_an_item_tells_who_returned_it_the_best_rank_first() -> None:
    lists = {
        "c": [vote("y"), vote("x", relevance=0.4)],
        "a": [vote("y"), vote("x", relevance=0.6)],
        "b": [vote("x")],
    }
    item = next(item for item in fused(lists, Fusion.RRF, {"a": 2.0}, trim_votes=False) if item.id == "x")
    assert (item.backends, item.source, item.best_rank) == (("b", "a", "c"), "b", 0)
    assert (item.relevance, item.weight, item.untrimmed) == (0.6, 4.0, 0.0)


def test_an_id_that_a_backend_repeats_counts_once_and_pushes_nobody_down() -> None:
    once = fused({"a": [vote("x"), vote("y")]}, Fusion.RRF)
    assert fused({"a": [vote("x"), vote("x"), vote("x"), vote("y")]}, Fusion.RRF) == once
    assert fused({"a": [vote("x", 0.2), vote("x", 0.9)]}, Fusion.MAX)[0].score == 0.2


def test_nothing_found_gives_nothing() -> None:
    assert fused({}, Fusion.RRF) == []
    assert fused({"a": [], "b": []}, Fusion.MAX, trim_votes=True) == []


# Ties


@pytest.mark.parametrize(
    ("lists", "weights", "first"),
    [
        pytest.param(
            {"a": [vote("x", foreign=True)], "b": [vote("y")]}, {}, "y", id="resolved before foreign"
        ),
        pytest.param(
            {"a": [vote("x", 1.0)], "b": [vote("y", 0.6)], "c": [vote("y", 0.4)]}, {}, "y", id="in more lists"
        ),
        pytest.param(
            {"a": [vote("q", 0.0), vote("x", 0.7)], "b": [vote("y", 0.7)]}, {}, "y", id="lower best rank"
        ),
        pytest.param(
            {"a": [vote("x", 0.5)], "b": [vote("y", 0.25)]}, {"b": 2.0}, "y", id="higher summed weight"
        ),
        pytest.param({"a": [vote("x")], "b": [vote("y", relevance=0.6)]}, {}, "y", id="higher relevance"),
        pytest.param({"a": [vote("y")], "b": [vote("x")]}, {}, "x", id="smaller id"),
        pytest.param(
            {"a": [vote("x", 0.5 + 1e-14)], "b": [vote("y", 0.5, relevance=0.9)]},
            {},
            "y",
            id="equal to twelve decimals",
        ),
        pytest.param(
            {"a": [vote("x", 0.5 + 1e-11)], "b": [vote("y", 0.5, relevance=0.9)]},
            {},
            "x",
            id="not equal to twelve decimals",
        ),
    ],
)
def test_ties_are_broken_in_order(
    lists: Mapping[str, list[Vote]], weights: Mapping[str, float], first: str
) -> None:
    assert fused(lists, Fusion.WEIGHTED, weights)[0].id == first


# Quorum, foreign hits, final score


def test_with_a_quorum_only_what_enough_backends_returned_counts() -> None:
    lists = {"a": [vote("x"), vote("y")], "b": [vote("y")], "c": [vote("y"), vote("x")]}
    assert set(ids(fused(lists, Fusion.RRF))) == {"x", "y"}
    assert set(ids(fused(lists, Fusion.RRF, quorum_k=2))) == {"x", "y"}
    assert ids(fused(lists, Fusion.RRF, quorum_k=3)) == ["y"]


def test_foreign_hits_never_count_for_a_quorum() -> None:
    lists = {"a": [vote("x", foreign=True)], "b": [vote("x", foreign=True)]}
    assert ids(fused(lists, Fusion.RRF, quorum_k=1)) == ["x"]
    assert fused(lists, Fusion.RRF, quorum_k=2) == []


def test_what_one_backend_resolves_is_not_foreign() -> None:
    assert not fused({"a": [vote("x", foreign=True)], "b": [vote("x")]}, Fusion.RRF)[0].foreign


def test_a_quorum_beyond_the_configuration_is_the_callers_mistake() -> None:
    checked_quorum(2, configured=2, answered=2)
    with pytest.raises(InvalidError) as caught:
        checked_quorum(3, configured=2, answered=2)
    assert (caught.value.reason, caught.value.faults[0].pointer) == ("quorum_unreachable", "/quorum_k")


def test_a_quorum_that_failed_backends_make_unreachable_fails_closed() -> None:
    with pytest.raises(BackendUnavailableError) as caught:
        checked_quorum(2, configured=3, answered=1)
    assert caught.value.reason == "quorum_unreachable"


@pytest.mark.parametrize(
    ("foreign", "expected"),
    [(Foreign.LAST, ["y", "z", "x"]), (Foreign.MIX, ["x", "y", "z"]), (Foreign.OFF, ["y", "z"])],
)
def test_foreign_hits_stand_where_the_setting_puts_them(foreign: Foreign, expected: list[str]) -> None:
    items = fused({"a": [vote("x", 0.9, foreign=True), vote("y", 0.8), vote("z", 0.7)]}, Fusion.MAX)
    assert [item.id for item, _ in ordered([(item, item.score) for item in items], foreign)] == expected


def test_the_final_score_decides_and_ties_fall_as_in_fusion() -> None:
    x, y = fused({"a": [vote("x"), vote("y")]}, Fusion.RRF)
    assert ordered([(x, 0.1), (y, 0.2)]) == [(y, 0.2), (x, 0.1)]
    assert ordered([(y, 0.1), (x, 0.1)]) == [(x, 0.1), (y, 0.1)]


@pytest.mark.parametrize(
    ("hop", "confidence", "demoted", "score"),
    [
        (1.0, 1.0, False, 0.5),
        (1.05, 1.0, False, 0.525),
        (1.0, 0.5, False, 0.45),
        (1.0, 1.0, True, 0.125),
        (1.05, 0.0, True, 0.105),
    ],
)
def test_hop_confidence_and_demotion_multiply_the_score(
    hop: float, confidence: float, demoted: bool, score: float
) -> None:
    assert final_score(0.5, hop, confidence, demoted) == pytest.approx(score)


def test_the_factors_are_settings() -> None:
    assert final_score(1.0, 1.0, 0.5, True, confidence_weight=1.0, demote_factor=0.5) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("weights", "place"),
    [({"z": 1.0}, "/weights/z"), ({"a/b": -1.0}, "/weights/a~1b"), ({"a": float("nan")}, "/weights/a")],
)
def test_a_bad_weight_is_refused_at_its_place(weights: dict[str, float], place: str) -> None:
    with pytest.raises(InvalidError) as caught:
        checked_weights(weights, ["a", "a/b"])
    assert caught.value.faults[0].pointer == place


def test_good_weights_are_accepted() -> None:
    checked_weights({"a": 0.0, "b": 2}, ["a", "b", "c"])


# Properties


SCORES = st.floats(0, 1)
VOTES = st.builds(vote, st.sampled_from("uvwxyz"), SCORES, st.sampled_from((0.25, 0.5)), st.booleans())
LISTS = st.dictionaries(st.sampled_from(("a", "b", "c", "d", "e")), st.lists(VOTES, max_size=6), max_size=5)
WEIGHTS = st.dictionaries(st.sampled_from(("a", "b", "c")), st.floats(0, 3))


@given(
    LISTS,
    st.sampled_from(Fusion),
    WEIGHTS,
    st.booleans(),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_the_order_of_backends_never_matters(
    lists: dict[str, list[Vote]],
    method: Fusion,
    weights: dict[str, float],
    trim: bool,
    quorum_k: int,
    random: Random,
) -> None:
    names = list(lists)
    random.shuffle(names)
    shuffled = {name: lists[name] for name in names}
    assert fused(shuffled, method, weights, quorum_k=quorum_k, trim_votes=trim) == fused(
        lists, method, weights, quorum_k=quorum_k, trim_votes=trim
    )


@given(
    st.lists(VOTES, max_size=12), st.sampled_from(Fusion), st.sampled_from((0.0, 0.5, 2.0)), st.integers(1, 2)
)
def test_a_backend_beside_one_that_has_nothing_ranks_as_it_does_alone(
    votes: list[Vote], method: Fusion, weight: float, quorum_k: int
) -> None:
    alone, beside = (
        fused(lists, method, {"a": weight}, quorum_k=quorum_k)
        for lists in ({"a": votes}, {"a": votes, "b": []})
    )
    assert alone == beside


@given(LISTS, st.permutations(["a", "b", "c", "d", "e"]), st.booleans())
def test_the_names_of_backends_never_matter(
    lists: dict[str, list[Vote]], names: list[str], trim: bool
) -> None:
    renamed = {new: lists[old] for old, new in zip("abcde", names, strict=True) if old in lists}
    before, after = (fused(each, Fusion.RRF, trim_votes=trim) for each in (lists, renamed))
    assert [(item.id, item.score) for item in before] == [(item.id, item.score) for item in after]


@given(LISTS, st.booleans(), st.data())
def test_reported_scores_play_no_part_in_rrf(
    lists: dict[str, list[Vote]], trim: bool, data: st.DataObject
) -> None:
    lied = {
        name: [replace(each, similarity=data.draw(SCORES)) for each in votes] for name, votes in lists.items()
    }
    assert fused(lied, Fusion.RRF, trim_votes=trim) == fused(lists, Fusion.RRF, trim_votes=trim)


@given(LISTS, st.sampled_from(Fusion), st.booleans())
def test_every_item_appears_once_best_first(lists: dict[str, list[Vote]], method: Fusion, trim: bool) -> None:
    items = fused(lists, method, trim_votes=trim)
    assert sorted(ids(items)) == sorted({each.id for votes in lists.values() for each in votes})
    scores = [round(item.score, 12) for item in items]
    assert scores == sorted(scores, reverse=True)
    for item in items:
        assert set(item.backends) == {
            name for name, votes in lists.items() if any(each.id == item.id for each in votes)
        }


@given(LISTS, st.sampled_from(Fusion), st.integers(2, 5))
def test_a_quorum_only_takes_away(lists: dict[str, list[Vote]], method: Fusion, quorum_k: int) -> None:
    everything = fused(lists, method)
    assert fused(lists, method, quorum_k=quorum_k) == [
        item for item in everything if len(item.backends) >= quorum_k and not item.foreign
    ]


@given(LISTS, st.sampled_from(("u", "v")))
def test_one_more_vote_never_lowers_an_item_of_the_plain_sum(lists: dict[str, list[Vote]], id: str) -> None:
    before, after = (
        {item.id: item.score for item in fused(each, Fusion.RRF, trim_votes=False)}
        for each in (lists, {**lists, "z": [vote(id)]})
    )
    assert all(after[each] >= score for each, score in before.items())
    assert after[id] > before.get(id, 0)


# An attacker among the backends. The stubs are those of the published evaluation.

CORPUS = tuple(f"doc{number:02}" for number in range(50))
K = 5
FETCHED = 4 * K


@dataclass(frozen=True)
class Query:
    """Two right answers, and one honest ranking per honest backend."""

    gold: tuple[str, str]
    honest: tuple[tuple[str, ...], ...]
    tail: tuple[str, ...]


def queries(seed: int, honest: int) -> list[Query]:
    random = Random(seed)  # noqa: S311  the published seed
    drawn = random.sample(CORPUS, 40)
    made = []
    for number in range(20):
        gold = (drawn[2 * number], drawn[2 * number + 1])
        rest = [id for id in CORPUS if id not in gold]
        rankings = tuple((*gold, *random.sample(rest, len(rest))[: FETCHED - 2]) for _ in range(honest))
        made.append(Query(gold, rankings, (*gold, *random.sample(rest, len(rest)))))
    return made


def benign(ranking: Sequence[str], top: float = 1.0) -> list[Vote]:
    return [vote(id, top - 0.01 * rank) for rank, id in enumerate(ranking)]


def inventing(count: int, name: str = "evil") -> Callable[[Query], list[Vote]]:
    """Attack (a): invented ids first, then an honest-looking tail."""
    invented = [vote(f"{name}{rank:02}", 1.0 - 0.001 * rank) for rank in range(count)]
    return lambda query: (invented + benign(query.tail, 0.5))[:FETCHED]


def repeating(query: Query) -> list[Vote]:
    """Attack (c): what the honest also return, best first, and the right answers left out."""
    lists = {str(number): benign(ranking) for number, ranking in enumerate(query.honest)}
    agreed = [item.id for item in fused(lists, Fusion.RRF) if item.id not in query.gold]
    return benign(agreed[:FETCHED])


def attacked(
    honest: int,
    rogues: int,
    rogue: Callable[[Query], list[Vote]],
    method: Fusion,
    *,
    seed: int = 1337,
    trim: bool = False,
    trusted: str | None = None,
    quorum_k: int = 1,
) -> tuple[float, float]:
    """Recall of the right answers among the first five, and the share of the five that is invented."""
    found = leaked = returned = 0
    for query in queries(seed, honest):
        lists = {f"honest{number}": benign(ranking) for number, ranking in enumerate(query.honest)}
        lists |= {f"rogue{number}": rogue(query) for number in range(rogues)}
        order = fused(lists, method, trim_votes=trim, trusted=trusted, quorum_k=quorum_k)
        top = [item.id for item in order[:K]]
        found += len(set(query.gold) & set(top))
        leaked += sum(id not in CORPUS for id in top)
        returned += len(top)
    return round(found / 40, 3), round(leaked / returned, 3)


COUNTS = range(5, 51, 5)
#: From here on the rogue's whole list is invented.
FULL_COUNTS = range(FETCHED, 51, 5)
SEEDS = range(20)


@pytest.mark.parametrize("method", Fusion)
def test_without_invented_ids_all_right_answers_are_found(method: Fusion) -> None:
    assert attacked(2, 1, inventing(0), method) == (1.0, 0.0)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    ("method", "outcome"), [(Fusion.RRF, (1.0, 0.0)), (Fusion.WEIGHTED, (1.0, 0.0)), (Fusion.MAX, (0.5, 0.8))]
)
def test_two_honest_backends_hold_against_one_that_invents_unless_scores_are_believed(
    method: Fusion, outcome: tuple[float, float], count: int
) -> None:
    assert attacked(2, 1, inventing(count), method) == outcome


@pytest.mark.parametrize("method", [Fusion.RRF, Fusion.WEIGHTED])
def test_two_honest_backends_hold_for_other_seeds_too(method: Fusion) -> None:
    outcomes = [
        attacked(2, 1, inventing(count), method, seed=seed) for seed in SEEDS for count in (5, 20, 50)
    ]
    assert {recall for recall, _ in outcomes} == {1.0}
    # Now and then the honest agree on fewer than five of their twenty; an invented id then fills the fifth place.
    assert max(leak for _, leak in outcomes) <= 0.01


@pytest.mark.parametrize("count", FULL_COUNTS)
def test_against_one_honest_backend_rrf_keeps_the_right_answers_and_lets_invented_ones_in(count: int) -> None:
    assert attacked(1, 1, inventing(count), Fusion.RRF) == (1.0, 0.4)
    assert attacked(1, 1, inventing(count, name="aaa"), Fusion.RRF) == (1.0, 0.6)


@pytest.mark.parametrize("count", FULL_COUNTS)
@pytest.mark.parametrize("method", [Fusion.MAX, Fusion.WEIGHTED])
def test_against_one_honest_backend_scores_lose_half(method: Fusion, count: int) -> None:
    assert attacked(1, 1, inventing(count), method) == (0.5, 0.8)


@pytest.mark.parametrize("count", FULL_COUNTS)
@pytest.mark.parametrize(
    ("method", "outcome"), [(Fusion.RRF, (0.0, 1.0)), (Fusion.WEIGHTED, (0.0, 1.0)), (Fusion.MAX, (0.5, 0.8))]
)
def test_a_majority_of_attackers_wins(method: Fusion, outcome: tuple[float, float], count: int) -> None:
    assert attacked(2, 3, inventing(count), method) == outcome


@pytest.mark.parametrize("method", Fusion)
def test_invented_ids_that_are_known_to_be_foreign_never_displace_a_record(method: Fusion) -> None:
    for query in queries(1337, 2):
        lists = {f"honest{number}": benign(ranking) for number, ranking in enumerate(query.honest)}
        calm = ordered([(item, item.score) for item in fused({**lists, "rogue": []}, method)])
        foreign = [replace(each, foreign=True) for each in inventing(FETCHED)(query)]
        stormy = ordered([(item, item.score) for item in fused({**lists, "rogue": foreign}, method)])
        assert stormy[:K] == calm[:K]


MAJORITIES = [(2, 1), (3, 1), (4, 1), (4, 2)]


@pytest.mark.parametrize("count", [0, *COUNTS])
@pytest.mark.parametrize(("honest", "rogues"), MAJORITIES)
@pytest.mark.parametrize("name", ["evil", "aaa"], ids=["named last", "named first"])
def test_with_votes_left_out_a_minority_that_invents_takes_nothing_and_shows_nothing(
    honest: int, rogues: int, count: int, name: str
) -> None:
    assert attacked(honest, rogues, inventing(count, name), Fusion.RRF, trim=True) == (1.0, 0.0)


@pytest.mark.parametrize("count", [0, *COUNTS])
def test_where_the_honest_agree_on_too_little_a_quorum_keeps_places_free_that_rogues_would_fill(
    count: int,
) -> None:
    """Of five peers three are honest, and agree on four or five of their twenty; two that lie alike fill the rest."""
    recall, leak = attacked(3, 2, inventing(count), Fusion.RRF, trim=True)
    assert recall == 1.0
    assert leak <= 0.2, "no more than the place that is free"
    assert attacked(3, 2, inventing(count), Fusion.RRF, trim=True, quorum_k=3) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("honest", "rogues", "plain_at_most"), [(2, 1, 0.1), (3, 1, 0.9), (3, 2, 0.05), (1, 1, 0.6)]
)
def test_trimmed_votes_hold_where_repeating_honest_ids_beats_plain_rrf(
    honest: int, rogues: int, plain_at_most: float
) -> None:
    plain = [attacked(honest, rogues, repeating, Fusion.RRF, seed=seed)[0] for seed in SEEDS]
    assert sum(plain) / len(plain) <= plain_at_most
    trusted = None if honest > rogues else "honest0"
    assert {
        attacked(honest, rogues, repeating, Fusion.RRF, seed=seed, trim=True, trusted=trusted)
        for seed in (1337, *SEEDS)
    } == {(1.0, 0.0)}


# Already in order

_NEAR = st.sampled_from((0.0, 4e-13, 1e-12, 2e-12, 3e-12, 0.01))


@given(st.lists(st.tuples(_NEAR, st.booleans(), st.text("ab", min_size=1, max_size=3)), max_size=8))
def test_what_comes_in_order_is_ordered_as_anything_else(steps: list[tuple[float, bool, str]]) -> None:
    score, pairs = 0.5, list[tuple[Fused, float]]()
    for number, (step, foreign, name) in enumerate(steps):
        score -= step
        item = Fused(f"{name}{number}", score, ("a",), len(steps) - number, 0.5, foreign, 1.0)
        pairs.append((item, score))
    for place in Foreign:
        straight, back = ordered(pairs, place), ordered(pairs[::-1], place)
        assert [item.id for item, _ in straight] == [item.id for item, _ in back]
