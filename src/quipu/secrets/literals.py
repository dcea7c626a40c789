"""Searches that take time in proportion to the text, however many things they look for. Texts are searched in UTF-8."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, cast

import re2  # pyright: ignore[reportMissingTypeStubs]  it has no types

#: How much of a string is looked for first, and how many such beginnings one search has.
_LONGEST_HEAD = 12
_MOST_HEADS = 20_000
_MOST_MEMORY = 64 << 20


class Found(Protocol):
    """Where a search found something."""

    def span(self) -> tuple[int, int]: ...


class Search(Protocol):
    """The first match in a text, from a place on."""

    def __call__(self, text: bytes, pos: int = 0, /) -> Found | None: ...


def encoded(text: str) -> bytes:
    """In UTF-8, also where half of a surrogate pair is in it."""
    return text.encode("utf-8", "surrogatepass")


def searcher(expression: bytes) -> Search:
    """A search for a regular expression, byte by byte. Of what begins at one place it finds the longest."""
    engine = cast("Any", re2)
    options = engine.Options()
    options.encoding = options.Encoding.LATIN1
    options.longest_match = True
    options.never_capture = True
    options.max_mem = _MOST_MEMORY
    return engine.compile(expression, options).search


def characters(text: bytes) -> int:
    """How many characters a text in UTF-8 has."""
    return len(text.decode("utf-8", "surrogatepass"))


class Literals:
    """Many strings that are looked for at once: first their beginnings, by one search; where one stands, the whole."""

    def __init__(self, strings: Iterable[str]) -> None:
        by_head: dict[bytes, list[tuple[bytes, str]]] = {}
        for one in strings:
            data = encoded(one)
            by_head.setdefault(data[:_LONGEST_HEAD], []).append((data, one))
        #: What may stand where the longest beginning is this one: all others there are shorter, and it begins with them.
        self._candidates = {
            head: [one for length in range(1, len(head) + 1) for one in by_head.get(head[:length], ())]
            for head in by_head
        }
        heads = [_escaped(head) for head in sorted(by_head)]
        self._searches = [
            searcher(b"|".join(heads[place : place + _MOST_HEADS]))
            for place in range(0, len(heads), _MOST_HEADS)
        ]

    def may_be_in(self, text: bytes) -> bool:
        """Whether the beginning of one of them is in the text."""
        for search in self._searches:  # noqa: SIM110  twice as fast as any(), and asked of every text
            if search(text) is not None:
                return True
        return False

    def found(self, text: bytes) -> Iterator[tuple[int, str]]:
        """Every place where one of them begins, counted in characters, and which."""
        for search in self._searches:
            counted = place = 0  # from one to the next, so that the text is counted once
            match = search(text)
            while match is not None:
                start, end = match.span()
                for data, one in self._candidates[text[start:end]]:
                    if text.startswith(data, start):
                        place += characters(text[counted:start])
                        counted = start
                        yield place, one
                match = search(text, start + 1)


def _escaped(head: bytes) -> bytes:
    return b"".join(rb"\x%02x" % byte for byte in head)
