"""What a memory is found by."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.model.record import Provenance, Record
from quipu.search import text
from tests.search import drawn
from tests.search.fake import drafted

RECORD = drafted("likes tea", created_at=1_700_000_000_000)
MACHINE = {
    "name": "return-parcel",
    "initial": "asked",
    "states": ["asked", "label_printed", 7],
    "transitions": [{"trigger": "print_label", "source": "asked", "dest": "label_printed"}, "nonsense", {}],
    "metadata": {"description": "send it back"},
}


def procedure(machine: Any) -> Record:
    return replace(RECORD, type="procedural", content=json.dumps(machine))


def test_a_procedure_is_found_by_name_description_states_and_triggers() -> None:
    assert text.index_text(procedure(MACHINE)) == "return parcel send it back asked label printed print label"
    assert text.embedding_texts(procedure(MACHINE)) == [text.body_text(procedure(MACHINE))]


def test_a_procedure_without_words_has_none() -> None:
    for machine in ({}, {"name": 7}, {"states": "asked"}, {"transitions": {"a": 1}}, {"metadata": "x"}):
        assert text.index_text(procedure(machine)) == ""


def test_a_procedure_that_cannot_be_read_is_taken_as_text() -> None:
    assert text.body_text(procedure(["a", "b"])) == '["a", "b"]'
    for broken in ("{", "[" * 100_000):
        assert text.body_text(replace(RECORD, type="procedural", content=broken)) == broken


@given(drawn.records(type=st.sampled_from(("semantic", "episodic", "emotional"))))
def test_every_record_has_its_words_in_what_it_is_found_by(record: Record) -> None:
    found_by = text.index_text(record)
    assert text.body_text(record) == record.content
    assert all(part in found_by for part in (record.content, *record.tags))


def test_place_people_feeling_subject_and_date_count_too() -> None:
    event = replace(
        RECORD,
        type="episodic",
        details={"location": "Lima", "participants": ["Bo", "Cy"], "event_time": 0},
        provenance=Provenance(written_by="x", subject="Mara"),
        tags=("food",),
    )
    assert text.index_text(event) == "likes tea\nMara\nLima\nBo\nCy\nfood\n1 January 1970 Thursday"
    feeling = replace(RECORD, type="emotional", details={"emotion": "joy"})
    assert text.index_text(feeling) == "likes tea\njoy"
    assert text.index_text(replace(RECORD, type="episodic")).endswith("14 November 2023 Tuesday")
    assert text.embedding_texts(event) == ["likes tea"]


def test_a_day_is_written_as_people_write_it() -> None:
    for moment, words in (
        (0, "1 January 1970 Thursday"),
        (-1, "31 December 1969 Wednesday"),
        (951_782_400_000, "29 February 2000 Tuesday"),
        (1 << 62, ""),
        (-(1 << 62), ""),
    ):
        assert text.date_words(moment) == words


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_any_moment_has_words_or_none(moment: int) -> None:
    assert isinstance(text.date_words(moment), str)


def test_the_subject_is_whom_the_writer_named() -> None:
    cases: list[tuple[dict[str, Any], dict[str, Any], str | None]] = [
        ({}, {}, None),
        ({"subject": "Mara", "speaker": "Bo"}, {}, "Mara"),
        ({"subject": " ", "speaker": "Bo"}, {}, "Bo"),
        ({"subject": 7, "entity_name": "Mara"}, {}, "Mara"),
        ({"author": "Cy"}, {"target": "delays"}, "Cy"),
        ({}, {"target": "delays"}, "delays"),
    ]
    for metadata, details, subject in cases:
        assert text.subject_of(metadata, details) == subject


def test_a_text_that_ends_with_a_question_mark_asks() -> None:
    asking = [text.is_question(drafted(said)) for said in ("Tea?", "Tea? \n", "Tea? Yes.", "?")]
    assert asking == [True, True, False, True]


def test_stop_words_are_known_in_any_case_and_with_either_apostrophe() -> None:
    assert all(text.is_stop_word(word) for word in ("the", "The", "don't", "don\u2019t"))
    assert not text.is_stop_word("tea")


@given(st.text())
def test_a_text_is_storable_when_utf8_can_hold_it_and_it_has_no_zero(said: str) -> None:
    try:
        said.encode("utf-8")
        encodes = True
    except UnicodeEncodeError:
        encodes = False
    assert text.is_storable(said) == (encodes and "\0" not in said)


@pytest.mark.parametrize("said", ["a\ud800", "a\0"])
def test_half_a_character_and_a_zero_are_not_storable(said: str) -> None:
    assert not text.is_storable(said)


def test_what_is_embedded_names_nobody_and_a_long_text_is_embedded_in_passages() -> None:
    hers = replace(RECORD, content="Zoe lives in Rome, says Zorblax", user_id="zorblax@example.org")
    assert text.embedding_texts(hers) == ["someone lives in Rome, says someone"]
    long = replace(RECORD, content="Tom likes tea. " * 200)
    parts = text.embedding_texts(long)
    assert len(parts) > 2
    assert "".join(parts) == "someone likes tea. " * 200
