"""What a router calls a record that a peer shows."""

from __future__ import annotations

from collections.abc import Container


def shown_as(peer: str, theirs: str, known: str | None, noted: Container[str]) -> str | None:
    """The router's id of a peer's record; None for one that nobody noted.

    A peer that names a record it was never given, by an id that is the router's, is not believed: what it shows is its
    own.
    """
    if known is None and theirs in noted:
        return f"{peer}:{theirs}"
    return known
