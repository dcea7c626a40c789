"""Letters as words are compared: however a word is written, it is the same word.

1. Case, width and style make no difference: a sharp s and its capitals, full-width letters, ligatures, digits of any script.
2. Points and accents that many leave out are left out: of Greek, Arabic and Hebrew, and stress marks. What makes another
   letter stays, and so do vowel signs. Accents on Latin letters are left to the tokenizer.
3. What only says where a word may be broken or joined, such as a soft hyphen, is no part of it. Other signs end a word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

#: Scripts written without spaces: every character is a word of its own.
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff])"
)
#: Soft hyphen, joiners, marks of direction, variation selectors; and what stretches an Arabic word.
_UNSEEN = re.compile("[\u00ad\u034f\u0640\u200d-\u200f\u2060\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef]")
#: Letters to Unicode, apostrophes to those who write them.
_APOSTROPHES = "\u02bb\u02bc"
#: Letters that are often written as others: a dotless i, whose capital is I; yo; alefs with a sign.
_OFTEN = {"\u0131": "i", "\u0451": "\u0435", "\u0622": "\u0627", "\u0623": "\u0627", "\u0625": "\u0627"}
_GREEK = re.compile("[\u0370-\u03ff\u1f00-\u1fff]")
#: What `outline` has for all that belongs to the letter before it.
MARK = "\u0300"


def plain(text: str) -> str:
    """The words of a text as they are compared, with nothing but spaces and ASCII signs between them."""
    if text.isascii():
        return text
    folded = unicodedata.normalize("NFC", text).translate(_PLAIN)
    return _UNSPACED.sub(r" \1 ", unicodedata.normalize("NFC", folded))


def outline(text: str) -> str:
    """A text of the same length in which a word shows as letters and `MARK`."""
    return text if text.isascii() else text.translate(_OUTLINE)


class _Standing(dict[int, str]):
    """What stands for a character, worked out when it is first met."""

    def __init__(self, of: Callable[[str], str]) -> None:
        super().__init__()
        self._of = of

    def __missing__(self, code: int) -> str:
        self[code] = found = self._of(chr(code))
        return found


def _plain(char: str) -> str:
    if char.isascii():
        return char
    kind = unicodedata.category(char)
    if _UNSEEN.match(char):
        return ""
    if kind[0] == "M":
        return "" if _is_left_out(char) else char
    if kind == "Nd":
        return str(unicodedata.digit(char))
    if kind[0] == "N":  # a fraction, or a raised number: no part of what it stands at
        return f" {unicodedata.normalize('NFKC', char).casefold()} ".replace("\u2044", " ")
    if kind[0] != "L" or char in _APOSTROPHES:
        return " "
    letters = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", char).casefold())
    if letters != char:
        return "".join(map(_plain, letters))
    if _GREEK.match(char):  # the letter itself comes first
        return unicodedata.normalize("NFD", char)[0]
    return _OFTEN.get(char, char)


def _outline(char: str) -> str:
    return MARK if unicodedata.category(char)[0] == "M" or _UNSEEN.match(char) else char


def _is_left_out(mark: str) -> bool:
    """By Unicode's classes of marks: 1 strikes a letter out, 8 voices kana, 10 to 36 are points, from 200 on accents."""
    number = unicodedata.combining(mark)
    if number == 1 or 10 <= number <= 36 or number >= 200:
        return True
    return number != 8 and _UNSPACED.match(mark) is not None


_PLAIN, _OUTLINE = _Standing(_plain), _Standing(_outline)
