"""Our word pieces compared with the model's own tokenizer library."""

import unicodedata
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from quipu.embed.description import load_weights
from quipu.embed.wordpiece import WordPieces
from scripts.build_model import installed_weights

#: The library has tables of Unicode 8 for punctuation and marks, Python younger ones. No piece of the vocabulary holds
#: such a character: a word with one is unknown to both, at most in another number of parts.
YOUNGER = 600

VOCABULARY = load_weights().vocabulary
ours = WordPieces(VOCABULARY).numbers


def _library(directory: Path) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True
    return tokenizer


LIBRARY = _library(installed_weights())


def theirs(text: str) -> list[int]:
    return LIBRARY.encode(text, add_special_tokens=False).ids


def _is_compared(code: int) -> bool:
    """Every character, and a sample of the numbers that no character has in Python's Unicode or the older one."""
    category = unicodedata.category(chr(code))
    return category != "Cs" and (category != "Cn" or code % 64 == 0)


def _differing(codes: Sequence[int]) -> set[int]:
    """The characters that the two read differently. Many are read in one text; a text that differs is halved."""
    text = " ".join(f"a{chr(code)}b {chr(code)}" for code in codes)
    if ours(text) == theirs(text):
        return set()
    if len(codes) == 1:
        return set(codes)
    middle = len(codes) // 2
    return _differing(codes[:middle]) | _differing(codes[middle:])


def test_every_character_is_read_as_the_library_reads_it() -> None:
    codes = [code for code in range(0x110000) if _is_compared(code)]
    assert len(codes) > 280_000
    differing = {
        code for start in range(0, len(codes), 256) for code in _differing(codes[start : start + 256])
    }
    assert len(differing) <= YOUNGER
    assert not differing & {ord(letter) for piece in VOCABULARY for letter in piece}
    assert not {
        code for code in differing if code < 0x2000 and unicodedata.name(chr(code), "").startswith("LATIN")
    }


@given(st.text(st.characters(max_codepoint=0x5FF, exclude_categories=("Cs",)), max_size=120))
def test_texts_in_the_common_alphabets_are_read_the_same(text: str) -> None:
    assert ours(text) == theirs(text)


@given(st.text(st.sampled_from("abcdeinorst é中文ßŁÅ#'-_.@/[]0123456789\t\n\u200b\u0301"), max_size=200))
def test_words_of_frequent_letters_are_cut_the_same(text: str) -> None:
    assert ours(text) == theirs(text)


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
def test_odd_texts_are_read_as_the_library_reads_them(text: str) -> None:
    assert ours(text) == theirs(text)


def test_a_word_beyond_the_longest_is_one_unknown_piece() -> None:
    assert ours("a" * 101) == [100]
    assert len(ours("a" * 100)) > 1
