"""An array that grows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Column:
    """An array that grows at its end."""

    def __init__(self, dtype: Any, width: int | None = None) -> None:
        self._data: Array = np.empty((64,) if width is None else (64, width), dtype)
        self.size = 0
        #: What is in it so far. Made anew only when it grows: search asks for it far more often.
        self.view: Array = self._data[:0]

    def extend(self, values: Array) -> None:
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
