"""Graphs and machines as text: lines for people, DOT for Graphviz."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from quipu.cli import output

if TYPE_CHECKING:
    from quipu.model.graph import Graph, GraphNode
    from quipu.rules.procedures import Machine


def quoted(text: str) -> str:
    """A name or label in DOT."""
    return json.dumps(output.clean(text), ensure_ascii=False)


# -- machines -----------------------------------------------------------------------------------------------------


def machine_lines(machine: Machine) -> Iterator[str]:
    """State by state what leads where; a star marks where it stands."""
    widest = max(len(state) for state in machine.states)
    for state in machine.states:
        mark = "*" if state == machine.current else " "
        ways = [way for way in machine.transitions if way.source == state]
        yield f"{mark} {output.clean(state).ljust(widest)}" + ("" if ways else "  (end)")
        for way in ways:
            yield f"      {_way(way.trigger, way.conditions, way.unless)} -> {output.clean(way.dest)}"
    for way in machine.transitions:
        if way.source == "*":
            said = _way(way.trigger, way.conditions, way.unless)
            yield f"  from anywhere: {said} -> {output.clean(way.dest)}"


def machine_dot(machine: Machine) -> Iterator[str]:
    """The machine for Graphviz."""
    yield f"digraph {quoted(machine.name)} {{"
    yield "  rankdir=LR; node [shape=box, style=rounded];"
    for state in machine.states:
        shape = " [style=filled]" if state == machine.current else ""
        yield f"  {quoted(state)}{shape};"
    if any(way.source == "*" for way in machine.transitions):
        yield '  "*" [shape=plaintext, label="any state"];'
    for way in machine.transitions:
        label = _way(way.trigger, way.conditions, way.unless)
        yield f"  {quoted(way.source)} -> {quoted(way.dest)} [label={quoted(label)}];"
    yield "}"


def _way(trigger: str, conditions: Sequence[str], unless: Sequence[str]) -> str:
    guards = [*conditions, *(f"not {name}" for name in unless)]
    return output.clean(trigger) + (f" [{' and '.join(guards)}]" if guards else "")


# -- memories -----------------------------------------------------------------------------------------------------


def graph_lines(graph: Graph) -> Iterator[str]:
    """A tree from the memory in the middle; what was shown already is only named."""
    nodes = {node.id: node for node in graph.nodes}
    seen = {graph.root}
    yield _told(nodes[graph.root])
    yield from _branches(graph, nodes, graph.root, "", seen)


def _branches(
    graph: Graph, nodes: dict[str, GraphNode], here: str, indent: str, seen: set[str]
) -> Iterator[str]:
    onward: dict[str, list[str]] = {}
    for edge in graph.edges:
        if here in (edge.source, edge.target):
            other = edge.target if edge.source == here else edge.source
            if other not in seen and nodes[other].distance == nodes[here].distance + 1:
                way = f"{edge.rel} ->" if edge.source == here else f"<- {edge.rel}"
                onward.setdefault(other, []).append(way)
    seen.update(onward)
    for place, (other, ways) in enumerate(onward.items()):
        is_last = place == len(onward) - 1
        said = output.brief("; ".join(ways), 80)
        yield f"{indent}{'`-' if is_last else '|-'} {said} {_told(nodes[other])}"
        yield from _branches(graph, nodes, other, indent + ("   " if is_last else "|  "), seen)


def _told(node: GraphNode) -> str:
    state = "" if node.state.value == "live" else f" ({node.state.value})"
    ends = "" if node.valid_to is None else f" [until {output.when(node.valid_to)}]"
    return f"{node.id}{state} {output.brief(node.text, 70)}{ends}"


def graph_dot(graph: Graph) -> Iterator[str]:
    """The neighbourhood for Graphviz."""
    yield "digraph memory {"
    yield "  node [shape=box, style=rounded];"
    for node in graph.nodes:
        label = quoted(output.brief(node.text, 60) or node.id)
        shape = ", style=filled" if node.distance == 0 else ""
        yield f"  {quoted(node.id)} [label={label}{shape}];"
    for edge in graph.edges:
        dashes = {"subject": ", style=dashed, dir=none", "session": ", style=dotted"}.get(edge.kind.value, "")
        ends = f"{quoted(edge.source)} -> {quoted(edge.target)}"
        yield f"  {ends} [label={quoted(output.brief(edge.rel, 40))}{dashes}];"
    yield "}"
