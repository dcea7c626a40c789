"""What a memory is found by."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.model.record import MemoryType, Provenance, Record
from quipu.model.search import WordShares
from quipu.rules import texts
from quipu.rules.stop_words import is_stop_word
from quipu.testing.strategies import records
from quipu.testing.strategies import texts as any_text

RECORD = Record(
    tenant="t",
    id="mem_A",
    version=1,
    store_id="ms_A",
    agent_id="ana",
    type=MemoryType.SEMANTIC,
    content="likes tea",
    provenance=Provenance(written_by="x"),
    created_at=1_700_000_000_000,
    updated_at=1_700_000_000_000,
)
MACHINE = {
    "name": "return-parcel",
    "initial": "asked",
    "states": ["asked", "label_printed", 7],
    "transitions": [{"trigger": "print_label", "source": "asked", "dest": "label_printed"}, "nonsense", {}],
    "metadata": {"description": "send it back"},
}


def procedure(machine: Any) -> Record:
    return replace(RECORD, type=MemoryType.PROCEDURAL, content=json.dumps(machine))


# -- words of a record --------------------------------------------------------------------------------------------


def test_a_procedure_is_found_by_name_description_states_and_triggers() -> None:
    assert texts.search_text(procedure(MACHINE)) == (
        "return parcel send it back asked label printed print label"
    )
    assert texts.embedding_text(procedure(MACHINE)) == texts.body_text(procedure(MACHINE))


@pytest.mark.parametrize(
    "machine", [{}, {"name": 7}, {"states": "asked"}, {"transitions": {"a": 1}}, {"metadata": "x"}]
)
def test_a_machine_without_words_has_none(machine: Any) -> None:
    assert texts.search_text(procedure(machine)) == ""


def test_a_procedure_that_is_no_object_is_taken_as_text() -> None:
    assert texts.body_text(procedure(["a", "b"])) == '["a", "b"]'


@given(records(type=st.sampled_from([kind for kind in MemoryType if kind is not MemoryType.PROCEDURAL])))
def test_every_record_has_its_words_in_what_it_is_found_by(record: Record) -> None:
    found_by = texts.search_text(record)
    assert record.content in found_by
    assert texts.body_text(record) == record.content
    for tag in record.tags:
        assert tag in found_by
    assert texts.search_text(record) == found_by


def test_place_people_feeling_and_subject_count_too() -> None:
    event = replace(
        RECORD,
        type=MemoryType.EPISODIC,
        details={"location": "Lima", "participants": ["Bo", "Cy"], "event_time": 0},
        provenance=Provenance(written_by="x", subject="Mara"),
        tags=("food",),
    )
    assert texts.search_text(event) == "likes tea\nMara\nLima\nBo\nCy\nfood\n1 January 1970 Thursday"
    feeling = replace(RECORD, type=MemoryType.EMOTIONAL, details={"emotion": "joy"})
    assert texts.search_text(feeling) == "likes tea\njoy"
    named = replace(RECORD, provenance=Provenance(written_by="x", subject="Mara"))
    assert texts.search_text(named) == "likes tea\nMara"


def test_an_event_without_a_time_is_dated_by_its_record() -> None:
    assert texts.search_text(replace(RECORD, type=MemoryType.EPISODIC)).endswith("14 November 2023 Tuesday")


@pytest.mark.parametrize(
    ("moment", "words"),
    [
        (0, "1 January 1970 Thursday"),
        (-1, "31 December 1969 Wednesday"),
        (951_782_400_000, "29 February 2000 Tuesday"),
        (1 << 62, ""),
        (-(1 << 62), ""),
    ],
)
def test_a_day_is_written_as_people_write_it(moment: int, words: str) -> None:
    assert texts.date_words(moment) == words


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_any_moment_has_words_or_none(moment: int) -> None:
    assert isinstance(texts.date_words(moment), str)


@pytest.mark.parametrize(
    ("metadata", "details", "subject"),
    [
        ({}, {}, None),
        ({"subject": "Mara", "speaker": "Bo"}, {}, "Mara"),
        ({"subject": " ", "speaker": "Bo"}, {}, "Bo"),
        ({"subject": 7, "entity_name": "Mara"}, {}, "Mara"),
        ({"author": "Cy"}, {"target": "delays"}, "Cy"),
        ({}, {"target": "delays"}, "delays"),
    ],
)
def test_the_subject_is_whom_the_writer_named(metadata: Any, details: Any, subject: str | None) -> None:
    assert texts.subject_of(metadata, details) == subject


# -- words of a query ---------------------------------------------------------------------------------------------


def shares(in_reach: int, **words: float) -> WordShares:
    return WordShares(tuple(words.items()), in_reach, frozenset())


def test_words_that_everything_has_are_left_out_of_a_query() -> None:
    given = shares(100, what=0.0, does=0.0, Mara=0.9, eat=0.05)
    assert texts.stripped("what does Mara eat", given, 0.2) == "what does eat"


def test_a_query_of_nothing_but_common_words_stays_as_it_is() -> None:
    given = shares(100, what=0.0, about=0.0, Mara=0.9)
    assert texts.stripped("What about Mara?", given, 0.2) == "What about Mara?"


def test_a_word_that_two_records_have_is_not_common() -> None:
    assert texts.stripped("Mara eats", shares(3, Mara=2 / 3, eats=1 / 3), 0.1) == "Mara eats"


def test_someone_stands_for_a_user_that_a_query_names() -> None:
    given = replace(
        shares(100, what=0.0, does=0.0, **{"Mara's": 0.05}, dog=0.01, eat=0.0), names=frozenset({"Mara's"})
    )
    assert texts.stripped("what does Mara's dog eat", given, 0.2) == "what does someone dog eat"


def test_first_and_last_name_are_one_person() -> None:
    given = replace(
        shares(100, what=0.0, eats=0.0, Mara=0.05, Silva=0.05), names=frozenset({"Mara", "Silva"})
    )
    assert texts.stripped("what eats Mara Silva", given, 0.2) == "what eats someone"


def test_a_query_of_nothing_but_a_name_keeps_it() -> None:
    given = replace(shares(100, who=0.0, **{"is": 0.0}, Mara=0.05), names=frozenset({"Mara"}))
    assert texts.stripped("Who is Mara?", given, 0.2) == "Who is Mara?"


@pytest.mark.parametrize(
    ("words", "names", "is_shortened"),
    [
        ({"what": 0.0, "does": 0.0, "Mara": 0.9, "eat": 0.05}, (), True),
        ({"what": 0.0, "does": 0.0, "Mara": 0.05, "eat": 0.05}, ("Mara",), True),
        ({"what": 0.0, "does": 0.0, "Mara": 0.05, "eat": 0.05}, (), False),
        (
            {"what": 0.9, "is": 0.9, "eaten": 0.05},
            (),
            False,
        ),  # stop words are kept, however many records have them
        ({"who": 0.0, "is": 0.0, "Mara": 0.05}, ("Mara",), False),  # it stays as it is
        ({}, (), False),
    ],
)
def test_a_query_is_shortened_when_words_are_left_out_of_it(
    words: dict[str, float], names: tuple[str, ...], is_shortened: bool
) -> None:
    given = replace(shares(100, **words), names=frozenset(names))
    assert texts.is_shortened(given, 0.2) is is_shortened
    query = " ".join(words)
    assert (texts.stripped(query, given, 0.2) != query) is is_shortened


def stranger(text: str, *known: str, names: frozenset[str] = frozenset(), several: bool = True) -> bool:
    words = tuple((word, 0.1 if word in known else 0.0) for word in text.split())
    return texts.has_stranger(WordShares(words, 100, frozenset(), names=names, has_several_users=several))


def test_somebody_whom_no_record_mentions_is_a_stranger() -> None:
    assert stranger("What is Henrik allergic to", "allergic")
    assert not stranger("What is Henrik allergic to", "Henrik")
    assert not stranger("What is Henrik allergic to", names=frozenset({"Henrik"}))
    assert not stranger("How long has Mara lived in Canada", "Mara")
    assert not stranger("what am I allergic to and what I'm not", "allergic")


def test_a_name_that_others_have_more_often_may_be_a_word_unless_it_is_written_as_a_name() -> None:
    def shared(text: str, *mentions: str, users: frozenset[str] = frozenset({"home"})) -> frozenset[str]:
        words = tuple((word, 0.1) for word in text.split())
        named = frozenset(word for word in text.split() if word.lower() == "home")
        told = WordShares(words, 100, frozenset(), names=named, mentions=frozenset(mentions), users=users)
        return texts.shared_names(told)

    assert shared("when am I home on Fridays") == {"home"}
    assert shared("Home on Fridays") == {"Home"}
    assert shared("what does Home like") == frozenset()
    assert shared("when am I home on Fridays", "home") == frozenset()
    assert shared("when am I home on Fridays", users=frozenset()) == frozenset()


def test_a_day_or_a_month_is_no_stranger() -> None:
    assert not stranger("What does Henrik cook every Sunday", "Henrik")
    assert not stranger("What are the plans for January")
    assert stranger("What does Henrik cook every Sunday", "Sunday")


def test_a_german_noun_is_no_stranger() -> None:
    assert not stranger("Welche Allergie hat Henrik", "Henrik")
    assert not stranger("Was f\u00fcr ein Fahrzeug hat Henrik", "Henrik")


def test_where_nobody_is_told_apart_nobody_is_a_stranger() -> None:
    assert not stranger("What is Henrik allergic to", several=False)


@given(
    st.lists(st.tuples(st.sampled_from(("Mara", "eats", "the", "bread")), st.floats(0, 1)), max_size=5),
    st.integers(0, 200),
    st.floats(0, 1),
)
def test_stripping_only_takes_words_away(
    words: list[tuple[str, float]], in_reach: int, common_from: float
) -> None:
    query = " ".join(word for word, _ in words)
    left = texts.stripped(query, WordShares(tuple(words), in_reach, frozenset()), common_from)
    assert left == query or set(left.split()) <= set(query.split())
    assert bool(left) == bool(query)


@pytest.mark.parametrize(
    ("text", "names", "named"),
    [
        ("What did Ana say?", {"Ana", "Anastasia"}, {"Ana"}),
        ("Ana's bike and Bo’s car", {"ana", "Bo"}, {"ana", "Bo"}),
        ("about Jean-Luc Picard", {"Jean Luc Picard", "Picard", "Luc P"}, {"Jean Luc Picard", "Picard"}),
        ("", {"Ana"}, set()),
        ("Ana", {""}, set()),
    ],
)
def test_names_are_found_as_whole_words(text: str, names: set[str], named: set[str]) -> None:
    assert texts.named(text, {name: texts.spelled(name) for name in names}) == named


@pytest.mark.parametrize("subject", ["Zo\u00ebs Caf\u00e9", "Zoe\u0308s Cafe\u0301"])
@pytest.mark.parametrize("text", ["At Zo\u00ebs caf\u00e9?", "At Zoe\u0308s cafe\u0301?"])
def test_a_name_is_found_however_its_accents_are_written(text: str, subject: str) -> None:
    assert texts.named(text, {subject: texts.spelled(subject)}) == {subject}


@given(any_text(), st.sets(any_text(max_size=5)))
def test_only_given_names_are_found(text: str, names: set[str]) -> None:
    assert texts.named(text, {name: texts.spelled(name) for name in names}) <= names


def test_stop_words_are_known_in_any_case_and_with_either_apostrophe() -> None:
    assert all(is_stop_word(word) for word in ("the", "The", "don't", "don\u2019t"))
    assert not is_stop_word("tea")


@given(st.text())
def test_a_text_is_keepable_when_utf8_can_hold_it_and_it_has_no_zero(text: str) -> None:
    try:
        text.encode("utf-8")
        encodes = True
    except UnicodeEncodeError:
        encodes = False
    assert texts.is_keepable(text) == (encodes and "\0" not in text)


def test_half_a_character_is_not_keepable() -> None:
    assert not texts.is_keepable("a\ud800")
    assert not texts.is_keepable("a\0")
    assert texts.is_keepable("𐀀é")
