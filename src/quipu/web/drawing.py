"""Where the lines of pictures go: cords with knots, links, state machines, bars, trees. The templates draw them."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quipu.model.machine import ANY_STATE, Machine, Transition, faults, machine, parsed
from quipu.web.text import KIND_NAMES, brief, kind, text_of, when

# -- numbers as knots on cords ----------------------------------------------------------------------------------------

#: A cord has room for so many digits, and a digit for so much.
_DIGITS, _DIGIT_HEIGHT, _KNOT, _CORD_TOP = 5, 34.0, 6.6, 16.0


@dataclass(frozen=True, slots=True)
class Pendant:
    """One number as it was kept on a quipu: a cord with a cluster of knots for each digit, ones at the bottom."""

    kind: str
    number: int
    x: float
    end: float
    #: Height of each knot.
    knots: tuple[float, ...]


def pendants(numbers: Mapping[str, int], width: float = 360.0) -> tuple[Pendant, ...]:
    """The numbers as cords that hang side by side."""
    deepest = max((len(str(number)) for number in numbers.values()), default=1)
    places = min(_DIGITS, max(3, deepest))
    gap = width / max(1, len(numbers))
    return tuple(
        _pendant(kind, number, gap * (place + 0.5), places)
        for place, (kind, number) in enumerate(numbers.items())
    )


def _pendant(kind: str, number: int, x: float, places: int) -> Pendant:
    digits = str(min(number, 10**_DIGITS - 1)).rjust(places, "0")
    knots: list[float] = []
    for place, digit in enumerate(map(int, digits)):
        middle = (_DIGIT_HEIGHT - (digit - 1) * _KNOT / 1.6) / 2
        top = _CORD_TOP + 14 + place * (_DIGIT_HEIGHT + 10) + middle
        knots.extend(round(top + knot * _KNOT / 1.6, 2) for knot in range(digit))
    end = _CORD_TOP + 14 + places * (_DIGIT_HEIGHT + 10) + 10
    return Pendant(kind, number, round(x, 2), round(end, 2), tuple(knots))


# -- how busy each day was --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Column:
    """One day: how much of each kind, as boxes one above the other."""

    label: str
    total: int
    x: float
    #: Kind, where its box begins, and how high it is.
    boxes: tuple[tuple[str, float, float], ...]


def columns(days: Sequence[tuple[str, Mapping[str, int]]], height: float = 56.0) -> tuple[Column, ...]:
    """Days side by side, drawn to the measure of the busiest."""
    most = max((sum(counts.values()) for _, counts in days), default=0) or 1
    found: list[Column] = []
    for place, (label, counts) in enumerate(days):
        top, boxes = height, list[tuple[str, float, float]]()
        for name, count in counts.items():
            tall = round(height * count / most, 2)
            top = round(top - tall, 2)
            if count:
                boxes.append((name, top, tall))
        found.append(Column(label, sum(counts.values()), place * 20.0, tuple(boxes)))
    return tuple(found)


def activity_columns(days: Sequence[tuple[int, Mapping[str, int]]]) -> tuple[Column, ...]:
    """How busy each day was, as columns with a box for each kind."""
    return columns([(when(day).partition(",")[0], _by_kind(counts)) for day, counts in days])


def activity_legend(counts: Mapping[str, int]) -> list[tuple[str, str, int]]:
    """Kind, its words, how many."""
    found = _by_kind(counts)
    return [(name, said, found[name]) for name, said in KIND_NAMES.items() if found[name]]


def _by_kind(counts: Mapping[str, int]) -> Mapping[str, int]:
    found = Counter(dict.fromkeys(KIND_NAMES, 0))
    for op, count in counts.items():
        found[kind(op)] += count
    return found


# -- memories and what links them -------------------------------------------------------------------------------------

#: More than this is a picture that nobody can read; the list below it has them all.
_MOST_DOTS = 40
_RING, _MARGIN, _LABEL = 150.0, 90.0, 26


@dataclass(frozen=True, slots=True)
class Dot:
    """A memory."""

    id: str
    type: str
    state: str
    is_middle: bool
    x: float
    y: float
    label: str


@dataclass(frozen=True, slots=True)
class Line:
    """A link."""

    x1: float
    y1: float
    x2: float
    y2: float
    label: str


@dataclass(frozen=True, slots=True)
class Graph:
    """A neighbourhood; the memory that it is about stands in the middle."""

    #: Where the picture begins, and how large it is.
    x: float
    y: float
    width: float
    height: float
    dots: tuple[Dot, ...]
    lines: tuple[Line, ...]
    left_out: int


def graph(nodes: Sequence[Any], edges: Sequence[Any]) -> Graph:
    """Each memory on the ring of its distance from the first, near those that it is linked with."""
    near: dict[str, set[str]] = {}
    for edge in edges:
        near.setdefault(edge.source, set()).add(edge.target)
        near.setdefault(edge.target, set()).add(edge.source)
    distance = _distances(nodes[0].id, near)
    shown = sorted(nodes, key=lambda node: distance.get(node.id, 1))[:_MOST_DOTS]
    rings = max((distance.get(node.id, 1) for node in shown), default=0)
    middle, angles = _MARGIN + rings * _RING, {nodes[0].id: 0.0}
    dots: dict[str, Dot] = {}
    for ring in range(rings + 1):
        members = [node for node in shown if distance.get(node.id, 1) == ring]
        known = dict(angles)
        members.sort(key=lambda node: _toward(known, near.get(node.id, set())))
        for place, node in enumerate(members):
            angle = angles[node.id] = 2 * math.pi * place / len(members) - math.pi / 2
            dots[node.id] = Dot(
                id=node.id,
                type=node.type,
                state=node.state,
                is_middle=ring == 0,
                x=round(middle + ring * _RING * math.cos(angle), 1),
                y=round(middle + ring * _RING * math.sin(angle), 1),
                label=_cut(brief("Secret" if node.redacted else text_of(node.content)), _LABEL),
            )
    lines = tuple(
        Line(
            dots[one.source].x,
            dots[one.source].y,
            dots[one.target].x,
            dots[one.target].y,
            _cut(one.rel, _LABEL),
        )
        for one in edges
        if one.source in dots and one.target in dots
    )
    xs, ys = [dot.x for dot in dots.values()], [dot.y for dot in dots.values()]
    return Graph(
        x=min(xs) - _MARGIN,
        y=min(ys) - _MARGIN / 3,
        width=max(xs) - min(xs) + 2 * _MARGIN,
        height=max(ys) - min(ys) + _MARGIN,
        dots=tuple(dots.values()),
        lines=lines,
        left_out=len(nodes) - len(shown),
    )


def _distances(root: str, near: Mapping[str, set[str]]) -> dict[str, int]:
    found, ring = {root: 0}, [root]
    while ring:
        onward = [other for name in ring for other in sorted(near.get(name, ())) if other not in found]
        found.update(dict.fromkeys(onward, found[ring[0]] + 1))
        ring = list(dict.fromkeys(onward))
    return found


def _toward(known: Mapping[str, float], others: set[str]) -> float:
    return min((known[other] for other in others if other in known), default=0.0)


# -- state machines ---------------------------------------------------------------------------------------------------

_MOST_STATES, _MOST_ARROWS = 24, 60
_WIDTH, _HEIGHT, _ACROSS, _DOWN, _EDGE = 128.0, 38.0, 96.0, 46.0, 30.0
_NAME = 18


@dataclass(frozen=True, slots=True)
class Box:
    """A state."""

    name: str
    label: str
    x: float
    y: float
    is_current: bool = False
    is_next: bool = False
    is_any: bool = False


@dataclass(frozen=True, slots=True)
class Arrow:
    """One or several ways between two states."""

    path: str
    label: str
    x: float
    y: float
    is_open: bool


@dataclass(frozen=True, slots=True)
class Drawing:
    """A machine as a picture."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    box_width: float = _WIDTH
    box_height: float = _HEIGHT


def machine_of(content: Any) -> Machine | None:
    """The machine that a procedure is; None for what is none."""
    value = parsed(content)
    return None if faults(value) else machine(value)  # type: ignore[arg-type]  it has no faults


def machine_drawing(drawn: Machine) -> Drawing | None:
    """Columns by how many steps a state is from the first one; None for a machine too large to be drawn."""
    if len(drawn.states) > _MOST_STATES or len(drawn.transitions) > _MOST_ARROWS:
        return None
    placed = _columns(drawn)
    if any(way.source == ANY_STATE for way in drawn.transitions):
        placed[0].append(ANY_STATE)
    onward = {way.dest for way in _leaving(drawn, drawn.current)}
    boxes = {
        state: Box(
            state,
            "any state" if state == ANY_STATE else _cut(state, _NAME),
            _EDGE + column * (_WIDTH + _ACROSS),
            _EDGE + row * (_HEIGHT + _DOWN),
            is_current=state == drawn.current,
            is_next=state in onward,
            is_any=state == ANY_STATE,
        )
        for column, states in enumerate(placed)
        for row, state in enumerate(states)
    }
    tallest = max(len(states) for states in placed)
    return Drawing(
        2 * _EDGE + len(placed) * (_WIDTH + _ACROSS) - _ACROSS,
        2 * _EDGE + tallest * (_HEIGHT + _DOWN),
        tuple(boxes.values()),
        tuple(_arrows(drawn, boxes)),
    )


def _leaving(drawn: Machine, state: str) -> list[Transition]:
    """Ways out of a state; one from any state counts where no other of its trigger names the state."""
    named = [way for way in drawn.transitions if way.source == state]
    triggers = {way.trigger for way in named}
    return named + [
        way for way in drawn.transitions if way.source == ANY_STATE and way.trigger not in triggers
    ]


def _columns(drawn: Machine) -> list[list[str]]:
    """States by their distance from the first; those that no way leads to stand last."""
    found, placed = [[drawn.initial]], {drawn.initial}
    while found[-1]:
        onward = dict.fromkeys(way.dest for state in found[-1] for way in _leaving(drawn, state))
        found.append([state for state in onward if state not in placed])
        placed.update(found[-1])
    found.pop()
    lost = [state for state in drawn.states if state not in placed]
    return [*found, lost] if lost else found


def _arrows(drawn: Machine, boxes: Mapping[str, Box]) -> list[Arrow]:
    joined: dict[tuple[str, str], list[Transition]] = {}
    for way in drawn.transitions:
        joined.setdefault((way.source, way.dest), []).append(way)
    return [
        _arrow(boxes[source], boxes[dest], ways, has_way_back=(dest, source) in joined)
        for (source, dest), ways in joined.items()
    ]


def _arrow(source: Box, dest: Box, ways: Sequence[Transition], *, has_way_back: bool) -> Arrow:
    label = _cut(", ".join(_said(way) for way in ways), _LABEL)
    is_open = source.is_current or source.is_any
    x1, y1, x2, y2 = source.x + _WIDTH, source.y + _HEIGHT / 2, dest.x, dest.y + _HEIGHT / 2
    middle_x = source.x + _WIDTH / 2
    if source.name == dest.name:  # a loop above its box
        left, right, top = source.x + _WIDTH * 0.3, source.x + _WIDTH * 0.7, source.y
        path = f"M{left:.1f} {top:.1f} C {left:.1f} {top - 26:.1f}, {right:.1f} {top - 26:.1f}, {right:.1f} {top:.1f}"
        return Arrow(path, label, middle_x, top - 22, is_open)
    if dest.x > source.x:  # onward, to the right
        lift = -10.0 if has_way_back else 0.0
        middle = (x1 + x2) / 2
        path = f"M{x1:.1f} {y1 + lift:.1f} C {middle:.1f} {y1 + lift:.1f}, {middle:.1f} {y2 + lift:.1f}, {x2:.1f} {y2 + lift:.1f}"
        return Arrow(path, label, middle, (y1 + y2) / 2 + lift - 5, is_open)
    if dest.x == source.x:  # up or down, in one column
        x = middle_x + (14 if dest.y > source.y else -14)
        start, end = (source.y + _HEIGHT, dest.y) if dest.y > source.y else (source.y, dest.y + _HEIGHT)
        return Arrow(
            f"M{x:.1f} {start:.1f} L {x:.1f} {end:.1f}", label, x + 6, (start + end) / 2 + 4, is_open
        )
    # Back, below the boxes.
    bottom, end_x = max(source.y, dest.y) + _HEIGHT + 30, dest.x + _WIDTH / 2
    path = (
        f"M{middle_x:.1f} {source.y + _HEIGHT:.1f} C {middle_x:.1f} {bottom:.1f}, {end_x:.1f} {bottom:.1f}, "
        f"{end_x:.1f} {dest.y + _HEIGHT:.1f}"
    )
    return Arrow(path, label, (middle_x + end_x) / 2, bottom - 8, is_open)


def _said(way: Transition) -> str:
    guards = [*way.conditions, *(f"not {name}" for name in way.unless)]
    return way.trigger + (f" [{' and '.join(guards)}]" if guards else "")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


#: What templates call.
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "pendants": pendants,
    "activity_columns": activity_columns,
    "activity_legend": activity_legend,
    "graph": graph,
    "machine_of": machine_of,
    "machine_drawing": machine_drawing,
}
