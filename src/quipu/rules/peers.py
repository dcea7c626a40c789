"""What a router calls a record that a peer shows."""

from __future__ import annotations

from collections.abc import Container, Mapping

from quipu.model.outcomes import Hit


def shown_as(peer: str, theirs: str, known: str | None, noted: Container[str]) -> str | None:
    """The router's id of a peer's record; None for one that nobody noted.

    A peer that names a record it was never given, by an id that is the router's, is not believed: what it shows is its
    own.
    """
    if known is None and theirs in noted:
        return f"{peer}:{theirs}"
    return known


def id_of_write(theirs: Mapping[str, str], noted: Mapping[str, Mapping[str, str]]) -> str:
    """What a router calls what these peers took: the first one's id, unless that is already another memory's.

    `noted` tells per peer what it calls the memories that have these ids at the router. A peer that gives one id to two
    memories would make one of them; so the next one's id is taken.
    """
    for id in theirs.values():
        if all(noted[peer].get(id, mine) == mine for peer, mine in theirs.items()):
            return id
    return next(iter(theirs.values()))


def is_one_write(one: Hit, other: Hit, within_ms: int) -> bool:
    """Whether two peers show one write that nobody noted: the same memory of the same owner, kept at the same time."""
    return _told(one) == _told(other) and abs(one.created_at - other.created_at) <= within_ms


def claimed(hit: Hit) -> str:
    """All that honest peers tell alike of one memory, in a form that can be compared."""
    tags = sorted(hit.tags)
    return repr(
        (
            _told(hit),
            sorted(hit.metadata.items()),
            sorted(hit.details.items()),
            tags,
            hit.confidence,
            hit.demoted,
        )
    )


def _told(hit: Hit) -> tuple[object, ...]:
    return (hit.type, str(hit.content), hit.agent_id, hit.user_id, hit.session_id, hit.source)
