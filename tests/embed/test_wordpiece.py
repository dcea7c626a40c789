"""Our word pieces beside the model's own tokenizer, the original."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Sequence
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from quipu.embed.weights import PACKAGE
from quipu.embed.wordpiece import WordPieces

Reader = Callable[[str], list[int]]

_FILE = files(PACKAGE).joinpath("model", "tokenizer.json").read_text("utf-8")
#: The original has tables of Unicode 8 for signs and marks, Python younger ones. No piece of the vocabulary holds
#: such a character: a word with one is unknown to both, at most in another number of parts.
_YOUNGER = 600


def _original() -> Reader:
    made = Tokenizer.from_str(_FILE)
    made.no_padding()
    made.no_truncation()
    made.encode_special_tokens = True
    return lambda text: made.encode(text, add_special_tokens=False).ids


ours, original = WordPieces(_FILE).numbers, _original()


def _asked(code: int) -> bool:
    """Every character, and a sample of the numbers that no character has in Python's Unicode or the older one."""
    category = unicodedata.category(chr(code))
    return category != "Cs" and (category != "Cn" or code % 64 == 0)


def _differing(codes: Sequence[int]) -> set[int]:
    """The characters that the two read differently. Many are read in one text; a text that differs is halved."""
    text = " ".join(f"a{chr(code)}b {chr(code)}" for code in codes)
    if ours(text) == original(text):
        return set()
    if len(codes) == 1:
        return set(codes)
    middle = len(codes) // 2
    return _differing(codes[:middle]) | _differing(codes[middle:])


def test_every_character_is_read_as_the_original_reads_it() -> None:
    codes = [code for code in range(0x110000) if _asked(code)]
    assert len(codes) > 280_000
    differing = {
        code for start in range(0, len(codes), 256) for code in _differing(codes[start : start + 256])
    }
    assert len(differing) <= _YOUNGER
    alphabet = {ord(letter) for piece in json.loads(_FILE)["model"]["vocab"] for letter in piece}
    assert not differing & alphabet
    common = {
        code for code in differing if code < 0x2000 and unicodedata.name(chr(code), "").startswith("LATIN")
    }
    assert not common


@given(st.text(st.characters(max_codepoint=0x5FF, exclude_categories=("Cs",)), max_size=120))
def test_texts_in_the_common_alphabets_are_read_the_same(text: str) -> None:
    assert ours(text) == original(text)


@given(st.text(st.sampled_from("abcdeinorst é中文ßŁÅ#'-_.@/[]0123456789\t\n\u200b\u0301"), max_size=200))
def test_words_of_frequent_letters_are_cut_the_same(text: str) -> None:
    assert ours(text) == original(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \t\n",
        "[CLS] is five signs [SEP] [MASK] ##ing",
        "Straße in İstanbul, ΣΊΣΥΦΟΣ ﬁn",
        "x" * 100,
        "x" * 101,
        "qzjxkv" * 40,
        "東京タワーはどこ 서울",
        "naïve café e\u0301 résumé",
        "it's 3.14$+~^` a_b",
        "\u0000a\ufffdb\u200bc\u2028d\x85e\x1cf",
        "👩‍💻 writes",
    ],
    ids=lambda text: repr(text[:20]),
)
def test_corners_are_read_as_the_original_reads_them(text: str) -> None:
    assert ours(text) == original(text)


def test_a_word_beyond_the_longest_is_one_unknown_piece() -> None:
    assert ours("a" * 101) == [100]
    assert len(ours("a" * 100)) > 1
