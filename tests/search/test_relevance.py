"""Relevance: from 0 to 1, never less for more evidence, and a floor for every name."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.model.search import Candidate
from quipu.search.query import SHARED_NAME
from quipu.search.relevance import KEYWORD_ONLY, Question, calibration, evidence, floor, relevances
from tests.search.drawn import candidate_lists as lists
from tests.search.drawn import candidates

#: A question that was compared with nothing else.
ALONE = Question(compared=1)
MODELS = st.sampled_from((None, "all-MiniLM-L6-v2/int8-1-abc", "somebody-else"))


@given(lists(), MODELS)
def test_relevance_lies_between_0_and_1(found: list[Candidate], model: str | None) -> None:
    told = relevances(found, calibration(model), ALONE)
    assert len(told) == len(found)
    assert all(0 <= sure <= 1 for sure in told)


@given(candidates(), MODELS, st.floats(0, 1))
def test_more_covered_words_are_never_less_relevant(one: Candidate, model: str | None, more: float) -> None:
    better = replace(one, coverage=min(1.0, one.coverage + more))
    assert relevances([better], calibration(model), ALONE) >= relevances([one], calibration(model), ALONE)


@given(candidates(cosine=st.floats(-1, 1)), MODELS, st.floats(0, 2))
def test_a_nearer_record_is_never_less_relevant(one: Candidate, model: str | None, more: float) -> None:
    if one.cosine is None:
        return
    better = replace(one, cosine=min(1.0, one.cosine + more))
    assert relevances([better], calibration(model), ALONE) >= relevances([one], calibration(model), ALONE)


@given(candidates(), candidates(), MODELS)
def test_among_the_same_records_the_nearer_one_is_never_less_relevant(
    one: Candidate, other: Candidate, model: str | None
) -> None:
    if one.cosine is None or other.cosine is None:
        return
    same = replace(other, coverage=one.coverage)
    near, far = sorted((one, same), key=lambda c: -(c.cosine or 0.0))
    first, second = relevances([near, far], calibration(model), ALONE)
    assert first >= second


@given(lists(), MODELS)
def test_the_order_of_candidates_makes_no_difference(found: list[Candidate], model: str | None) -> None:
    forwards = relevances(found, calibration(model), ALONE)
    backwards = relevances(found[::-1], calibration(model), ALONE)
    assert forwards == backwards[::-1]


@given(lists(min_size=1), MODELS, st.integers(1, 10**6), st.integers(1, 10**6))
def test_among_more_records_a_near_one_means_less(
    found: list[Candidate], model: str | None, some: int, more: int
) -> None:
    few, many = (
        relevances(found, calibration(model), Question(compared=count)) for count in sorted((some, more))
    )
    assert all(one >= other for one, other in zip(few, many, strict=True))


@given(lists(min_size=1), MODELS, st.integers(1, 10**6))
def test_what_is_near_to_part_of_a_question_is_never_less_relevant_than_as_near_to_all_of_it(
    found: list[Candidate], model: str | None, compared: int
) -> None:
    known = calibration(model)
    whole = relevances(found, known, Question(compared=compared))
    part = relevances(found, known, Question(compared=compared, is_shortened=True))
    assert all(0 <= one <= other <= 1 for one, other in zip(whole, part, strict=True))


@given(candidates(cosine=st.floats(0, 1)), st.integers(1, 10), st.integers(1, 10))
def test_among_a_handful_of_records_their_number_hardly_matters(
    one: Candidate, some: int, other: int
) -> None:
    """Of three facts and of ten, one is near by chance about as seldom."""
    known = calibration("all-MiniLM-L6-v2/x")
    odds = [
        sure / (1 - sure)
        for count in (some, other)
        for sure in relevances([replace(one, cosine=0.2)], known, Question(compared=count))
    ]
    assert max(odds) < 1.6 * min(odds)


@pytest.mark.parametrize("model", ["all-MiniLM-L6-v2/int8-1-abc", "all-MiniLM-L6-v2/fast-1-abc"])
@pytest.mark.parametrize(
    ("cosine", "coverage", "question", "kept_by"),
    [
        pytest.param(0.1, 0.0, Question(compared=10), None, id="an unrelated question in a small memory"),
        pytest.param(0.12, 0.0, Question(compared=3), None, id="an unrelated question to three facts"),
        pytest.param(0.1, 0.0, Question(compared=10, is_shortened=True), None, id="a known person's unknown"),
        pytest.param(0.6, 0.3, Question(compared=10), "strict", id="a question with the answer's words"),
        pytest.param(0.6, 0.3, Question(compared=3), "strict", id="the same to three facts"),
        pytest.param(0.55, 0.1, Question(compared=10, is_shortened=True), "strict", id="one that names them"),
        pytest.param(0.75, 0.9, Question(compared=1_000), "strict", id="a near-exact one among many"),
    ],
)
def test_examples(
    model: str, cosine: float, coverage: float, question: Question, kept_by: str | None
) -> None:
    known = calibration(model)
    (sure,) = relevances([near(cosine, "ana", id="a", coverage=coverage)], known, question)
    assert (sure >= known.strict) if kept_by else (sure < known.auto)


@given(lists(min_size=1), MODELS)
def test_a_question_about_a_stranger_is_never_more_relevant(
    found: list[Candidate], model: str | None
) -> None:
    known = calibration(model)
    plain = relevances(found, known, Question(compared=12))
    strange = relevances(found, known, Question(compared=12, names_unknown_person=True))
    assert all(one >= other for one, other in zip(plain, strange, strict=True))


@given(lists(min_size=2), MODELS)
def test_of_equals_the_one_that_is_meant_is_more_relevant(found: list[Candidate], model: str | None) -> None:
    asked = Question(compared=12, users=frozenset({"s1"}))
    mine = replace(found[0], id="x", user_id="s1")
    other = replace(found[0], id="y", user_id="s2", named=0.0)
    first, second = relevances([mine, other, *found[1:]], calibration(model), asked)[:2]
    assert first > second or first == 1 or second == 0


def test_as_near_as_chance_would_have_it_among_many_is_not_near() -> None:
    known = calibration("all-MiniLM-L6-v2/x")
    told = [relevances([near(0.3, "ana", id="a")], known, Question(compared=n))[0] for n in (10, 1000)]
    assert told[0] > known.strict > known.auto > told[1]


def test_what_others_have_does_not_speak_for_those_who_are_named() -> None:
    asked = Question(compared=12, users=frozenset({"ana"}))
    hers, his = near(0.1, "ana", id="a"), near(0.6, "bo", id="b")
    assert evidence([hers, his], asked).cosine == 0.1
    known = calibration("all-MiniLM-L6-v2/x")
    assert max(relevances([hers, his], known, asked)) < known.auto
    assert max(relevances([hers, his], known, Question(compared=12))) > known.strict
    assert max(relevances([near(0.6, "ana", id="a"), his], known, asked)) > known.strict


def test_a_record_that_names_them_speaks_for_them() -> None:
    asked = Question(compared=12, users=frozenset({"ana"}))
    about_her = replace(near(0.6, "bo", id="b"), named=1.0)
    assert evidence([near(0.1, "ana", id="a"), about_her], asked).cosine == 0.6


def test_a_record_that_may_name_them_is_not_taken_for_somebody_elses() -> None:
    """Whoever asks for a word that is also somebody's name must not be told that nothing matches."""
    asked = Question(compared=12, users=frozenset({"home"}))
    known = calibration("all-MiniLM-L6-v2/x")
    theirs, maybe = near(0.1, "home", id="a"), replace(near(0.6, "bo", id="b"), named=SHARED_NAME)
    assert evidence([theirs, maybe], asked).cosine == 0.6
    other = near(0.6, "bo", id="c")
    _, sure, unsure = relevances([theirs, maybe, other], known, asked)
    assert sure > known.strict
    assert sure > unsure


def test_where_nothing_is_about_those_who_are_named_everything_is_looked_at() -> None:
    asked = Question(compared=12, users=frozenset({"ana"}))
    assert evidence([near(0.6, "bo", id="b")], asked).cosine == 0.6
    assert evidence([], asked).cosine == 0


def near(cosine: float, user_id: str, **fields: Any) -> Candidate:
    """A candidate that only its vector speaks for."""
    known = {
        "version": 1,
        "cosine": cosine,
        "near": cosine,
        "keyword": 0.0,
        "coverage": 0.0,
        "common": 0.0,
        "session_id": None,
        "subject": None,
        "confidence": 1.0,
        "is_demoted": False,
        "created_at": 0,
        "length": 5,
        "asks": False,
        "user_id": user_id,
    }
    return Candidate(**{**known, **fields})


@given(candidates(cosine=st.none()))
def test_without_a_vector_only_the_words_speak(one: Candidate) -> None:
    assert relevances([one], calibration("all-MiniLM-L6-v2/x"), ALONE) == relevances(
        [one], KEYWORD_ONLY, ALONE
    )


@pytest.mark.parametrize("model", [None, "all-MiniLM-L6-v2/int8-1-abc", "somebody-else"])
def test_the_named_floors_rise_from_off_to_strict(model: str | None) -> None:
    known = calibration(model)
    floors = [floor(name, known) for name in ("off", "auto", "strict")]
    assert floors == sorted(floors)
    assert floors[0] == 0
    assert floors[-1] < 1


@given(st.floats(0, 1), MODELS)
def test_a_number_is_a_floor_as_it_is(asked: float, model: str | None) -> None:
    assert floor(asked, calibration(model)) == asked


@given(candidates(cosine=st.floats(0.3, 1), near=st.just(0.0)), st.floats(0.4, 1))
def test_one_that_is_far_behind_has_less_than_half(one: Candidate, behind: float) -> None:
    """Where there surely is an answer, a person still sees which hit is meant."""
    first = replace(one, coverage=0.0)
    last = replace(first, id=f"{one.id}!", cosine=(one.cosine or 0.0) - behind)
    near, far = relevances([first, last], calibration("all-MiniLM-L6-v2"), Question(compared=1))
    assert far < 0.56 * near
