"""What a question means among the records in reach: the words that it is embedded without, and whom it names."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.model.search import WordShares
from quipu.search.query import SOMEONE, Query, analyse, name_parts, person_names

COMMON_FROM = 0.1


def shares(text: str, had: Mapping[str, float], in_reach: int = 1_000, **fields: Any) -> WordShares:
    """The words of a text, of which some are had by that share of the records and the others by hardly any."""
    words = tuple((word, had.get(word, 1 / in_reach)) for word in text.split())
    return WordShares(words=words, in_reach=in_reach, subjects=frozenset(), seq=7, **fields)


def asked(text: str, had: Mapping[str, float], in_reach: int = 1_000, **fields: Any) -> Query:
    return analyse(text, shares(text, had, in_reach, **fields), COMMON_FROM)


def test_a_question_is_embedded_without_the_words_that_a_large_share_has() -> None:
    query = asked("what does Mara order for lunch", {"Mara": 0.6, "order": 0.1})
    assert (query.embedding_text, query.is_shortened) == ("what does order for lunch", True)
    assert query.text == "what does Mara order for lunch", "keyword search keeps them"
    assert query.seq == 7


def test_a_question_of_common_words_alone_is_embedded_as_it_is() -> None:
    query = asked("lunch with Mara", {"Mara": 0.6, "lunch": 0.5})
    assert (query.embedding_text, query.is_shortened) == ("lunch with Mara", False)


@given(st.integers(1, 20), st.integers(0, 20))
def test_two_records_are_not_many_however_few_there_are(in_reach: int, having: int) -> None:
    having = min(having, in_reach)
    query = asked("Mara lunch", {"Mara": having / in_reach, "lunch": 0.0}, in_reach)
    assert query.is_shortened is (having > 2)


def test_whoever_brings_a_vector_had_all_of_it_embedded() -> None:
    found = shares("what does Mara order", {"Mara": 0.6})
    assert not analyse("what does Mara order", found, COMMON_FROM, has_own_vector=True).is_shortened


def test_someone_stands_for_who_is_named_and_once_for_a_whole_name() -> None:
    names = frozenset({"Mara", "Silva"})
    query = asked("what did Mara Silva eat", {}, names=names, mentions=names)
    assert query.embedding_text == f"what did {SOMEONE} eat"
    assert query.names == names


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


def test_a_name_is_read_off_an_id() -> None:
    assert name_parts("mara.Sílva7@example.com") == {"mara"}
    assert name_parts("Mara O'Neil") == {"mara", "neil"}
    assert name_parts("u-4711") == frozenset()
