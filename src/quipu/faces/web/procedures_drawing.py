"""Where the boxes and arrows of a machine go. The template draws them; here is only arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quipu.rules.procedures import ANYWHERE, Machine, Transition, Ways

#: More than this is a picture nobody can read; the list says it all.
_MOST_STATES, _MOST_ARROWS = 24, 60
_WIDTH, _HEIGHT = 150.0, 38.0
_ACROSS, _DOWN = 140.0, 46.0
_MARGIN = 34.0
_LABEL, _NAME = 24, 18


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


def drawing(machine: Machine) -> Drawing | None:
    """Columns by how many steps a state is from the first one; None for a machine too large to be drawn."""
    if len(machine.states) > _MOST_STATES or len(machine.transitions) > _MOST_ARROWS:
        return None
    columns = _columns(machine)
    if any(way.source == ANYWHERE for way in machine.transitions):
        columns[0].append(ANYWHERE)
    ways = Ways(machine)
    onward = {
        way.dest
        for trigger in ways.triggers(machine.current)
        for way in ways.leaving(machine.current, trigger)
    }
    boxes = {
        state: Box(
            state,
            "any state" if state == ANYWHERE else _cut(state, _NAME),
            _MARGIN + column * (_WIDTH + _ACROSS),
            _MARGIN + row * (_HEIGHT + _DOWN),
            is_current=state == machine.current,
            is_next=state in onward,
            is_any=state == ANYWHERE,
        )
        for column, states in enumerate(columns)
        for row, state in enumerate(states)
    }
    tallest = max(len(states) for states in columns)
    return Drawing(
        2 * _MARGIN + len(columns) * (_WIDTH + _ACROSS) - _ACROSS,
        2 * _MARGIN + tallest * (_HEIGHT + _DOWN),
        tuple(boxes.values()),
        tuple(_arrows(machine, boxes)),
    )


def _columns(machine: Machine) -> list[list[str]]:
    """States by their distance from the first; those that no way leads to stand last."""
    ways, columns, placed = Ways(machine), [[machine.initial]], {machine.initial}
    while columns[-1]:
        onward: dict[str, None] = {}
        for state in columns[-1]:
            for trigger in ways.triggers(state):
                onward.update(dict.fromkeys(way.dest for way in ways.leaving(state, trigger)))
        columns.append([state for state in onward if state not in placed])
        placed.update(columns[-1])
    columns.pop()
    lost = [state for state in machine.states if state not in placed]
    return [*columns, lost] if lost else columns


def _arrows(machine: Machine, boxes: dict[str, Box]) -> list[Arrow]:
    joined: dict[tuple[str, str], list[Transition]] = {}
    for way in machine.transitions:
        joined.setdefault((way.source, way.dest), []).append(way)
    return [
        _arrow(boxes[source], boxes[dest], ways, (dest, source) in joined)
        for (source, dest), ways in joined.items()
    ]


def _arrow(source: Box, dest: Box, ways: Sequence[Transition], has_way_back: bool) -> Arrow:
    label = _cut(", ".join(_said(way) for way in ways), _LABEL)
    is_open = source.is_current or source.is_any
    x1, y1 = source.x + _WIDTH, source.y + _HEIGHT / 2
    x2, y2 = dest.x, dest.y + _HEIGHT / 2
    if source.name == dest.name:  # a loop above its box
        left, right, top = source.x + _WIDTH * 0.3, source.x + _WIDTH * 0.7, source.y
        path = f"M{left:.1f} {top:.1f} C {left:.1f} {top - 26:.1f}, {right:.1f} {top - 26:.1f}, {right:.1f} {top:.1f}"
        return Arrow(path, label, source.x + _WIDTH / 2, top - 22, is_open)
    if dest.x > source.x:  # onward, to the right
        lift = -10.0 if has_way_back else 0.0
        middle = (x1 + x2) / 2
        path = f"M{x1:.1f} {y1 + lift:.1f} C {middle:.1f} {y1 + lift:.1f}, {middle:.1f} {y2 + lift:.1f}, {x2:.1f} {y2 + lift:.1f}"
        return Arrow(path, label, middle, (y1 + y2) / 2 + lift - 5, is_open)
    if dest.x == source.x:  # up or down, in one column
        x = source.x + _WIDTH / 2 + (14 if dest.y > source.y else -14)
        start, end = (source.y + _HEIGHT, dest.y) if dest.y > source.y else (source.y, dest.y + _HEIGHT)
        return Arrow(
            f"M{x:.1f} {start:.1f} L {x:.1f} {end:.1f}", label, x + 6, (start + end) / 2 + 4, is_open
        )
    # Back, below the boxes.
    bottom = max(source.y, dest.y) + _HEIGHT + 30
    start_x, end_x = source.x + _WIDTH / 2, dest.x + _WIDTH / 2
    path = (
        f"M{start_x:.1f} {source.y + _HEIGHT:.1f} C {start_x:.1f} {bottom:.1f}, {end_x:.1f} {bottom:.1f}, "
        f"{end_x:.1f} {dest.y + _HEIGHT:.1f}"
    )
    return Arrow(path, label, (start_x + end_x) / 2, bottom - 8, is_open)


def _said(way: Transition) -> str:
    guards = [*way.conditions, *(f"not {name}" for name in way.unless)]
    return way.trigger + (f" [{' and '.join(guards)}]" if guards else "")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
