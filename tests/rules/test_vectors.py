"""Vectors from callers: of the right space, of length one, whatever form they come in."""

from __future__ import annotations

import math
import sys
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import InvalidError
from quipu.model.operations import Embedding
from quipu.rules.vectors import unit_vector

NUMBERS = st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=16)


def values(data: bytes) -> list[float]:
    numbers = array("f")
    numbers.frombytes(data)
    return list(numbers)


def has_direction(numbers: list[float]) -> bool:
    return math.hypot(*numbers) > 1e-6


@given(NUMBERS.filter(has_direction))
def test_a_vector_keeps_its_direction_and_has_length_one(numbers: list[float]) -> None:
    unit = values(unit_vector(Embedding("m", numbers), "m", len(numbers)))
    length = math.hypot(*numbers)
    assert math.hypot(*unit) == pytest.approx(1, abs=1e-5)
    assert unit == pytest.approx([number / length for number in numbers], abs=1e-5)


@given(NUMBERS.filter(has_direction))
def test_numbers_and_bytes_mean_the_same(numbers: list[float]) -> None:
    as_numbers = unit_vector(Embedding("m", numbers), "m", len(numbers))
    packed = array("f", numbers)
    assert unit_vector(Embedding("m", packed.tobytes()), "m", len(numbers)) == as_numbers


@given(NUMBERS.filter(has_direction))
def test_a_unit_vector_stays_as_it_is_to_the_last_bit(numbers: list[float]) -> None:
    once = unit_vector(Embedding("m", numbers), "m", len(numbers))
    assert unit_vector(Embedding("m", once), "m", len(numbers)) == once


def test_bytes_are_little_endian_on_every_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = [3.0, 4.0]
    little = array("f", numbers)
    if sys.byteorder == "big":
        little.byteswap()
    expected = unit_vector(Embedding("m", numbers), "m", 2)
    assert unit_vector(Embedding("m", little.tobytes()), "m", 2) == expected
    monkeypatch.setattr("quipu.rules.vectors.sys.byteorder", "big")
    swapped = array("f", numbers)
    swapped.byteswap()
    turned = array("f", values(expected))
    turned.byteswap()
    assert unit_vector(Embedding("m", swapped.tobytes()), "m", 2) == turned.tobytes()


@pytest.mark.parametrize(
    ("given_model", "vector"),
    [("n", [1.0, 0.0]), ("m", [1.0]), ("m", [1.0] * 3), ("m", b"\0" * 7), ("m", b"")],
)
def test_a_vector_of_another_space_is_refused_with_what_would_do(given_model: str, vector: Any) -> None:
    with pytest.raises(InvalidError) as refused:
        unit_vector(Embedding(given_model, vector), "m", 2, "/here")
    (fault,) = refused.value.faults
    assert (fault.pointer, fault.reason) == ("/here", "embedding_mismatch")
    assert fault.accepted == ("model m, 2 numbers",)


@pytest.mark.parametrize(
    "vector", [[0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0], [1e300, 1.0], ["x", 1.0], b"\0" * 8]
)
def test_a_vector_without_direction_is_refused(vector: Any) -> None:
    with pytest.raises(InvalidError) as refused:
        unit_vector(Embedding("m", vector), "m", 2)
    assert refused.value.reason == "bad_value"
