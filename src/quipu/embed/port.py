"""The embedder port, and the check of vectors that a caller brings along.

Every vector is `dimensions` little-endian float32 numbers of length one, as bytes.
"""

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from quipu.errors import Fault, InvalidError

#: A vector this near to length one is kept to the last bit.
_TOLERANCE = 1e-5
#: A shorter vector has no direction.
_SHORTEST = 1e-12


#: What a text is to the model: many want to know which of the two they read.
Role: TypeAlias = Literal["query", "document"]
#: Numbers by which nearness under a model becomes relevance; which there are, search says.
Calibration: TypeAlias = Mapping[str, float]


class Embedder(Protocol):
    """Turns text into unit vectors."""

    @property
    def model(self) -> str:
        """The model's name, exact enough that two equal names give equal vectors."""
        ...

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        ...

    @property
    def calibration(self) -> Calibration | None:
        """What its nearness means; None: nobody has measured that, and no other model's numbers stand for it."""
        ...

    async def embed(self, texts: Sequence[str], role: Role = "document") -> Sequence[bytes]:
        """One unit vector per text, in order; `role` is what all of them are. Raises BackendUnavailableError when the model cannot answer."""
        ...

    def clear(self) -> None:
        """Forget every text that was embedded, and its vector: called after an erasure."""
        ...

    async def close(self) -> None:
        """Give back threads and connections. May be called twice."""
        ...


def unit_vector(
    vector: Sequence[float] | bytes,
    made_by: str,
    *,
    model: str,
    dimensions: int,
    pointer: str = "/embedding",
) -> bytes:
    """A caller's vector, brought to length one. Raises InvalidError where it cannot be compared with the stored ones.

    `vector` is numbers, or little-endian float32 bytes; `made_by` is the model that made it, as the caller says.
    `model` and `dimensions` are those of the stored vectors. `pointer` is where the vector stands in the request.
    """
    size = len(vector) / 4 if isinstance(vector, bytes) else len(vector)
    if made_by != model or size != dimensions:
        raise InvalidError(
            "The vector was not made by the model of this memory.",
            faults=[
                Fault(pointer, "embedding_mismatch", f"a vector of model {model} with {dimensions} numbers")
            ],
        )
    layout = f"<{dimensions}f"
    try:
        packed = vector if isinstance(vector, bytes) else struct.pack(layout, *vector)
    except (struct.error, OverflowError):  # not a number, or too large for float32
        raise _no_direction(pointer) from None
    numbers = struct.unpack(layout, packed)
    length = math.hypot(*numbers)
    if not _SHORTEST < length < math.inf:  # NaN is neither
        raise _no_direction(pointer)
    if abs(length - 1) <= _TOLERANCE:
        return packed
    return struct.pack(layout, *(number / length for number in numbers))


def _no_direction(pointer: str) -> InvalidError:
    return InvalidError(
        "The vector has no direction.", faults=[Fault(pointer, "bad_value", "finite numbers, not all 0")]
    )
