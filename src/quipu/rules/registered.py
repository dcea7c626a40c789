"""Registered secrets: values that must never be kept, found in a text as they stand and in every usual encoding.

1. A value is found plain, reversed, in base64 (both alphabets, at any byte offset of a longer base64 text), in hex
   (either case, bytes apart or together), percent- and form-encoded, JSON- and HTML-escaped, wrapped over lines, in
   full-width characters, and with invisible characters between its own.
2. The longest value wins where several overlap; everything any of them covers is replaced.
3. The matcher is built once. Looking costs one dictionary lookup every few characters, however many values there are.
"""

from __future__ import annotations

import base64
import json
import re
import string
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias
from urllib.parse import quote

from quipu.errors import InvalidError
from quipu.rules import detectors, marking
from quipu.rules.marking import LABEL, Marker, Piece, Redacted, Span
from quipu.rules.readings import LINE_BREAK, Reading, folded, readings

SHORTEST = 8
LONGEST = 16_384

_GRAM = 4
#: How far into a pattern its grams are taken: longer means fewer lookups, and more of them kept.
_FARTHEST = 16
_MANY = 4_096
#: Up to this many, looking for each is faster than sampling.
_FEW = 32
_BASE64 = frozenset(string.ascii_letters + string.digits + "+/-_")
_SPACES: Mapping[int, None] = dict.fromkeys(map(ord, string.whitespace))
#: One alphabet, and no line breaks.
_AS_BASE64: Mapping[int, str | None] = {ord("-"): "+", ord("_"): "/", **_SPACES}
#: One case, and nothing between the bytes: `41:42`, `41-42`, `41 42`, `\x41\x42`, `0x41, 0x42`.
_AS_HEX: Mapping[int, str | None] = {
    **{ord(char): char.lower() for char in "ABCDEF"},
    **dict.fromkeys(map(ord, ":-,;_\\xX")),
    **_SPACES,
}
#: What they change.
_NOT_BASE64 = re.compile(r"[-_ \t\n\r\x0b\x0c]")
_NOT_HEX = re.compile(r"[-A-F:,;_\\xX \t\n\r\x0b\x0c]")
#: The forms of one kind that a value can take.
Forms: TypeAlias = Callable[[str], Iterable[str]]
#: Where the first whole character of base64 stands when that many bytes come before.
_FIRST_WHOLE = (0, 2, 3)


def checked_value(value: str) -> str:
    """The value to keep out, without the white space around it, or InvalidError. A short one would match by chance."""
    value = value.strip()
    if len(folded(value)) < SHORTEST or len(value) < SHORTEST:
        raise InvalidError.at(
            "/value",
            "too_short",
            "The value is too short to be kept out.",
            accepted=[
                f"at least {SHORTEST} characters, not counting invisible ones and white space around them"
            ],
        )
    if len(value) > LONGEST:
        raise InvalidError.at(
            "/value", "too_large", "The value is too long.", accepted=[f"at most {LONGEST:,} characters"]
        )
    if "\x00" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise InvalidError.at("/value", "bad_value", "The value is not text that can be kept.")
    return value


def checked_label(label: str, value: str | None = None) -> str:
    """The label to put in the value's place, or InvalidError. It is shown, so it must not tell the value."""
    if not LABEL.fullmatch(label):
        raise InvalidError.at(
            "/label", "bad_value", "The label is not usable.", accepted=["1 to 64 of A-Z a-z 0-9 . _ -"]
        )
    if value is not None and value in label:
        raise InvalidError.at("/label", "bad_value", "The label holds the value itself.")
    return label


class Part(NamedTuple):
    """A part of one of several texts that are read as one: the number of the text, and where in it."""

    place: int
    offset: int
    text: str


class Registered:
    """Finds registered values: text in, text and labels out."""

    def __init__(self, secrets: Iterable[tuple[str, str]], marker: Marker = Marker()) -> None:  # noqa: B008  frozen, so one for all is safe
        values: dict[str, str] = {}
        for label, value in secrets:
            if len(value) >= SHORTEST:
                values.setdefault(value, label)
        self._marker = marker
        self._known = frozenset(values.values()) | detectors.LABELS
        self._plain = Patterns(_named(values, _plain_forms))
        self._base64 = Patterns(_named(values, _base64_forms))
        self._hex = Patterns(_named(values, _hex_forms))
        #: How much of a text can belong to a secret that goes on in the next one.
        self._window = 16 * max(map(len, values), default=0) + 256

    def __call__(self, text: str) -> Redacted:
        """The text with markers in place of the values."""
        if len(text) < SHORTEST or not self._plain:
            return Redacted(text)
        return marking.cleaned(text, self.spans, self._marker, self._known)

    def spans(self, text: str) -> list[Span]:
        """Where the values stand, in whatever form."""
        plain, encoded = self._found(text)
        return [*plain, *(_widened(span, text) for span in encoded)]

    def _found(self, text: str) -> tuple[list[Span], list[Span]]:
        """What is found as it is read, and what is found in base64."""
        plain: list[Span] = []
        encoded: list[Span] = []
        for reading in readings(text, alone=True, joins_lines=True):
            plain.extend(_placed(reading, self._plain))
            plain.extend(_placed(reading.translated(_NOT_HEX, _AS_HEX), self._hex))
            encoded.extend(_placed(reading.translated(_NOT_BASE64, _AS_BASE64), self._base64))
        return plain, encoded

    def across(self, texts: Sequence[str]) -> list[Piece]:
        """The pieces of values that begin in one text and go on in the next."""
        if not self._plain or len(texts) < 2:
            return []
        return [piece for chain in _chains(texts, self._window) for piece in self._pieces(chain)]

    def _pieces(self, chain: Sequence[Part]) -> Iterator[Piece]:
        joined = "".join(part.text for part in chain)
        plain, encoded = self._found(joined)
        spans = marking.unmarked((*plain, *encoded), joined, self._marker, self._known)
        for span in marking.merged(spans):
            pieces: list[Piece] = []
            place = 0
            for index, offset, text in chain:
                start, end = max(span.start - place, 0), min(span.end - place, len(text))
                if start < end:
                    pieces.append(Piece(index, offset + start, offset + end, span.label))
                place += len(text)
            if len(pieces) > 1:
                yield from pieces


class Patterns:
    """Many strings, looked for at once.

    Every few characters the next four are looked up. They are known only if a pattern may stand around them; then
    its beginning, and last the whole of it, are looked up too. So the work does not grow with the number of patterns.
    """

    def __init__(self, patterns: Mapping[str, tuple[str, int]]) -> None:
        self._patterns = patterns
        shortest = min(map(len, patterns), default=SHORTEST)
        self._head = min(shortest, _FARTHEST if len(patterns) <= _MANY else SHORTEST)
        self._stride = self._head - _GRAM + 1
        lengths: dict[str, set[int]] = {}
        grams: dict[str, set[int]] = {}
        for pattern in patterns:
            lengths.setdefault(pattern[: self._head], set()).add(len(pattern))
        for head in lengths:
            for offset in range(self._stride):
                grams.setdefault(head[offset : offset + _GRAM], set()).add(offset)
        self._lengths = {head: sorted(found, reverse=True) for head, found in lengths.items()}
        self._grams = grams

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def found(self, text: str) -> Iterator[Span]:
        """The longest pattern at each place where one begins."""
        grams, stride = self._grams, self._stride
        if not grams or len(text) < self._head:
            return
        if len(self._patterns) <= _FEW and not any(pattern in text for pattern in self._patterns):
            return
        sampled = [text[place : place + _GRAM] for place in range(0, len(text), stride)]
        if grams.keys().isdisjoint(sampled):
            return
        for index, gram in enumerate(sampled):
            for offset in grams.get(gram, ()):
                yield from self._at(text, index * stride - offset)

    def _at(self, text: str, start: int) -> Iterator[Span]:
        if start < 0:
            return
        for length in self._lengths.get(text[start : start + self._head], ()):
            part = text[start : start + length]
            if part in self._patterns:
                label, size = self._patterns[part]
                yield Span(start, start + len(part), label, -size)
                return


def _placed(reading: Reading, patterns: Patterns) -> Iterator[Span]:
    """What stands in a reading, at its place in the original."""
    for start, end, label, rank in marking.merged(patterns.found(reading.text)):
        yield Span(*reading.span(start, end), label, rank)


def _widened(span: Span, text: str) -> Span:
    """With the character on either side that holds bits of the value's first and last byte, and the padding."""
    start, end = span.start, span.end
    if start > 0 and text[start - 1] in _BASE64:
        start -= 1
    if end < len(text) and text[end] in _BASE64:
        end += 1
    while end < len(text) and text[end] == "=":
        end += 1
    return span._replace(start=start, end=end)


def _chains(texts: Sequence[str], window: int) -> Iterator[list[Part]]:
    """The texts in rows. Of a long text only the two ends can take part: it ends one row and begins the next."""
    chain: list[Part] = []
    for index, text in enumerate(texts):
        if len(text) <= 2 * window:
            chain.append(Part(index, 0, text))
        else:
            yield [*chain, Part(index, 0, text[:window])]
            chain = [Part(index, len(text) - window, text[-window:])]
    yield chain


# -- the forms of a value -------------------------------------------------------------------------------------------


def _named(values: Mapping[str, str], forms: Forms) -> dict[str, tuple[str, int]]:
    """Every form of every value → its label and the value's length. The first value owns what several share."""
    named: dict[str, tuple[str, int]] = {}
    for value, label in values.items():
        for form in forms(value):
            if len(form) >= SHORTEST:
                named.setdefault(form, (label, len(value)))
    return named


def _plain_forms(value: str) -> Iterator[str]:
    """As it stands and from its end. What the readings of a text undo is undone in the value too."""
    composed, apart = (unicodedata.normalize(form, value) for form in ("NFC", "NFD"))
    for form in dict.fromkeys((value, composed, apart, folded(value), LINE_BREAK.sub("", value))):
        yield from (form, form[::-1])


def _base64_forms(value: str) -> Iterator[str]:
    """What all base64 texts with the value at one of the three offsets have in common."""
    escaped = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], quote(value, safe="")}
    for form in dict.fromkeys((value, value[::-1], *sorted(escaped))):
        data = form.encode("utf-8")
        for offset, first in enumerate(_FIRST_WHOLE):
            whole = (offset + len(data)) * 8 // 6
            yield base64.b64encode(bytes(offset) + data).decode("ascii")[first:whole]


def _hex_forms(value: str) -> Iterator[str]:
    """The bytes in order and from the end; also as they read when each had its own `0x`."""
    for form in (value, value[::-1]):
        data = form.encode("utf-8")
        yield from (data.hex(), "".join(f"0{byte:02x}" for byte in data))
