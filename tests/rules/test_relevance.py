"""Relevance: from 0 to 1, never less for more evidence, and a floor for every name."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.model.operations import Floor
from quipu.model.search import Candidate
from quipu.rules.relevance import KEYWORD_ONLY, calibration, floor, relevances
from tests.rules.candidates import candidates, lists

MODELS = st.sampled_from((None, "all-MiniLM-L6-v2/int8-1-abc", "somebody-else"))


@given(lists(), MODELS)
def test_relevance_lies_between_0_and_1(found: list[Candidate], model: str | None) -> None:
    told = relevances(found, calibration(model))
    assert len(told) == len(found)
    assert all(0 <= sure <= 1 for sure in told)


@given(candidates(), MODELS, st.floats(0, 1))
def test_more_covered_words_are_never_less_relevant(one: Candidate, model: str | None, more: float) -> None:
    better = replace(one, coverage=min(1.0, one.coverage + more))
    assert relevances([better], calibration(model)) >= relevances([one], calibration(model))


@given(candidates(cosine=st.floats(-1, 1)), MODELS, st.floats(0, 2))
def test_a_nearer_record_is_never_less_relevant(one: Candidate, model: str | None, more: float) -> None:
    if one.cosine is None:
        return
    better = replace(one, cosine=min(1.0, one.cosine + more))
    assert relevances([better], calibration(model)) >= relevances([one], calibration(model))


@given(candidates(), candidates(), MODELS)
def test_among_the_same_records_the_nearer_one_is_never_less_relevant(
    one: Candidate, other: Candidate, model: str | None
) -> None:
    if one.cosine is None or other.cosine is None:
        return
    same = replace(other, coverage=one.coverage)
    near, far = sorted((one, same), key=lambda c: -(c.cosine or 0.0))
    first, second = relevances([near, far], calibration(model))
    assert first >= second


@given(lists(), MODELS)
def test_the_order_of_candidates_makes_no_difference(found: list[Candidate], model: str | None) -> None:
    forwards = relevances(found, calibration(model))
    backwards = relevances(found[::-1], calibration(model))
    assert forwards == backwards[::-1]


@given(candidates(cosine=st.none()))
def test_without_a_vector_only_the_words_speak(one: Candidate) -> None:
    assert relevances([one], calibration("all-MiniLM-L6-v2/x")) == relevances([one], KEYWORD_ONLY)


@pytest.mark.parametrize("model", [None, "all-MiniLM-L6-v2/int8-1-abc", "somebody-else"])
def test_the_named_floors_rise_from_off_to_strict(model: str | None) -> None:
    known = calibration(model)
    floors = [floor(name, known) for name in (Floor.OFF, Floor.AUTO, Floor.STRICT)]
    assert floors == sorted(floors)
    assert floors[0] == 0
    assert floors[-1] < 1


@given(st.floats(0, 1), MODELS)
def test_a_number_is_a_floor_as_it_is(asked: float, model: str | None) -> None:
    assert floor(asked, calibration(model)) == asked
