"""Decoded variants of a text: with its escapes, invisible characters and line breaks undone, and its encoded runs read.

Every variant knows where each of its characters stands in the original, so that what is found in a variant can be
replaced in the original. Escapes inside escapes (JSON in JSON, a percent sign encoded twice) are undone a fixed number
of times, and runs inside runs (base64 of base64) are read to a fixed depth, so that the work stays proportional to the
text.
"""

import base64
import html
import re
import string
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

from quipu.secrets.literals import Search, characters, encoded, searcher

#: From what a pattern matched to what it stands for.
Decode: TypeAlias = Callable[[str], str]

#: How often each escape is undone: JSON in JSON in JSON.
_MOST_PASSES = 3
#: How deep runs inside runs are read: base64 of base64 of a secret.
_DEEPEST_RUN = 2
_KEPT_FOLDS = 8_192

_ESCAPE_SIGNS = "%=&+\\"
_PLAIN_BYTES = bytes([9, 10, 13, *range(32, 127)])
#: Those with which no escape begins.
_INNOCENT_BYTES = _PLAIN_BYTES.translate(None, _ESCAPE_SIGNS.encode())
#: Characters that folding may change: control characters, and everything beyond ASCII.
_ODD = re.compile(r"[^\t\n\r -~]")
_ODD_RUN = re.compile(r"[^\t\n\r -~]+")
_HEX = "[0-9A-Fa-f]"
#: One character of UTF-8 in two hexadecimal digits for each byte, with a sign before them.
_SIGNED_BYTES = (
    rf"@[0-7]{_HEX}|@[c-dC-D]{_HEX}@[89abAB]{_HEX}|@[eE]{_HEX}(?:@[89abAB]{_HEX}){{2}}"
    rf"|@[fF][0-4](?:@[89abAB]{_HEX}){{3}}"
)
_PERCENT = re.compile(_SIGNED_BYTES.replace("@", "%"))
#: Quoted-printable, whose lines may be broken anywhere.
_QUOTED = re.compile(rf"{_SIGNED_BYTES.replace('@', '=')}|=[ \t]*\r?\n")
_BACKSLASH = re.compile(
    rf"\\u[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}|\\u(?![dD][89a-fA-F]){_HEX}{{4}}|\\x{_HEX}{{2}}|\\[\"'\\/bfnrt]"
)
_ENTITY = re.compile(rf"&(?:#[0-9]{{1,7}}|#[xX]{_HEX}{{1,6}}|[A-Za-z]{{2,8}});")
LINE_BREAK: Final = re.compile(r"(?:\r\n?|\n)[ \t]*+")
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
#: A space in a form.
_PLUS_SIGN = re.compile(r"\+")
_PLUS: Mapping[int, str | None] = {ord("+"): " "}
#: Unicode's categories of what is not seen: controls, formats, and the separators of lines and paragraphs.
_UNSEEN = frozenset({"Cc", "Cf", "Zl", "Zp"})
#: Invisible, and not of a category that says so.
_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")


# -- escapes --------------------------------------------------------------------------------------------------------


class Variant:
    """One way to read a text: an earlier variant with every match of a pattern decoded."""

    __slots__ = ("_changes", "_decode", "_origin", "_pattern", "text")

    def __init__(
        self,
        text: str,
        origin: "Variant | None" = None,
        pattern: re.Pattern[str] = _ODD,
        decode: Decode = str,
    ) -> None:
        self.text: Final = text
        self._origin, self._pattern, self._decode = origin, pattern, decode
        self._changes: list[tuple[int, int, int, int]] | None = None

    def decoded(self, pattern: re.Pattern[str], decode: Decode) -> "Variant":
        """Every match replaced by what it stands for."""
        return Variant(pattern.sub(lambda match: decode(match[0]), self.text), self, pattern, decode)

    def translated(self, pattern: re.Pattern[str], table: Mapping[int, str | None]) -> "Variant":
        """Every character by itself; the pattern matches each character that the table changes."""
        return Variant(self.text.translate(table), self, pattern, lambda char: char.translate(table))

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where a part of this variant, not empty, stands in the original."""
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
        """For each match: where its decoded form stands here, how long it is, and where the match stood."""
        changes: list[tuple[int, int, int, int]] = []
        shift = 0
        for match in self._pattern.finditer(text):
            start, end = match.span()
            length = len(self._decode(match[0]))
            changes.append((start + shift, length, start, end))
            shift += length - (end - start)
        return changes


_Undo: TypeAlias = Callable[[Variant], Variant]


class _Folds(dict[int, str | None]):
    """Characters to their compatibility form; invisible ones to nothing. Filled as characters are met."""

    def __missing__(self, code: int) -> str | None:
        char = chr(code)
        is_invisible = (
            (unicodedata.category(char) in _UNSEEN and char not in "\t\n\r")
            or char in _FILLERS
            or 0xFE00 <= code <= 0xFE0F
            or 0xE0100 <= code <= 0xE01EF
        )
        is_compatible = unicodedata.decomposition(char).startswith("<")
        fold = None if is_invisible else unicodedata.normalize("NFKC", char) if is_compatible else char
        if len(self) < _KEPT_FOLDS:
            self[code] = fold
        return fold


_FOLDS: Final[Mapping[int, str | None]] = _Folds()


def folded(text: str) -> str:
    """Without invisible characters; full-width and other compatible characters as their plain form."""
    return _ODD_RUN.sub(lambda match: match[0].translate(_FOLDS), text)


def has_escapes(text: str) -> bool:
    """Whether anything in a text may stand for something else, folding aside."""
    return any(sign in text for sign in _ESCAPE_SIGNS)


def variants(text: str, *, single: bool = False, joins_lines: bool = False) -> list[Variant]:
    """The text as it stands, then with its escapes undone, one kind after the other, again and again.

    `single`: also with only one kind undone, for a secret that itself holds what looks like an escape.
    `joins_lines`: also as if it had not been wrapped.
    """
    found = {text: Variant(text)}
    undos = _UNDOS if joins_lines else _UNDOS[:-1]
    _undo(found[text], undos, found)
    if "+" in text:
        _undo(found[text].translated(_PLUS_SIGN, _PLUS), undos, found)
    if single and len(found) > 1:
        for undo in undos:
            _undo(found[text], (undo,), found)
    return list(found.values())


def _undo(variant: Variant, undos: Sequence[_Undo], found: dict[str, Variant]) -> None:
    """Undo until nothing changes, but not forever, and keep every step."""
    found.setdefault(variant.text, variant)
    for _ in range(_MOST_PASSES):
        before = variant.text
        for undo in undos:
            variant = undo(variant)
            found.setdefault(variant.text, variant)
        if variant.text == before:
            break


def _without_compatible(variant: Variant) -> Variant:
    text = folded(variant.text)
    return (
        Variant(text, variant, _ODD, lambda char: char.translate(_FOLDS)) if text != variant.text else variant
    )


def _without_percents(variant: Variant) -> Variant:
    return variant.decoded(_PERCENT, _bytes_decoded) if "%" in variant.text else variant


def _without_quoted(variant: Variant) -> Variant:
    return variant.decoded(_QUOTED, _bytes_decoded) if "=" in variant.text else variant


def _without_backslashes(variant: Variant) -> Variant:
    return variant.decoded(_BACKSLASH, _unescaped) if "\\" in variant.text else variant


def _without_entities(variant: Variant) -> Variant:
    return variant.decoded(_ENTITY, html.unescape) if "&" in variant.text else variant


def _without_line_breaks(variant: Variant) -> Variant:
    has_lines = "\n" in variant.text or "\r" in variant.text
    return variant.decoded(LINE_BREAK, lambda _: "") if has_lines else variant


_UNDOS: tuple[_Undo, ...] = (
    _without_compatible,
    _without_percents,
    _without_quoted,
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


def _bytes_decoded(escape: str) -> str:
    """`%41` or `=41`; what is left of a line that was broken there is nothing."""
    if escape.endswith("\n"):
        return ""
    try:
        return bytes.fromhex(escape.replace(escape[0], "")).decode("utf-8")
    except UnicodeDecodeError:  # overlong, or half of a surrogate pair
        return escape


# -- runs -----------------------------------------------------------------------------------------------------------

_TO_STANDARD = str.maketrans("-_", "+/", "\r\n\t =")
_TO_DIGITS = str.maketrans("", "", " :-")
#: Base32's digits as Python's `int` reads them.
_TO_BASE_32 = str.maketrans(
    string.ascii_uppercase + string.ascii_lowercase + "234567",
    (string.digits + "abcdefghijklmnop") * 2 + "qrstuv",
    "=",
)
_MOST_UNPRINTABLE = 0.2


class Run(NamedTuple):
    """A part of a text that decodes to text."""

    start: int
    end: int
    inside: "Decoded"


class Decoded:
    """A text and what it can be decoded to, worked out when it is first needed."""

    __slots__ = ("_all_variants", "_depth", "_runs", "_variants", "data", "is_plain", "text")

    def __init__(self, text: str, depth: int = 0) -> None:
        self.text: Final = text
        self.data: Final = encoded(text)
        #: Whether it has no escape and nothing to fold, as most texts.
        self.is_plain: Final = not self.data.translate(None, _INNOCENT_BYTES)
        self._depth = depth
        self._variants: Sequence[Variant] | None = None
        self._all_variants: Sequence[Variant] | None = None
        self._runs: Sequence[Run] | None = None

    @property
    def variants(self) -> Sequence[Variant]:
        """The text as it stands, and with its escapes undone."""
        if self._variants is None:
            self._variants = [Variant(self.text)] if self.is_plain else variants(self.text)
        return self._variants

    @property
    def all_variants(self) -> Sequence[Variant]:
        """Also with only one kind of escape undone, and as if it had not been wrapped."""
        if self._all_variants is None:
            is_one_line = "\n" not in self.text and "\r" not in self.text
            if self.is_plain and is_one_line:
                self._all_variants = self.variants
            else:
                self._all_variants = variants(self.text, single=True, joins_lines=True)
        return self._all_variants

    @property
    def runs(self) -> Sequence[Run]:
        """The parts that are text in base64, base32 or hex, and what they say."""
        if self._runs is None:
            self._runs = list(self._found_runs()) if self._depth < _DEEPEST_RUN else ()
        return self._runs

    def _found_runs(self) -> Iterator[Run]:
        for variant in self.variants:
            for begins, pattern, texts in _ENCODINGS:
                for match in _matches(variant.text, begins, pattern):
                    for text in texts(match[0]):
                        yield Run(*variant.span(*match.span()), Decoded(text, self._depth + 1))


def _matches(text: str, begins: Search, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """The pattern is tried only where the quicker search says that a match begins."""
    data = encoded(text)
    counted = place = 0
    found = begins(data)
    while found is not None:
        start, _ = found.span()
        place += characters(data[counted:start])
        counted = start
        match = pattern.match(text, place)
        if match is not None:
            yield match
        found = begins(data, start + (1 if match is None else len(match[0])))


def _base64_texts(run: str) -> Iterator[str]:
    """What a run says, wherever in it the base64 begins: a name may stand before it without a gap."""
    run = run.translate(_TO_STANDARD)
    for skipped in range(4):
        part = run[skipped:]
        whole = part[:-1] if len(part) % 4 == 1 else part  # one character alone is no byte
        yield from _texts(base64.b64decode(whole + "=" * (-len(whole) % 4)))


def _base32_texts(run: str) -> Iterator[str]:
    """The same for base32, whose characters have five bits: a byte may begin at any of eight."""
    number = int(run.translate(_TO_BASE_32), 32)
    for shift in range(8):
        shifted = number >> shift
        yield from _texts(shifted.to_bytes(shifted.bit_length() // 8 + 1, "big").lstrip(b"\0"))


def _hex_texts(run: str) -> Iterator[str]:
    digits = run.translate(_TO_DIGITS)
    for skipped in range(2):
        part = digits[skipped:]
        yield from _texts(bytes.fromhex(part[: len(part) & ~1]))


def _texts(data: bytes) -> Iterator[str]:
    """The bytes as text, if they are text."""
    plain = data.replace(b"\0", b"")  # UTF-16 of plain characters
    if len(plain.translate(None, _PLAIN_BYTES)) <= _MOST_UNPRINTABLE * len(plain):
        if plain:
            yield plain.decode("latin-1")
    elif data.count(0) * 8 > len(data):  # UTF-16 of other characters too
        is_little = data[1::2].count(0) * 2 > data.count(0)
        yield data.decode("utf-16-le" if is_little else "utf-16-be", "replace")
    else:
        with suppress(UnicodeDecodeError):
            yield data.decode("utf-8")


_PAIR = rb"[0-9A-Fa-f]{2}"
_BASE64 = rb"[A-Za-z0-9+/_-]{24}"
_PAIRS = b"|".join(_PAIR + b"(?:%c%b){11}" % (gap, _PAIR) for gap in b" :-")
#: How any run begins.
RUN: Final = _BASE64 + b"|" + _PAIRS
#: How a run may begin, what it is, and what it says.
_ENCODINGS: tuple[tuple[Search, re.Pattern[str], Callable[[str], Iterator[str]]], ...] = (
    (
        searcher(_BASE64),
        re.compile(  # also when it was wrapped at 60 to 80 characters
            r"(?:[A-Za-z0-9+/]{60,80}\r?\n[ \t]{0,16})*[A-Za-z0-9+/_-]{24,}+={0,2}"
            r"|(?:[A-Za-z0-9+/]{60,80}\r?\n[ \t]{0,16})+[A-Za-z0-9+/]{1,23}={0,2}"
        ),
        _base64_texts,
    ),
    (
        searcher(rb"[A-Z2-7]{24}|[a-z2-7]{24}"),
        re.compile(r"[A-Z2-7]{24,}+={0,6}|[a-z2-7]{24,}+={0,6}"),
        _base32_texts,
    ),
    (
        searcher(b"[0-9A-Fa-f]{24}|" + _PAIRS),
        re.compile(
            r"[0-9A-Fa-f]{24,}+|(?<![0-9A-Za-z])[0-9A-Fa-f]{2}(?P<gap>[ :-])[0-9A-Fa-f]{2}(?![0-9A-Za-z])"
            r"(?:(?P=gap)[0-9A-Fa-f]{2}(?![0-9A-Za-z])){10,}+"
        ),
        _hex_texts,
    ),
)
