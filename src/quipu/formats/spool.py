"""Lines that wait on disk: added in the order of falling ids, read in the order of rising ones; or as they came."""

from __future__ import annotations

import json
import tempfile
from array import array
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from quipu.formats import values
from quipu.formats.values import Item


class Spool:
    """A temporary file that nobody else sees, and where its lines begin."""

    def __init__(self, *, is_rising: bool = False) -> None:
        self._is_rising = is_rising
        self._file = tempfile.TemporaryFile(prefix="quipu-export-")  # noqa: SIM115  closed by close
        self._starts = array("Q")
        self._end = 0

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, line: bytes) -> None:
        """One more."""
        self._starts.append(self._end)
        self._file.write(line)
        self._end += len(line)

    def lines(self, first: int = 0, most: int | None = None) -> Iterator[bytes]:
        """All of them, the last one first unless they came in their order; or some, counted in that order."""
        count = len(self._starts)
        for number in range(first, count if most is None else min(count, first + most)):
            place = number if self._is_rising else count - 1 - number
            start = self._starts[place]
            end = self._starts[place + 1] if place + 1 < count else self._end
            self._file.seek(start)
            yield self._file.read(end - start)

    def items(self) -> Iterator[Item]:
        """The same as values: a large double, which canonical JSON writes as digits, is one again."""
        return (json.loads(line, parse_int=values.number) for line in self.lines())

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
