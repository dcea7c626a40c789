"""Decoded variants: what escapes and runs stand for, and where in the original it stood."""

import base64
import html
import json
import quopri
from urllib.parse import quote, quote_plus

from hypothesis import given
from hypothesis import strategies as st

from quipu.secrets.decoded import Decoded, folded, variants
from tests.secrets.noise import BASE64, HEX, drawn

WORD = 'Pa"ss\\wörd & <1>/=😀'
TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=40)


def json_escaped(text: str) -> str:
    return json.dumps(text)[1:-1]


def test_an_escaped_text_can_be_read() -> None:
    written = {
        json_escaped(WORD): WORD,
        json_escaped(json_escaped(WORD)): WORD,
        json_escaped(json_escaped(json_escaped(WORD))): WORD,
        json.dumps(WORD, ensure_ascii=False)[1:-1].replace("/", "\\/"): WORD,
        quote(WORD, safe=""): WORD,
        quote(quote(WORD, safe=""), safe=""): WORD,
        quote_plus(WORD): WORD,
        quopri.encodestring(WORD.encode()).decode(): WORD,
        quopri.encodestring((WORD * 9).encode()).decode(): WORD * 9,
        html.escape(WORD): WORD,
        html.escape(json_escaped(WORD)): WORD,
        quote(json_escaped(WORD)): WORD,
        "".join(f"&#{ord(char)};" for char in WORD): WORD,
        "".join(f"&#x{ord(char):X};" for char in WORD): WORD,
        "p\u200ba\u00ads\u2060s\ufeff": "pass",
        "p\ufe0fa\u034fs\U000e0101s\x07\x7f": "pass",
        "p\x80a\u2028s\u2029s\u2800": "pass",
        "p\x00a\x00s\x00s\x00": "pass",
        "\uff50\uff41\U0001d42c\u24e2": "pass",
        "\\x70\\x61\\x73\\x73": "pass",
        "\\b\\f\\n\\r\\t": "\b\f\n\r\t",
        "pa=\r\nss": "pass",
        "pa= \nss": "pass",
        "=70=61=73=73": "pass",
    }
    unread = [
        one
        for one, read in written.items()
        if read not in {variant.text for variant in variants(one, single=True)}
    ]
    assert unread == []


def test_what_is_no_escape_stays() -> None:
    for text in (
        "100% sure",
        "50%zz",
        "a\\qb",
        "&nosuchthing;",
        "%ED%A0%80",
        "\\ud800",
        "R&D",
        "a%e9b",
        "x = y",
        "a=zz",
        "plain text, as most are",
    ):
        assert [variant.text for variant in variants(text)] == [text]


def test_one_escape_is_also_undone_without_the_others() -> None:
    read = {variant.text for variant in variants('a%41\\"b', single=True)}
    assert {'a%41"b', 'aA\\"b', 'aA"b'} <= read
    assert 'a%41"b' not in {variant.text for variant in variants('a%41\\"b')}


def test_lines_are_joined_only_when_asked() -> None:
    assert "abcdef" in {variant.text for variant in variants("abc\r\n   def", joins_lines=True)}
    assert "abcdef" in {variant.text for variant in variants("abc\r   def", joins_lines=True)}
    assert "abcdef" not in {variant.text for variant in variants("abc\r\n   def")}


ESCAPES = ("a", "B7", " ", "+", "%41", "%c3%a9", "\\n", "\\u00e9", "\\\\", "&amp;", "=41", "=C3=A9", "é")


@given(st.lists(st.sampled_from([*ESCAPES, "\n  ", "=\n", "\u200b", "\uff41", "\U0001f600"])))
def test_every_variant_knows_where_its_characters_stood(parts: list[str]) -> None:
    text = "".join(parts)
    for variant in variants(text, single=True, joins_lines=True):
        ends = 0
        for index in range(len(variant.text)):
            start, end = variant.span(index, index + 1)
            assert 0 <= start < end <= len(text)
            assert start >= ends or variant.span(index - 1, index) == (start, end)
            ends = end
            if variant.text[index] != text[start]:  # it was decoded from something
                assert text[start] in "%\\&\uff41+\u200b="


@given(TEXTS)
def test_folding_twice_changes_nothing_and_plain_text_is_left_alone(text: str) -> None:
    assert folded(folded(text)) == folded(text)
    if text.isascii() and text.isprintable():
        assert folded(text) == text


def test_many_different_characters_are_folded_without_being_kept_all() -> None:
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 12_000)))
    assert folded(text) == text


# -- runs -----------------------------------------------------------------------------------------------------------

SENTENCE = "the quick brown fox jumps over the lazy dog"


def inside(text: str) -> set[str]:
    """What runs say, at any depth."""
    found: set[str] = set()
    for run in Decoded(text).runs:
        found.add(run.inside.text)
        found.update(one.inside.text for one in run.inside.runs)
    return found


def test_a_run_is_read_whatever_it_is_encoded_in() -> None:
    data = SENTENCE.encode()
    base32 = base64.b32encode(data).decode()
    runs = {
        "base64": base64.b64encode(data).decode(),
        "base64 of base64": base64.b64encode(base64.b64encode(data)).decode(),
        "base64 of UTF-16": base64.b64encode(SENTENCE.encode("utf-16-le")).decode(),
        "base32": base32,
        "base32 in lower case": base32.lower().rstrip("="),
        "hex": data.hex(),
        "hex with gaps": data.hex(" ").upper(),
        "base32 of hex": base64.b32encode(data.hex().encode()).decode(),
        "percent-encoded base64": quote(base64.b64encode(data).decode()),
    }
    assert [name for name, run in runs.items() if SENTENCE not in inside(f"see {run} there")] == []
    for run in Decoded(f"see {runs['base32']} there").runs:
        assert (run.start, run.end) == (4, 4 + len(base32))


def test_text_in_other_scripts_is_read() -> None:
    for sentence in (f"пароль и ключ {SENTENCE[:9]}", "日本語のテキストと鍵です"):
        for encoding in ("utf-8", "utf-16-le", "utf-16-be"):
            data = f"{sentence} {SENTENCE}".encode(encoding)
            found = inside(base64.b64encode(data).decode())
            assert any(SENTENCE in text for text in found), (sentence, encoding)


def test_bytes_that_are_no_text_are_not_read() -> None:
    for number in range(50):
        assert inside(drawn(f"wall {number}", 400, BASE64)) == set(), number
        assert inside(drawn(f"digest {number}", 64, HEX)) == set(), number
    assert inside(SENTENCE) == set()


def test_half_of_a_surrogate_pair_breaks_nothing() -> None:
    text = f"\ud800 {base64.b64encode(SENTENCE.encode()).decode()}"
    (run,) = Decoded(text).runs
    assert (run.start, run.end, run.inside.text) == (2, len(text), SENTENCE)
