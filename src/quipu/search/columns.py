"""Filters over a partition: each path becomes a column of small codes, and a condition is asked once per distinct value.

So the filter language has one definition (`filter_tree.holds`) and costs one look-up in an array.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quipu.ledger.index import VersionKey
from quipu.search.arrays import ENTRY_BYTES, OBJECT_BYTES, TEXT_BYTES, GrowingArray, Mask
from quipu.search.filter_tree import (
    MISSING,
    STORE,
    AllOf,
    AnyOf,
    Condition,
    Missing,
    Not,
    Path,
    Tree,
    Value,
    holds,
    metadata_at,
    paths,
    token,
    value_at,
)
from quipu.search.partition import TYPES, Partition
from quipu.search.source import Source

#: So many versions are read at a time.
_CHUNK = 5_000
#: Of so many conditions the answers are kept.
_MOST_CONDITIONS = 32
_ABSENT = object()


class _Column:
    """The values at one path, row by row."""

    def __init__(self) -> None:
        self.codes = GrowingArray(np.int32)
        self.values: list[Value] = []
        self._numbers: dict[Hashable, int] = {}
        self._value_bytes = 0

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self._value_bytes

    def add(self, values: Sequence[Value]) -> None:
        self.codes.extend([self._code(value) for value in values])

    def _code(self, value: Value) -> int:
        key = _ABSENT if isinstance(value, Missing) else token(value)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.values)
            self.values.append(value)
            # Once as it is, and once as the token it is found by.
            self._value_bytes += ENTRY_BYTES + 2 * (OBJECT_BYTES + _size(value))
        return number


class FilterColumns:
    """The columns that filters on one partition have needed so far."""

    def __init__(self) -> None:
        self._columns: dict[Path, _Column] = {}
        #: The answers for the distinct values of a column, the latest last.
        self._answers: dict[Condition, GrowingArray] = {}

    @property
    def nbytes(self) -> int:
        answers = sum(ENTRY_BYTES + 4 * OBJECT_BYTES + kept.nbytes for kept in self._answers.values())
        return answers + sum(column.nbytes for column in self._columns.values())

    def mask(
        self, tree: Tree, partition: Partition, seq: int, source: Source, store_names: Mapping[str, str]
    ) -> Mask:
        """Which rows pass, of those born by a position. The source need not know the others yet."""
        count = int(np.searchsorted(partition["born"], seq, side="right"))
        self._fill([path for path in paths(tree) if path.field not in _CODED], partition, count, source)
        mask = np.zeros(len(partition), np.bool_)
        mask[:count] = self._mask(tree, partition, count, store_names)
        return mask

    def _mask(self, tree: Tree, partition: Partition, count: int, store_names: Mapping[str, str]) -> Mask:
        match tree:
            case AllOf(parts):
                masks = [self._mask(part, partition, count, store_names) for part in parts]
                return np.logical_and.reduce(masks or [np.ones(count, np.bool_)])
            case AnyOf(parts):
                masks = [self._mask(part, partition, count, store_names) for part in parts]
                return np.logical_or.reduce(masks)
            case Not(part):
                return ~self._mask(part, partition, count, store_names)
            case Condition():
                if tree.path.field in _CODED:
                    codes, values = _coded(partition, tree.path, store_names)
                    return np.array([holds(tree, value) for value in values], np.bool_)[codes[:count]]
                column = self._columns[tree.path]
                return self._answered(tree, column)[column.codes.view[:count]]

    def _answered(self, condition: Condition, column: _Column) -> Mask:
        """The condition's answer for each distinct value, kept; it is asked about new values when they come."""
        answers = self._answers.pop(condition, None) or GrowingArray(np.bool_)
        self._answers[condition] = answers
        if len(self._answers) > _MOST_CONDITIONS:
            del self._answers[next(iter(self._answers))]
        answers.extend([holds(condition, value) for value in column.values[answers.size :]])
        return answers.view

    def _fill(self, wanted: Sequence[Path], partition: Partition, count: int, source: Source) -> None:
        columns = {path: self._columns.setdefault(path, _Column()) for path in wanted}
        behind = {path: column for path, column in columns.items() if column.codes.size < count}
        if not behind:
            return
        start = min(column.codes.size for column in behind.values())
        for first in range(start, count, _CHUNK):
            keys = partition.keys(slice(first, min(first + _CHUNK, count)))
            fetched = list(_values(source, keys, list(behind)))
            for place, column in enumerate(behind.values()):
                # A column that was begun earlier already knows the first rows of this chunk.
                fresh = fetched[max(0, column.codes.size - first) :]
                column.add([values[place] for values in fresh])


def _values(source: Source, keys: Sequence[VersionKey], wanted: Sequence[Path]) -> Iterator[list[Value]]:
    """What stands at each path, version by version; the whole version is read only where a path needs it."""
    if all(path.field is None for path in wanted):
        for _, metadata in zip(keys, source.metadata(keys), strict=True):
            yield [metadata_at(metadata, path) for path in wanted]
    else:
        for _, record in zip(keys, source.versions_of(keys), strict=True):
            yield [value_at(record, path, "") for path in wanted]


#: Fields that a partition has as numbers anyway. The name of a store may change, so its values are never kept.
_CODED = frozenset(("agent_id", "session_id", "store", "subject", "type", "user_id"))


def _coded(
    partition: Partition, path: Path, store_names: Mapping[str, str]
) -> tuple[NDArray[Any], list[Value]]:
    """The number of each row, and what the numbers stand for; the last is for the number -1."""
    if path == STORE:
        return partition["store"], [store_names.get(store, "") for store in partition.stores.names]
    if path.field == "type":
        return partition["type"], list(TYPES)
    codes = {
        "agent_id": partition.agents,
        "session_id": partition.sessions,
        "subject": partition.subjects,
        "user_id": partition.users,
    }[path.field or ""]
    return partition[(path.field or "").removesuffix("_id")], [*codes.names, MISSING]


def _size(value: Value) -> int:
    """Of a text or a list, about; of anything else nothing that counts."""
    if isinstance(value, str):
        return TEXT_BYTES + len(value)
    return TEXT_BYTES * len(value) if isinstance(value, Sized) else 0
