"""What was seen already, of any number of texts: sixteen bytes for each at most, whatever they say."""

from __future__ import annotations

import hashlib
from array import array

_FIRST = 1 << 12


class Seen:
    """A table of hashes, open addressed; it doubles when it is half full. Two texts in 2^64 are taken for one."""

    def __init__(self) -> None:
        self._table = array("Q", bytes(8 * _FIRST))
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, text: str) -> bool:
        """Whether it is new."""
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        if not self._put(int.from_bytes(digest) or 1):  # 0 stands for nothing
            return False
        self._count += 1
        if 2 * self._count > len(self._table):
            self._grow()
        return True

    def _put(self, number: int) -> bool:
        table, mask = self._table, len(self._table) - 1
        place = number & mask
        while (there := table[place]) != 0:
            if there == number:
                return False
            place = (place + 1) & mask
        table[place] = number
        return True

    def _grow(self) -> None:
        old = self._table
        self._table = array("Q", bytes(16 * len(old)))
        for number in old:
            if number:
                self._put(number)
