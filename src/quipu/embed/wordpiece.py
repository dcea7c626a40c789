"""Word pieces: how the built-in model reads a text.

The model's own tokenizer library brings a client for model hubs and 35 MB with it, for three rules: letters lose case
and accents, words and punctuation are taken apart, and each word is cut into the longest pieces of the vocabulary. The
tests compare these rules with that library over every character and over random texts.
"""

import unicodedata
from collections.abc import Iterator, Sequence

_UNKNOWN = "[UNK]"
#: Begins a piece that continues a word.
_INSIDE = "##"
#: A longer word is not cut: it is one unknown piece.
_LONGEST_WORD = 100
_REPLACEMENT = "\ufffd"
_INVISIBLE = frozenset({"Cc", "Cf", "Co", "Cs"})
#: Unicode calls these symbols, the model punctuation.
_PUNCTUATION = frozenset("$+<=>^`|~")
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


class _CharacterTable(dict[int, str]):
    """What each character is read as, for `str.translate`; filled as characters are met."""

    def __missing__(self, code: int) -> str:
        self[code] = folded = _folded(chr(code))
        return folded


class WordPieces:
    """A vocabulary of word pieces. Safe to use from several threads."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        """`vocabulary` is the pieces in the order of their numbers."""
        self._numbers = {piece: number for number, piece in enumerate(vocabulary)}
        self._unknown = self._numbers[_UNKNOWN]
        self._longest = max(map(len, vocabulary))
        self._characters = _CharacterTable()

    def numbers(self, text: str) -> list[int]:
        """The numbers of the text's pieces. Nothing in a text is a command: "[SEP]" is three pieces."""
        found: list[int] = []
        for word in text.translate(self._characters).split():
            number = self._numbers.get(word)
            if number is None:
                found += self._cut(word)
            else:
                found.append(number)
        return found

    def _cut(self, word: str) -> list[int]:
        """The longest pieces from the left, or one unknown piece for a word that cannot be cut without a rest."""
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


def _folded(character: str) -> str:
    """A character without case and accents; punctuation and ideographs in blanks, invisible ones left out."""
    if (character.isspace() and unicodedata.category(character) != "Cc") or character in "\t\n\r":
        return " "
    if character == _REPLACEMENT or unicodedata.category(character) in _INVISIBLE:
        return ""
    plain = "".join(
        letter.lower()
        for letter in unicodedata.normalize("NFD", character)
        if unicodedata.category(letter) != "Mn"
    )
    stands_alone = _is_punctuation(plain) or any(ord(character) in block for block in _IDEOGRAPHS)
    return f" {plain} " if stands_alone else plain


def _is_punctuation(plain: str) -> bool:
    return plain in _PUNCTUATION or (len(plain) == 1 and unicodedata.category(plain).startswith("P"))
