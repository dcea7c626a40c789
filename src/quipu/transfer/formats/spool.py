"""What is to be written, waiting on disk: lines added in the order of falling ids, read in the order of rising ones."""

import json
import tempfile
from array import array
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from quipu.transfer.formats.values import number


class Spool:
    """A temporary file that nobody else sees, and where its lines begin."""

    def __init__(self, *, is_rising: bool = False) -> None:
        """`is_rising`: the lines come in the order that they are read in."""
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
        """All of them; or some, counted in the order of reading."""
        count = len(self._starts)
        for index in range(first, count if most is None else min(count, first + most)):
            place = index if self._is_rising else count - 1 - index
            start = self._starts[place]
            end = self._starts[place + 1] if place + 1 < count else self._end
            self._file.seek(start)
            yield self._file.read(end - start)

    def items(self) -> Iterator[dict[str, Any]]:
        """The same as values."""
        return (json.loads(line, parse_int=number) for line in self.lines())

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
