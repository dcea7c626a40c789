"""Word by word: what both texts have, what went, what came."""

import time

from hypothesis import given
from hypothesis import strategies as st

from quipu.faces.web.differences import Piece, words
from quipu.rules import diffs

TEXT = st.lists(st.sampled_from(["a", "b", "c", "dd", ".", ",", "\n", "Lisbon"]), max_size=30).map(" ".join)


def told(before: str, after: str) -> list[tuple[str, str]]:
    return [(piece.kind, piece.text) for piece in words(before, after) or ()]


def test_a_changed_word_goes_and_comes_and_the_rest_stays() -> None:
    assert told("Mara lives in Lisbon.", "Mara lives in Porto now.") == [
        ("same", "Mara lives in "),
        ("gone", "Lisbon"),
        ("new", "Porto now"),
        ("same", "."),
    ]


def test_equal_texts_are_one_piece() -> None:
    assert told("as it was", "as it was") == [("same", "as it was")]


def test_space_behind_a_word_is_no_change_of_the_word() -> None:
    assert (
        told("a b", "a b c") == [("same", "a b"), ("new", "c")] or told("a b", "a b c")[0][1].strip() == "a b"
    )
    assert all(kind == "same" for kind, _ in told("one  two", "one two"))


@given(TEXT, TEXT)
def test_both_texts_can_be_read_from_the_pieces(before: str, after: str) -> None:
    pieces = words(before, after) or ()
    if any(piece.kind == "skipped" for piece in pieces):
        return
    old = "".join(piece.text for piece in pieces if piece.kind in ("same", "gone"))
    new = "".join(piece.text for piece in pieces if piece.kind in ("same", "new"))
    assert old.split() == before.split()
    assert new.split() == after.split()


def test_a_long_stretch_that_stayed_is_cut() -> None:
    long = " ".join(f"w{number}" for number in range(500))
    pieces = words(long, f"{long} end") or ()
    assert "skipped" in {piece.kind for piece in pieces}
    assert pieces[-1] == Piece("new", "end")
    assert len("".join(piece.text for piece in pieces)) < 400


def test_texts_that_are_too_long_are_not_compared() -> None:
    assert words("x" * (diffs._LONGEST + 1), "y") is None


def test_no_pair_of_texts_keeps_a_page_waiting() -> None:
    """The worst for a search of differences: many words, few distinct ones, nothing in common in order."""
    before = " ".join("xyz"[number * 7 % 3] for number in range(45_000))
    after = " ".join("zyx"[number * 5 % 3] for number in range(45_000))
    began = time.thread_time()
    pieces = words(before, after) or ()
    assert time.thread_time() - began < 2
    assert {piece.kind for piece in pieces} >= {"gone", "new"}


def test_the_space_behind_a_piece_is_outside_of_its_mark() -> None:
    assert (Piece("gone", "Lisbon ").word, Piece("gone", "Lisbon ").space) == ("Lisbon", " ")
    assert Piece("new", "  ").word == "  "
