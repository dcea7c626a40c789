"""The token budget of an answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.rules.budget import Fitted, Passage, fitted, tokens


@pytest.mark.parametrize(("text", "cost"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("éééé", 1)])
def test_four_characters_are_a_token(text: str, cost: int) -> None:
    assert tokens(text) == cost


def passages(*lengths: int) -> list[Passage]:
    return [Passage("x" * length) for length in lengths]


@pytest.mark.parametrize(
    ("lengths", "max_tokens", "kept"),
    [
        ((), 5, ()),
        ((40, 40), None, (0, 1)),
        ((4, 4, 4), 3, (0, 1, 2)),
        ((4, 4, 4), 2, (0, 1)),
        ((5, 4), 2, (0,)),
        ((4, 40, 4), 5, (0,)),
        ((4, 0, 4), 1, (0, 1)),
    ],
)
def test_whole_texts_are_kept_while_they_fit(
    lengths: tuple[int, ...], max_tokens: int | None, kept: tuple[int, ...]
) -> None:
    assert fitted(passages(*lengths), max_tokens) == Fitted(kept)


def test_a_first_text_that_is_too_long_is_cut_to_the_budget() -> None:
    assert fitted([Passage("abcdefghij"), Passage("k")], 2) == Fitted((0,), "abcdefgh")


def test_a_procedure_is_dropped_rather_than_cut() -> None:
    machine = Passage("{" + "x" * 40 + "}", can_be_cut=False)
    assert fitted([machine], 2) == Fitted(())
    assert fitted([machine, Passage("abcd"), Passage("efgh")], 2) == Fitted((1, 2))
    assert fitted([machine, Passage("abcdefghij")], 2) == Fitted((1,), "abcdefgh")
    assert fitted([Passage("abcd"), machine, Passage("efgh")], 2) == Fitted((0,))


@given(st.lists(st.builds(Passage, st.text(max_size=30), st.booleans()), max_size=8), st.integers(1, 30))
def test_the_answer_stays_within_the_budget_and_is_not_empty_without_need(
    texts: list[Passage], max_tokens: int
) -> None:
    result = fitted(texts, max_tokens)
    returned = [texts[index].text for index in result.kept]
    if result.cut is not None:
        assert texts[result.kept[0]].text.startswith(result.cut)
        assert texts[result.kept[0]].can_be_cut
        returned[0] = result.cut
    assert sum(tokens(text) for text in returned) <= max_tokens
    assert list(result.kept) == sorted(result.kept)
    if any(passage.can_be_cut for passage in texts):
        assert result.kept
    if sum(tokens(passage.text) for passage in texts) <= max_tokens:
        assert result == Fitted(tuple(range(len(texts))))


@given(st.lists(st.builds(Passage, st.text(max_size=30)), max_size=8), st.integers(1, 30))
def test_a_larger_budget_never_keeps_less(texts: list[Passage], max_tokens: int) -> None:
    assert len(fitted(texts, max_tokens).kept) <= len(fitted(texts, max_tokens + 1).kept)
