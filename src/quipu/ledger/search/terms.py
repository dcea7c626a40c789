"""Words for keyword search: SQLite's own FTS5 tokenizer (Porter stems over Unicode words), as numbers.

A version's words are kept as a blob: the CRC-32 of each distinct stem (uint32, ascending), then its count (uint8,
saturating). No word is kept as text, so erasing the blob erases the words.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from typing import TypeAlias, cast
from zlib import crc32

import apsw

#: Scripts written without spaces: every character is a word of its own.
_UNSPACED = re.compile("([\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff])")
#: The words of a text as written, each with the terms it stands for.
Words: TypeAlias = list[tuple[str, list[int]]]
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_POSSESSIVE = re.compile("['\u2019]s$")


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
        return cast("list[str]", tokens)  # that is what it is without offsets and synonyms

    def terms(self, text: str) -> bytes:
        """The blob of a text."""
        counts = Counter([crc32(stem.encode()) for stem in self.stems(text)])
        keys = sorted(counts)
        try:
            often = bytes(map(counts.__getitem__, keys))
        except ValueError:  # more than 255 times
            often = bytes(min(counts[key], 255) for key in keys)
        return struct.pack(f"<{len(keys)}I", *keys) + often

    def words(self, text: str) -> Words:
        """The words as written, each with the terms it stands for. A possessive s is no term: every text has it."""
        return [
            (word, [term(stem) for stem in self.stems(_POSSESSIVE.sub("", word))])
            for word in _WORD.findall(text)
        ]


def term(stem: str) -> int:
    return crc32(stem.encode())
