"""Where dots and lines go, and graphs as text."""

from __future__ import annotations

import math

from quipu.cli import drawing
from quipu.faces.web.graph_drawing import picture
from quipu.model.graph import Edge, EdgeKind, Graph, GraphNode
from quipu.model.record import MemoryType, State


def node(name: str, distance: int, text: str = "") -> GraphNode:
    return GraphNode(
        id=name,
        distance=distance,
        type=MemoryType.SEMANTIC,
        state=State.LIVE,
        text=text or name,
        subject=None,
        created_at=0,
        valid_from=0,
        valid_to=None,
    )


def edge(source: str, target: str, rel: str = "about") -> Edge:
    return Edge(source=source, target=target, kind=EdgeKind.LINK, rel=rel)


def star(leaves: int) -> Graph:
    nodes = (node("root", 0), *(node(f"n{number:03}", 1) for number in range(leaves)))
    return Graph(root="root", hops=1, nodes=nodes, edges=tuple(edge(one.id, "root") for one in nodes[1:]))


def test_each_ring_is_as_far_away_as_its_distance() -> None:
    graph = Graph(
        root="r",
        hops=2,
        nodes=(node("r", 0), node("a", 1), node("b", 1), node("c", 2)),
        edges=(edge("a", "r"), edge("b", "r"), edge("c", "b")),
    )
    made = picture(graph)
    middle = next(dot for dot in made.dots if dot.node.id == "r")
    far = {dot.node.id: math.dist((dot.x, dot.y), (middle.x, middle.y)) for dot in made.dots}
    assert round(far["a"]) == round(far["b"]) == round(far["c"] / 2) > 0
    assert all(0 <= value <= made.size for dot in made.dots for value in (dot.x, dot.y))
    assert len({(dot.x, dot.y) for dot in made.dots}) == 4
    assert len(made.lines) == 3


def test_what_is_too_much_for_a_picture_is_counted() -> None:
    made = picture(star(100))
    assert (len(made.dots), made.left_out) == (60, 41)
    assert len(made.lines) == 59


def test_a_tree_names_each_memory_once_and_shows_no_escape() -> None:
    graph = Graph(
        root="r",
        hops=2,
        nodes=(node("r", 0, "root \x1b[31m"), node("a", 1), node("b", 1), node("c", 2)),
        edges=(edge("a", "r"), edge("r", "b", "cites"), edge("c", "a"), edge("c", "b")),
    )
    lines = list(drawing.graph_lines(graph))
    assert lines[0].startswith("r root")
    assert "\x1b" not in "".join(lines)
    assert sum(" c c" in line for line in lines) == 1
    assert any(line.startswith("|- <- about a") for line in lines)
    assert any("cites -> b" in line for line in lines)


def test_dot_quotes_what_people_wrote() -> None:
    evil = 'x"]; evil [label="'
    graph = Graph(root="r", hops=1, nodes=(node("r", 0, evil), node("a", 1)), edges=(edge("a", "r", evil),))
    text = "\n".join(drawing.graph_dot(graph))
    assert '\\"]; evil [label=\\"' in text
    assert text.count("->") == 1
