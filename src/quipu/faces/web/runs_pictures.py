"""Where the lines of a run's picture go: a lane for the run and for each node, a knot for each memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quipu.model.runs import EventType, RunEvent

#: Width of one event, height of one lane, and room for the names at the left.
STEP, LANE, LEFT = 34, 34, 150
_ENDS = (EventType.RUN_COMPLETED, EventType.RUN_FAILED, EventType.RUN_CANCELLED)


@dataclass(frozen=True, slots=True)
class Bar:
    """A node at work, or the run itself."""

    name: str
    y: int
    x: int
    width: int
    #: running, completed or failed.
    became: str


@dataclass(frozen=True, slots=True)
class Knot:
    """A memory that was written."""

    x: int
    y: int
    memory_id: str
    said: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """The whole picture."""

    width: int
    height: int
    bars: tuple[Bar, ...]
    knots: tuple[Knot, ...]


def timeline(events: Sequence[RunEvent]) -> Timeline:
    """A run as bars and knots, from left to right in the order of its log."""
    nodes = list(dict.fromkeys(event.node_id for event in events if event.node_id is not None))
    lanes = {None: 0, **{node: place + 1 for place, node in enumerate(nodes)}}
    last = max((event.sequence for event in events), default=0)
    bars = [_bar("run", 0, events, last, _ENDS, EventType.RUN_FAILED)] if events else []
    for node in nodes:
        mine = [event for event in events if event.node_id == node]
        ends = (EventType.NODE_COMPLETED, EventType.NODE_FAILED)
        bars.append(_bar(node or "", lanes[node], mine, last, ends, EventType.NODE_FAILED))
    knots = tuple(
        Knot(
            _x(event.sequence),
            lanes[event.node_id] * LANE + LANE // 2,
            str(event.payload.get("memoryId", "")),
            f"{event.payload.get('memoryId', '')} in {event.payload.get('memoryRef', '')}",
        )
        for event in events
        if event.type is EventType.MEMORY_WRITTEN
    )
    return Timeline(LEFT + (last + 2) * STEP, len(lanes) * LANE + 4, tuple(bars), knots)


def _bar(
    name: str,
    lane: int,
    events: Sequence[RunEvent],
    last: int,
    ends: Sequence[EventType],
    failure: EventType,
) -> Bar:
    first = events[0].sequence
    ended = [event for event in events if event.type in ends]
    until = ended[-1].sequence if ended else last
    became = "running" if not ended else "failed" if ended[-1].type is failure else "completed"
    start = _x(first) - STEP // 2
    return Bar(name, lane * LANE + 8, start, _x(until) + STEP // 2 - start, became)


def _x(sequence: int) -> int:
    return LEFT + sequence * STEP + STEP // 2
