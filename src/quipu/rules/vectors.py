"""Vectors as bytes: little-endian float32, length one."""

from __future__ import annotations

import math
import sys
from array import array

from quipu.errors import InvalidError
from quipu.model.operations import Embedding


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
    if abs(length - 1) > 1e-5:
        values = array("f", (value / length for value in values))
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def _directionless(pointer: str) -> InvalidError:
    return InvalidError.at(
        pointer, "bad_value", "The vector has no direction.", accepted=["finite numbers, not all 0"]
    )
