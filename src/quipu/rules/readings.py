"""The ways a text can be read: as it stands, and with its escapes, its invisible characters and its line breaks undone.

Every reading knows where each of its characters stands in the original, so that what is found in a reading can be
replaced in the original. Escapes inside escapes (JSON in JSON, a percent sign encoded twice) are undone too, a fixed
number of times, so that the work stays proportional to the text.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Final, TypeAlias

#: From what a pattern matched to what it stands for.
Decode: TypeAlias = Callable[[str], str]

#: How often each escape is undone: JSON in JSON in JSON. More only costs time.
_ROUNDS = 3
_KEPT_FOLDS = 8_192

#: Characters that a fold may change: control characters, and everything beyond ASCII.
_ODD = re.compile(r"[^\t\n\r -~]")
_HEX = "[0-9A-Fa-f]"
#: One character of UTF-8, percent-encoded.
_PERCENT = re.compile(
    rf"%[0-7]{_HEX}|%[c-dC-D]{_HEX}%[89abAB]{_HEX}|%[eE]{_HEX}(?:%[89abAB]{_HEX}){{2}}|%[fF][0-4](?:%[89abAB]{_HEX}){{3}}"
)
_BACKSLASH = re.compile(
    rf"\\u[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}|\\u(?![dD][89a-fA-F]){_HEX}{{4}}|\\x{_HEX}{{2}}|\\[\"'\\/bfnrt]"
)
_ENTITY = re.compile(rf"&(?:#[0-9]{{1,7}}|#[xX]{_HEX}{{1,6}}|[A-Za-z]{{2,8}});")
LINE_BREAK: Final = re.compile(r"(?:\r\n?|\n)[ \t]*+")
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
#: A space in a form.
_PLUS_SIGN = re.compile(r"\+")
_PLUS: Mapping[int, str | None] = {ord("+"): " "}
#: Categories of what is not seen: controls, formats, and the separators of lines and paragraphs.
_UNSEEN = frozenset({"Cc", "Cf", "Zl", "Zp"})
#: Invisible, and not of a category that says so.
_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")


class Reading:
    """One way to read a text: the text as it was read before, with every match of a pattern decoded."""

    __slots__ = ("_changes", "_decode", "_origin", "_pattern", "text")

    def __init__(
        self, text: str, origin: Reading | None = None, pattern: re.Pattern[str] = _ODD, decode: Decode = str
    ) -> None:
        self.text: Final = text
        self._origin, self._pattern, self._decode = origin, pattern, decode
        self._changes: list[tuple[int, int, int, int]] | None = None

    def decoded(self, pattern: re.Pattern[str], decode: Decode) -> Reading:
        """Every match by what it stands for."""
        return Reading(pattern.sub(lambda match: decode(match[0]), self.text), self, pattern, decode)

    def translated(self, pattern: re.Pattern[str], table: Mapping[int, str | None]) -> Reading:
        """Every character by itself; the pattern matches each character that the table changes."""
        return Reading(self.text.translate(table), self, pattern, lambda char: char.translate(table))

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where a part of this reading, not empty, stands in the original."""
        return self._place(start)[0], self._place(end - 1)[1]

    def _place(self, index: int) -> tuple[int, int]:
        """Where the original of one character begins and ends."""
        if self._origin is None:
            return index, index + 1
        start, end = self._place_before(index, self._origin.text)
        return self._origin._place(start)[0], self._origin._place(end - 1)[1]

    def _place_before(self, index: int, text: str) -> tuple[int, int]:
        if self._changes is None:
            self._changes = self._changed(text)
        behind = bisect_right(self._changes, index, key=itemgetter(0)) - 1
        if behind < 0:
            return index, index + 1
        place, length, start, end = self._changes[behind]
        beyond = index - place - length
        return (start, end) if beyond < 0 else (end + beyond, end + beyond + 1)

    def _changed(self, text: str) -> list[tuple[int, int, int, int]]:
        """For each match: where its decoded form stands in this reading, how long it is, and where the match stood."""
        changes: list[tuple[int, int, int, int]] = []
        shift = 0
        for match in self._pattern.finditer(text):
            start, end = match.span()
            length = len(self._decode(match[0]))
            changes.append((start + shift, length, start, end))
            shift += length - (end - start)
        return changes


Undoing: TypeAlias = Callable[[Reading], Reading]


class _Folds(dict[int, str | None]):
    """Characters → their compatibility form; invisible ones → nothing. Filled as characters are met."""

    def __missing__(self, code: int) -> str | None:
        char = chr(code)
        is_invisible = (
            (unicodedata.category(char) in _UNSEEN and char not in "\t\n\r")
            or char in _FILLERS
            or 0xFE00 <= code <= 0xFE0F
            or 0xE0100 <= code <= 0xE01EF
        )
        is_variant = unicodedata.decomposition(char).startswith("<")
        fold = None if is_invisible else unicodedata.normalize("NFKC", char) if is_variant else char
        if len(self) < _KEPT_FOLDS:
            self[code] = fold
        return fold


FOLDS: Final[Mapping[int, str | None]] = _Folds()


def folded(text: str) -> str:
    """Without invisible characters, full-width and other variants as their plain form."""
    return text.translate(FOLDS) if _ODD.search(text) else text


def readings(text: str, *, alone: bool = False, joins_lines: bool = False) -> list[Reading]:
    """The text as it stands, then with its escapes undone, one kind after the other, again and again.

    `alone`: also with only one kind undone, for a secret that itself holds what looks like an escape.
    `joins_lines`: also as if it had not been wrapped.
    """
    found = {text: Reading(text)}
    undoings = _UNDOINGS if joins_lines else _UNDOINGS[:-1]
    _undo(found[text], undoings, found)
    if "+" in text:
        _undo(found[text].translated(_PLUS_SIGN, _PLUS), undoings, found)
    if alone and len(found) > 1:
        for undone in undoings:
            _undo(found[text], (undone,), found)
    return list(found.values())


def _undo(reading: Reading, undoings: Sequence[Undoing], found: dict[str, Reading]) -> None:
    """Undo until nothing changes, but not forever, and keep every step."""
    found.setdefault(reading.text, reading)
    for _ in range(_ROUNDS):
        before = reading.text
        for undone in undoings:
            reading = undone(reading)
            found.setdefault(reading.text, reading)
        if reading.text == before:
            break


def _without_variants(reading: Reading) -> Reading:
    return reading.translated(_ODD, FOLDS) if _ODD.search(reading.text) else reading


def _without_percents(reading: Reading) -> Reading:
    return reading.decoded(_PERCENT, _percent_decoded) if "%" in reading.text else reading


def _without_backslashes(reading: Reading) -> Reading:
    return reading.decoded(_BACKSLASH, _unescaped) if "\\" in reading.text else reading


def _without_entities(reading: Reading) -> Reading:
    return reading.decoded(_ENTITY, html.unescape) if "&" in reading.text else reading


def _without_line_breaks(reading: Reading) -> Reading:
    has_lines = "\n" in reading.text or "\r" in reading.text
    return reading.decoded(LINE_BREAK, lambda _: "") if has_lines else reading


_UNDOINGS = (
    _without_variants,
    _without_percents,
    _without_backslashes,
    _without_entities,
    _without_line_breaks,
)


def _unescaped(escape: str) -> str:
    if len(escape) == 2:
        return _CONTROLS.get(escape[1], escape[1])
    if len(escape) == 12:
        high, low = int(escape[2:6], 16), int(escape[8:], 16)
        return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
    return chr(int(escape[2:], 16))


def _percent_decoded(escape: str) -> str:
    try:
        return bytes.fromhex(escape.replace("%", "")).decode("utf-8")
    except UnicodeDecodeError:  # overlong, or half of a surrogate pair
        return escape
