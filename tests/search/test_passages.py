"""Long texts in passages."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from quipu.search.passages import LENGTH, MOST, passages


def test_a_short_text_is_one_passage() -> None:
    assert passages("") == [(0, 0)]
    assert passages("x" * LENGTH) == [(0, LENGTH)]


@given(st.text("ab .\n", max_size=3 * LENGTH))
def test_passages_follow_each_other_and_leave_nothing_out(text: str) -> None:
    spans = passages(text)
    assert spans[0][0] == 0
    assert spans[-1][1] == len(text)
    assert all(one[1] == other[0] for one, other in pairwise(spans))
    assert all(end - start <= LENGTH for start, end in spans)


def test_a_passage_ends_where_a_paragraph_or_a_sentence_does() -> None:
    text = "One sentence. " * 50 + "\n\n" + "Another one. " * 60
    (_, end), *_ = passages(text)
    assert text[end - 2 : end] == "\n\n"
    start, end = passages("A sentence without any lines. " * 60)[0]
    assert (end - start) % len("A sentence without any lines. ") == 0


def test_of_a_book_so_many_passages_are_taken_its_end_included() -> None:
    text = "word " * (LENGTH * MOST)
    spans = passages(text)
    assert len(spans) == MOST
    assert (spans[0][0], spans[-1][1]) == (0, len(text))
