"""Registered secrets: values that must never be kept, found in a text as they stand and in every usual encoding.

1. A value is found plain, reversed, in base64 and base32 (at any byte of a longer text, also of UTF-16), in hex (either
   case, bytes apart or together), in the escapes and wrapped lines that `decoded` undoes, and in runs inside runs. A
   value that is itself hex or a UUID is found in either case, with and without its dashes.
2. The longest value wins where several overlap; everything that any of them covers is replaced.
3. The search is built once, and takes time in proportion to the text, however many values there are.
"""

import base64
import re
import string
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import lcm
from typing import Final, NamedTuple

from quipu.errors import Fault, InvalidError
from quipu.secrets.decoded import LINE_BREAK, Decoded, Variant, folded, has_escapes
from quipu.secrets.literals import Literals, encoded
from quipu.secrets.marker import LABEL, Piece, Span, merged

SHORTEST: Final = 8
LONGEST: Final = 16_384

#: A shorter number in hex may be a date or a telephone number.
_SHORTEST_HEX = 16
#: What is shorter makes a run, when it is encoded twice, that is too short to be distinguished from a word.
_SHORTEST_NESTED = 18
_HEX_VALUE = re.compile(r"[0-9A-Fa-f]+(?:[-: ][0-9A-Fa-f]+)*")
_SPACES = dict.fromkeys(map(ord, string.whitespace))
_ENCODING_CHARACTERS = frozenset(string.ascii_letters + string.digits + "+/-_")


@dataclass(frozen=True, slots=True)
class RegisteredValue:
    """A value to keep out, and the label that stands in its place."""

    label: str
    value: str = field(repr=False)


def checked_value(value: str) -> str:
    """The value to keep out, without the white space around it, or InvalidError. A short one would match by chance."""
    value = value.strip()
    if len(folded(value)) < SHORTEST or len(value) < SHORTEST:
        accepted = f"at least {SHORTEST} characters, not counting invisible ones and white space around them"
        raise _refused("The value is too short to be kept out.", "/value", "too_short", accepted)
    if len(value) > LONGEST:
        raise _refused("The value is too long.", "/value", "too_large", f"at most {LONGEST:,} characters")
    if "\x00" in value or any("\ud800" <= char <= "\udfff" for char in value):
        accepted = "text without U+0000 and halves of surrogate pairs"
        raise _refused("The value is not text that can be kept.", "/value", "bad_value", accepted)
    return value


def checked_label(label: str, value: str | None = None) -> str:
    """The label to put in the value's place, or InvalidError. It is shown, so it must not hold the value."""
    if not LABEL.fullmatch(label):
        raise _refused("The label is not usable.", "/label", "bad_value", "1 to 64 of A-Z a-z 0-9 . _ -")
    if value is not None and value in label:
        raise _refused(
            "The label holds the value itself.", "/label", "bad_value", "a name without the value in it"
        )
    return label


def _refused(message: str, pointer: str, reason: str, accepted: str) -> InvalidError:
    return InvalidError(message, faults=[Fault(pointer, reason, accepted)])


def compiled(values: Iterable[RegisteredValue]) -> "Registered":
    """The search for these values. Of two labels for one value the first stays."""
    labels: dict[str, str] = {}
    for registered in values:
        if len(registered.value) >= SHORTEST:
            labels.setdefault(registered.value, registered.label)
    return Registered(labels)


class _Part(NamedTuple):
    """A part of one of several texts that are read as one: the number of the text, and where in it."""

    number: int
    offset: int
    text: str


class Registered:
    """Finds registered values."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        """From each value to its label."""
        self.labels: Final = frozenset(labels.values())
        self._forms = [_Form(labels, *form) for form in _FORMS] if labels else []
        #: How much of a text can belong to a value that goes on in the next one.
        self._window = 16 * max(map(len, labels), default=0) + 256

    def may_find(self, texts: Iterable[str]) -> bool:
        """Whether a search of these texts can find anything, runs aside. For most texts this is a quick no."""
        if not self._forms:
            return False
        decoded = Decoded("\n".join(texts))
        if any(form.may_be_in(decoded.data) for form in self._forms):
            return True
        if decoded.is_plain:
            return False
        text = folded(decoded.text)  # an escape in it may be cut in two
        return has_escapes(text) or any(form.may_be_in(encoded(text)) for form in self._forms)

    def spans(self, decoded: Decoded) -> Iterator[Span]:
        """Where the values stand, in whatever form."""
        if not self._forms or len(decoded.text) < SHORTEST:
            return
        direct = [
            _widened(span, decoded.text) if shares_bits else span
            for span, shares_bits in self._found(decoded)
        ]
        yield from direct
        starts = sorted(span.start for span in direct)
        for run in decoded.runs:
            # Where a value was found in the run itself, the rest of it stays; what else it holds is found next time.
            if bisect_left(starts, run.start) == bisect_left(starts, run.end):
                for span in self.spans(run.inside):
                    yield span._replace(start=run.start, end=run.end)

    def across(self, texts: Sequence[str]) -> Iterator[Piece]:
        """The pieces of values that begin in one text and go on in the next."""
        if not self._forms or len(texts) < 2:
            return
        for chain in _chains(texts, self._window):
            joined = "".join(part.text for part in chain)
            starts = list(accumulate((len(part.text) for part in chain), initial=0))
            for span in merged(span for span, _ in self._found(Decoded(joined))):
                pieces = list(_pieces(span, chain, starts))
                if len(pieces) > 1:
                    yield from pieces

    def _found(self, decoded: Decoded) -> Iterator[tuple[Span, bool]]:
        """What is found, and whether the characters around it may hold some of its bits."""
        for variant in decoded.all_variants:
            data = encoded(variant.text)
            for form in self._forms:
                if form.may_be_in(data):
                    for span in form.spans(variant):
                        yield span, form.shares_bits


def _widened(span: Span, text: str) -> Span:
    """With the character on either side that holds bits of the value's first and last byte, and the padding."""
    start, end = span.start, span.end
    if start > 0 and text[start - 1] in _ENCODING_CHARACTERS:
        start -= 1
    if end < len(text) and text[end] in _ENCODING_CHARACTERS:
        end += 1
    while end < len(text) and text[end] == "=":
        end += 1
    return span._replace(start=start, end=end)


def _chains(texts: Sequence[str], window: int) -> Iterator[list[_Part]]:
    """The texts in rows. Of a long text only the two ends can take part: it ends one row and begins the next."""
    chain: list[_Part] = []
    for number, text in enumerate(texts):
        if len(text) <= 2 * window:
            chain.append(_Part(number, 0, text))
        else:
            yield [*chain, _Part(number, 0, text[:window])]
            chain = [_Part(number, len(text) - window, text[-window:])]
    yield chain


def _pieces(span: Span, chain: Sequence[_Part], starts: Sequence[int]) -> Iterator[Piece]:
    """What each text of a row has of a place in the whole row; `starts` is where each text begins in it."""
    for place in range(bisect_right(starts, span.start) - 1, len(chain)):
        if starts[place] >= span.end:
            break
        number, offset, text = chain[place]
        start, end = max(span.start - starts[place], 0), min(span.end - starts[place], len(text))
        if start < end:
            yield Piece(number, offset + start, offset + end, span.label)


# -- the forms of a value -------------------------------------------------------------------------------------------


class _Alphabet:
    """How the characters of an encoding are brought to one form: one case, and nothing between them."""

    def __init__(self, changes: Mapping[str, str | None], *, shares_bits: bool) -> None:
        changes = {**changes, **dict.fromkeys(string.whitespace)}
        self.table: Final[Mapping[int, str | None]] = {ord(char): new for char, new in changes.items()}
        #: What the table changes.
        self.changed: Final = re.compile(f"[{re.escape(''.join(changes))}]")
        #: Whether one character may hold bits of two bytes.
        self.shares_bits: Final = shares_bits
        kept = {char: new for char, new in changes.items() if new is not None}
        self._kept = bytes.maketrans("".join(kept).encode(), "".join(kept.values()).encode())
        self._dropped = "".join(char for char, new in changes.items() if new is None).encode()

    def applied(self, text: bytes) -> bytes:
        """The text, in UTF-8, in this form."""
        return text.translate(self._kept, self._dropped)


_PLAIN = _Alphabet({}, shares_bits=False)
_BASE64 = _Alphabet({"-": "+", "_": "/"}, shares_bits=True)
_BASE32 = _Alphabet(
    {"-": None, **dict(zip(string.ascii_lowercase, string.ascii_uppercase, strict=True))}, shares_bits=True
)
#: `41:42`, `41-42`, `41 42`, `\\x41\\x42`, `0x41, 0x42`.
_HEX = _Alphabet(
    {**dict.fromkeys(":-,;_\\xX"), **dict(zip("ABCDEF", "abcdef", strict=True))}, shares_bits=False
)


class _Form:
    """One kind of encoding, in which all values are looked for at once."""

    def __init__(
        self,
        labels: Mapping[str, str],
        alphabet: _Alphabet,
        forms_of: Callable[[str], Iterable[str]],
    ) -> None:
        #: From each form of each value to its label and the value's length. The first value owns what several share.
        self._labels: dict[str, tuple[str, int]] = {}
        for value, label in labels.items():
            for form in forms_of(value):
                if len(form) >= SHORTEST:
                    self._labels.setdefault(form, (label, len(value)))
        self._literals = Literals(self._labels)
        self._alphabet = alphabet
        # White space is left out of both, so that one look is enough for wrapped texts too.
        gapless = {form.translate(_SPACES) for form in self._labels}
        self._gapless = self._literals if gapless == self._labels.keys() else Literals(gapless - {""})
        self._shortest = min(map(len, gapless))
        self.shares_bits: Final = alphabet.shares_bits

    def may_be_in(self, text: bytes) -> bool:
        """Whether a value may be in the text, in UTF-8, also if that is wrapped. For most texts this is a quick no."""
        if len(text) < self._shortest:
            return False
        return self._gapless.may_be_in(self._alphabet.applied(text))

    def spans(self, variant: Variant) -> Iterator[Span]:
        """Where values stand, in the original of the variant. The longest has the lowest rank."""
        if self._alphabet is not _PLAIN:
            variant = variant.translated(self._alphabet.changed, self._alphabet.table)
        found = (
            Span(place, place + len(form), label, -size)
            for place, form in self._literals.found(encoded(variant.text))
            for label, size in (self._labels[form],)
        )
        for start, end, label, rank in merged(found):
            yield Span(*variant.span(start, end), label, rank)


def _plain_forms(value: str) -> Iterator[str]:
    """As it stands and from its end. What the variants of a text undo is undone in the value too."""
    composed, decomposed = (unicodedata.normalize(form, value) for form in ("NFC", "NFD"))
    for form in dict.fromkeys((value, composed, decomposed, folded(value), LINE_BREAK.sub("", value))):
        yield from (form, form[::-1])


def _bytes_of(value: str) -> Iterator[bytes]:
    yield from (value.encode(), value[::-1].encode(), value.encode("utf-16-le"), value.encode("utf-16-be"))


def _base64_forms(value: str) -> Iterator[str]:
    for data in _bytes_of(value):
        yield from _inner_forms(data, base64.b64encode, bits=6)
    data = value.encode()
    if len(data) < _SHORTEST_NESTED:
        for form in (data.hex(), *_inner_forms(data, base64.b64encode, bits=6)):
            yield from _inner_forms(form.encode(), base64.b64encode, bits=6)


def _base32_forms(value: str) -> Iterator[str]:
    for data in _bytes_of(value):
        yield from _inner_forms(data, base64.b32encode, bits=5)


def _inner_forms(data: bytes, encode: Callable[[bytes], bytes], bits: int) -> Iterator[str]:
    """What all encoded texts have in common that hold the bytes at one offset; a character has so many bits."""
    for offset in range(lcm(8, bits) // 8):
        first, last = -(-8 * offset // bits), 8 * (offset + len(data)) // bits
        yield encode(bytes(offset) + data).decode("ascii")[first:last]


def _hex_forms(value: str) -> Iterator[str]:
    """The bytes; also as they read when each had its own `0x`. And the value itself, if it is hex or a UUID."""
    for data in _bytes_of(value):
        yield from (data.hex(), "".join(f"0{byte:02x}" for byte in data))
    if _HEX_VALUE.fullmatch(value):
        digits = re.sub("[-: ]", "", value).lower()
        if len(digits) >= _SHORTEST_HEX:
            yield digits


_FORMS: tuple[tuple[_Alphabet, Callable[[str], Iterable[str]]], ...] = (
    (_PLAIN, _plain_forms),
    (_HEX, _hex_forms),
    (_BASE64, _base64_forms),
    (_BASE32, _base32_forms),
)
