"""Which rows of a partition have a term: an inverted index in memory."""

from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quipu.search.arrays import ENTRY_BYTES, OBJECT_BYTES, TEXT_BYTES

#: Rows added since the index was last sorted are kept apart from it up to this many.
_MOST_UNSORTED = 2048


class Posting(NamedTuple):
    """The rows that have a term, and how often."""

    rows: NDArray[np.int32]
    counts: NDArray[np.uint8]


class Postings:
    """Term → rows: one sorted array, and short ones for the rows that came since."""

    def __init__(self) -> None:
        self._terms = np.empty(0, np.uint32)
        self._starts = np.zeros(1, np.int64)
        self._rows = np.empty(0, np.int32)
        self._counts = np.empty(0, np.uint8)
        self._unsorted: dict[int, tuple[array[int], bytearray]] = {}
        self._unsorted_blobs: list[tuple[int, bytes]] = []
        self._unsorted_bytes = 0

    @property
    def nbytes(self) -> int:
        in_order = self._terms.nbytes + self._starts.nbytes + self._rows.nbytes + self._counts.nbytes
        per_term = ENTRY_BYTES + OBJECT_BYTES + 3 * TEXT_BYTES
        return in_order + self._unsorted_bytes + per_term * len(self._unsorted)

    def add(self, first_row: int, blobs: Sequence[bytes | None]) -> None:
        """Append rows; a row without a blob has no words."""
        fresh = [(first_row + offset, blob) for offset, blob in enumerate(blobs) if blob]
        self._unsorted_blobs.extend(fresh)
        if len(self._unsorted_blobs) > max(_MOST_UNSORTED, len(self._rows) // 200):
            self._sort()
            return
        for row, blob in fresh:
            terms, counts = _parsed(blob)
            # The blob itself, and a row and a count for each of its terms.
            self._unsorted_bytes += OBJECT_BYTES + TEXT_BYTES + len(blob) + 5 * len(terms)
            for term, count in zip(terms.tolist(), counts.tolist(), strict=True):
                unsorted = self._unsorted.get(term)
                if unsorted is None:
                    unsorted = self._unsorted[term] = (array("i"), bytearray())
                unsorted[0].append(row)
                unsorted[1].append(count)

    def of(self, term: int) -> Posting:
        # A plain int is of another type than the terms, and all of them would be converted to compare them with it.
        place = int(self._terms.searchsorted(np.uint32(term)))
        rows, counts = self._rows[:0], self._counts[:0]
        if place < len(self._terms) and self._terms[place] == term:
            span = slice(self._starts[place], self._starts[place + 1])
            rows, counts = self._rows[span], self._counts[span]
        if unsorted := self._unsorted.get(term):
            rows = np.concatenate([rows, np.frombuffer(unsorted[0], np.int32)])
            counts = np.concatenate([counts, np.frombuffer(unsorted[1], np.uint8)])
        return Posting(rows, counts)

    def _sort(self) -> None:
        parts = [_parsed(blob) for _, blob in self._unsorted_blobs]
        sizes = [len(terms) for terms, _ in parts]
        rows = np.repeat(np.array([row for row, _ in self._unsorted_blobs], np.int32), sizes)
        terms = np.concatenate(
            [np.repeat(self._terms, np.diff(self._starts)), *(terms for terms, _ in parts)]
        )
        order = np.argsort(terms, kind="stable")
        self._rows = np.concatenate([self._rows, rows])[order]
        self._counts = np.concatenate([self._counts, *(counts for _, counts in parts)])[order]
        self._terms, firsts = np.unique(terms[order], return_index=True)
        self._starts = np.append(firsts, len(terms)).astype(np.int64)
        self._unsorted, self._unsorted_blobs, self._unsorted_bytes = {}, [], 0


def _parsed(blob: bytes) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """The terms of a blob and how often each occurs."""
    count = len(blob) // 5
    return np.frombuffer(blob, "<u4", count), np.frombuffer(blob, np.uint8, offset=4 * count)
