"""Blending: one scale for both legs, an order that never depends on chance."""

import itertools
import math
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from quipu.model.search import Candidate
from quipu.search.blending import Blended, Weights, blended, standardised, word_trust
from quipu.search.query import SHARED_NAME
from tests.search.drawn import candidate_lists as lists
from tests.search.drawn import candidates

WEIGHTS = Weights()
SUBJECTS = st.frozensets(st.sampled_from(("s1", "s2", "s3")))
VALUES = st.floats(-1e6, 1e6)


@given(lists(), SUBJECTS, st.randoms(use_true_random=False))
def test_the_order_in_which_candidates_come_never_matters(
    found: list[Candidate], subjects: frozenset[str], random: Any
) -> None:
    shuffled = random.sample(found, len(found))
    ranked = blended(found, subjects, WEIGHTS)
    again = blended(shuffled, subjects, WEIGHTS)
    assert [round(item.score, 6) for item in ranked] == pytest.approx(
        [round(item.score, 6) for item in again], abs=1e-5
    )
    assert {item.candidate.id for item in ranked} == {candidate.id for candidate in found}
    assert blended(found, subjects, WEIGHTS) == ranked


@given(lists(), SUBJECTS)
def test_candidates_come_best_first_and_equal_ones_by_id(
    found: list[Candidate], subjects: frozenset[str]
) -> None:
    ranked = blended(found, subjects, WEIGHTS)
    assert len(ranked) == len(found)
    keys = [(-item.score, item.candidate.id) for item in ranked]
    assert keys == sorted(keys)
    assert all(math.isfinite(item.score) for item in ranked)


@given(lists(), SUBJECTS)
def test_the_pieces_add_up_to_the_score(found: list[Candidate], subjects: frozenset[str]) -> None:
    names = [field.name for field in fields(Blended) if field.name not in ("candidate", "score")]
    for item in blended(found, subjects, WEIGHTS):
        pieces = [getattr(item, name) for name in names]
        assert math.fsum(pieces) == pytest.approx(item.score, abs=1e-9)


@given(candidates(session_id=st.none(), subject=st.none()), st.floats(0.1, 5))
def test_more_words_never_rank_lower(one: Candidate, more: float) -> None:
    low = replace(one, id="a")
    high = replace(one, id="z", keyword=one.keyword + more)
    assume(high.keyword > low.keyword)
    ranked = blended([low, high], (), WEIGHTS)
    by_id = {item.candidate.id: item.score for item in ranked}
    assert by_id["z"] >= by_id["a"]


@given(candidates(session_id=st.none()), st.sampled_from(("s1", "s2")))
def test_the_named_subject_never_ranks_lower(one: Candidate, subject: str) -> None:
    about, other = replace(one, id="z", subject=subject), replace(one, id="a", subject=None)
    by_id = {item.candidate.id: item.score for item in blended([about, other], {subject}, WEIGHTS)}
    assert by_id["z"] >= by_id["a"]


@given(lists(min_size=1, max_size=6, session_id=st.none()), candidates(session_id=st.none()))
def test_whom_the_query_names_decides_among_equals(others: list[Candidate], one: Candidate) -> None:
    mine = replace(one, id="z-mine", user_id="ana", named=0.0)
    his = replace(one, id="a-his", user_id="bo", named=0.0)
    rest = [
        replace(other, user_id="bo", named=0.0) for other in others if other.id not in ("z-mine", "a-his")
    ]
    ranked = blended([mine, his, *rest], (), WEIGHTS, {"ana"})
    by_id = {item.candidate.id: item.score for item in ranked}
    assert by_id["z-mine"] > by_id["a-his"]
    assert blended([mine, his, *rest], (), WEIGHTS, ()) == blended([mine, his, *rest], (), WEIGHTS)


@given(candidates(session_id=st.none(), subject=st.none()))
def test_what_may_be_about_them_comes_between_theirs_and_what_is_not(one: Candidate) -> None:
    mine = replace(one, id="c-mine", user_id="ana", named=0.0)
    maybe = replace(one, id="b-maybe", user_id="bo", named=SHARED_NAME)
    his = replace(one, id="a-his", user_id="bo", named=0.0)
    ranked = blended([his, maybe, mine], (), WEIGHTS, {"ana"})
    assert [item.candidate.id for item in ranked] == ["c-mine", "b-maybe", "a-his"]


@given(lists(min_size=1))
def test_trust_in_words_lies_between_0_and_1(found: list[Candidate]) -> None:
    assert 0 <= word_trust(found, WEIGHTS) <= 1


@given(lists(min_size=1, cosine=st.floats(-1, 1), near=st.floats(-1, 1)))
def test_words_count_more_where_something_was_said_than_for_facts(found: list[Candidate]) -> None:
    turns = [replace(one, session_id="s1") for one in found]
    facts = [replace(one, session_id=None) for one in found]
    assert word_trust(turns, WEIGHTS) >= word_trust(facts, WEIGHTS)


def test_nothing_found_is_nothing_ranked() -> None:
    assert blended([], (), WEIGHTS) == []


# -- one scale ----------------------------------------------------------------------------------------------------


@given(st.lists(VALUES, min_size=2, max_size=30))
def test_what_is_present_has_mean_0_and_deviation_1(values: list[float]) -> None:
    level = standardised(values)
    assume(any(level))
    assert math.fsum(level) / len(level) == pytest.approx(0, abs=1e-3)
    assert math.sqrt(math.fsum(value**2 for value in level) / len(level)) == pytest.approx(1, abs=1e-3)


@given(st.lists(st.none() | VALUES, max_size=30))
def test_order_stays_and_what_is_absent_counts_as_the_least(values: list[float | None]) -> None:
    level = standardised(values)
    assert len(level) == len(values)
    present = [(value, place) for place, value in enumerate(values) if value is not None]
    for (one, at), (other, there) in itertools.pairwise(present):
        if one <= other:
            assert level[at] <= level[there] + 1e-9
    if present:
        least = min(level)
        assert all(level[place] == least for place, value in enumerate(values) if value is None)


@given(st.lists(VALUES, min_size=2, max_size=10), st.floats(0.5, 100), st.floats(-1_000, 1_000))
def test_scale_and_shift_make_no_difference(values: list[float], scale: float, shift: float) -> None:
    assume(max(values) - min(values) > 1)
    moved = standardised([scale * value + shift for value in values])
    assert moved == pytest.approx(standardised(values), abs=1e-3)


@given(st.lists(st.none() | st.just(3.5), max_size=10))
def test_what_does_not_differ_says_nothing(values: list[float | None]) -> None:
    assert standardised(values) == [0.0] * len(values)


# -- the whole of it ----------------------------------------------------------------------------------------------


def plainly_blended(
    found: list[Candidate], subjects: frozenset[str], users: frozenset[str]
) -> list[tuple[str, float, float]]:
    """Ids, scores and shares of sessions as the rules are written down, one after the other."""
    trust = WEIGHTS.words * word_trust(found, WEIGHTS)
    words = [trust * level for level in standardised([one.keyword for one in found])]
    near = [WEIGHTS.vector * level for level in standardised([one.near for one in found])]
    logs = [None if one.session_id is None else math.log(max(1, one.length)) for one in found]
    totals: list[float] = []
    for place, level in enumerate(standardised(logs)):
        one = found[place]
        gained = [0.0]
        gained += [WEIGHTS.subject] * (one.subject in subjects)
        gained += [WEIGHTS.user] * (bool(users) and one.user_id in users)
        gained += [WEIGHTS.user * one.named] * (bool(users) and one.named >= SHARED_NAME)
        level = 0.0 if one.session_id is None else max(-2.0, min(2.0, level))
        turn = one.brevity * (WEIGHTS.length * level + (WEIGHTS.asking if one.asks else 0.0))
        totals.append(words[place] + near[place] + max(gained) + turn)
    scored: list[tuple[str, float, float]] = []
    for one, total in zip(found, totals, strict=True):
        beside = [other for two, other in zip(found, totals, strict=True) if two.session_id == one.session_id]
        share = 0.0 if one.session_id is None else WEIGHTS.session * one.brevity * max(beside)
        scored.append((one.id, total + share, share))
    return sorted(scored, key=lambda item: (-item[1], item[0]))


@given(lists(), SUBJECTS, SUBJECTS)
def test_the_blend_is_what_the_rules_say(
    found: list[Candidate], subjects: frozenset[str], users: frozenset[str]
) -> None:
    ranked = blended(found, subjects, WEIGHTS, users)
    assert [(item.candidate.id, item.score, item.session) for item in ranked] == plainly_blended(
        found, subjects, users
    )


@given(lists(min_size=2, keyword=st.just(1.0), cosine=st.none(), session_id=st.none()))
def test_equals_come_by_id(found: list[Candidate]) -> None:
    assert [item.candidate.id for item in blended(found, (), WEIGHTS)] == sorted(one.id for one in found)


@given(candidates(cosine=st.floats(0.1, 1), near=st.floats(0.1, 1)))
def test_who_asks_about_themselves_is_told_what_they_said_first(one: Candidate) -> None:
    said = replace(one, id="z", by_assistant=False)
    told = replace(one, id="a", by_assistant=True)
    asked = blended([said, told], (), WEIGHTS, is_about_oneself=True)
    assert [item.candidate.id for item in asked] == ["z", "a"]
    otherwise = {item.candidate.id: item.score for item in blended([said, told], (), WEIGHTS)}
    assert otherwise["z"] == otherwise["a"]
