"""What a question means among the records in reach: whom it names, and what is left of it."""

from collections.abc import Mapping
from typing import Any

import pytest

from quipu.model.search import WordShares
from quipu.search.query import Query, analyse, person_names


def shares(text: str, had: Mapping[str, float], in_reach: int = 1_000, **fields: Any) -> WordShares:
    """The words of a text, of which some are had by that share of the records and the others by hardly any."""
    words = tuple((word, had.get(word, 1 / in_reach)) for word in text.split())
    return WordShares(**{"words": words, "in_reach": in_reach, "subjects": frozenset(), "seq": 7} | fields)


def asked(text: str, had: Mapping[str, float], in_reach: int = 1_000, **fields: Any) -> Query:
    return analyse(text, shares(text, had, in_reach, **fields))


def test_a_question_is_embedded_without_the_people_that_it_names() -> None:
    query = asked("What does Tom order for lunch?", {"Tom": 0.6})
    assert query.embedding_text == "What does someone order for lunch?"
    assert query.people == {"Tom"}
    assert query.text == "What does Tom order for lunch?", "keyword search keeps them"
    assert query.seq == 7


def test_users_and_subjects_in_reach_are_people_whatever_they_are_called() -> None:
    assert asked("what did Zorblax eat", {}, names=frozenset({"Zorblax"})).people == {"Zorblax"}
    assert asked("what did Captain Quux eat", {}, subjects=frozenset({"captain quux"})).people == {
        "Captain",
        "Quux",
    }
    assert asked("what did Zorblax eat", {}).embedding_text == "what did Zorblax eat"


def test_a_name_that_others_have_more_often_is_a_name_only_where_it_is_written_as_one() -> None:
    home = {"names": frozenset({"home", "Home"}), "users": frozenset({"home@x"})}
    assert asked("who is at home today", {}, **home).shared_names == {"home", "Home"}
    assert asked("what did Home say about lunch", {}, **home).shared_names == {"home"}


@pytest.mark.parametrize(
    ("text", "known", "is_unknown"),
    [
        ("what did Rosa eat for lunch", {}, False),
        ("what did Rosa eat for lunch", {"Rosa": 0.0}, True),
        ("what did we eat in Canada at lunch", {"Canada": 0.0}, False),
        ("what did our Monday bring for lunch", {"Monday": 0.0}, False),
        ("Rosa ate what for lunch there", {"Rosa": 0.0}, False),
        ("what did rosa eat for lunch", {"rosa": 0.0}, False),
    ],
)
def test_somebody_whom_no_record_mentions_is_noticed_among_several_users(
    text: str, known: dict[str, float], is_unknown: bool
) -> None:
    assert asked(text, known, has_several_users=True).names_unknown_person is is_unknown
    assert not asked(text, known).names_unknown_person, "in one person's memory they may be who it is about"


def test_where_most_words_have_a_capital_none_is_a_name() -> None:
    assert person_names(["What", "Did", "Rosa", "Eat", "For", "Lunch"]) == frozenset()
    assert person_names(["was", "hat", "Rosa", "am", "Montag", "gegessen"]) == frozenset(), (
        "every German noun has one"
    )
