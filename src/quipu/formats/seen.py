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

    def __contains__(self, text: object) -> bool:
        number = fingerprint(str(text))
        return self._table[self._place(number)] == number

    def add(self, text: str) -> bool:
        """Whether it is new."""
        if not self._put(fingerprint(text)):
            return False
        self._count += 1
        if 2 * self._count > len(self._table):
            self._grow()
        return True

    def _put(self, number: int) -> bool:
        place = self._place(number)
        if self._table[place] == number:
            return False
        self._table[place] = number
        return True

    def _place(self, number: int) -> int:
        """Where it is, or would be."""
        table, mask = self._table, len(self._table) - 1
        place = number & mask
        while table[place] not in (0, number):
            place = (place + 1) & mask
        return place

    def _grow(self) -> None:
        old = self._table
        self._table = array("Q", bytes(16 * len(old)))
        for number in old:
            if number:
                self._put(number)


def fingerprint(text: str) -> int:
    """A number for a text, never 0."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) or 1  # 0 stands for nothing
