"""Secrets that nobody registered, told by their shape.

1. Every shape of the table is looked for in the text and in its other readings (escapes undone, invisible characters
   gone, full-width characters plain).
2. Runs of base64 and hex are decoded once; where the inside holds a secret, the whole run is replaced.
3. A secret that begins with its issuer's prefix is also found when it goes on in the next text of the same request.
"""

from __future__ import annotations

import base64
import re
import string
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Final

from quipu.rules import marking, secret_shapes
from quipu.rules.marking import CARRIED, Marker, Piece, Redacted, Span
from quipu.rules.randomness import is_placeholder
from quipu.rules.readings import Reading, folded, readings
from quipu.rules.redaction import Known
from quipu.rules.secret_shapes import SHAPES
from quipu.rules.shape_groups import Group, any_of, grouped, holds_any
from quipu.rules.shapes import LONG, Shape

#: Labels that are never a secret themselves.
LABELS: Final = secret_shapes.NAMES | {CARRIED}

#: `x://:pwd@` and `pwd=abcdef` are the shortest secrets there are.
_SHORTEST = 9
_SHORTEST_RUN = 24
#: Base64, also when it was wrapped at 60 to 80 characters.
_BASE64_RUN = re.compile(
    r"(?:[A-Za-z0-9+/]{60,80}\r?\n[ \t]{0,16})*[A-Za-z0-9+/_-]{24,}+={0,2}|(?:[A-Za-z0-9+/]{60,80}\r?\n[ \t]{0,16})+[A-Za-z0-9+/]{1,23}={0,2}"
)
_BASE64_WORD = re.compile(r"[A-Za-z0-9+/_-]{24,}+={0,2}")
_SHORTEST_LINE = 60
_HEX_RUN = re.compile(
    r"[0-9A-Fa-f]{24,}+|(?<![0-9A-Za-z])[0-9A-Fa-f]{2}(?P<gap>[ :-])[0-9A-Fa-f]{2}(?![0-9A-Za-z])"
    r"(?:(?P=gap)[0-9A-Fa-f]{2}(?![0-9A-Za-z])){10,}+"
)
_HEX_DIGITS = frozenset(string.hexdigits)
#: Of twelve bytes apart, at least so many are words of their own.
_FEWEST_PAIRS = 10
#: What a text can be read otherwise for; a character beyond ASCII is folded instead.
_ESCAPES = re.compile(r"[%&+\\\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
#: Every character of ASCII as a glance takes it: one to read otherwise, white space, or part of a word.
_OUTLINE = bytes(
    b"%"[0] if _ESCAPES.match(char) else b" "[0] if char.isspace() else b"x"[0]
    for char in map(chr, range(256))
)
_LONG_WORD = b"x" * LONG
#: The same for bytes apart: each is a word of two digits.
_DIGITS = bytes(
    b" "[0] if chr(code).isspace() else b"0"[0] if chr(code) in _HEX_DIGITS else b"x"[0]
    for code in range(256)
)
_TO_STANDARD = str.maketrans("-_", "+/", "\r\n\t =")
_TO_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_TO_DIGITS = str.maketrans("", "", " :-")
_SPACE = re.compile(r"\s")
_ENDING = re.compile(r"[\"'`<>,;&|()\[\]{}\\]")
_PRINTABLE = bytes([9, 10, 13, *range(32, 127)])
_MOST_UNPRINTABLE = 0.1
#: Over how many texts one secret may be spread.
_MOST_PIECES = 4
_LONGEST_PIECE = 2_048
#: What the rest of a secret has, and a word after it has not.
_GOES_ON = re.compile(r"[0-9]|[a-z][A-Z]|[A-Z][a-z]?[A-Z]")


class Detectors:
    """Finds secrets by their shape: text in, text and classes out."""

    def __init__(self, marker: Marker = Marker(), shapes: Sequence[Shape] = SHAPES) -> None:  # noqa: B008  frozen, so one for all is safe
        self._marker, self._shapes = marker, shapes

    # What a search goes by is made of the table with the first text: many processes never look at one.

    @cached_property
    def _groups(self) -> tuple[Group, ...]:
        return grouped(self._shapes)

    @cached_property
    def _loose_groups(self) -> tuple[Group, ...]:
        """All but those that stand, from their first sign to their last, in one long word: most texts have none."""
        return tuple(group for group in self._groups if not all(_begins(shape) for _, shape in group.shapes))

    @cached_property
    def _prefixes(self) -> list[tuple[str, Shape]]:
        return [(word, shape) for shape in self._shapes if _begins(shape) for word in shape.keywords]

    @cached_property
    def _prefix(self) -> re.Pattern[str]:
        return any_of(word for word, _ in self._prefixes)

    @cached_property
    def _signs(self) -> re.Pattern[str]:
        """Without one of these, in lower case, no loose group finds anything."""
        return any_of(sign for group in self._loose_groups for sign in group.signs)

    @cached_property
    def _short_signs(self) -> re.Pattern[str]:
        """The same for a text without long words."""
        return any_of(sign for group in self._loose_groups if not group.is_long for sign in group.signs)

    @cached_property
    def _telling(self) -> re.Pattern[str]:
        return any_of(word for shape in self._shapes if not shape.is_cased for word in shape.keywords)

    def __call__(self, text: str) -> Redacted:
        """The text with markers in place of the secrets."""
        if len(text) < _SHORTEST:
            return Redacted(text)
        return marking.cleaned(text, self.spans, self._marker, LABELS)

    def may_hold(
        self,
        texts: Sequence[str],
        keys: Sequence[str],
        known: Known | None = None,
        names: Sequence[str] = (),
    ) -> bool:
        """Whether a search of these texts and keys can find anything at all; for most it is a quick no."""
        if known is not None and self._are_clear([*names, *texts], keys, known):
            return False
        if keys and self._tells("\n".join(keys)):
            return True
        row = [*texts, *keys]
        whole = [*names, *row]
        joined = "\n".join(whole)
        is_innocent = False
        if joined.isascii():
            outline = joined.encode("ascii").translate(_OUTLINE)
            if b"%" in outline:
                return True
            is_innocent = self._is_innocent(joined, outline)
            # There are no other readings, so this is the search itself.
            if not is_innocent and any(map(self._holds, whole)):
                return True
        elif _ESCAPES.search(joined) or self._is_striking(f"{joined}\n{folded(joined)}"):
            return True
        if len(row) < 2:
            return False
        if is_innocent and self._prefix.search(" ".join([text[-LONG:] for text in row])) is None:
            return False  # every last word is in there, but for long ones, and those begin no secret
        return self._prefix.search(" ".join(map(_last_word, row))) is not None

    def _are_clear(self, texts: Sequence[str], keys: Sequence[str], known: Known) -> bool:
        """Whether each is clear. Those of a batch name the same people and keys again: each is looked at once."""
        for text in texts:
            clear = known.texts.get(text)
            if clear is None:
                clear = known.texts[text] = self._is_clear(text, known.words)
            if not clear:
                return False
        for key in keys:
            clear = known.keys.get(key)
            if clear is None:
                clear = known.keys[key] = not self._tells(key) and self._is_clear(key, known.words)
            if not clear:
                return False
        return True

    def _is_clear(self, text: str, plain: set[str]) -> bool:
        """Whether it holds no secret, and no beginning of one that goes on in the next text, whatever that is.

        What has no other readings is searched; of anything else nothing is said. `plain` are words that are neither
        long nor hold a sign, as far as they were met.
        """
        if len(text) < _SHORTEST_RUN and text.isdecimal():
            return text.isascii()  # every sign and every prefix has more than digits
        if not text.isascii() or _ESCAPES.search(text) or self._prefix.search(_last_word(text)):
            return False
        words = text.split()
        if _has_bytes_apart(words):
            return False
        new = [word for word in words if word not in plain]
        long_words = [word for word in new if len(word) >= LONG]
        if long_words and not self._are_clear_words(long_words):
            return False
        if new and self._has_sign(" ".join(new)):
            return not any(True for _ in self._shaped(text))
        plain.update([word for word in new if len(word) < LONG] if long_words else new)
        return True

    def _are_clear_words(self, words: Sequence[str]) -> bool:
        """Of long words: whether none is a secret as it stands, or carries one. Some secrets take more than a word."""
        return (
            max(map(len, words)) < _SHORTEST_LINE
            and self._prefix.search(" ".join(words)) is None
            and not any(True for word in words if len(word) >= _SHORTEST_RUN for _ in self._encoded(word))
        )

    def _is_innocent(self, text: str, outline: bytes) -> bool:
        """Whether a text without other readings has nothing to be searched for, whatever stands at its end."""
        has_long = _LONG_WORD in outline
        if (self._signs if has_long else self._short_signs).search(text.lower()):
            return False
        if b" 00 " in text.encode("ascii").translate(_DIGITS) and _has_bytes_apart(text.split()):
            return False
        return not has_long or self._are_clear_words(_long_words(text, outline))

    def _holds(self, text: str) -> bool:
        """Whether a text without other readings holds a secret."""
        if len(text) < _SHORTEST:
            return False
        plain = text.encode("ascii")
        has_runs = _LONG_WORD in plain.translate(_OUTLINE) or b" 00 " in plain.translate(_DIGITS)
        if not has_runs and not self._short_signs.search(text.lower()):
            return False
        return any(True for _ in self._shaped(text)) or (has_runs and any(True for _ in self._encoded(text)))

    def _is_striking(self, text: str) -> bool:
        """Whether it has what every secret has: a long word, or bytes apart, or a sign. Escapes may hide them."""
        words = text.split()
        if max(map(len, words), default=0) >= LONG or _has_bytes_apart(words):
            return True
        return self._short_signs.search(text.lower()) is not None

    def _has_sign(self, text: str) -> bool:
        """A sign has no white space in it, so that a text has one where one of its words does."""
        return self._signs.search(text.lower()) is not None

    def _tells(self, key: str) -> bool:
        """Whether a key says that a secret may stand under it."""
        return self._telling.search(key.lower()) is not None

    def spans(self, text: str) -> list[Span]:
        """Where secrets stand."""
        found: list[Span] = []
        for reading in readings(text):
            found.extend(_placed(reading, self._shaped(reading.text)))
            found.extend(_placed(reading, self._encoded(reading.text)))
        return found

    def across(self, texts: Sequence[str]) -> list[Piece]:
        """The pieces of secrets that begin in one text and go on in the next."""
        return [
            piece
            for index, text in enumerate(texts[:-1])
            if self._prefix.search(last := _last_word(text))
            for word, shape in self._prefixes
            if word in last
            for piece in _chained(shape, texts[index : index + _MOST_PIECES], index, text.rfind(word))
        ]

    def named(self, key: str, text: str) -> Redacted:
        """The text without the secret that its key says it is: `{"password": "…"}`."""
        if not self._tells(key):
            return Redacted(text)
        return marking.cleaned(text, partial(self._told, key), self._marker, LABELS)

    def _told(self, key: str, text: str) -> Iterator[Span]:
        begin, length = len(key) + 2, len(text)
        if not _SPACE.search(text) and not is_placeholder(text):
            text = _ENDING.sub("_", text)  # a sign that would end it in a program is part of it here
        for start, end, label, rank in self._shaped(f'{key}="{text}"'):
            if start >= begin:
                yield Span(start - begin, min(end - begin, length), label, rank)

    def _shaped(self, text: str) -> Iterator[Span]:
        lowered = _lowered(text)
        long_words = [word for word in text.split() if len(word) >= LONG]
        has_prefix = bool(long_words) and self._prefix.search(" ".join(long_words)) is not None
        for group in self._groups if has_prefix else self._loose_groups:
            if group.is_long and not long_words:
                continue
            searched = text if group.is_cased else lowered
            if holds_any(lowered, group.signs) and holds_any(searched, group.keywords):
                yield from group.spans(text, searched)

    def _encoded(self, text: str) -> Iterator[Span]:
        words = text.split()
        longest = max(map(len, words), default=0)
        if longest >= _SHORTEST_RUN:
            run = _BASE64_RUN if longest >= _SHORTEST_LINE else _BASE64_WORD
            for match in run.finditer(text):
                yield from self._inside(match, _base64_texts(match[0]))
        if longest >= _SHORTEST_RUN or _has_bytes_apart(words):
            for match in _HEX_RUN.finditer(text):
                yield from self._inside(match, _hex_texts(match[0]))

    def _inside(self, run: re.Match[str], decoded: Iterator[str]) -> Iterator[Span]:
        """The whole run, for each secret that it holds."""
        for text in decoded:
            for reading in readings(text):
                for span in self._shaped(reading.text):
                    yield Span(run.start(), run.end(), span.label, span.rank)


def _begins(shape: Shape) -> bool:
    """Whether it stands, from its first sign to its last, in one long word."""
    return shape.begins and shape.is_cased and shape.is_long


def _lowered(text: str) -> str:
    """In lower case, every character still at its place."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else text.translate(_TO_LOWER)


def _last_word(text: str) -> str:
    """What stands at the very end, without white space in it."""
    return "" if not text or text[-1].isspace() else text.rsplit(None, 1)[-1]


def _long_words(text: str, outline: bytes) -> list[str]:
    """The words of LONG characters or more."""
    words: list[str] = []
    start = outline.find(_LONG_WORD)
    while start >= 0:
        end = outline.find(b" ", start)
        words.append(text[start:end] if end >= 0 else text[start:])
        start = outline.find(_LONG_WORD, end) if end >= 0 else -1
    return words


def _has_bytes_apart(words: Sequence[str]) -> bool:
    """Whether twelve bytes in hex may stand apart: all but the first and the last are words of their own."""
    if len(words) < _FEWEST_PAIRS:
        return False
    pairs = [word for word in words if len(word) == 2]
    return len(pairs) >= _FEWEST_PAIRS and sum(map(_HEX_DIGITS.issuperset, pairs)) >= _FEWEST_PAIRS


def _placed(reading: Reading, spans: Iterator[Span]) -> Iterator[Span]:
    """What stands in a reading, at its place in the original."""
    for start, end, label, rank in spans:
        yield Span(*reading.span(start, end), label, rank)


def _base64_texts(run: str) -> Iterator[str]:
    """What a run says, wherever in it the base64 begins: a name may stand before it without a gap."""
    run = run.translate(_TO_STANDARD)
    for skipped in range(4):
        part = run[skipped:]
        whole = part[:-1] if len(part) % 4 == 1 else part  # one character alone is no byte
        yield from _printable(base64.b64decode(whole + "=" * (-len(whole) % 4)))


def _hex_texts(run: str) -> Iterator[str]:
    digits = run.translate(_TO_DIGITS)
    for skipped in range(2):
        part = digits[skipped:]
        yield from _printable(bytes.fromhex(part[: len(part) & ~1]))


def _printable(data: bytes) -> Iterator[str]:
    """The bytes as text, if they are text."""
    data = data.replace(b"\x00", b"")  # UTF-16 of plain characters
    if data and len(data.translate(None, _PRINTABLE)) <= _MOST_UNPRINTABLE * len(data):
        yield data.decode("latin-1")


def _chained(shape: Shape, texts: Sequence[str], index: int, start: int) -> list[Piece]:
    """The pieces of one secret that begins at `start` of the first text and ends in a later one."""
    first = texts[0][start:]
    if len(first) > _LONGEST_PIECE:
        return []
    before = texts[0][max(start - 1, 0) : start]  # whether it stands apart
    for count in range(len(texts), 1, -1):
        parts = [first, *(text[:_LONGEST_PIECE] for text in texts[1:count])]
        match = shape.pattern.match(before + "".join(parts), len(before))
        last = match.end() - len(before) - sum(map(len, parts[:-1])) if match else 0
        if match is None or last <= 0 or not shape.accepts(match[0]):
            continue
        rest = [*parts[1:-1], parts[-1][:last]]
        if all(_GOES_ON.search(part) for part in rest):
            ends = [start + len(first), *map(len, rest)]
            return [
                Piece(index + place, 0 if place else start, end, shape.name) for place, end in enumerate(ends)
            ]
    return []
