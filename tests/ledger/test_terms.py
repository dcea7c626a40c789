"""The words of a text as numbers: what stands in the index is what its definition says."""

import struct
import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quipu.ledger.search.terms import Tokenizer
from quipu.testing import strategies

TOKENIZER = Tokenizer()


def read(blob: bytes) -> dict[int, int]:
    count = len(blob) // 5
    return dict(zip(struct.unpack(f"<{count}I", blob[: 4 * count]), blob[4 * count :], strict=True))


@given(strategies.texts(max_size=200) | strategies.sentences())
def test_each_distinct_stem_stands_once_in_ascending_order_with_its_count(text: str) -> None:
    stems = TOKENIZER.stems(text)
    found = read(TOKENIZER.terms(text))
    assert list(found) == sorted(found)
    assert found == {
        zlib.crc32(stem.encode()): sum(
            zlib.crc32(other.encode()) == zlib.crc32(stem.encode()) for other in stems
        )
        for stem in stems
    }


@pytest.mark.parametrize(("times", "counted"), [(1, 1), (255, 255), (256, 255), (300, 255)])
def test_a_count_stays_at_what_a_byte_can_hold(times: int, counted: int) -> None:
    found = read(TOKENIZER.terms("tea " * times + "cake"))
    assert found == {zlib.crc32(b"tea"): counted, zlib.crc32(b"cake"): 1}


@given(st.lists(strategies.sentences() | strategies.texts(max_size=40), max_size=6))
def test_many_texts_have_the_terms_of_each(drawn: list[str]) -> None:
    # Enough of them to be done together, some with no word at all and one with a word beyond counting.
    many = [*drawn, "", *("tea for two " * number for number in range(100)), "tea " * 300, *reversed(drawn)]
    assert TOKENIZER.all_terms(many) == [TOKENIZER.terms(text) for text in many]
    assert TOKENIZER.all_terms(drawn) == [TOKENIZER.terms(text) for text in drawn]


@example("Don't tell Ana's sister what Bo says")
@example("She asked what Bo's dogs were eating")
@given(
    strategies.sentences()
    | strategies.texts(max_size=60)
    | st.text("aZ9 '\u2019s-\u00e9_\u4e2d", max_size=30)
)
def test_a_word_has_the_terms_it_has_alone(text: str) -> None:
    words = TOKENIZER.words(text)
    for word, terms in words:
        bare = word[:-2] if word.endswith(("'s", "\u2019s")) else word
        assert terms == [zlib.crc32(stem.encode()) for stem in TOKENIZER.stems(bare)]
