"""Filters over a partition: each path a filter names becomes a column of small codes, and the rule is asked once per
distinct value, so that the filter language has one definition (`rules.filters`) and costs one array look-up."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Sized
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from quipu.ledger.search.column import Column
from quipu.ledger.search.postings import Mask
from quipu.ledger.search.sizes import ENTRY, OBJECT, TEXT
from quipu.model.value import Json
from quipu.rules import filters
from quipu.rules.filters import Missing, Path, Test, Tree

#: Ledger rows and paths → for each row, in order, what stands at each path.
Fetch: TypeAlias = "Callable[[Sequence[int], Sequence[Path]], Iterable[list[Json | Missing]]]"

_CHUNK = 5_000
_ABSENT = object()
#: What a test takes by which verdicts are found.
_TEST = ENTRY + 4 * OBJECT


class _PathColumn:
    """The values at one path, row by row."""

    def __init__(self) -> None:
        self.codes = Column(np.int32)
        self.values: list[Json | Missing] = []
        self._numbers: dict[Hashable, int] = {}
        self._value_bytes = 0

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self._value_bytes

    def add(self, values: Sequence[Json | Missing]) -> None:
        self.codes.extend(np.fromiter((self._code(value) for value in values), np.int32, len(values)))

    def _code(self, value: Json | Missing) -> int:
        key = _ABSENT if isinstance(value, Missing) else filters.token(value)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.values)
            self.values.append(value)
            # Once as it is, and once as it is found by.
            self._value_bytes += ENTRY + 2 * (OBJECT + _length(value))
        return number


def _length(value: Json | Missing) -> int:
    """Of a text or a list, about; of anything else nothing that counts."""
    if isinstance(value, str):
        return TEXT + len(value)
    return TEXT * len(value) if isinstance(value, Sized) else 0


class FilterColumns:
    """The columns that filters on one partition have needed so far."""

    def __init__(self) -> None:
        self._columns: dict[Path, _PathColumn] = {}
        self._verdicts: dict[Test, list[bool]] = {}
        self._stores: Mapping[str, str] = {}
        #: What all of it takes.
        self.nbytes = 0

    def mask(self, tree: Tree, rows: NDArray[np.int64], fetch: Fetch) -> Mask:
        """Which rows pass."""
        self._fill(filters.paths(tree), rows, fetch)
        return self._mask(tree, len(rows))

    def name_stores(self, names: Mapping[str, str]) -> None:
        """The names of stores by id. A version never changes, but its store may be deleted, and then has no name."""
        if names == self._stores:
            return
        self._stores = names
        column = self._columns.pop(filters.STORE, None)
        if column is None:
            return
        self.nbytes -= column.nbytes
        for test in [test for test in self._verdicts if test.path == filters.STORE]:
            self.nbytes -= _TEST + 8 * len(self._verdicts.pop(test))

    def _mask(self, tree: Tree, size: int) -> Mask:
        match tree:
            case filters.All(parts):
                return np.logical_and.reduce(
                    [self._mask(part, size) for part in parts] or [np.ones(size, np.bool_)]
                )
            case filters.Any(parts):
                return np.logical_or.reduce([self._mask(part, size) for part in parts])
            case filters.Not(part):
                return ~self._mask(part, size)
            case Test():
                column = self._columns[tree.path]
                return np.array(self._verdict(tree, column), np.bool_)[column.codes.view]

    def _verdict(self, test: Test, column: _PathColumn) -> list[bool]:
        """The test's answer for each distinct value, remembered; new values are asked about when they come."""
        verdicts = self._verdicts.get(test)
        if verdicts is None:
            verdicts = self._verdicts[test] = []
            self.nbytes += _TEST
        if fresh := column.values[len(verdicts) :]:
            verdicts.extend(filters.holds(test, value) for value in fresh)
            self.nbytes += 8 * len(fresh)
        return verdicts

    def _fill(self, wanted: set[Path], rows: NDArray[np.int64], fetch: Fetch) -> None:
        columns = {path: self._columns.setdefault(path, _PathColumn()) for path in wanted}
        behind = {path: column for path, column in columns.items() if column.codes.size < len(rows)}
        if not behind:
            return
        before = sum(column.nbytes for column in behind.values() if column.codes.size)
        start = min(column.codes.size for column in behind.values())
        for first in range(start, len(rows), _CHUNK):
            fetched = list(fetch(rows[first : first + _CHUNK].tolist(), list(behind)))
            for place, column in enumerate(behind.values()):
                # Columns begun earlier already know the first rows of this chunk.
                fresh = fetched[max(0, column.codes.size - first) :]
                column.add([values[place] for values in fresh])
        self.nbytes += sum(column.nbytes for column in behind.values()) - before
