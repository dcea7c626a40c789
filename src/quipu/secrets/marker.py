"""The marker that stands where a secret stood, and how the places found in a text are replaced by it.

1. A marker is made from a template, `<REDACTED:{label}>` unless set otherwise. It names the kind of secret, never the
   value.
2. Overlapping places become one; the label of the lowest rank names it.
3. A marker is never a secret, so redacting twice changes nothing. What only looks like a marker, with a label that is
   not in use, is searched like any other text: no secret can hide in it.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from typing import Final, NamedTuple

from quipu.errors import Fault, InvalidError

TEMPLATE: Final = "<REDACTED:{label}>"
LABEL: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")

_LONGEST_TEMPLATE = 64
#: What would break JSON text, a line or a header around the marker.
_BREAKING = re.compile(r"[\"'\\\x00-\x1f\x7f]")
#: A replacement may uncover the next of several secrets that stand without a gap between them. Of a row that is longer
#: than this, nothing is left.
_MOST_PASSES = 8
_GAP = re.compile(r"\s")


class Span(NamedTuple):
    """A place that holds a secret."""

    start: int
    end: int
    label: str
    rank: int = 0


class Piece(NamedTuple):
    """A part of a secret that is spread over several texts: the number of the text, and where in it."""

    number: int
    start: int
    end: int
    label: str


class Redacted(NamedTuple):
    """A text without its secrets, and the labels of what was found."""

    text: str
    found: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Marker:
    """What is put in a secret's place."""

    template: str = TEMPLATE

    def __post_init__(self) -> None:
        before, _, after = self.template.partition("{label}")
        if (
            not before
            or not after
            or "{label}" in after
            or LABEL.match(after)  # the end of the label is not certain
            or len(self.template) > _LONGEST_TEMPLATE
            or _BREAKING.search(self.template)
        ):
            accepted = (
                f"text around one {{label}}, such as {TEMPLATE}, at most {_LONGEST_TEMPLATE} characters"
            )
            raise InvalidError(
                "The marker for secrets is not usable.", faults=[Fault("/template", "bad_value", accepted)]
            )

    def of(self, label: str) -> str:
        """The marker of one label."""
        return self.template.replace("{label}", label)

    def places(self, text: str) -> list[tuple[int, int, str]]:
        """Where markers of any label stand: start, end, label."""
        if self.template.partition("{label}")[0] not in text:
            return []
        return [(match.start(), match.end(), match[1]) for match in _pattern(self.template).finditer(text)]


@cache
def _pattern(template: str) -> re.Pattern[str]:
    before, _, after = template.partition("{label}")
    return re.compile(f"{re.escape(before)}({LABEL.pattern}){re.escape(after)}")


def redacted(
    text: str, find: Callable[[str], Iterable[Span]], marker: Marker, labels: frozenset[str]
) -> Redacted:
    """The text with a marker at every place that `find` names. `labels` are those in use."""
    found: list[str] = []
    for number in range(_MOST_PASSES):
        spans = merged(unmarked(find(text), text, marker, labels))
        if not spans:
            break
        if number == _MOST_PASSES - 1:
            spans = merged(_up_to_gaps(spans, text))
        text = replaced(text, spans, marker)
        found.extend(span.label for span in spans)
    return Redacted(text, tuple(found))


def _up_to_gaps(spans: Iterable[Span], text: str) -> Iterator[Span]:
    """Each place with everything around it up to the next white space."""
    gaps = [-1, *(match.start() for match in _GAP.finditer(text)), len(text)]
    for span in spans:
        start = gaps[bisect_left(gaps, span.start) - 1] + 1
        yield span._replace(start=start, end=gaps[bisect_left(gaps, span.end)])


def unmarked(spans: Iterable[Span], text: str, marker: Marker, labels: frozenset[str]) -> list[Span]:
    """The spans without those that are a marker, or lie inside one whose label is in use."""
    spans = list(spans)
    places = marker.places(text) if spans else []

    def is_marker(span: Span) -> bool:
        start, end, label = places[max(bisect_right(places, span.start, key=itemgetter(0)) - 1, 0)]
        is_inside = start <= span.start and span.end <= end
        return is_inside and (label in labels or (span.start, span.end) == (start, end))

    return [span for span in spans if not is_marker(span)] if places else spans


def merged(spans: Iterable[Span]) -> list[Span]:
    """In order, and none overlaps another."""
    result: list[Span] = []
    for span in sorted(spans):
        last = result[-1] if result else None
        if last is None or span.start >= last.end:
            result.append(span)
            continue
        best = span if span.rank < last.rank else last
        result[-1] = Span(last.start, max(last.end, span.end), best.label, best.rank)
    return result


def replaced(text: str, spans: Sequence[Span], marker: Marker) -> str:
    """The text with a marker in place of each span; the spans are merged."""
    parts: list[str] = []
    place = 0
    for span in spans:
        parts.extend((text[place : span.start], marker.of(span.label)))
        place = span.end
    parts.append(text[place:])
    return "".join(parts)
