"""Many strings are found at once, wherever each begins."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.secrets import literals
from quipu.secrets.literals import Literals, encoded
from tests.secrets.noise import drawn

STRINGS = st.lists(st.text("abé", min_size=1, max_size=16), max_size=40)


@given(STRINGS, st.text("abé\ud800", max_size=80))
def test_every_string_is_found_wherever_it_begins(strings: list[str], text: str) -> None:
    found = set(Literals(strings).found(encoded(text)))
    assert found == {
        (place, one) for one in strings for place in range(len(text)) if text.startswith(one, place)
    }


@given(STRINGS, st.text("abé", max_size=80))
def test_a_quick_no_is_true(strings: list[str], text: str) -> None:
    if not Literals(strings).may_be_in(encoded(text)):
        assert not any(one in text for one in strings)


def test_more_than_one_search_can_take_are_found_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    strings = [drawn(f"many {number}", 10) for number in range(50)]
    text = encoded(f"{strings[0]} é {strings[49]} {strings[20]}")
    whole = set(Literals(strings).found(text))
    monkeypatch.setattr(literals, "_MOST_HEADS", 7)
    assert (
        set(Literals(strings).found(text)) == whole == {(0, strings[0]), (13, strings[49]), (24, strings[20])}
    )


def test_thousands_of_strings_are_one_search() -> None:
    strings = [drawn(f"many {number}", 20) for number in range(20_000)]
    many = Literals(strings)
    assert not many.may_be_in(encoded("the quick brown fox " * 50_000))
    assert list(many.found(encoded(f"x{strings[7]}y"))) == [(1, strings[7])]
