"""The development corpus is what it says it is, and its questions are nobody else's."""

from __future__ import annotations

import numpy as np
import pytest

from bench import development, fitting, labelled
from bench.calibration import Judged
from bench.fitting import Shape, Table


def test_the_corpus_is_as_described() -> None:
    assert development.faults() == []
    assert development.faults_of_sizes() == []
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
    asked = [*development.questions(scoped=False), *development.questions_of_sizes(scoped=False)]
    own = {one.query.casefold() for one in asked}
    others = labelled.queries("test" if which == "test" else "calibration")
    assert own.isdisjoint(one.query.casefold() for one in others)
    facts = {one.text for one in (*development.facts(), *development.facts_of_sizes())}
    assert facts.isdisjoint(one.text for one in labelled.facts())


def test_a_small_memory_has_the_answer_or_is_said_to_have_none() -> None:
    facts, scoped = development.facts_of_sizes(), development.questions_of_sizes(scoped=True)
    made = list(development.small(facts, scoped))
    assert made == list(development.small(facts, scoped))
    asked = {one.id: one for one in scoped}
    for one in made:
        here = {fact.id for fact in one.facts}
        right = set(asked[one.asked.id].gold)
        assert {fact.user_id for fact in one.facts} <= {one.asked.user_id}
        assert set(one.asked.gold) == (right & here), "an answer that is there is gold, and no other is"
        assert one.asked.gold in (asked[one.asked.id].gold, ())
        assert len(one.facts) <= (30 if one.made == "without" else max(development.FEW))
    assert sum(one.made == "without" for one in made) == sum(bool(one.gold) for one in scoped)


def drawn_table(count: int = 4_000) -> Table:
    """Questions whose answers are farther away when they are shortened, as everything else is."""
    drawn = np.random.default_rng(3)
    answerable = drawn.random(count) < 0.5
    shortened = (drawn.random(count) < 0.5).astype(float)
    cosine = 0.2 + 0.2 * answerable - 0.09 * shortened + 0.06 * drawn.normal(size=count)
    none = np.zeros(count)
    return Table(
        cosine=cosine,
        coverage=none,
        compared=none + 10,
        shortened=shortened,
        stranger=none,
        answerable=answerable,
        weight=none + 1,
        fold=np.arange(count) % 4,
    )


def test_the_search_finds_that_shortened_questions_lie_farther_away() -> None:
    table = drawn_table()
    everybody = np.ones(len(table.cosine), np.bool_)
    found = fitting.best(table, fitting.shapes("onnx", 0.25), everybody)
    assert found.shortened == 0.09
    plain = Shape(0.0, 0.03, 0.0, 0.0, 0.25)
    known, unknown = (
        fitting.emptied(table, fitting.unseen(table, [shape]), everybody) for shape in (found, plain)
    )
    assert all(one > other for one, other in zip(known, unknown, strict=True))
    assert known == sorted(known)
    points = fitting.curve(table, table.leaning(found), everybody, everybody)
    assert known == pytest.approx([share for _, share in points], abs=0.02), (
        "nobody here differs from the others"
    )


def test_auto_lies_where_as_many_true_answers_are_lost_as_it_may_lose() -> None:
    table = drawn_table()
    shape = Shape(0.0, 0.03, 0.0, 0.09, 0.25)
    intercept, slope = fitting.scaled(table, shape, 0.28)
    sure = 1 / (1 + np.exp(-(intercept + slope * table.leaning(shape))))
    assert np.mean(sure[table.answerable] < 0.28) == pytest.approx(fitting.LOST_BY_AUTO, abs=0.002)


def test_a_floor_leaves_out_what_lies_below_it() -> None:
    row = Judged("g", "p", "k", ("b",), (("a", 0.9), ("c", 0.2), ("b", 0.5)), 0.5, 0.0, 10, False, False)
    assert row.answer(0.3, 5).ranked == ["a", "b"]
    assert row.answer(0.3, 1).ranked == ["a"]
    assert row.answer(0.95, 5).ranked == []


def test_the_fit_finds_what_the_data_were_made_with() -> None:
    drawn = np.random.default_rng(7)
    features = drawn.normal(size=(20_000, 2))
    offset = drawn.normal(size=len(features))
    chance = 1 / (1 + np.exp(-(0.5 + features @ np.array([2.0, -1.0]) + offset)))
    answerable = (drawn.random(len(features)) < chance).astype(float)
    found = fitting.fitted(features, answerable, np.ones(len(features)), offset)
    assert found == pytest.approx([0.5, 2.0, -1.0], abs=0.1)
