"""Names: found by id and by whose records have them, left out where texts are compared."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.model.search import Candidate
from quipu.rules import names
from tests.rules.candidates import candidates


@pytest.mark.parametrize(
    ("user_id", "parts"),
    [
        ("ines", {"ines"}),
        ("Mei.Lin", {"mei", "lin"}),
        ("kwame@asante.example", {"kwame"}),
        ("Sigrún Jónsdóttir", {"sigrun", "jonsdottir"}),
        ("Sigru\u0301n Jo\u0301nsdo\u0301ttir", {"sigrun", "jonsdottir"}),
        ("u-4821", set()),
        ("0f3a9b1c-77de-4c2b-9dad-44e1f0c2b7aa", set()),
        ("tenant_7/bo", {"tenant", "bo"}),
        ("", set()),
    ],
)
def test_an_id_says_what_somebody_is_called(user_id: str, parts: set[str]) -> None:
    assert names.parts(user_id) == parts


def test_a_word_that_hardly_anybody_elses_records_have_is_a_name() -> None:
    assert names.is_name_of(9, 12, 9, is_person=False)
    assert names.is_name_of(9, 12, 11, is_person=False)
    assert not names.is_name_of(9, 12, 12, is_person=False)


def test_a_rare_word_is_a_name_only_if_it_is_written_as_one() -> None:
    assert not names.is_name_of(1, 12, 1, is_person=False)
    assert names.is_name_of(1, 12, 1, is_person=True)
    assert not names.is_name_of(1, 12, 2, is_person=True)
    assert not names.is_name_of(0, 12, 0, is_person=True)


def test_a_word_that_few_of_ones_records_have_is_no_name() -> None:
    assert not names.is_name_of(3, 12, 3, is_person=False)
    assert names.is_name_of(4, 12, 4, is_person=False)


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 300), st.booleans())
def test_what_cannot_be_a_name_is_none(theirs: int, of_them: int, having: int, is_person: bool) -> None:
    theirs = min(theirs, having)
    if names.is_name_of(theirs, max(of_them, theirs), having, is_person):
        assert names.may_name(having, is_person)
        assert names.is_own(theirs, having)


def test_a_part_that_many_ids_have_tells_nobody_apart() -> None:
    assert [names.is_told_apart(count) for count in (0, 1, 3, 4)] == [False, True, True, False]


@pytest.mark.parametrize(
    ("text", "persons"),
    [
        ("What is Henrik allergic to", {"Henrik"}),
        ("What does Dr Nakamura charge per hour", {"Dr", "Nakamura"}),
        ("How long has Pascal been living in Canada", {"Pascal"}),
        ("How much was saved for the trip to South America", set()),
        ("Who painted the Sistine Chapel and why", set()),
        ("Pilar keeps bees", set()),
        ("Should I send it as PDF", set()),
        ("What Does Everybody Like To Eat", set()),
        ("Welche Allergie hat Henrik", set()),
        ("Was f\u00fcr ein Fahrzeug hat Henrik im Winter", set()),
        ("Will Henrik so in den Garten an die Donau", set()),
        ("Henrik Nakamura invoice", set()),
        ("What does Henrik cook every Sunday", {"Henrik"}),
        ("What are April's plans for January's second week", {"April's"}),
        ("", set()),
    ],
)
def test_persons_are_told_by_how_they_are_written(text: str, persons: set[str]) -> None:
    assert names.persons(text.split()) == persons


@given(candidates(), st.frozensets(st.sampled_from(("s1", "s2"))))
def test_a_record_is_about_its_user_and_about_whom_it_names(one: Candidate, users: frozenset[str]) -> None:
    assert names.about(replace(one, user_id="s1", named=0.0), {"s1"}) == 1
    assert names.about(replace(one, user_id=None, named=1.0), users) == 1
    assert not names.about(replace(one, user_id="s3", named=0.5), users)


@given(candidates(), st.floats(0, 1, width=32), st.floats(0, 1, width=32))
def test_a_record_that_may_name_somebody_is_less_about_them_than_one_that_does(
    one: Candidate, named: float, more: float
) -> None:
    far, near = (
        names.about(replace(one, user_id="s3", named=share), {"s1"}) for share in sorted((named, more))
    )
    assert far <= near <= 1
    assert 0 < names.about(replace(one, user_id="s3", named=names.SHARED), {"s1"}) < 1
