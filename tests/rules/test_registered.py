"""Registered secrets: found in every encoding, wherever they stand; and nothing else is."""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from quipu.errors import InvalidError
from quipu.rules.marking import Marker, Piece, Redacted
from quipu.rules.readings import folded
from quipu.rules.registered import LONGEST, Patterns, Registered, checked_label, checked_value
from quipu.testing.strategies import texts
from tests.corpora.noise import ALNUM, drawn
from tests.corpora.secrets import DISGUISES, REGISTERED_DISGUISES, needles, registered

VALUE = drawn("value", 20)
ALL = {**DISGUISES, **REGISTERED_DISGUISES}
#: Carriers that say more than the value, so that the whole text is not the marker alone.
WIDER = {
    "base64 at offset 1",
    "base64 at offset 2",
    "wrapped base64",
    "JSON in JSON",
    "base64 of JSON",
    "between other letters",
}
MATCHER = Registered([("db", VALUE)])


def values() -> st.SearchStrategy[str]:
    """What people register: at least eight characters of any kind, none around it that would be cut off."""
    return (
        texts(min_size=8, max_size=40)
        .map(str.strip)
        .filter(lambda text: min(len(text), len(folded(text))) >= 8)
    )


# -- what may be registered -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", ["", "short", "1234567", "      1234567\n", " " * 20, "1234\u200b\u200b\u200b\u200b\u200b567"]
)
def test_a_short_value_is_refused(value: str) -> None:
    with pytest.raises(InvalidError) as refused:
        checked_value(value)
    assert [(fault.pointer, fault.reason) for fault in refused.value.faults] == [("/value", "too_short")]
    assert "123456" not in str(refused.value)


@pytest.mark.parametrize(
    ("value", "reason"),
    [("x" * (LONGEST + 1), "too_large"), ("with\x00zero", "bad_value"), ("half \ud800 a pair", "bad_value")],
)
def test_a_value_that_cannot_be_kept_is_refused(value: str, reason: str) -> None:
    with pytest.raises(InvalidError) as refused:
        checked_value(value)
    assert refused.value.reason == reason


def test_white_space_around_a_value_is_cut_off() -> None:
    assert checked_value(f" {VALUE}\n") == VALUE
    assert checked_value("12345678") == "12345678"


@pytest.mark.parametrize("label", ["", "with space", "a>b", "é", "x" * 65, "a\n", "<b"])
def test_a_label_that_would_break_the_marker_is_refused(label: str) -> None:
    with pytest.raises(InvalidError) as refused:
        checked_label(label)
    assert refused.value.faults[0].pointer == "/label"


def test_a_label_must_not_tell_the_value() -> None:
    assert checked_label("db.main_key-2", VALUE) == "db.main_key-2"
    with pytest.raises(InvalidError):
        checked_label(f"key-{VALUE}", VALUE)


# -- what is found --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("disguise", ALL)
def test_the_value_is_found_in_every_disguise(disguise: str) -> None:
    result = MATCHER(f"see {ALL[disguise](VALUE)} there")
    assert set(result.found) == {"db"}
    assert not any(needle in result.text for needle in needles(VALUE))
    if disguise not in WIDER:
        assert result.text == "see <REDACTED:db> there"


@pytest.mark.parametrize("disguise", ALL)
@pytest.mark.parametrize(("label", "value"), registered())
def test_odd_values_are_found_in_every_disguise(label: str, value: str, disguise: str) -> None:
    matcher = Registered(registered())
    result = matcher(f"see {ALL[disguise](value)} there")
    assert label in result.found
    assert not any(needle in result.text for needle in needles(value))
    assert matcher(result.text) == Redacted(result.text)


def test_only_the_value_is_replaced_and_its_case_matters() -> None:
    assert MATCHER(f"a{VALUE}b\nc") == Redacted("a<REDACTED:db>b\nc", ("db",))
    assert MATCHER(f"{VALUE}{VALUE} {VALUE}").found == ("db",) * 3
    assert MATCHER(VALUE.swapcase()) == Redacted(VALUE.swapcase())
    assert MATCHER(f"{VALUE[:-1]} {VALUE[1:]}").found == ()


def test_base64_takes_its_neighbours_that_hold_bits_of_the_value() -> None:
    for before, kept in (("~", 1), ("~~", 2), ("~~~", 3)):
        carried = base64.b64encode(f"{before}{VALUE}~~~~".encode()).decode()
        text = MATCHER(f"x {carried} y").text
        assert text.startswith(f"x {carried[:kept]}<REDACTED:db>")
        assert text.endswith(f"{carried[-4:]} y")


def test_a_value_wrapped_over_lines_is_found_and_the_next_line_stays() -> None:
    assert MATCHER(f"{VALUE[:7]}\n    {VALUE[7:]}\nnext").text == "<REDACTED:db>\nnext"
    encoded = base64.b64encode(VALUE.encode()).decode()
    assert MATCHER(f"{encoded[:8]}\r\n{encoded[8:]}\nnext").text == "<REDACTED:db>\nnext"


def test_the_longest_value_names_what_several_share() -> None:
    inner, outer, tail = "quietheron", "a-quietheron-sings", "heron-sings-again"
    matcher = Registered([("inner", inner), ("outer", outer), ("tail", tail)])
    assert matcher(f"x {outer} y") == Redacted("x <REDACTED:outer> y", ("outer",))
    assert matcher(f"x {inner} y") == Redacted("x <REDACTED:inner> y", ("inner",))
    assert matcher("a-quietheron-sings-again") == Redacted("<REDACTED:outer>", ("outer",))


def test_of_two_labels_for_one_value_the_first_stays() -> None:
    assert Registered([("first", VALUE), ("second", VALUE)])(VALUE).found == ("first",)


def test_accents_are_found_composed_and_apart() -> None:
    matcher = Registered([("k", "clé-secrète")])
    assert matcher("une cle\u0301-secre\u0300te ici").found == ("k",)
    assert Registered([("k", "cle\u0301-secre\u0300te")])("une clé-secrète ici").found == ("k",)


def test_a_value_of_invisible_characters_is_found_as_it_stands_only() -> None:
    value = "ab" + "\u200b" * 8 + "cd"
    assert Registered([("k", value)])(f"x {value} y").found == ("k",)
    assert Registered([("k", value)])("some abcd there").found == ()


def test_without_values_or_with_short_ones_nothing_happens() -> None:
    text = "short and secret"
    assert Registered([])(text) == Registered([("s", "short")])(text) == Redacted(text)
    assert Registered([]).across([text, text]) == []
    assert MATCHER("short") == Redacted("short")


def test_a_marker_is_never_matched_and_none_hides_a_value() -> None:
    matcher = Registered([("password", "password"), ("word", "REDACTED")], Marker("[REDACTED:{label}]"))
    once = matcher("my password is REDACTED")
    assert once == Redacted("my [REDACTED:password] is [REDACTED:word]", ("password", "word"))
    assert matcher(once.text) == Redacted(once.text)
    assert matcher("[REDACTED:github_token]") == Redacted("[REDACTED:github_token]")
    assert VALUE not in MATCHER(f"<REDACTED:{VALUE}>").text


# -- spread over several texts --------------------------------------------------------------------------------------


def test_the_pieces_of_a_value_are_told_where_it_goes_on() -> None:
    parts = ["see " + VALUE[:6], VALUE[6:12], VALUE[12:] + " there"]
    assert MATCHER.across(parts) == [
        Piece(0, 4, 10, "db"),
        Piece(1, 0, 6, "db"),
        Piece(2, 0, 8, "db"),
    ]
    assert MATCHER.across([VALUE, VALUE]) == []  # each alone: not spread
    assert MATCHER.across([VALUE[:6], "", VALUE[6:]]) == [Piece(0, 0, 6, "db"), Piece(2, 0, 14, "db")]
    assert MATCHER.across([VALUE[6:], VALUE[:6]]) == []
    assert MATCHER.across([VALUE[:6]]) == []


def test_the_ends_of_long_texts_take_part_and_their_middles_do_not() -> None:
    long = "x" * 5_000
    parts = [long + VALUE[:6], VALUE[6:] + long + VALUE[:3], VALUE[3:]]
    assert MATCHER.across(parts) == [
        Piece(0, 5_000, 5_006, "db"),
        Piece(1, 0, 14, "db"),
        Piece(1, 5_014, 5_017, "db"),
        Piece(2, 0, 17, "db"),
    ]


def test_an_encoded_value_is_found_in_pieces() -> None:
    encoded = base64.b64encode(VALUE.encode()).decode()
    assert {piece.place for piece in MATCHER.across([encoded[:9], encoded[9:]])} == {0, 1}
    assert MATCHER.across([encoded.rstrip("="), "production"]) == []  # the next text holds nothing of it


# -- properties -----------------------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(values(), texts(), texts(), st.sampled_from(sorted(ALL)))
@example("aaaaaaaa", "aaa", "a", "plain")
@example("00000000", "", "", "hex")
def test_no_value_leaks_in_any_disguise(value: str, before: str, after: str, disguise: str) -> None:
    if disguise == "full width":
        assume(value.isascii())
    matcher = Registered([("k", value)])
    result = matcher(before + ALL[disguise](value) + after)
    assert result.found
    assert value not in result.text
    assert matcher(result.text).text == result.text or value in "<REDACTED:k>"


@settings(max_examples=200)
@given(st.lists(values(), max_size=6), texts(max_size=200))
def test_a_text_without_the_values_comes_back_as_it_was(secrets: list[str], text: str) -> None:
    matcher = Registered([(f"k{number}", value) for number, value in enumerate(secrets)])
    result = matcher(text)
    if not result.found:
        assert result.text is text
    else:  # then it was really there, in some form
        assert matcher.spans(text)


@given(st.lists(st.text("ab", min_size=8, max_size=12), min_size=1, max_size=40), st.text("ab", max_size=80))
def test_every_pattern_is_found_wherever_it_begins(patterns: list[str], text: str) -> None:
    found = {span.start: span.end for span in Patterns(dict.fromkeys(patterns, ("x", 1))).found(text)}
    for start in range(len(text)):
        longest = max((len(pattern) for pattern in patterns if text.startswith(pattern, start)), default=0)
        assert found.get(start, start) == start + longest


@pytest.mark.parametrize("count", [1, 40, 2_000])
def test_few_values_and_many_are_found_alike(count: int) -> None:
    secrets = [(f"k{number}", drawn(f"many {number}", 8 + number % 30)) for number in range(count)]
    matcher = Registered(secrets)
    for label, value in (secrets[0], secrets[-1], secrets[count // 2]):
        assert matcher(f"x{value}x").found == (label,)
    assert matcher("the quick brown fox " * 500).found == ()


def test_thousands_of_values_do_not_make_matching_slow() -> None:
    """No clock: the work is counted in lookups."""
    looked: list[int] = []

    class Counting(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            looked.append(1)
            return super().get(key, default)

    patterns = Patterns({drawn(f"p {number}", 20): ("x", 1) for number in range(3_000)})
    text = drawn("text", 10_240, string.ascii_lowercase + " ")
    patterns._grams = Counting(patterns._grams)  # type: ignore[assignment]  counts what is asked of it
    assert list(patterns.found(text)) == []
    assert len(looked) <= len(text) / 13 + 1


ADVERSARIES: dict[str, Callable[[], str]] = {
    "one letter": lambda: "a" * 1_000_000,
    "line breaks": lambda: "\n" * 1_000_000,
    "spaces": lambda: " " * 1_000_000,
    "backslashes": lambda: "\\" * 1_000_000,
    "percent signs": lambda: "%25" * 333_333,
    "escapes": lambda: "\\u0041" * 160_000,
    "invisible": lambda: "a\u200b" * 500_000,
    "entities": lambda: "&amp;" * 200_000,
    "base64": lambda: drawn("wall", 1_000_000, ALNUM + "+/"),
    "almost": lambda: (VALUE[:-1] + "~") * 50_000,
    "JSON": lambda: json.dumps(['\\\n"' * 100_000]),
}


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_a_megabyte_of_anything_is_done_soon(adversary: str) -> None:
    assert MATCHER(ADVERSARIES[adversary]()).found == ()
