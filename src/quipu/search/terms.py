"""Words for keyword search: SQLite's FTS5 tokenizer (Porter stems over Unicode words), as numbers.

A version's words are kept as a blob: the CRC-32 of each distinct stem (uint32, ascending), then how often each occurs
(uint8, at most 255). No word is kept as text, so erasing the blob erases the words.
"""

import re
import struct
import threading
from collections import Counter
from typing import Final, TypeAlias, cast
from zlib import crc32

import apsw

from quipu.model.record import Record
from quipu.search.text import MARK, composed, folded, index_text, outline

#: The words of a text as written, each with the terms it stands for.
Words: TypeAlias = list[tuple[str, list[int]]]

#: Whatever gives a text other terms takes the next number: then a ledger knows that its terms were made by other rules.
TERMS_VERSION: Final = 1

_LETTERS = f"[^\\W_]+(?:{MARK}+[^\\W_]*)*"
_WORD = re.compile(f"{_LETTERS}(?:['\u2019]{_LETTERS})*")
_POSSESSIVE = re.compile("['\u2019]s$")


class _Tokenizer(threading.local):
    """One for each thread, because it belongs to a connection."""

    def __init__(self) -> None:
        self._connection = apsw.Connection(":memory:")
        options = ["unicode61", "remove_diacritics", "2", "categories", "L* N* Co M*"]
        self._tokenize = self._connection.fts5_tokenizer("porter", options)

    def stems(self, text: str) -> list[str]:
        tokens = self._tokenize(
            folded(text).encode("utf-8"),
            apsw.FTS5_TOKENIZE_DOCUMENT,
            None,
            include_offsets=False,
            include_colocated=False,
        )
        return cast("list[str]", tokens)  # that is what it is without offsets and synonyms


_TOKENIZER = _Tokenizer()


def terms_of(text: str) -> bytes:
    """The terms of a text, as they are kept."""
    counts = Counter(crc32(stem.encode()) for stem in _TOKENIZER.stems(text))
    terms = sorted(counts)
    return struct.pack(f"<{len(terms)}I", *terms) + bytes(min(counts[term], 255) for term in terms)


def index_terms(record: Record) -> bytes | None:
    """The terms of a version as they are kept; None for one that is not searched: archived or emptied."""
    return None if record.is_emptied or record.state != "live" else terms_of(index_text(record))


def words(text: str) -> Words:
    """The words as written, each with the terms it stands for. A possessive s is no term: every text has it."""
    written = composed(text)
    found = [written[slice(*match.span())] for match in _WORD.finditer(outline(written))]
    bare = [word if word.isalnum() else _POSSESSIVE.sub("", word) for word in found]
    joined = " ".join(bare)
    if joined.isascii() and all(map(str.isalnum, bare)):  # each word is one term
        return [(word, [_term(stem)]) for word, stem in zip(found, _TOKENIZER.stems(joined), strict=True)]
    return [
        (word, [_term(stem) for stem in _TOKENIZER.stems(one)]) for word, one in zip(found, bare, strict=True)
    ]


def _term(stem: str) -> int:
    return crc32(stem.encode())
