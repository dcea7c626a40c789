"""Word pieces: how the default model reads a text.

The model's own tokenizer brings a client for model hubs and 35 MB with it, for three rules: letters are simplified,
words and signs are taken apart, and each word is cut into the longest pieces that the vocabulary holds. They stand
here; tests compare them with the original over every character and over random texts (docs/adr/0030).
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator

_UNKNOWN = "[UNK]"
_INSIDE = "##"
#: A longer word is no word: one piece, unknown.
_LONGEST_WORD = 100
_REPLACEMENT = "\ufffd"
_INVISIBLE = frozenset({"Cc", "Cf", "Co", "Cs"})
#: Signs that Unicode calls symbols, and the model punctuation.
_SIGNS = frozenset("$+<=>^`|~")
#: The ideographs as the model's makers list them; kana, hangul and younger extensions are letters of words.
_IDEOGRAPHS = (
    range(0x3400, 0x4DC0),
    range(0x4E00, 0xA000),
    range(0xF900, 0xFB00),
    range(0x20000, 0x2A6E0),
    range(0x2A700, 0x2B740),
    range(0x2B740, 0x2B820),
    range(0x2B920, 0x2CEB0),
    range(0x2F800, 0x2FA20),
)


class _Spelling(dict[int, str]):
    """What each character is read as, for `str.translate`; learnt as characters are met."""

    def __missing__(self, code: int) -> str:
        self[code] = read = _read(chr(code))
        return read


class WordPieces:
    """The vocabulary of a tokenizer's file. May be asked by several threads at once."""

    def __init__(self, file: str) -> None:
        self._numbers: dict[str, int] = json.loads(file)["model"]["vocab"]
        self._unknown = self._numbers[_UNKNOWN]
        self._longest = max(map(len, self._numbers))
        self._spelling = _Spelling()

    def numbers(self, text: str) -> list[int]:
        """The numbers of the text's pieces. Nothing in a text is a command: "[SEP]" is three pieces."""
        known = self._numbers
        found: list[int] = []
        for word in text.translate(self._spelling).split():
            number = known.get(word)
            if number is None:
                found += self._cut(word)
            else:
                found.append(number)
        return found

    def _cut(self, word: str) -> list[int]:
        """The longest pieces from the left, or one unknown for a word that cannot be cut without a rest."""
        if len(word) > _LONGEST_WORD:
            return [self._unknown]
        found: list[int] = []
        start = 0
        while start < len(word):
            for piece in self._candidates(word, start):
                if (number := self._numbers.get(piece)) is not None:
                    found.append(number)
                    start += len(piece) - (len(_INSIDE) if start else 0)
                    break
            else:
                return [self._unknown]
        return found

    def _candidates(self, word: str, start: int) -> Iterator[str]:
        mark = _INSIDE if start else ""
        for end in range(min(len(word), start + self._longest), start, -1):
            yield mark + word[start:end]


def _read(character: str) -> str:
    """A character without case and accents; signs and ideographs stand apart, what cannot be seen is left out."""
    if (character.isspace() and unicodedata.category(character) != "Cc") or character in "\t\n\r":
        return " "
    if character == _REPLACEMENT or unicodedata.category(character) in _INVISIBLE:
        return ""
    plain = "".join(
        letter.lower()
        for letter in unicodedata.normalize("NFD", character)
        if unicodedata.category(letter) != "Mn"
    )
    apart = _is_sign(plain) or any(ord(character) in block for block in _IDEOGRAPHS)
    return f" {plain} " if apart else plain


def _is_sign(plain: str) -> bool:
    return plain in _SIGNS or (len(plain) == 1 and unicodedata.category(plain).startswith("P"))
