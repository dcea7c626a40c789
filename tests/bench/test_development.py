"""The development corpus is what it says it is, and its questions are nobody else's."""

from __future__ import annotations

import numpy as np
import pytest

from bench import calibration, development, labelled
from bench.calibration import Judged


def test_the_corpus_is_as_described() -> None:
    assert development.faults() == []
    assert sum(one.kind.startswith("none") for one in development.questions(scoped=True)) == 75


def test_a_question_may_have_an_answer_only_over_everybodys_memory() -> None:
    scoped = {one.id: one for one in development.questions(scoped=True)}
    unscoped = {one.id: one for one in development.questions(scoped=False)}
    here = [one for one in scoped.values() if one.kind == "none_here"]
    assert all(not one.gold and unscoped[one.id].gold for one in here)
    assert {one.user_id for one in unscoped.values()} == {None}
    assert all(unscoped[name].kind == "everyone" for name in unscoped.keys() - scoped.keys())


@pytest.mark.parametrize("which", ["test", "calibration"])
def test_no_question_and_no_fact_is_taken_from_the_other_corpus(which: str) -> None:
    own = {one.query.casefold() for one in development.questions(scoped=False)}
    others = labelled.queries("test" if which == "test" else "calibration")
    assert own.isdisjoint(one.query.casefold() for one in others)
    assert {one.text for one in development.facts()}.isdisjoint(one.text for one in labelled.facts())


def test_a_floor_leaves_out_what_lies_below_it() -> None:
    row = Judged("g", "p", "k", ("b",), (("a", 0.9), ("c", 0.2), ("b", 0.5)), 0.5, 0.0, 10, False)
    assert row.answer(0.3, 5).ranked == ["a", "b"]
    assert row.answer(0.3, 1).ranked == ["a"]
    assert row.answer(0.95, 5).ranked == []


def test_the_fit_finds_what_the_data_were_made_with() -> None:
    drawn = np.random.default_rng(7)
    features = drawn.normal(size=(20_000, 2))
    offset = drawn.normal(size=len(features))
    chance = 1 / (1 + np.exp(-(0.5 + features @ np.array([2.0, -1.0]) + offset)))
    answerable = (drawn.random(len(features)) < chance).astype(float)
    found = calibration.fitted(features, answerable, np.ones(len(features)), offset)
    assert found == pytest.approx([0.5, 2.0, -1.0], abs=0.1)
