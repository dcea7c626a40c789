"""Keyword scores over one partition: an inverted index in memory, and BM25.

Counts and lengths are taken over the rows a reader may see, so scores depend on nothing else and are the same when
the same snapshot is read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quipu.ledger.search.sizes import ARRAY, ENTRY, OBJECT

Mask = NDArray[np.bool_]

#: Rows added since the index was last laid out are looked through one by one up to this many.
_TAIL = 2048
#: Terms looked up lately, at most: one recall asks for each of its terms twice.
_KNOWN = 4096


def parsed(blob: bytes) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """The terms of a blob and how often each occurs."""
    count = len(blob) // 5
    return np.frombuffer(blob, dtype="<u4", count=count), np.frombuffer(
        blob, dtype=np.uint8, offset=4 * count
    )


@dataclass(frozen=True, slots=True)
class Posting:
    """The rows that have a term, and how often."""

    rows: NDArray[np.int32]
    counts: NDArray[np.uint8]


class Postings:
    """Term → rows. Laid out as one sorted array, plus a short tail of what came since."""

    def __init__(self) -> None:
        self._terms = np.empty(0, np.uint32)
        self._starts = np.zeros(1, np.int64)
        self._rows = np.empty(0, np.int32)
        self._counts = np.empty(0, np.uint8)
        self._tail: dict[int, list[tuple[int, int]]] = {}
        self._tail_blobs: list[tuple[int, bytes]] = []
        self._known: dict[int, Posting] = {}
        self._tail_bytes = 0
        #: What the terms looked up lately take.
        self.kept_bytes = 0

    @property
    def nbytes(self) -> int:
        laid_out = self._terms.nbytes + self._starts.nbytes + self._rows.nbytes + self._counts.nbytes
        return laid_out + self._tail_bytes + (ENTRY + 2 * OBJECT) * len(self._tail)

    def forget(self) -> None:
        """Let go of the terms that were looked up."""
        self._known.clear()
        self.kept_bytes = 0

    def add(self, first_row: int, blobs: Sequence[bytes | None]) -> None:
        """Append rows; a row without a blob has no words."""
        self.forget()
        fresh = [(first_row + offset, blob) for offset, blob in enumerate(blobs) if blob]
        self._tail_blobs.extend(fresh)
        if len(self._tail_blobs) > max(_TAIL, len(self._rows) // 200):
            self._lay_out()
            return
        for row, blob in fresh:
            terms, counts = parsed(blob)
            # The text's own bytes, and for each of its terms a pair in a list.
            self._tail_bytes += OBJECT + len(blob) + (OBJECT + 8) * len(terms)
            for term, count in zip(terms.tolist(), counts.tolist(), strict=True):
                self._tail.setdefault(term, []).append((row, count))

    def _lay_out(self) -> None:
        parts = [parsed(blob) for _, blob in self._tail_blobs]
        sizes = [len(terms) for terms, _ in parts]
        rows = np.repeat(np.array([row for row, _ in self._tail_blobs], np.int32), sizes)
        terms = np.concatenate(
            [np.repeat(self._terms, np.diff(self._starts)), *(terms for terms, _ in parts)]
        )
        order = np.argsort(terms, kind="stable")
        self._rows = np.concatenate([self._rows, rows])[order]
        self._counts = np.concatenate([self._counts, *(counts for _, counts in parts)])[order]
        self._terms, firsts = np.unique(terms[order], return_index=True)
        self._starts = np.append(firsts, len(terms)).astype(np.int64)
        self._tail, self._tail_blobs, self._tail_bytes = {}, [], 0

    def of(self, term: int) -> Posting:
        known = self._known.get(term)
        if known is None:
            if len(self._known) >= _KNOWN:
                self.forget()
            known = self._known[term] = self._looked_up(term)
            # Where there is a tail, the rows are copies of their own; else they are views.
            own = known.rows.nbytes + known.counts.nbytes if term in self._tail else 0
            self.kept_bytes += ENTRY + OBJECT + 2 * ARRAY + own
        return known

    def _looked_up(self, term: int) -> Posting:
        # A plain int would be of another type, and all terms would be copied into that type to compare them with it.
        place = int(self._terms.searchsorted(np.uint32(term)))
        if place < len(self._terms) and self._terms[place] == term:
            span = slice(self._starts[place], self._starts[place + 1])
            rows, counts = self._rows[span], self._counts[span]
        else:
            rows, counts = self._rows[:0], self._counts[:0]
        tail = self._tail.get(term)
        if tail:
            more = np.array(tail, np.int32)
            rows = np.concatenate([rows, more[:, 0]])
            counts = np.concatenate([counts, more[:, 1].astype(np.uint8)])
        return Posting(rows, counts)
