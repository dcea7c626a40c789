"""Long texts are embedded in passages: the mean of many vectors is near to nothing in particular.

A passage ends where a paragraph, a line or a sentence ends, if one does in its second half. A text that would have more
than `MOST` is represented by as many of them, evenly spread, its beginning and its end included.
"""

import re
from typing import Final

#: About as many characters as a small embedding model reads at once.
LENGTH: Final = 1_000
MOST: Final = 64

#: The better places to end come first.
_ENDS = (
    re.compile(r"\n\s*\n"),
    re.compile(r"\n"),
    re.compile(r"[.!?\u3002\uff01\uff1f]\s*"),
    re.compile(r"\s+"),
)


def passages(text: str) -> list[tuple[int, int]]:
    """Where each passage begins and ends; one for a text that is short enough."""
    spans: list[tuple[int, int]] = []
    start = 0
    while len(text) - start > LENGTH:
        end = _end(text, start)
        spans.append((start, end))
        start = end
    if start < len(text) or not spans:
        spans.append((start, len(text)))
    if len(spans) > MOST:
        last = len(spans) - 1
        spans = [spans[place * last // (MOST - 1)] for place in range(MOST)]
    return spans


def _end(text: str, start: int) -> int:
    half, full = start + LENGTH // 2, start + LENGTH
    for kind in _ENDS:
        ends = [match.end() for match in kind.finditer(text, half, full)]
        if ends:
            return ends[-1]
    return full
