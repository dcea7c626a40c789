"""Words for keyword search: SQLite's own FTS5 tokenizer (Porter stems over Unicode words), as numbers.

A version's words are kept as a blob: the CRC-32 of each distinct stem (uint32, ascending), then its count (uint8,
saturating). No word is kept as text, so erasing the blob erases the words.
"""

from __future__ import annotations

import re
import sys
import zlib
from array import array
from collections import Counter

import apsw

#: Scripts written without spaces: every character is a word of its own.
_UNSPACED = re.compile("([\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff])")
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")


class Tokenizer:
    """Turns text into stems. One per thread: it belongs to a connection of its own."""

    def __init__(self) -> None:
        self._connection = apsw.Connection(":memory:")
        self._stems = self._connection.fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "2"])

    def stems(self, text: str) -> list[str]:
        spaced = text if text.isascii() else _UNSPACED.sub(r" \1 ", text)
        tokens = self._stems(
            spaced.encode("utf-8"),
            apsw.FTS5_TOKENIZE_DOCUMENT,
            None,
            include_offsets=False,
            include_colocated=False,
        )
        return [str(token) for token in tokens]

    def terms(self, text: str) -> bytes:
        """The blob of a text."""
        counts = Counter(term(stem) for stem in self.stems(text))
        ordered = array("I", sorted(counts))
        if sys.byteorder == "big":
            ordered.byteswap()
        return ordered.tobytes() + bytes(min(counts[key], 255) for key in sorted(counts))

    def words(self, text: str) -> list[tuple[str, list[int]]]:
        """The words as written, each with the terms it stands for."""
        return [(word, [term(stem) for stem in self.stems(word)]) for word in _WORD.findall(text)]


def term(stem: str) -> int:
    return zlib.crc32(stem.encode("utf-8"))
