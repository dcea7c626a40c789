"""Where memories and the lines between them go: rings around the one in the middle. Only arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass

from quipu.model.graph import Edge, Graph, GraphNode

#: More than this is a picture nobody can read; the list below it has them all.
_MOST = 60
_RING, _MARGIN = 170.0, 90.0
_LABEL = 26


@dataclass(frozen=True, slots=True)
class Dot:
    """A memory."""

    node: GraphNode
    x: float
    y: float
    label: str


@dataclass(frozen=True, slots=True)
class Line:
    """Why two memories stand together."""

    edge: Edge
    x1: float
    y1: float
    x2: float
    y2: float
    #: In the middle; only links have a word there.
    label: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A neighbourhood."""

    size: float
    dots: tuple[Dot, ...]
    lines: tuple[Line, ...]
    left_out: int


def picture(graph: Graph) -> Picture:
    """The nearest memories, each on the ring of its distance, in the order of those they hang on."""
    shown = graph.nodes[:_MOST]
    rings = max((node.distance for node in shown), default=0)
    middle = _MARGIN + rings * _RING
    angles = _angles(graph, shown)
    dots = {
        node.id: Dot(
            node,
            round(middle + node.distance * _RING * math.cos(angles[node.id]), 1),
            round(middle + node.distance * _RING * math.sin(angles[node.id]), 1),
            _cut(node.text or node.type.value),
        )
        for node in shown
    }
    lines = tuple(
        _line(edge, dots[edge.source], dots[edge.target])
        for edge in graph.edges
        if edge.source in dots and edge.target in dots
    )
    return Picture(2 * middle, tuple(dots.values()), lines, len(graph.nodes) - len(shown))


def _angles(graph: Graph, shown: tuple[GraphNode, ...]) -> dict[str, float]:
    """Evenly around each ring; whoever hangs on the same memory stands together."""
    angles: dict[str, float] = {graph.root: 0.0}
    beside: dict[str, set[str]] = {}
    for edge in graph.edges:
        beside.setdefault(edge.source, set()).add(edge.target)
        beside.setdefault(edge.target, set()).add(edge.source)
    for distance in sorted({node.distance for node in shown} - {0}):
        ring = [node.id for node in shown if node.distance == distance]
        known = dict(angles)
        ring.sort(
            key=lambda name: (min((known[o] for o in beside.get(name, ()) if o in known), default=0.0), name)
        )
        for place, name in enumerate(ring):
            angles[name] = 2 * math.pi * place / len(ring) - math.pi / 2
    return angles


def _line(edge: Edge, one: Dot, other: Dot) -> Line:
    label = _cut(edge.rel) if edge.kind.value in ("link", "supersession", "contradiction") else ""
    return Line(edge, one.x, one.y, other.x, other.y, label)


def _cut(text: str) -> str:
    return text if len(text) <= _LABEL else text[: _LABEL - 1] + "…"
