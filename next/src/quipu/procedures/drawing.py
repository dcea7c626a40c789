"""Where the boxes and arrows of a machine go: arithmetic for a picture, which a template draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quipu.model.machine import ANY_STATE, Machine, Transition
from quipu.procedures.machine import Table

#: More than this is a picture nobody can read; a list says it all.
_MOST_STATES, _MOST_TRANSITIONS = 24, 60
_WIDTH, _HEIGHT = 150.0, 38.0
_ACROSS, _DOWN = 140.0, 46.0
_MARGIN = 34.0
_LONGEST_LABEL, _LONGEST_NAME = 24, 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A state."""

    name: str
    label: str
    x: float
    y: float
    is_current: bool
    #: Whether a trigger leads there from the current state.
    is_next: bool
    #: Whether it stands for every state.
    is_any: bool


@dataclass(frozen=True, slots=True)
class Arrow:
    """One or several transitions between two states: an SVG path, and where its label stands."""

    path: str
    label: str
    x: float
    y: float
    #: Whether it leads away from where the machine is.
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
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
    if len(machine.states) > _MOST_STATES or len(machine.transitions) > _MOST_TRANSITIONS:
        return None
    table = Table(machine)
    columns = _columns(machine, table)
    if any(item.source == ANY_STATE for item in machine.transitions):
        columns[0].append(ANY_STATE)
    onward = {item.dest for item in table.onward(machine.current)}
    boxes = {
        state: Box(
            name=state,
            label="any state" if state == ANY_STATE else _cut(state, _LONGEST_NAME),
            x=_MARGIN + column * (_WIDTH + _ACROSS),
            y=_MARGIN + row * (_HEIGHT + _DOWN),
            is_current=state == machine.current,
            is_next=state in onward,
            is_any=state == ANY_STATE,
        )
        for column, states in enumerate(columns)
        for row, state in enumerate(states)
    }
    return Drawing(
        width=2 * _MARGIN + len(columns) * (_WIDTH + _ACROSS) - _ACROSS,
        height=2 * _MARGIN + max(map(len, columns)) * (_HEIGHT + _DOWN),
        boxes=tuple(boxes.values()),
        arrows=tuple(_arrows(machine, boxes)),
    )


def _columns(machine: Machine, table: Table) -> list[list[str]]:
    """States by their distance from the first; those that nothing leads to stand last."""
    columns, placed = [[machine.initial]], {machine.initial}
    while columns[-1]:
        onward = dict.fromkeys(item.dest for state in columns[-1] for item in table.onward(state))
        columns.append([state for state in onward if state not in placed])
        placed.update(columns[-1])
    columns[-1] = [state for state in machine.states if state not in placed]
    return columns if columns[-1] else columns[:-1]


def _arrows(machine: Machine, boxes: Mapping[str, Box]) -> list[Arrow]:
    joined: dict[tuple[str, str], list[Transition]] = {}
    for item in machine.transitions:
        joined.setdefault((item.source, item.dest), []).append(item)
    return [
        _arrow(boxes[source], boxes[dest], items, has_way_back=(dest, source) in joined)
        for (source, dest), items in joined.items()
    ]


def _arrow(source: Box, dest: Box, items: Sequence[Transition], *, has_way_back: bool) -> Arrow:
    label = _cut(", ".join(_said(item) for item in items), _LONGEST_LABEL)
    is_open = source.is_current or source.is_any
    middle_x, middle_y = source.x + _WIDTH / 2, source.y + _HEIGHT / 2
    if source.name == dest.name:  # a loop above its box
        left, right, top = source.x + _WIDTH * 0.3, source.x + _WIDTH * 0.7, source.y
        path = f"M{left:.1f} {top:.1f} C {left:.1f} {top - 26:.1f}, {right:.1f} {top - 26:.1f}, {right:.1f} {top:.1f}"
        return Arrow(path, label, middle_x, top - 22, is_open)
    if dest.x > source.x:  # to the right
        lift = -10.0 if has_way_back else 0.0
        x1, y1, x2, y2 = source.x + _WIDTH, middle_y + lift, dest.x, dest.y + _HEIGHT / 2 + lift
        middle = (x1 + x2) / 2
        path = f"M{x1:.1f} {y1:.1f} C {middle:.1f} {y1:.1f}, {middle:.1f} {y2:.1f}, {x2:.1f} {y2:.1f}"
        return Arrow(path, label, middle, (y1 + y2) / 2 - 5, is_open)
    if dest.x == source.x:  # up or down in one column
        is_down = dest.y > source.y
        x = middle_x + (14 if is_down else -14)
        start, end = (source.y + _HEIGHT, dest.y) if is_down else (source.y, dest.y + _HEIGHT)
        return Arrow(
            f"M{x:.1f} {start:.1f} L {x:.1f} {end:.1f}", label, x + 6, (start + end) / 2 + 4, is_open
        )
    # back, below the boxes
    bottom, end_x = max(source.y, dest.y) + _HEIGHT + 30, dest.x + _WIDTH / 2
    path = (
        f"M{middle_x:.1f} {source.y + _HEIGHT:.1f} C {middle_x:.1f} {bottom:.1f}, {end_x:.1f} {bottom:.1f}, "
        f"{end_x:.1f} {dest.y + _HEIGHT:.1f}"
    )
    return Arrow(path, label, (middle_x + end_x) / 2, bottom - 8, is_open)


def _said(item: Transition) -> str:
    guards = [*item.conditions, *(f"not {name}" for name in item.unless)]
    return item.trigger + (f" [{' and '.join(guards)}]" if guards else "")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
