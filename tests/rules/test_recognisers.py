"""What gives somebody away is masked, however long a text is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.rules.projection_recognisers import masked

PLAINLY = re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+")


@given(st.text(alphabet="ab\u00e91@.+-_ \n", max_size=30))
def test_addresses_are_those_that_the_plain_pattern_finds(text: str) -> None:
    assert ("[email]" in masked(text)) == bool(PLAINLY.search(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("write to ana.b+c@mail.example.org today", "write to [email] today"),
        ("a@b.c+d@e.f", "[email][email]"),
        ("no one @ home, nor at x@y", "no one @ home, nor at x@y"),
    ],
)
def test_addresses_are_masked_whole(text: str, expected: str) -> None:
    assert masked(text) == expected


def test_a_long_text_without_an_address_is_read_once() -> None:
    """Letter by letter anew it would take an hour."""
    assert masked("a" * (1 << 20)) == "a" * (1 << 20)
    assert masked("a" * 1_000 + "@" + "b" * 1_000) == "a" * 1_000 + "@" + "b" * 1_000
