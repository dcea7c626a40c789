"""Vectors from callers: of the right model, of length one, whatever form they come in."""

import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu.embed.port import unit_vector
from quipu.errors import InvalidError

NUMBERS = st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=16).filter(
    lambda numbers: math.hypot(*numbers) > 1e-6
)


def packed(numbers: list[float]) -> bytes:
    return struct.pack(f"<{len(numbers)}f", *numbers)


def checked(vector: Any, dimensions: int, made_by: str = "m") -> bytes:
    return unit_vector(vector, made_by, model="m", dimensions=dimensions, pointer="/here")


@given(NUMBERS)
def test_a_vector_keeps_its_direction_and_has_length_one(numbers: list[float]) -> None:
    unit = struct.unpack(f"<{len(numbers)}f", checked(numbers, len(numbers)))
    length = math.hypot(*numbers)
    assert math.hypot(*unit) == pytest.approx(1, abs=1e-5)
    assert unit == pytest.approx([number / length for number in numbers], abs=1e-5)


@given(NUMBERS)
def test_numbers_and_bytes_mean_the_same(numbers: list[float]) -> None:
    assert checked(packed(numbers), len(numbers)) == checked(numbers, len(numbers))


@given(NUMBERS)
def test_a_unit_vector_stays_as_it_is_to_the_last_bit(numbers: list[float]) -> None:
    once = checked(numbers, len(numbers))
    assert checked(once, len(numbers)) == once


def test_a_vector_that_is_nearly_of_length_one_stays_as_it_is() -> None:
    near = packed([0.6000030, 0.8000040])
    assert checked(near, 2) == near
    assert checked(packed([0.60003, 0.80004]), 2) != packed([0.60003, 0.80004])


def test_bytes_are_little_endian() -> None:
    assert checked([3.0, 4.0], 2) == bytes.fromhex("9a99193f cdcc4c3f")


@pytest.mark.parametrize(
    ("made_by", "vector"),
    [("n", [1.0, 0.0]), ("m", [1.0]), ("m", [1.0] * 3), ("m", b"\0" * 7), ("m", b""), ("m", b"\0" * 12)],
)
def test_a_vector_of_another_model_is_refused_with_what_would_be_accepted(made_by: str, vector: Any) -> None:
    with pytest.raises(InvalidError) as refused:
        checked(vector, 2, made_by)
    (fault,) = refused.value.faults
    assert (fault.pointer, fault.reason) == ("/here", "embedding_mismatch")
    assert fault.accepted == "a vector of model m with 2 numbers"


@pytest.mark.parametrize(
    "vector",
    [
        [0.0, 0.0],
        [math.nan, 1.0],
        [math.inf, 1.0],
        [1e300, 1.0],
        [10**400, 1.0],
        ["1", 1.0],
        [[1.0], 1.0],
        [None, 1.0],
        b"\0" * 8,
        packed([math.nan, 1.0]),
        packed([math.inf, 1.0]),
    ],
    ids=repr,
)
def test_a_vector_without_direction_is_refused(vector: Any) -> None:
    with pytest.raises(InvalidError) as refused:
        checked(vector, 2)
    assert refused.value.reason == "bad_value"
    assert refused.value.faults[0].pointer == "/here"
