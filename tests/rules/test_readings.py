"""Readings: what escapes stand for, and where in the original it stood."""

from __future__ import annotations

import html
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.rules.readings import folded, readings
from quipu.testing.strategies import texts

WORD = 'Pa"ss\\wörd & <1>/😀'


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (json.dumps(WORD)[1:-1], WORD),
        (json.dumps(json.dumps(WORD)[1:-1])[1:-1], WORD),
        (json.dumps(json.dumps(json.dumps(WORD)[1:-1])[1:-1])[1:-1], WORD),
        (json.dumps(WORD, ensure_ascii=False)[1:-1].replace("/", "\\/"), WORD),
        (quote(WORD, safe=""), WORD),
        (quote(quote(WORD, safe=""), safe=""), WORD),
        (quote_plus(WORD), WORD),
        (html.escape(WORD), WORD),
        (html.escape(json.dumps(WORD)[1:-1]), WORD),
        (quote(json.dumps(WORD)[1:-1]), WORD),
        ("".join(f"&#{ord(char)};" for char in WORD), WORD),
        ("".join(f"&#x{ord(char):X};" for char in WORD), WORD),
        ("p\u200ba\u00ads\u2060s\ufeff", "pass"),
        ("p\ufe0fa\u034fs\U000e0101s\x07\x7f", "pass"),
        ("p\x80a\u2028s\u2029s\u2800", "pass"),
        ("\uff50\uff41\U0001d42c\u24e2", "pass"),
        ("\\x70\\x61\\x73\\x73", "pass"),
        ("\\b\\f\\n\\r\\t", "\b\f\n\r\t"),
    ],
)
def test_an_escaped_text_can_be_read(written: str, read: str) -> None:
    assert read in {reading.text for reading in readings(written, alone=True)}


def test_what_is_no_escape_stays() -> None:
    for text in ("100% sure", "50%zz", "a\\qb", "&nosuchthing;", "%ED%A0%80", "\\ud800", "R&D", "a%e9b"):
        assert [reading.text for reading in readings(text)] == [text]
    assert [reading.text for reading in readings("plain text, as most are")] == ["plain text, as most are"]


def test_one_escape_is_also_undone_without_the_others() -> None:
    read = {reading.text for reading in readings('a%41\\"b', alone=True)}
    assert {'a%41"b', 'aA\\"b', 'aA"b'} <= read
    assert 'a%41"b' not in {reading.text for reading in readings('a%41\\"b')}


def test_lines_are_joined_only_when_asked() -> None:
    assert "abcdef" in {reading.text for reading in readings("abc\r\n   def", joins_lines=True)}
    assert "abcdef" in {reading.text for reading in readings("abc\r   def", joins_lines=True)}
    assert "abcdef" not in {reading.text for reading in readings("abc\r\n   def")}


@given(
    st.lists(
        st.sampled_from(
            (
                "a",
                "B7",
                " ",
                "+",
                "%41",
                "%c3%a9",
                "\\n",
                "\\u00e9",
                "\\\\",
                "&amp;",
                "\u200b",
                "\uff41",
                "\n  ",
                "é",
                "\U0001f600",
            )
        )
    )
)
def test_every_reading_knows_where_its_characters_stood(parts: list[str]) -> None:
    text = "".join(parts)
    for reading in readings(text, alone=True, joins_lines=True):
        ends = 0
        for index in range(len(reading.text)):
            start, end = reading.span(index, index + 1)
            assert 0 <= start < end <= len(text)
            assert start >= ends or reading.span(index - 1, index) == (start, end)
            ends = end
            if reading.text[index] != text[start]:  # it was decoded from something
                assert text[start] in "%\\&\uff41+\u200b"


@given(texts())
def test_folding_is_idempotent_and_leaves_plain_text_alone(text: str) -> None:
    assert folded(folded(text)) == folded(text)
    if text.isascii() and text.isprintable():
        assert folded(text) == text


def test_many_different_characters_are_folded_without_being_kept_all() -> None:
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 12_000)))
    assert folded(text) == text
