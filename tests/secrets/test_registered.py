"""Registered secrets: found in every encoding, wherever they stand; and nothing else is."""

import base64
import json
from collections.abc import Callable

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from quipu.errors import InvalidError
from quipu.secrets.decoded import Decoded, folded
from quipu.secrets.detectors import Detectors
from quipu.secrets.marker import Marker, Piece
from quipu.secrets.redaction import Guard
from quipu.secrets.registered import LONGEST, RegisteredValue, checked_label, checked_value, compiled
from tests.secrets.corpus import DISGUISES, HEX_DISGUISES, REGISTERED_DISGUISES, needles, registered
from tests.secrets.noise import ALNUM, drawn

VALUE = drawn("value", 20)
ALL = {**DISGUISES, **REGISTERED_DISGUISES}
TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=40)
#: What people register: at least eight characters of any kind, none around it that would be cut off.
VALUES = TEXTS.map(str.strip).filter(lambda text: min(len(text), len(folded(text))) >= 8)


def guard(*values: tuple[str, str], marker: str = "<REDACTED:{label}>") -> Guard:
    """Only registered values are looked for."""
    listed = compiled([RegisteredValue(label, value) for label, value in values])
    return Guard(registered=listed, detectors=Detectors(()), marker=Marker(marker))


DB = guard(("db", VALUE))


# -- what may be registered -----------------------------------------------------------------------------------------


def test_a_short_value_is_refused() -> None:
    for value in (
        "",
        "short",
        "1234567",
        "      1234567\n",
        " " * 20,
        "1234\u200b\u200b\u200b\u200b\u200b567",
    ):
        with pytest.raises(InvalidError) as refused:
            checked_value(value)
        assert [(fault.pointer, fault.reason) for fault in refused.value.faults] == [("/value", "too_short")]
        assert "123456" not in str(refused.value)


def test_a_value_that_cannot_be_kept_is_refused() -> None:
    for value, reason in {
        "x" * (LONGEST + 1): "too_large",
        "with\x00zero": "bad_value",
        "half \ud800 a pair": "bad_value",
    }.items():
        with pytest.raises(InvalidError) as refused:
            checked_value(value)
        assert refused.value.reason == reason


def test_white_space_around_a_value_is_cut_off() -> None:
    assert checked_value(f" {VALUE}\n") == VALUE
    assert checked_value("12345678") == "12345678"


def test_a_label_that_would_break_the_marker_is_refused() -> None:
    for label in ("", "with space", "a>b", "é", "x" * 65, "a\n", "<b"):
        with pytest.raises(InvalidError) as refused:
            checked_label(label)
        assert refused.value.faults[0].pointer == "/label"


def test_a_label_must_not_hold_the_value() -> None:
    assert checked_label("db.main_key-2", VALUE) == "db.main_key-2"
    with pytest.raises(InvalidError):
        checked_label(f"key-{VALUE}", VALUE)


def test_a_value_is_not_shown_when_it_is_printed() -> None:
    assert VALUE not in repr(RegisteredValue("db", VALUE))
    assert VALUE not in repr(DB)


# -- what is found --------------------------------------------------------------------------------------------------


def test_odd_values_are_found_in_every_disguise() -> None:
    every = Guard(registered=compiled(registered()), detectors=Detectors(()))
    missed: list[tuple[str, str]] = []
    for one in registered():
        for name, disguised in ALL.items():
            text = every.masked(f"see {disguised(one.value)} there")
            is_gone = not any(needle in text for needle in needles(one.value))
            if not is_gone or f"<REDACTED:{one.label}>" not in text or every.masked(text) != text:
                missed.append((one.label, name))
    assert missed == []


def test_hex_and_uuids_are_found_in_either_case_and_without_their_dashes() -> None:
    values = {one.label: one.value for one in registered()}
    for label in ("hex", "uuid"):
        alone = guard((label, values[label]), ("other", VALUE))
        for name, disguised in HEX_DISGUISES.items():
            assert alone.masked(f"see {disguised(values[label])} there") == f"see <REDACTED:{label}> there", (
                name
            )
    # A date is no secret because a number was registered that reads alike.
    assert guard(("pin", "20240501")).finds("on 2024-05-01, at 2024:0501") == ()


def test_only_the_value_is_replaced_and_its_case_matters() -> None:
    assert DB.masked(f"a{VALUE}b\nc") == "a<REDACTED:db>b\nc"
    assert DB.finds(f"{VALUE}{VALUE} {VALUE}") == ("db",) * 3
    assert DB.finds(VALUE.swapcase()) == ()
    assert DB.finds(f"{VALUE[:-1]} {VALUE[1:]}") == ()


def test_base64_takes_its_neighbours_that_hold_bits_of_the_value() -> None:
    for before, kept in (("~", 1), ("~~", 2), ("~~~", 3)):
        carried = base64.b64encode(f"{before}{VALUE}~~~~".encode()).decode()
        text = DB.masked(f"x {carried} y")
        assert text.startswith(f"x {carried[:kept]}<REDACTED:db>")
        assert text.endswith(f"{carried[-4:]} y")


def test_a_value_in_a_long_encoded_text_leaves_the_rest_of_it() -> None:
    carried = base64.b64encode(f"{'tea and milk ' * 40}{VALUE}{' and more' * 40}".encode()).decode()
    text = DB.masked(f"see {carried}")
    assert text[:600] == f"see {carried}"[:600]
    assert text[-400:] == carried[-400:]


def test_a_value_wrapped_over_lines_is_found_and_the_next_line_stays() -> None:
    assert DB.masked(f"{VALUE[:7]}\n    {VALUE[7:]}\nnext") == "<REDACTED:db>\nnext"
    encoded = base64.b64encode(VALUE.encode()).decode()
    assert DB.masked(f"{encoded[:8]}\r\n{encoded[8:]}\nnext") == "<REDACTED:db>\nnext"
    encoded = base64.b32encode(VALUE.encode()).decode()
    assert DB.masked(f"{encoded[:8]}\r\n{encoded[8:]}\nnext") == "<REDACTED:db>\nnext"


def test_the_longest_value_names_what_several_share() -> None:
    inner, outer, tail = "quietheron", "a-quietheron-sings", "heron-sings-again"
    three = guard(("inner", inner), ("outer", outer), ("tail", tail))
    assert three.masked(f"x {outer} y") == "x <REDACTED:outer> y"
    assert three.masked(f"x {inner} y") == "x <REDACTED:inner> y"
    assert three.masked("a-quietheron-sings-again") == "<REDACTED:outer>"


def test_of_two_labels_for_one_value_the_first_stays() -> None:
    assert guard(("first", VALUE), ("second", VALUE)).finds(VALUE) == ("first",)


def test_accents_are_found_composed_and_apart() -> None:
    assert guard(("k", "clé-secrète")).finds("une cle\u0301-secre\u0300te ici") == ("k",)
    assert guard(("k", "cle\u0301-secre\u0300te")).finds("une clé-secrète ici") == ("k",)


def test_a_value_of_invisible_characters_is_found_as_it_stands_only() -> None:
    value = "ab" + "\u200b" * 8 + "cd"
    assert guard(("k", value)).finds(f"x {value} y") == ("k",)
    assert guard(("k", value)).finds("some abcd there") == ()


def test_without_values_or_with_short_ones_nothing_happens() -> None:
    for nothing in (guard(), guard(("s", "short"))):
        assert nothing.finds("short and secret") == ()
        assert list(nothing.registered.across(["short", "short"])) == []
    assert DB.finds("short") == ()


def test_a_marker_is_never_matched_and_none_hides_a_value() -> None:
    words = guard(("password", "password"), ("word", "REDACTED"), marker="[REDACTED:{label}]")
    once = words.masked("my password is REDACTED")
    assert once == "my [REDACTED:password] is [REDACTED:word]"
    assert words.finds(once) == ()
    assert words.finds("[REDACTED:github_token]") == ()
    assert VALUE not in DB.masked(f"<REDACTED:{VALUE}>")


# -- spread over several texts --------------------------------------------------------------------------------------


def across(*texts: str) -> list[Piece]:
    return list(DB.registered.across(texts))


def test_the_pieces_of_a_value_are_named_where_it_goes_on() -> None:
    assert across("see " + VALUE[:6], VALUE[6:12], VALUE[12:] + " there") == [
        Piece(0, 4, 10, "db"),
        Piece(1, 0, 6, "db"),
        Piece(2, 0, 8, "db"),
    ]
    assert across(VALUE, VALUE) == []  # each alone: not spread
    assert across(VALUE[:6], "", VALUE[6:]) == [Piece(0, 0, 6, "db"), Piece(2, 0, 14, "db")]
    assert across(VALUE[6:], VALUE[:6]) == []
    assert across(VALUE[:6]) == []


def test_the_ends_of_long_texts_take_part_and_their_middles_do_not() -> None:
    long = "x" * 5_000
    assert across(long + VALUE[:6], VALUE[6:] + long + VALUE[:3], VALUE[3:]) == [
        Piece(0, 5_000, 5_006, "db"),
        Piece(1, 0, 14, "db"),
        Piece(1, 5_014, 5_017, "db"),
        Piece(2, 0, 17, "db"),
    ]


def test_an_encoded_value_is_found_in_pieces() -> None:
    for encode in (base64.b64encode, base64.b32encode):
        encoded = encode(VALUE.encode()).decode()
        assert {piece.number for piece in across(encoded[:9], encoded[9:])} == {0, 1}
        assert across(encoded.rstrip("="), "production") == []  # the next text holds nothing of it


# -- properties -----------------------------------------------------------------------------------------------------


@given(VALUES, TEXTS, TEXTS, st.sampled_from(sorted(ALL)))
@example("aaaaaaaa", "aaa", "a", "plain")
@example("00000000", "", "", "hex")
@example("        x        y", "", "", "wrapped base64")
def test_no_value_leaks_in_any_disguise(value: str, before: str, after: str, disguise: str) -> None:
    if disguise in ("full width", "quoted-printable with broken lines"):
        assume(value.isascii() and value.isprintable())
    if " of " in disguise:  # what is encoded twice is read as a whole
        before, after = f"{before} ", f" {after}"
    alone = guard(("k", value))
    text = alone.masked(before + ALL[disguise](value) + after)
    assert "<REDACTED:k>" in text
    assert value not in text or value in "<REDACTED:k>"
    assert alone.masked(text) == text or value in "<REDACTED:k>"


@given(st.lists(VALUES, max_size=6), TEXTS)
def test_a_text_without_the_values_comes_back_as_it_was(values: list[str], text: str) -> None:
    several = guard(*((f"k{number}", value) for number, value in enumerate(values)))
    if not several.finds(text):
        assert several.clean_text(text) is text
    else:  # then it was really there, in some form
        assert list(several.registered.spans(Decoded(text)))


def test_few_values_and_many_are_found_alike() -> None:
    for count in (1, 40, 1_000):
        values = [(f"k{number}", drawn(f"many {number}", 8 + number % 30)) for number in range(count)]
        many = guard(*values)
        for label, value in (values[0], values[-1], values[count // 2]):
            assert many.finds(f"x{value}x") == (label,)
        assert many.finds("the quick brown fox " * 500) == ()


ADVERSARIES: dict[str, Callable[[int], str]] = {
    "one letter": lambda size: "a" * size,
    "line breaks": lambda size: "\n" * size,
    "spaces": lambda size: " " * size,
    "backslashes": lambda size: "\\" * size,
    "percent signs": lambda size: "%25" * (size // 3),
    "equals signs": lambda size: "=3D" * (size // 3),
    "broken lines": lambda size: "a=\n" * (size // 3),
    "escapes": lambda size: "\\u0041" * (size // 6),
    "invisible": lambda size: "a\u200b" * (size // 2),
    "entities": lambda size: "&amp;" * (size // 5),
    "base64": lambda size: drawn("wall", size, ALNUM + "+/"),
    "base64 of base64 of noise": lambda size: base64.b64encode(
        drawn("wall", size // 2, ALNUM).encode()
    ).decode(),
    "base32": lambda size: base64.b32encode(drawn("wall", size // 2).encode()).decode(),
    "almost": lambda size: (VALUE[:-1] + "~") * (size // 20),
    "JSON": lambda size: json.dumps(['\\\n"' * (size // 10)]),
}


@pytest.mark.slow
def test_a_megabyte_of_anything_is_done_soon() -> None:
    assert [name for name, text in ADVERSARIES.items() if DB.finds(text(1_000_000))] == []


def test_hostile_texts_hold_nothing() -> None:
    assert [name for name, text in ADVERSARIES.items() if DB.finds(text(20_000))] == []
