"""Memories and what holds them together."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from quipu.model.record import MemoryType, State


class EdgeKind(StrEnum):
    """Why two memories stand together."""

    LINK = "link"
    #: One takes the other's place: a link `supersedes`.
    SUPERSESSION = "supersession"
    #: They cannot both be so: a link `contradicts`, or a guess by their words.
    CONTRADICTION = "contradiction"
    SUBJECT = "subject"
    SESSION = "session"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One reason why two memories stand together."""

    source: str
    target: str
    kind: EdgeKind
    #: The link's own word; the subject; or what a guess says.
    rel: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """A memory in a graph."""

    id: str
    #: Links between it and the memory in the middle.
    distance: int
    type: MemoryType
    state: State
    #: The beginning of what it says; of a secret, nothing.
    text: str
    subject: str | None
    created_at: int
    #: When what it says is so: from, and up to but not at.
    valid_from: int
    valid_to: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The neighbourhood of one memory, nearest first."""

    root: str
    hops: int
    nodes: tuple[GraphNode, ...]
    edges: tuple[Edge, ...]
    #: Whether there was more than was asked for.
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRequest:
    """What is around a memory."""

    id: str
    agent_id: str | None = None
    hops: int = 1
    limit: int = 100
    as_of: str | None = None
    #: Only what is so at this moment, in milliseconds.
    valid_at: int | None = None
