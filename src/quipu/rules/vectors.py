"""Vectors as bytes: little-endian float32, length one."""

from __future__ import annotations

import math
import struct
import sys
from array import array
from collections.abc import Callable, Sequence
from functools import lru_cache

from quipu.errors import InvalidError
from quipu.model.operations import Embedding

#: What is this near to length one is left as it is.
_UNIT = 1e-5
#: Below it by more than rounding to float32 can make.
_SURELY_UNIT = 0.9e-5


def unit_vector(embedding: Embedding, model: str, dimensions: int, pointer: str = "/embedding") -> bytes:
    """The caller's vector, checked against the space it is meant for and brought to length one."""
    given = embedding.vector
    size = len(given) / 4 if isinstance(given, bytes) else len(given)
    if embedding.model != model or size != dimensions:
        raise InvalidError.at(
            pointer,
            "embedding_mismatch",
            "The vector is not of this memory's space.",
            accepted=[f"model {model}, {dimensions} numbers"],
        )
    if not isinstance(given, bytes) and (packed := _packed_unit(given)) is not None:
        return packed
    values = array("f")
    if isinstance(given, bytes):
        values.frombytes(given)
        if sys.byteorder == "big":
            values.byteswap()
    else:
        try:
            values.extend(given)
        except (TypeError, OverflowError):
            raise _directionless(pointer) from None
    length = math.hypot(*values)
    if not math.isfinite(length) or length < 1e-12:
        raise _directionless(pointer)
    if abs(length - 1) > _UNIT:
        values = array("f", (value / length for value in values))
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def _packed_unit(numbers: Sequence[float]) -> bytes | None:
    """Numbers of length one, as bytes: the usual case, and a quarter of the time. None for all others."""
    try:
        numbers = tuple(numbers)  # once, instead of for each of the two calls
        if not abs(math.hypot(*numbers) - 1) <= _SURELY_UNIT:  # NaN is not below anything
            return None
        return _packing(len(numbers))(*numbers)
    except (TypeError, ValueError, OverflowError, struct.error):
        return None


@lru_cache(16)
def _packing(dimensions: int) -> Callable[..., bytes]:
    """Kept, because a tuple is then packed as it is: `struct.pack` copies it to put the format before it."""
    return struct.Struct(f"<{dimensions}f").pack


def _directionless(pointer: str) -> InvalidError:
    return InvalidError.at(
        pointer, "bad_value", "The vector has no direction.", accepted=["finite numbers, not all 0"]
    )


def similarity(one: bytes, other: bytes) -> float:
    """The cosine of two unit vectors, as they are kept."""
    return sum(a * b for a, b in zip(array("f", one), array("f", other), strict=True))
