"""Which names are near to a misspelt one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.rules.nearest import nearest, slips

COMMANDS = ("remember", "reembed", "recall", "recover", "token", "list", "did", "health", "port", "host")
WORDS = st.text("abc-", max_size=8)

CASES = {
    "a letter left out": ("remembr", ["remember"]),
    "two left out, and another as near": ("rember", ["remember"]),
    "a letter too many": ("recalll", ["recall"]),
    "neighbours swapped": ("prot", ["port"]),
    "only begun": ("reme", ["remember"]),
    "begun, of several": ("rec", ["recall", "recover"]),
    "a short word with two slips is another word": ("add", []),
    "nothing like it": ("zzzzzz", []),
    "nothing at all": ("", []),
}


@pytest.mark.parametrize("name", CASES)
def test_the_nearest_names_are_found_and_no_others(name: str) -> None:
    word, meant = CASES[name]
    assert nearest(word, COMMANDS) == meant


def test_where_nothing_is_known_nothing_is_near() -> None:
    assert nearest("recall", ()) == []


@given(WORDS, WORDS)
def test_slips_are_counted_both_ways_alike(one: str, other: str) -> None:
    assert slips(one, other) == slips(other, one)
    assert (slips(one, other) == 0) == (one == other)
    assert abs(len(one) - len(other)) <= slips(one, other) <= max(len(one), len(other))


@given(WORDS, st.integers(0, 7), st.sampled_from("xyz"))
def test_one_wrong_letter_is_one_slip(word: str, place: int, letter: str) -> None:
    place %= len(word) + 1
    assert slips(word, word[:place] + letter + word[place:]) == 1
