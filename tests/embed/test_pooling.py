"""Windows over long texts, and the direction of a mean."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.embed.pooling import normalised, well_formed, windows


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


@pytest.mark.parametrize(("count", "expected"), [(0, 1), (254, 1), (255, 2), (476, 2), (477, 3)])
def test_neighbouring_windows_overlap(count: int, expected: int) -> None:
    stretches = windows(range(count), 254, 32, 64)
    assert len(stretches) == expected
    assert all(list(left[-32:]) == list(right[:32]) for left, right in pairwise(stretches))


def test_a_lone_surrogate_is_replaced_and_nothing_else_is() -> None:
    assert well_formed("a\ud800b") == "a?b"
    assert well_formed("naïve 🙂 語") == "naïve 🙂 語"


@pytest.mark.parametrize("vector", [[0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0], [[1.0, 0.0]], []])
def test_what_has_no_direction_is_not_normalised(vector: list[float]) -> None:
    with pytest.raises(ValueError, match="finite numbers"):
        normalised(np.array(vector, np.float64))


def test_a_direction_has_length_one_as_little_endian_float32() -> None:
    assert normalised(np.array([3.0, 4.0])) == bytes.fromhex("9a99193f cdcc4c3f")
