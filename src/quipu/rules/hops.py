"""How close found memories stand to each other in the link graph, and what that is worth."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

MAX_SUPPORTING: Final = 10


@dataclass(frozen=True, slots=True)
class Nearness:
    """The smallest link distance to another member, and the members that are near, nearest first."""

    distance: int
    supporting: tuple[str, ...]


def distances(
    neighbours: Mapping[str, frozenset[str]], members: Collection[str], hops: int
) -> dict[str, Nearness]:
    """For each member that has another member within `hops` links: how near, and which.

    A link counts in both directions. A way may lead through records that are no members.
    """
    graph = _both_ways(neighbours)
    wanted = frozenset(members)
    near = {member: _supporting(graph, wanted, member, hops) for member in sorted(wanted)}
    return {
        member: Nearness(found[0][0], tuple(id for _, id in found[:MAX_SUPPORTING]))
        for member, found in near.items()
        if found
    }


def factor(distance: int) -> float:
    """What a neighbour at this distance multiplies a score by."""
    return 1 + 0.1 / (1 + distance)


def _both_ways(neighbours: Mapping[str, frozenset[str]]) -> dict[str, set[str]]:
    graph: dict[str, set[str]] = {}
    for id, others in neighbours.items():
        graph.setdefault(id, set()).update(others)
        for other in others:
            graph.setdefault(other, set()).add(id)
    return graph


def _supporting(
    graph: Mapping[str, set[str]], wanted: frozenset[str], start: str, hops: int
) -> list[tuple[int, str]]:
    """The other members within reach with their distance, nearest first, then by id; stops once enough are found."""
    found: list[tuple[int, str]] = []
    seen = {start}
    frontier = {start}
    for distance in range(1, hops + 1):
        frontier = {other for id in frontier for other in graph.get(id, ())} - seen
        seen |= frontier
        found.extend((distance, id) for id in sorted(frontier & wanted))
        if len(found) >= MAX_SUPPORTING or not frontier:
            break
    return found
