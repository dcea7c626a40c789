"""Relevance: from 0 to 1, never less for more evidence, and a floor for every name."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.embed.description import packaged
from quipu.model.search import Candidate
from quipu.search.query import SHARED_NAME
from quipu.search.relevance import (
    KEYWORD_ONLY,
    UNMEASURED,
    Calibration,
    Floor,
    Question,
    calibration,
    floor,
    relevances,
)
from tests.search.drawn import candidate_lists as lists
from tests.search.drawn import candidates

#: A question that was compared with nothing else.
ALONE = Question(compared=1)
MINILM = Calibration(**(packaged("model.json").calibration or {}))
MODELS = st.sampled_from((KEYWORD_ONLY, MINILM, UNMEASURED))


@given(lists(), MODELS)
def test_relevance_lies_between_0_and_1(found: list[Candidate], known: Calibration) -> None:
    told = relevances(found, known, ALONE)
    assert len(told) == len(found)
    assert all(0 <= sure <= 1 for sure in told)


@given(candidates(), MODELS, st.floats(0, 1))
def test_more_covered_words_are_never_less_relevant(one: Candidate, known: Calibration, more: float) -> None:
    better = replace(one, coverage=min(1.0, one.coverage + more))
    assert relevances([better], known, ALONE) >= relevances([one], known, ALONE)


@given(candidates(cosine=st.floats(-1, 1)), MODELS, st.floats(0, 2))
def test_a_nearer_record_is_never_less_relevant(one: Candidate, known: Calibration, more: float) -> None:
    if one.cosine is None:
        return
    better = replace(one, cosine=min(1.0, one.cosine + more))
    assert relevances([better], known, ALONE) >= relevances([one], known, ALONE)


@given(lists(), MODELS)
def test_the_order_of_candidates_makes_no_difference(found: list[Candidate], known: Calibration) -> None:
    forwards = relevances(found, known, ALONE)
    backwards = relevances(found[::-1], known, ALONE)
    assert forwards == backwards[::-1]


@given(lists(min_size=1), MODELS, st.integers(1, 10**6), st.integers(1, 10**6))
def test_among_more_records_a_near_one_means_less(
    found: list[Candidate], known: Calibration, some: int, more: int
) -> None:
    few, many = (relevances(found, known, Question(compared=count)) for count in sorted((some, more)))
    assert all(one >= other for one, other in zip(few, many, strict=True))


@given(lists(min_size=1), MODELS)
def test_a_question_about_a_stranger_is_never_more_relevant(
    found: list[Candidate], known: Calibration
) -> None:
    plain = relevances(found, known, Question(compared=12))
    strange = relevances(found, known, Question(compared=12, names_unknown_person=True))
    assert all(one >= other for one, other in zip(plain, strange, strict=True))


@given(lists(min_size=2), MODELS)
def test_of_equals_the_one_that_is_meant_is_more_relevant(found: list[Candidate], known: Calibration) -> None:
    asked = Question(compared=12, users=frozenset({"s1"}))
    mine = replace(found[0], id="x", user_id="s1")
    other = replace(found[0], id="y", user_id="s2", named=0.0)
    first, second = relevances([mine, other, *found[1:]], known, asked)[:2]
    assert first > second or first == 1 or second == 0


@given(lists(min_size=2), MODELS, st.integers(1, 1_000))
def test_a_hit_is_judged_by_itself(found: list[Candidate], known: Calibration, compared: int) -> None:
    """A right answer does not carry its neighbours in."""
    asked = Question(compared=compared)
    together = relevances(found, known, asked)
    assert together == [relevances([one], known, asked)[0] for one in found]


@pytest.mark.parametrize(
    ("cosine", "coverage", "compared", "kept_by"),
    [
        pytest.param(0.1, 0.0, 10, None, id="an unrelated question in a small memory"),
        pytest.param(0.12, 0.0, 3, None, id="an unrelated question to three facts"),
        pytest.param(0.25, 0.0, 1_000, "auto", id="a loosely related one"),
        pytest.param(0.6, 0.3, 10, "strict", id="a question with the answer's words"),
        pytest.param(0.6, 0.3, 3, "strict", id="the same to three facts"),
        pytest.param(0.75, 0.9, 1_000, "strict", id="a near-exact one among many"),
    ],
)
def test_the_floors_ask_for_as_much_evidence_among_many_as_among_few(
    cosine: float, coverage: float, compared: int, kept_by: Floor | None
) -> None:
    known, asked = MINILM, Question(compared=compared)
    (sure,) = relevances([near(cosine, "ana", id="a", coverage=coverage)], known, asked)
    assert (sure >= floor(kept_by, known, asked)) if kept_by else (sure < floor("auto", known, asked))


def test_a_short_turn_needs_less_evidence() -> None:
    known = MINILM
    fact, turn = (near(0.18, "ana", id="a", brevity=brevity) for brevity in (0.0, 1.0))
    unsure, sure = relevances([fact, turn], known, ALONE)
    assert unsure < floor("auto", known, ALONE) <= sure


def test_what_others_have_is_not_about_those_who_are_named() -> None:
    asked, known = Question(compared=12, users=frozenset({"ana"})), MINILM
    hers, his, about_her = (
        near(0.5, "ana", id="a"),
        near(0.5, "bo", id="b"),
        near(0.5, "bo", id="c", named=1.0),
    )
    own, other, named = relevances([hers, his, about_her], known, asked)
    assert own == named > floor("strict", known, asked)
    assert other < floor("auto", known, asked)


def test_a_record_that_may_name_them_is_not_taken_for_somebody_elses() -> None:
    """Whoever asks for a word that is also somebody's name must not be told that nothing matches."""
    asked, known = Question(compared=12, users=frozenset({"home"})), MINILM
    (sure,) = relevances([near(0.6, "bo", id="b", named=SHARED_NAME)], known, asked)
    assert sure > floor("strict", known, asked)


def near(cosine: float, user_id: str, **fields: Any) -> Candidate:
    """A candidate that only its vector speaks for."""
    known = {
        "version": 1,
        "cosine": cosine,
        "near": cosine,
        "keyword": 0.0,
        "words": 0.0,
        "coverage": 0.0,
        "session_id": None,
        "subject": None,
        "confidence": 1.0,
        "is_demoted": False,
        "created_at": 0,
        "length": 5,
        "asks": False,
        "by_assistant": False,
        "user_id": user_id,
    }
    return Candidate(**{**known, **fields})


@given(candidates(cosine=st.none()))
def test_without_a_vector_only_the_words_speak(one: Candidate) -> None:
    assert relevances([one], MINILM, ALONE) == relevances([one], KEYWORD_ONLY, ALONE)


@pytest.mark.parametrize("known", [KEYWORD_ONLY, MINILM])
@pytest.mark.parametrize("compared", [1, 300, 10**6])
def test_the_named_floors_rise_from_off_to_strict(known: Calibration, compared: int) -> None:
    known, asked = known, Question(compared=compared)
    floors = [floor(name, known, asked) for name in ("off", "auto", "strict")]
    assert 0 == floors[0] < floors[1] < floors[2] < 1


@given(st.floats(0, 1), MODELS)
def test_a_number_is_a_floor_as_it_is(asked: float, known: Calibration) -> None:
    assert floor(asked, known, ALONE) == asked


def test_a_model_that_nobody_has_measured_leaves_nothing_out_by_itself() -> None:
    known = calibration(None, has_vector=True)
    assert known is UNMEASURED
    (far,) = relevances([near(-0.5, "ana", id="a")], known, ALONE)
    assert far > floor("auto", known, ALONE)


def test_without_vectors_words_decide_whatever_the_model() -> None:
    assert calibration(None, has_vector=False) is KEYWORD_ONLY
