"""Markers: what a template may be, which places become one, and what never becomes a marker."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import InvalidError
from quipu.secrets.marker import Marker, Redacted, Span, merged, redacted, unmarked

TEMPLATES = ("<REDACTED:{label}>", "[REDACTED:{label}]", "***{label}***", "«{label}»", "<<REDACTED:{label}>>")


def test_a_marker_is_found_again() -> None:
    for template in TEMPLATES:
        marker = Marker(template)
        text = f"a {marker.of('db.main')} b {marker.of('x')}"
        places = marker.places(text)
        assert [text[start:end] for start, end, _ in places] == [marker.of("db.main"), marker.of("x")]
        assert [label for *_, label in places] == ["db.main", "x"]
        assert marker.places("nothing here") == []


def test_a_template_that_does_not_close_its_label_is_refused() -> None:
    for template in (
        "REDACTED",
        "{label}",
        "<{label}",
        "{label}>",
        "<{label}{label}>",
        "<{label}x>",
        '"{label}"',
        "\\{label}\\",
        "<{label}\n>",
        "<" * 60 + "{label}>",
    ):
        with pytest.raises(InvalidError) as refused:
            Marker(template)
        assert refused.value.faults[0].pointer == "/template"


def test_overlapping_places_become_one_and_the_lowest_rank_names_it() -> None:
    spans = [
        Span(4, 9, "b", 2),
        Span(0, 5, "a", 3),
        Span(9, 12, "c", 0),
        Span(20, 22, "d", 1),
        Span(20, 21, "e", 9),
    ]
    assert merged(spans) == [Span(0, 9, "b", 2), Span(9, 12, "c", 0), Span(20, 22, "d", 1)]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9), st.sampled_from("abc"), st.integers(0, 3))))
def test_merging_covers_the_same_places_and_nothing_overlaps(drawn: list[tuple[int, int, str, int]]) -> None:
    spans = [Span(start, start + length, label, rank) for start, length, label, rank in drawn]
    result = merged(spans)
    assert {place for span in result for place in range(span.start, span.end)} == {
        place for span in spans for place in range(span.start, span.end)
    }
    assert all(one.end <= other.start for one, other in pairwise(result))


def test_a_marker_whose_label_is_in_use_is_no_secret_and_another_may_hold_one() -> None:
    marker, text = Marker(), "<REDACTED:ours> <REDACTED:theirs>"
    whole, inside_ours, inside_theirs = Span(16, 33, "x"), Span(10, 14, "x"), Span(26, 32, "x")
    labels = frozenset({"ours"})
    assert unmarked([whole, inside_ours, inside_theirs], text, marker, labels) == [inside_theirs]
    around = Span(10, 20, "x")
    assert unmarked([around], text, marker, labels) == [around]
    assert unmarked([Span(0, 3, "x")], "no marker", marker, labels) == [Span(0, 3, "x")]


def test_what_a_replacement_uncovers_is_replaced_too() -> None:
    def find(text: str) -> list[Span]:
        place = text.find("bad")
        return [Span(place, place + 3, "b")] if place >= 0 else []

    assert redacted("bad bad good", find, Marker(), frozenset()) == Redacted(
        "<REDACTED:b> <REDACTED:b> good", ("b", "b")
    )
    assert redacted("bad " * 9, find, Marker(), frozenset()).text.count("bad") == 1  # and then it gives up
    assert "bad" not in redacted("bad" * 9, find, Marker(), frozenset()).text  # but leaves no part of a row
