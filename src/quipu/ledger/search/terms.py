"""Words for keyword search: SQLite's own FTS5 tokenizer (Porter stems over Unicode words), as numbers.

A version's words are kept as a blob: the CRC-32 of each distinct stem (uint32, ascending), then its count (uint8,
saturating). No word is kept as text, so erasing the blob erases the words.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from itertools import chain, pairwise
from typing import TypeAlias, cast
from zlib import crc32

import apsw

from quipu.rules.letters import MARK, outline, plain
from quipu.rules.texts import composed

#: The words of a text as written, each with the terms it stands for.
Words: TypeAlias = list[tuple[str, list[int]]]
#: Letters with their marks.
_LETTERS = f"[^\\W_]+(?:{MARK}+[^\\W_]*)*"
_WORD = re.compile(f"{_LETTERS}(?:['\u2019]{_LETTERS})*")
_POSSESSIVE = re.compile("['\u2019]s$")
#: The number of these rules. Whatever gives a text other terms takes the next one: then a memory knows that its terms
#: are by other rules, and says what to do.
RULES = 2
#: So many texts are worth the means of doing them together.
_MANY = 32


class Tokenizer:
    """Turns text into stems. One per thread: it belongs to a connection of its own."""

    def __init__(self) -> None:
        self._connection = apsw.Connection(":memory:")
        words = ["unicode61", "remove_diacritics", "2", "categories", "L* N* Co M*"]
        self._stems = self._connection.fts5_tokenizer("porter", words)

    def stems(self, text: str) -> list[str]:
        tokens = self._stems(
            plain(text).encode("utf-8"),
            apsw.FTS5_TOKENIZE_DOCUMENT,
            None,
            include_offsets=False,
            include_colocated=False,
        )
        return cast("list[str]", tokens)  # that is what it is without offsets and synonyms

    def terms(self, text: str) -> bytes:
        """The blob of a text."""
        numbers = sorted([crc32(stem.encode()) for stem in self.stems(text)])
        keys: list[int] = []
        counts: list[int] = []
        last = -1
        for number in numbers:  # a text is too short for a Counter to be worth its making
            if number == last:
                counts[-1] += 1
            else:
                keys.append(number)
                counts.append(1)
                last = number
        try:
            often = bytes(counts)
        except ValueError:  # more than 255 times
            often = bytes(min(count, 255) for count in counts)
        return struct.pack(f"<{len(keys)}I", *keys) + often

    def all_terms(self, texts: Sequence[str]) -> list[bytes]:
        """The blobs of many texts. They have words in common, and are sorted in one go."""
        if len(texts) < _MANY:
            return [self.terms(text) for text in texts]
        known = _Numbers()
        return _blobs([[known[stem] for stem in self.stems(text)] for text in texts])

    def words(self, text: str) -> Words:
        """The words as written, each with the terms it stands for. A possessive s is no term: every text has it."""
        written = composed(text)
        words = [written[slice(*found.span())] for found in _WORD.finditer(outline(written))]
        bare = [word if word.isalnum() else _POSSESSIVE.sub("", word) for word in words]
        together = " ".join(bare)
        if together.isascii() and all(map(str.isalnum, bare)):  # each word is one term
            return [(word, [term(stem)]) for word, stem in zip(words, self.stems(together), strict=True)]
        return [
            (word, [term(stem) for stem in self.stems(one)]) for word, one in zip(words, bare, strict=True)
        ]


def term(stem: str) -> int:
    return crc32(stem.encode())


class _Numbers(dict[str, int]):
    """The numbers of stems, worked out as stems are met. It holds words, so it is gone with the texts they are from."""

    def __missing__(self, stem: str) -> int:
        self[stem] = number = crc32(stem.encode())
        return number


def _blobs(texts: Sequence[Sequence[int]]) -> list[bytes]:
    """What `Tokenizer.terms` makes of the stems of each text."""
    import numpy as np  # slow to load, and whoever writes a few texts does not need it

    lengths = [len(numbers) for numbers in texts]
    numbers = np.fromiter(chain.from_iterable(texts), np.uint64, sum(lengths))
    # Place of the text, then number: what is the same in both is one word.
    words = np.repeat(np.arange(len(texts), dtype=np.uint64) << np.uint64(32), lengths) | numbers
    distinct, counts = np.unique(words, return_counts=True)
    keys = distinct.astype("<u4").tobytes()  # the lower half
    often = np.minimum(counts, 255).astype(np.uint8).tobytes()
    ends = np.cumsum(np.bincount((distinct >> np.uint64(32)).astype(np.int64), minlength=len(texts))).tolist()
    return [keys[4 * start : 4 * end] + often[start:end] for start, end in pairwise((0, *ends))]
