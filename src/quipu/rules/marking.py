"""The marker that stands where a secret stood, and how the found places of a text are replaced by it.

1. A marker is made from a template, `<REDACTED:{label}>` unless set otherwise. It says which secret, never what.
2. Overlapping places become one; its label is that of the most telling one (the lowest rank).
3. A marker is never a secret: redacting twice changes nothing. Only what *looks* like a marker, with a label that
   nobody gave out, is read like any other text, so that a secret cannot hide inside one.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Final, NamedTuple

from quipu.errors import InvalidError

TEMPLATE: Final = "<REDACTED:{label}>"
#: The label of a foreign marker whose inside cannot be trusted to be a label.
CARRIED: Final = "carry-forward"
LABEL: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")

_LONGEST_TEMPLATE = 64
#: What a template may not hold: it would break JSON text, a line or a header around the marker.
_BREAKING = re.compile(r"[\"'\\\x00-\x1f\x7f]")
_FOREIGN = r"\[BYOK:[^\]]{0,1024}+\]|<REDACTED:(?P<angled>[^<>\n]{0,256}+)>|\[REDACTED:(?P<square>[^\[\]\n]{0,256}+)\]"
_NOT_LABEL = re.compile(r"[^A-Za-z0-9._-]+")
#: What one replacement uncovers is found by the next: secrets that stand one after the other without a gap. Of a row that
#: is longer than that nothing is left.
_ROUNDS = 8
_GAP = re.compile(r"\s")


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets, and the classes of what was found."""

    text: str
    found: tuple[str, ...] = ()


class Span(NamedTuple):
    """A place that holds a secret. Of overlapping places the lowest rank names the whole."""

    start: int
    end: int
    label: str
    rank: int = 0


class Piece(NamedTuple):
    """A part of a secret that is spread over several texts: the number of the text, and where in it."""

    place: int
    start: int
    end: int
    label: str


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
            or LABEL.match(after)
            or len(self.template) > _LONGEST_TEMPLATE
            or _BREAKING.search(self.template)
        ):
            raise InvalidError.at(
                "/template",
                "bad_value",
                "The marker's template is not usable.",
                accepted=[f"text around one {{label}}, such as {TEMPLATE}, at most {_LONGEST_TEMPLATE} long"],
            )

    def of(self, label: str) -> str:
        """The marker of one label."""
        return self.template.replace("{label}", label)

    def places(self, text: str) -> list[tuple[int, int, str]]:
        """Where markers of any label stand: start, end, label."""
        if self.template.partition("{label}")[0] not in text:
            return []
        return [(match.start(), match.end(), match[1]) for match in _pattern(self.template).finditer(text)]


@lru_cache(maxsize=16)
def _pattern(template: str) -> re.Pattern[str]:
    before, _, after = template.partition("{label}")
    return re.compile(f"{re.escape(before)}({LABEL.pattern}){re.escape(after)}")


def cleaned(
    text: str, find: Callable[[str], Iterable[Span]], marker: Marker, known: frozenset[str]
) -> Redacted:
    """The text with a marker at every place that `find` names. `known` are the labels that were given out."""
    found: list[str] = []
    for number in range(_ROUNDS):
        spans = merged(unmarked(find(text), text, marker, known))
        if not spans:
            break
        if number == _ROUNDS - 1:
            spans = merged(_to_the_gaps(spans, text))
        text = replaced(text, spans, marker)
        found.extend(span.label for span in spans)
    return Redacted(text, tuple(found))


def _to_the_gaps(spans: Iterable[Span], text: str) -> Iterator[Span]:
    """Each place with everything that stands around it without a gap."""
    gaps = [-1, *(match.start() for match in _GAP.finditer(text)), len(text)]
    for span in spans:
        start = gaps[bisect_left(gaps, span.start) - 1] + 1
        yield span._replace(start=start, end=gaps[bisect_left(gaps, span.end)])


def unmarked(spans: Iterable[Span], text: str, marker: Marker, known: frozenset[str]) -> list[Span]:
    """The spans without those that are a marker, or lie inside one that was given out."""
    spans = list(spans)
    places = marker.places(text) if spans else []

    def is_marker(span: Span) -> bool:
        start, end, label = places[max(bisect_right(places, span.start, key=itemgetter(0)) - 1, 0)]
        is_inside = start <= span.start and span.end <= end
        return is_inside and (label in known or (span.start, span.end) == (start, end))

    return [span for span in spans if not is_marker(span)] if places else spans


def merged(spans: Iterable[Span]) -> list[Span]:
    """In order, and none overlaps another."""
    result: list[Span] = []
    for span in sorted(spans):
        last = result[-1] if result else None
        if last is None or span.start >= last.end:
            result.append(span)
            continue
        teller = span if span.rank < last.rank else last
        result[-1] = Span(last.start, max(last.end, span.end), teller.label, teller.rank)
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


def normalised_markers(text: str, template: str = TEMPLATE) -> str:
    """Markers of other systems in derived text become ours.

    A REDACTED form keeps its label. The inside of a BYOK form may be the secret itself, so it is never a label.
    """
    marker = Marker(template)

    def ours(match: re.Match[str]) -> str:
        if match[1] is not None:
            return match[0]
        foreign = match["angled"] or match["square"] or ""
        return marker.of(_NOT_LABEL.sub("-", foreign).strip("-")[:64] or CARRIED)

    return re.sub(f"{_pattern(template).pattern}|{_FOREIGN}", ours, text)
