"""Where the lines of a picture go. Templates draw them; here is only arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quipu.faces.web import wording
from quipu.model.record import MemoryType

# -- why a memory was found ------------------------------------------------------------------------------------

#: What each part of a rank is called, and what it means.
_PARTS: Mapping[str, tuple[str, str]] = {
    "vector": ("meaning", "how near the meaning of the text is to the question"),
    "keyword": ("words", "how well the words of the question are found in the text"),
    "subject": ("subject", "the question names whom or what this memory is about"),
    "turn": ("turn", "a turn of a talk: longer ones say more, questions seldom answer"),
    "session": ("session", "other turns of the same talk answer the question well"),
}
#: Half the width of the bar; zero is in its middle.
HALF = 100
#: Less than this is nothing worth drawing.
_LEAST = 0.005


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of a rank, and its place on the bar."""

    kind: str
    word: str
    meaning: str
    value: float
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Why:
    """Why a memory was found: the parts of its rank, and two plain facts."""

    parts: tuple[Part, ...]
    cosine: float | None
    coverage: float

    @property
    def sentence(self) -> str:
        """The same in words, strongest first."""
        helped = sorted((part for part in self.parts if part.value > 0), key=lambda part: -part.value)
        hurt = [part for part in self.parts if part.value < 0]
        said = [f"{part.word} {wording.signed(part.value)}" for part in (*helped, *hurt)]
        if said:
            return ", ".join(said)
        near = "" if self.cosine is None else f"cosine {self.cosine:.2f}, "
        return f"{near}covers {wording.percent(self.coverage)}; no other candidate to compare with"


def reach_of(told: Sequence[Mapping[str, Any] | None]) -> float:
    """The furthest that any of these ranks goes from zero: all are drawn to this one measure."""
    furthest = 1.0
    for one in told:
        values = _values(one or {}).values()
        furthest = max(furthest, sum(v for v in values if v > 0), -sum(v for v in values if v < 0))
    return furthest


def _values(told: Mapping[str, Any]) -> dict[str, float]:
    blend: Mapping[str, float] = told.get("blend") or {}
    return {kind: value for kind in _PARTS if abs(value := blend.get(kind, 0.0)) >= _LEAST}


def why(told: Mapping[str, Any], reach: float) -> Why:
    """The parts side by side: what helped to the right of the middle, what hurt to the left."""
    scale = HALF / reach
    right, left = float(HALF), float(HALF)
    parts: list[Part] = []
    for kind, value in _values(told).items():
        width = round(abs(value) * scale, 2)
        if value < 0:
            left -= width
        x = right if value > 0 else left
        if value > 0:
            right += width
        parts.append(Part(kind, *_PARTS[kind], value, round(x, 2), width))
    cosine = told.get("cosine")
    return Why(tuple(parts), None if cosine is None else float(cosine), float(told.get("coverage") or 0.0))


# -- numbers as knots ------------------------------------------------------------------------------------------

#: A cord has room for so many digits, and a digit for so much.
DIGITS = 5
_DIGIT_HEIGHT = 34.0
_KNOT = 6.6
CORD_TOP = 16.0


@dataclass(frozen=True, slots=True)
class Pendant:
    """One number as the Inca kept it: a cord with a cluster of knots for each digit, ones at the bottom."""

    kind: str
    number: int
    x: float
    end: float
    #: Height of each knot.
    knots: tuple[float, ...]
    #: Height and number of each digit that is not zero, to say it in words.
    digits: tuple[int, ...]


def pendants(numbers: Mapping[str, int], width: float) -> tuple[Pendant, ...]:
    """The numbers as cords that hang side by side."""
    deepest = max(len(str(number)) for number in numbers.values()) if numbers else 1
    places = min(DIGITS, max(3, deepest))
    gap = width / max(1, len(numbers))
    return tuple(
        _pendant(kind, number, gap * (place + 0.5), places)
        for place, (kind, number) in enumerate(numbers.items())
    )


def _pendant(kind: str, number: int, x: float, places: int) -> Pendant:
    most = 10**DIGITS - 1
    digits = tuple(int(digit) for digit in str(min(number, most)).rjust(places, "0"))
    knots: list[float] = []
    for place, digit in enumerate(digits):
        top = CORD_TOP + 14 + place * (_DIGIT_HEIGHT + 10) + (_DIGIT_HEIGHT - (digit - 1) * _KNOT / 1.6) / 2
        knots.extend(round(top + knot * _KNOT / 1.6, 2) for knot in range(digit))
    end = CORD_TOP + 14 + places * (_DIGIT_HEIGHT + 10) + 10
    return Pendant(kind, number, round(x, 2), round(end, 2), tuple(knots), digits)


def by_type(types: Sequence[MemoryType]) -> dict[str, int]:
    """How many of each type; types that are not there count too."""
    counts = dict.fromkeys((kind.value for kind in MemoryType), 0)
    for kind in types:
        counts[kind.value] += 1
    return counts


# -- how busy it was -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bar:
    """One stretch of time: when it began, what happened in it, and how tall each kind stands."""

    at: int
    x: float
    total: int
    #: Kind, top, height; from the bottom up.
    pieces: tuple[tuple[str, float, float], ...]


@dataclass(frozen=True, slots=True)
class Activity:
    """What happened when."""

    bars: tuple[Bar, ...]
    width: float
    first: int
    last: int
    step: int
    most: int


_STEPS_MS = tuple(
    unit * many
    for unit, several in (
        (1000, (1, 5, 15, 30)),
        (wording.MINUTE, (1, 5, 15, 30)),
        (wording.HOUR, (1, 3, 6, 12)),
        (wording.DAY, (1, 2, 7, 14, 30, 90, 365)),
    )
    for many in several
)


def activity(
    happened: Sequence[tuple[int, str]],
    now: int,
    kinds: Sequence[str],
    *,
    height: float = 56,
    most_bars: int = 48,
) -> Activity | None:
    """Moments and kinds, counted in even stretches of time up to now."""
    if not happened:
        return None
    first = min(at for at, _ in happened)
    length = max(1, now - first)
    step = next((step for step in _STEPS_MS if length / step < most_bars), _STEPS_MS[-1])
    begin = first // step * step
    count = max(12, int((now - begin) // step) + 1)
    begin = now // step * step - (count - 1) * step
    counts: list[dict[str, int]] = [dict.fromkeys(kinds, 0) for _ in range(count)]
    for at, kind in happened:
        counts[min(count - 1, max(0, (at - begin) // step))][kind] += 1
    tallest = max(1, max(sum(one.values()) for one in counts))
    bars = tuple(
        _bar(begin + place * step, place, one, height / tallest, height) for place, one in enumerate(counts)
    )
    return Activity(bars, count * 10.0, begin, now, step, tallest)


def _bar(at: int, place: int, counts: Mapping[str, int], scale: float, height: float) -> Bar:
    pieces: list[tuple[str, float, float]] = []
    top = height
    for kind, number in counts.items():
        tall = round(number * scale, 2)
        if number:
            top = round(top - tall, 2)
            pieces.append((kind, top, tall))
    return Bar(at, place * 10.0, sum(counts.values()), tuple(pieces))
