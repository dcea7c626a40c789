"""The words of a text as numbers: what stands in the index is what its definition says."""

import hashlib
import struct
import threading
import unicodedata
import zlib
from dataclasses import replace

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from quipu.search.terms import TERMS_VERSION, index_terms, terms_of, words
from tests.search import drawn
from tests.search.fake import drafted


def read(blob: bytes) -> dict[int, int]:
    count = len(blob) // 5
    return dict(zip(struct.unpack(f"<{count}I", blob[: 4 * count]), blob[4 * count :], strict=True))


def finds(asked: str, kept: str) -> bool:
    """Whether each word of a question is found in a text."""
    found = read(terms_of(kept))
    asked_words = words(asked)
    return bool(asked_words) and all(term in found for _, terms in asked_words for term in terms)


def test_each_distinct_stem_stands_once_in_ascending_order_with_its_count() -> None:
    found = read(terms_of("tea and more tea, teas"))
    assert list(found) == sorted(found)
    assert found == {zlib.crc32(stem): count for stem, count in ((b"tea", 3), (b"and", 1), (b"more", 1))}
    assert terms_of("") == b""


def test_a_count_stays_at_what_a_byte_can_hold() -> None:
    for times, counted in ((1, 1), (255, 255), (256, 255), (300, 255)):
        assert read(terms_of("tea " * times + "cake")) == {
            zlib.crc32(b"tea"): counted,
            zlib.crc32(b"cake"): 1,
        }


def test_only_what_is_searched_has_terms() -> None:
    live = drafted("tea", born=1)
    assert index_terms(live) == terms_of("tea")
    assert index_terms(replace(live, state="archived")) is None
    assert index_terms(replace(live, salt=b"")) is None  # erased
    assert index_terms(replace(live, tags=("cake",))) == terms_of("tea\ncake")


@example("Don't tell Ana's sister what Bo says")
@example("She asked what Bo's dogs were eating")
@given(drawn.sentences() | drawn.texts(max_size=60) | st.text("aZ9 '\u2019s-\u00e9_\u4e2d", max_size=30))
def test_a_word_has_the_terms_it_has_alone(text: str) -> None:
    for word, terms in words(text):
        bare = word[:-2] if word.endswith(("'s", "\u2019s")) else word
        assert set(terms) == set(read(terms_of(bare)))


def test_a_word_is_found_however_its_accents_are_written() -> None:
    texts = (
        "r\u00e9sum\u00e9", "Vi\u1ec7t Nam", "Zo\u00eb's na\u00efve caf\u00e9", "l'\u00e9t\u00e9", "\u0141\u00f3d\u017a",
        "\u1ecd\u0300r\u1ecd\u0300 ay\u00e9", "\u0439\u043e\u0433", "\u03ac\u03c1\u03b9\u03c3\u03c4\u03b1",
        "\ud55c\uad6d\uc5b4", "\u304c\u304e\u3050",
    )  # fmt: skip
    for text in texts:
        for kept in ("NFC", "NFD"):
            for asked in ("NFC", "NFD"):
                question = unicodedata.normalize(asked, text)
                assert finds(question, f"a {unicodedata.normalize(kept, text)} b"), text
                assert len(words(question)) == len(text.split())


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("\u6771\u4eac\u306b\u4f4f\u3080", "\u4eac"),
        ("\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22", "\u0e44\u0e17\u0e22"),
        ("\u1781\u17d2\u1789\u17bb\u17c6\u179a\u179f\u1797\u17b6\u179f\u17b6", "\u1797\u17b6\u179f\u17b6"),
        ("\u1019\u103c\u1014\u103a\u1019\u102c\u1005\u1000\u102c\u1038", "\u1005\u1000\u102c\u1038"),
        ("\uff83\uff7d\uff84\uff83\uff70\uff80", "\uff83\uff70\uff80"),
        ("\U00020bb7\U00020bb8\u91ce", "\U00020bb8"),
    ],
    ids=["Japanese", "Thai", "Khmer", "Burmese", "narrow kana", "rare characters"],
)
def test_a_word_within_a_text_without_spaces_is_found(text: str, asked: str) -> None:
    assert finds(asked, text)


def test_what_a_text_holds_is_found_by_the_same_letters() -> None:
    tokens = (
        "snake_case_name", "camelCaseName", "C++", ".env", "ana@example.org", "https://example.org/a?b=1&c=%20d",
        "2026-01-31T09:30:00Z", "3.14", "O'Brien's", "rock'n'roll", "stra\u00dfe", "\u0130stanbul", "\u0131s\u0131",
        "\uff21\uff22\uff23", "x\u00b2", "soft\u00adhyphen", "zero\u200bwidth", "\u0645\u064f\u062d\u0645\u062f",
        "\u0939\u093f\u0928\u094d\u0926\u0940",
    )  # fmt: skip
    for token in tokens:
        assert finds(token, f"before {token} behind"), token


#: One word to whoever reads it, written in two ways.
SAME = {
    "sharp s": ("Stra\u00dfe", "STRASSE"),
    "capital sharp s": ("STRA\u1e9eE", "strasse"),
    "full width": ("\uff31\uff55\uff49\uff50\uff55", "Quipu"),
    "ligature": ("\ufb01ne", "fine"),
    "mathematical": ("\U0001d407\U0001d41e\U0001d425\U0001d425\U0001d428", "hello"),
    "struck out": ("n\u0336o\u0336n\u0336e\u0336", "none"),
    "half-width kana": ("\uff76\uff9e\uff77\uff9e", "\u30ac\u30ae"),
    "Turkish capitals": ("\u0131s\u0131", "ISI"),
    "dotted capital": ("\u0130zmir", "izmir"),
    "Greek": (
        "\u039f\u03b4\u03c5\u03c3\u03c3\u03b5\u03cd\u03c2",
        "\u039f\u0394\u03a5\u03a3\u03a3\u0395\u03a5\u03a3",
    ),
    "Russian yo": ("\u0451\u043b\u043a\u0430", "\u0435\u043b\u043a\u0430"),
    "Russian stress": ("\u0437\u0430\u0301\u043c\u043e\u043a", "\u0437\u0430\u043c\u043e\u043a"),
    "Arabic vowels": ("\u0645\u064f\u062d\u064e\u0645\u0651\u064e\u062f", "\u0645\u062d\u0645\u062f"),
    "Arabic hamza": ("\u0623\u062d\u0645\u062f", "\u0627\u062d\u0645\u062f"),
    "Arabic stretched": ("\u0645\u062d\u0640\u0640\u0645\u062f", "\u0645\u062d\u0645\u062f"),
    "Arabic shapes": ("\ufee3\ufea4\ufee4\ufeaa", "\u0645\u062d\u0645\u062f"),
    "Hebrew points": ("\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd", "\u05e9\u05dc\u05d5\u05dd"),
    "Arabic digits": ("\u0662\u0660\u0662\u0666", "2026"),
    "Roman numeral": ("\u216b", "xii"),
    "soft hyphens": ("Donau\u00addampf\u00adschiff", "Donaudampfschiff"),
    "joiner": ("\u0915\u094d\u200d\u0937", "\u0915\u094d\u0937"),
}


def test_a_word_is_found_however_it_is_written() -> None:
    for name, (one, other) in SAME.items():
        for kept, asked in ((one, other), (other, one)):
            assert finds(asked, f"before {kept} behind"), name
            ((word, _),) = words(asked)
            assert word == unicodedata.normalize("NFC", asked)


def test_a_mark_that_makes_another_word_is_kept() -> None:
    for one, other in (
        ("\u0439\u043e\u0434", "\u0438\u043e\u0434"),  # Russian
        ("\u0939\u093f\u0928\u094d\u0926\u0940", "\u0939\u0928\u0926"),  # Hindi
        ("\u0ba4\u0bae\u0bbf\u0bb4\u0bcd", "\u0ba4\u0bae \u0bb4"),  # Tamil
        ("\u30ac", "\u30ab"),  # kana
    ):
        assert not read(terms_of(one)).keys() & read(terms_of(other)).keys()
        assert len(words(one)) == 1


@given(drawn.texts(max_size=60))
def test_case_and_form_make_no_other_words(text: str) -> None:
    assume("\u0345" not in unicodedata.normalize("NFD", text))  # a Greek mark whose capital is a letter
    terms = terms_of(text)
    for form in ("NFC", "NFD"):
        assert terms_of(unicodedata.normalize(form, text)) == terms
    assert terms_of(text.upper()) == terms_of(text.casefold()) == terms


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("wow\U0001f923\U0001f923", "wow"),
        ("job\U0001fae1done", "done"),
        ("thanks\U0001f64f\U0001f3fdAna", "Ana"),
        ("\u2068Ana\u2069 wrote", "Ana"),
        ("500\u20bd", "500"),
        ("\ue000private", "private"),
    ],
    ids=["emoji", "between two", "a shade of skin", "a name as chats export it", "a price", "private use"],
)
def test_a_sign_is_no_part_of_the_word_it_stands_at(text: str, asked: str) -> None:
    assert finds(asked, text)


@given(drawn.texts(max_size=60))
def test_every_word_of_a_text_finds_it(text: str) -> None:
    found = read(terms_of(text))
    for word, terms in words(text):
        assert all(term in found for term in terms), word


def test_every_thread_has_a_tokenizer_of_its_own() -> None:
    made: list[bytes] = []

    def work() -> None:
        for _ in range(200):
            made.append(terms_of("The dogs were running"))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [terms_of("The dogs were running")] * 800


#: Texts that are easily cut in another way, and plain ones.
SAMPLES = (
    "The dogs were running at Mara's house, 3rd of May 2026",
    "Don\u2019t e-mail O\u2019Brien: snake_case, C++, 10%",
    "caf\u00e9 cafe\u0301 na\u00efve stra\u00dfe \u0130stanbul \ufb01ne",
    "\U0001f375tea\U0001f9e1Mara \u2764\ufe0fcake \U0001f468\u200d\U0001f469\u200d\U0001f467family",
    "\u0439 \u0438\u0306 \u0451\u0436 \u0435\u0308\u0436 \u03ac \u03b1\u0301 \u1f04",
    "\u0e01\u0e33\u0e25\u0e31\u0e07 \u1798\u17d2\u17a0\u17bc\u1794 \u1019\u103c\u1014\u103a\u1019\u102c \u0ea5\u0eb2\u0ea7",
    "\u0e01\u0e02 \u0e81\u0e82 \u1000\u1001 \u1780\u1781 \u3042\u30a2 \uff71\uff72 \uac00\uac01 \u4e00\u4e01 \U00020000\U00020001",
    "\u6771\u4eac\u30bf\u30ef\u30fc \uff76\uff9e\uff77\uff9e \uff34\uff4f\uff4b\uff59\uff4f \ud55c\uad6d\uc5b4 \u1112\u1161\u11ab",
    "\u0645\u064f\u062d\u064e\u0645\u0651\u064e\u062f \u05e9\u05b8\u05dc\u05d5\u05b9\u05dd \u0939\u093f\u0928\u094d\u0926\u0940 \u0ba4\u0bae\u0bbf\u0bb4\u0bcd",
    *map(" ".join, SAME.values()),
)


def test_other_rules_have_another_number() -> None:
    """Whoever changes how texts are cut gives `TERMS_VERSION` the next number, so that ledgers from before are renewed."""
    made = hashlib.sha256(b"".join(map(terms_of, SAMPLES))).hexdigest()
    assert (TERMS_VERSION, made) == (1, "ff63e9042afcd50454375bc429e9217d9d8cfd82ed68845b34bcd522c735c08b")
