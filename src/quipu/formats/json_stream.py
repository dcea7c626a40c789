"""A JSON file larger than memory, one part at a time: the elements of its arrays, the members of its object.

Only the brackets and quotes are looked at here; what a part says is read by whoever asked for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from quipu.formats.values import DEEPEST, refused

#: No single conversation or memory is larger.
LONGEST = 64 << 20
_PIECE = 64 << 10
_SPACE = b" \t\r\n"
_BRACKET = re.compile(rb'["\[\]{}]')
#: Possessive: nothing is ever tried a second way, so nothing is kept for that, however many escapes there are.
_IN_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_SCALAR_END = re.compile(rb"[\s,\]}]")


@dataclass(frozen=True, slots=True)
class Part:
    """A member of the outermost object, or one element of an array in it; an outermost array has no name."""

    name: str | None
    is_element: bool
    raw: bytes


def parts(stream: BinaryIO, longest: int = LONGEST) -> Iterator[Part]:
    """Every part, in the file's order."""
    text = _Text(stream, longest)
    text.skip_mark()
    match text.peek():
        case b"[":
            yield from _elements(text, None)
        case b"{":
            yield from _members(text)
        case _:
            raise refused("bad_json", "The file is no JSON array or object.")
    if text.peek():
        raise refused("bad_json", "Something follows the end of the JSON text.")


def _elements(text: _Text, name: str | None) -> Iterator[Part]:
    text.take(b"[")
    if text.peek() == b"]":
        text.take(b"]")
        return
    while True:
        yield Part(name, True, text.value())
        if text.peek() == b"]":
            text.take(b"]")
            return
        text.take(b",")


def _members(text: _Text) -> Iterator[Part]:
    text.take(b"{")
    if text.peek() == b"}":
        text.take(b"}")
        return
    while True:
        name = _name(text.value())
        text.take(b":")
        if text.peek() == b"[":
            yield from _elements(text, name)
        else:
            yield Part(name, False, text.value())
        if text.peek() == b"}":
            text.take(b"}")
            return
        text.take(b",")


def _name(raw: bytes) -> str:
    try:
        name = json.loads(raw)
    except ValueError:
        name = None
    if not isinstance(name, str):
        raise _broken()
    return name


class _Text:
    """What has been read of the file and not been used yet."""

    def __init__(self, stream: BinaryIO, longest: int) -> None:
        self._stream, self._longest = stream, longest
        self._held = b""
        self._at = 0

    def skip_mark(self) -> None:
        """A byte order mark is passed over; one of another encoding than UTF-8 is refused."""
        self._more()
        if self._held[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise refused("bad_encoding", "The text is not UTF-8.")
        if self._held[:3] == b"\xef\xbb\xbf":
            self._at = 3

    def peek(self) -> bytes:
        """The next byte that is no white space; nothing at the end."""
        while True:
            while self._at < len(self._held) and self._held[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._held):
                return self._held[self._at : self._at + 1]
            if not self._more():
                return b""

    def take(self, expected: bytes) -> None:
        if self.peek() != expected:
            raise _broken()
        self._at += 1

    def value(self) -> bytes:
        """One whole value, as it is written."""
        first = self.peek()
        if not first:
            raise _broken()
        self._held, self._at = self._held[self._at :], 0
        if first in b"{[":
            end = self._bracketed()
        elif first == b'"':
            end = self._string(0)
        else:
            end = self._scalar()
        self._at = end
        return self._held[:end]

    def _bracketed(self) -> int:
        depth, at = 0, 0
        while True:
            found = _BRACKET.search(self._held, at)
            if found is None:
                at = len(self._held)
                self._need()
                continue
            at = found.end()
            match found.group():
                case b'"':
                    at = self._string(at - 1)
                case b"{" | b"[":
                    depth += 1
                    if depth > DEEPEST:
                        raise refused("too_deep", "The JSON is nested too deeply.")
                case _:
                    depth -= 1
                    if depth == 0:
                        return at

    def _string(self, start: int) -> int:
        while True:
            found = _IN_STRING.match(self._held, start + 1)
            end = start + 1 if found is None else found.end()
            if self._held[end : end + 1] == b'"':
                return end + 1
            self._need()

    def _scalar(self) -> int:
        while True:
            found = _SCALAR_END.search(self._held)
            if found is not None:
                return found.start()
            if not self._more():
                return len(self._held)

    def _need(self) -> None:
        if not self._more():
            raise _broken()

    def _more(self) -> bool:
        """Read on; the longer a value, the larger the pieces, so that it is not looked at again and again."""
        if len(self._held) - self._at > self._longest:
            raise refused("too_large", "A part of the file is too large.")
        piece = self._stream.read(max(_PIECE, len(self._held) - self._at))
        self._held += piece
        return bool(piece)


def _broken() -> Exception:
    return refused("bad_json", "The file is not JSON, or it is cut short.")
