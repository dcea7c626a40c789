"""Arrays that grow, names as small numbers, and the best of many scores."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Mask: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float32]
#: Row numbers of a partition; -1 where there is no row.
Rows: TypeAlias = NDArray[np.int64]

#: What things take in memory besides their data, about: an array, a place in a dictionary, a string, a small object.
ARRAY_BYTES = 112
ENTRY_BYTES = 88
TEXT_BYTES = 50
OBJECT_BYTES = 48


class GrowingArray:
    """An array that grows at its end."""

    def __init__(self, dtype: Any, width: int | None = None) -> None:
        self._data: NDArray[Any] = np.empty((64,) if width is None else (64, width), dtype)
        self.size = 0
        #: What is in it so far. Made anew only when it grows: it is read far more often.
        self.view: NDArray[Any] = self._data[:0]

    def extend(self, values: Sequence[Any] | NDArray[Any]) -> None:
        need = self.size + len(values)
        if need > len(self._data):
            grown = np.empty((max(need, len(self._data) * 3 // 2), *self._data.shape[1:]), self._data.dtype)
            grown[: self.size] = self._data[: self.size]
            self._data = grown
        self._data[self.size : need] = values
        self.size = need
        self.view = self._data[:need]

    @property
    def nbytes(self) -> int:
        return self._data.nbytes


class Codes:
    """Strings as small numbers, each kept once; None is -1."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.names: list[str] = []
        self.nbytes = 0

    def add(self, name: str | None) -> int:
        if name is None:
            return -1
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.names)
            self.names.append(name)
            self.nbytes += ENTRY_BYTES + TEXT_BYTES + len(name)
            self._added(name, number)
        return number

    def find(self, name: str) -> int:
        """The number, or -2, which no row has."""
        return self._numbers.get(name, -2)

    def decoded(self, numbers: NDArray[Any]) -> list[str | None]:
        names = self.names
        return [names[number] if number >= 0 else None for number in numbers.tolist()]

    def _added(self, name: str, number: int) -> None:
        """A name was met for the first time."""


def best(scores: Floats, limit: int, above: float | None = None) -> Rows:
    """The places of the highest scores, best first; equal scores by place, so that the answer is always the same."""
    if above is not None:
        places = np.flatnonzero(scores > above)
        return places[best(scores[places], limit)]
    if len(scores) > limit:
        # Everything that ties with the last one stays in, or which of them is kept would be chance.
        bound = np.partition(scores, len(scores) - limit)[len(scores) - limit]
        places = np.flatnonzero(scores >= bound)
    else:
        places = np.arange(len(scores))
    order = np.lexsort((places, -scores[places]))
    return places[order][:limit]
