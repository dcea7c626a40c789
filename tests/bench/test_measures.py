"""Numbers that were worked out by hand."""

import pytest

from bench.recall.measures import (
    Outcome,
    auc,
    calibration,
    difference,
    mean,
    measures,
    outcome,
    share,
)
from bench.recall.sets import Part, Question, Text

_PART = Part(
    "part",
    [
        Text("a", {"content": "Ada lives in Rome", "session_id": "s1"}),
        Text("b", {"content": "Ada lives in Oslo", "session_id": "s2"}),
        Text("c", {"content": "Bo plays golf", "session_id": "s2"}),
        Text("d", {"content": "Bo plays chess", "session_id": "s3"}),
    ],
)


def test_places_are_those_of_each_text_that_answers() -> None:
    found = outcome(_PART, Question("?", "x", frozenset({"c", "d"})), [("a", 0.9), ("c", 0.4)], ["a"])
    assert found.places == (1, None)
    assert found.kept_places == (None, None)
    assert found.judged == ((0.9, False), (0.4, True))
    assert [share(found.places, k) for k in (1, 2)] == [0, 0.5]


def test_sessions_are_placed_in_the_order_of_their_first_hits() -> None:
    question = Question("?", "x", frozenset({"d"}), sessions=frozenset({"s2", "s3"}))
    found = outcome(_PART, question, [("b", 3.0), ("c", 2.0), ("d", 1.0)])
    assert found.session_places == (0, 1)
    assert found.places == (2,)


def test_an_answer_that_is_told_by_its_words_has_the_place_of_the_first_hit_that_holds_it() -> None:
    question = Question("?", "current", answers=("oslo",))
    found = outcome(_PART, question, [("a", 0.9), ("b", 0.8)], ["a", "b"])
    assert found.places == (1,)
    assert found.is_current_first is False
    assert outcome(_PART, question, [("b", 0.8)], []).is_current_first is True


@pytest.mark.parametrize(
    ("hits", "expected"), [("ba", True), ("ab", False), ("cb", True), ("ca", False), ("cd", None)]
)
def test_an_updated_fact_is_newer_first_where_its_newer_text_comes_before_the_older(
    hits: str, expected: bool | None
) -> None:
    question = Question("?", "x", frozenset("ab"), newer=frozenset("b"), older=frozenset("a"))
    assert outcome(_PART, question, [(name, 1.0) for name in hits]).is_newer_first is expected


def test_a_set_is_counted_by_kind_and_the_unanswerable_apart() -> None:
    answered = Outcome("easy", True, (0, 1), kept_places=(0, None), best=0.9)
    missed = Outcome("hard", True, (None,), kept_places=(None,), is_emptied=True, best=0.2)
    silent = Outcome("none", False, kept_places=(), is_emptied=True, best=0.1)
    taken_in = Outcome("none", False, kept_places=(), best=0.5)
    found = measures([answered, missed, silent, taken_in])
    values = {name: (one.value, one.count) for name, one in found.items()}
    assert values == {
        "@1": (0.25, 2),
        "@5": (0.5, 2),
        "@10": (0.5, 2),
        "@25": (0.5, 2),
        "@5 easy": (1.0, 1),
        "@10 easy": (1.0, 1),
        "@5 hard": (0.0, 1),
        "@10 hard": (0.0, 1),
        "@5 with the default floor": (0.25, 2),
        "answerable and emptied": (0.5, 2),
        "unanswerable and emptied (none)": (0.5, 2),
        "best hit tells answerable, AUC": (0.75, 4),
    }


def test_any_and_all_are_told_apart_by_session_and_by_turn() -> None:
    both = Outcome("x", True, places=(0, 7), session_places=(0, 6))
    neither = Outcome("x", True, places=(None,), session_places=(None,))
    values = {name: one.value for name, one in measures([both, neither]).items() if "recall" in name}
    assert values == {
        "session recall_any@5": 0.5,
        "session recall_all@5": 0.0,
        "session recall_any@10": 0.5,
        "session recall_all@10": 0.5,
        "turn recall_any@5": 0.5,
        "turn recall_all@5": 0.0,
        "turn recall_any@10": 0.5,
        "turn recall_all@10": 0.5,
    }


def test_a_question_without_turn_evidence_counts_by_its_session_alone() -> None:
    found = measures([Outcome("x", True, session_places=(0,)), Outcome("x", True, (0,), (None,))])
    assert found["session recall_any@5"].count == 2
    assert found["turn recall_any@5"].count == 1


def test_the_interval_of_a_mean_is_that_of_drawing_anew() -> None:
    # The mean of 400 draws of 0 or 1 deviates by 0.025; 95 of 100 lie within 1.96 deviations.
    found = mean([0.0, 1.0] * 200)
    assert found.value == 0.5
    assert found.low == pytest.approx(0.5 - 1.96 * 0.025, abs=0.008)
    assert found.high == pytest.approx(0.5 + 1.96 * 0.025, abs=0.008)
    assert mean([1.0] * 9) == mean([1.0] * 9)
    assert (mean([1.0] * 9).low, mean([1.0] * 9).high) == (1.0, 1.0)


def test_a_difference_is_drawn_question_by_question() -> None:
    found = difference([1.0, 0.6, 0.1], [0.9, 0.5, 0.0])
    assert (found.value, found.low, found.high) == pytest.approx((0.1, 0.1, 0.1))


def test_auc_is_the_share_of_pairs_in_order_and_its_interval_has_it() -> None:
    found = auc([0.9, 0.8, 0.4], [0.4, 0.1])
    assert found.value == pytest.approx(5.5 / 6)
    assert found.low < found.value <= found.high <= 1
    assert auc([1.0], [0.0]).low == 1


def test_calibration_counts_the_first_hits_by_tenths_of_relevance() -> None:
    outcomes = [
        Outcome("x", True, judged=((0.95, True), (0.12, False))),
        Outcome("x", True, judged=((1.0, False), (0.19, True))),
    ]
    bins = calibration(outcomes)
    assert (bins[9], bins[1], sum(count for count, _ in bins)) == ((2, 1), (2, 1), 4)
    assert sum(count for count, _ in calibration(outcomes, first=1)) == 2
