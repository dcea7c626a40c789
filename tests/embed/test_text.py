"""What happens to a text before a model sees it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quipu.embed.text import windows


@given(st.integers(0, 5000), st.integers(2, 64))
def test_windows_never_exceed_their_size_or_their_number(length: int, most: int) -> None:
    stretches = windows(range(length), 20, 5, most)
    assert 1 <= len(stretches) <= most
    assert all(len(stretch) <= 20 for stretch in stretches)


@given(st.integers(0, 900))
def test_every_token_of_an_ordinary_text_is_in_a_window(length: int) -> None:
    covered = {token for stretch in windows(range(length), 20, 5, 64) for token in stretch}
    assert covered == set(range(length))


@given(st.integers(2000, 9000))
def test_a_sampled_text_keeps_its_beginning_and_its_end(length: int) -> None:
    stretches = windows(range(length), 20, 5, 16)
    assert len(stretches) == 16
    assert stretches[0][0] == 0
    assert stretches[-1][-1] == length - 1
