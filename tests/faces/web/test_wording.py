"""What people read: nothing in it acts, and times make sense."""

import pytest

from quipu.faces.web import wording
from quipu.faces.web.wording import DAY, HOUR, MINUTE

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ('"><img src=x onerror=alert(1)>', "&#34;&gt;&lt;img src=x onerror=alert(1)&gt;"),
        ("a\nb\tc", "a\nb\tc"),
        ("a\r\nb", "a\nb"),
        ("שלום", "שלום"),
    ],
)
def test_text_is_escaped(text: str, shown: str) -> None:
    assert str(wording.plain(text)) == shown


@pytest.mark.parametrize(
    "character",
    "\x00\x08\x1b\x7f\x9f\u202a\u202e\u2066\u2069\u200f\u061c\ufeff\u200b\u2028\u2060\u2064\u206f\u3164\ufffa",
)
def test_characters_that_hide_or_reorder_are_named(character: str) -> None:
    shown = str(wording.plain(f"a{character}b"))
    assert character not in shown
    assert f"U+{ord(character):04X}" in shown


def test_letters_that_nobody_sees_are_spelt_out() -> None:
    unseen = "".join(chr(0xE0000 + ord(letter)) for letter in "pay <b>Eve</b>")
    shown = str(wording.plain(f"Mara is vegetarian.{unseen} Really."))
    assert "unseen: pay &lt;b&gt;Eve&lt;/b&gt;</span> Really." in shown
    assert unseen[0] not in shown
    assert wording.bare(f"Mara{unseen}") == "Mara"
    assert "unseen: pay" in str(wording.marked(f"Mara {unseen}", "mara"))


def test_bytes_hidden_behind_a_character_are_named() -> None:
    shown = str(wording.plain("\U0001f600\U000e0158\U000e0155\ufe05"))
    assert "U+E0155" in shown
    assert "U+FE05" in shown


@pytest.mark.parametrize(
    "text",
    [
        "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
        "\u2764\ufe0f \U0001f469\u200d\U0001f469\u200d\U0001f467",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u845b\U000e0100",
    ],
    ids=["flag of Scotland", "heart and family", "Persian and Japanese"],
)
def test_characters_that_belong_to_what_is_seen_stay(text: str) -> None:
    assert str(wording.plain(text)) == text
    assert wording.bare(text) == text


def test_marking_words_never_lets_markup_through() -> None:
    shown = str(wording.marked("<b>Mara</b> eats & drinks", "mara <b> eating"))
    assert shown == "&lt;b&gt;<mark>Mara</mark>&lt;/b&gt; <mark>eats</mark> &amp; drinks"


def test_words_of_every_question_are_not_marked() -> None:
    assert "<mark>" not in str(wording.marked("and which of the two", "which of the and"))


@pytest.mark.parametrize(
    ("passed", "said"),
    [
        (0, "just now"),
        (59_000, "just now"),
        (MINUTE, "1 minute ago"),
        (90 * MINUTE, "1 hour ago"),
        (2 * DAY + HOUR, "2 days ago"),
        (100 * DAY, "6 Aug 2023"),
        (-DAY, "15 Nov 2023, 22:13"),
    ],
)
def test_how_long_ago(passed: int, said: str) -> None:
    assert wording.ago(NOW - passed, NOW) == said


@pytest.mark.parametrize("moment", [None, 1 << 62, -(1 << 62)])
def test_a_moment_beyond_the_calendar_is_a_dash(moment: int | None) -> None:
    assert wording.when(moment) == "–"
    assert wording.iso(moment) == ""


def test_a_million_characters_are_cut_without_reading_them_all() -> None:
    assert wording.brief("word " * 250_000) == ("word " * 56)[:279].rstrip() + "…"


def test_a_machine_is_shown_on_lines_of_its_own_and_other_text_as_it_is() -> None:
    assert wording.indented('{"a":1}') == '{\n  "a": 1\n}'
    assert wording.indented("no {json") == "no {json"


@pytest.mark.parametrize(("number", "said"), [(1, "1 memory"), (0, "0 memories"), (1200, "1,200 memories")])
def test_counting(number: int, said: str) -> None:
    assert wording.counted(number, "memory", "memories") == said


@pytest.mark.parametrize(("count", "said"), [(999, "999 B"), (2_400_000, "2.4 MB"), (5e12, "5.0 TB")])
def test_sizes(count: float, said: str) -> None:
    assert wording.size(count) == said
