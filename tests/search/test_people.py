"""People in texts that are embedded."""

import pytest

from quipu.search.people import name_parts, without_names


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Tom is on the Enterprise plan", "someone is on the Enterprise plan"),
        ("Where does Tom live?", "Where does someone live?"),
        ("what goes with tea?", "what goes with tea?"),
        ("Anna Maria Kowalska and Ben's dog", "someone and someone's dog"),
        ("Anna-Lena met Tom.", "someone met someone."),
        ("We deploy on Tuesdays with Python in Berlin", "We deploy on Tuesdays with Python in Berlin"),
        ("Will it rain in May?", "Will it rain in May?"),
        ("ANNA SHOUTS", "ANNA SHOUTS"),
        ("", ""),
    ],
)
def test_someone_stands_for_a_person(text: str, masked: str) -> None:
    assert without_names(text).text == masked


def test_what_is_known_to_be_a_name_is_one() -> None:
    masked = without_names("Zorblax likes tea, says zorblax", {"zorblax"})
    assert masked.text == "someone likes tea, says zorblax"
    assert masked.names == {"Zorblax"}


def test_a_statement_and_its_question_are_masked_alike() -> None:
    for name in ("Mara", "Kwame", "Sigr\u00fan", "Wanjiru", "Giulia"):
        assert without_names(f"{name} is vegetarian").text == "someone is vegetarian"
        assert without_names(f"What does {name} eat?").text == "What does someone eat?"


def test_a_name_is_read_off_an_id() -> None:
    assert name_parts("mara.S\u00edlva7") == {"mara"}
    assert name_parts("Mara O'Neil") == {"mara", "neil"}
    assert name_parts("u-4711") == frozenset()
