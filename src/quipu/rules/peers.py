"""Which records of several peers are one record of the router's."""

from __future__ import annotations


class PeerIds:
    """The router's ids, and what each peer calls them."""

    def __init__(self) -> None:
        self._theirs: dict[tuple[str, str], str] = {}
        self._ours: dict[tuple[str, str], str] = {}
        self._noted: set[str] = set()

    def note(self, ours: str, peer: str, theirs: str) -> None:
        """A peer has taken a record under an id of its own."""
        self._theirs[peer, ours] = theirs
        self._ours[peer, theirs] = ours
        self._noted.add(ours)

    def of(self, peer: str, ours: str | None) -> str | None:
        """What a peer calls a record; one that it never took keeps its name."""
        return None if ours is None else self._theirs.get((peer, ours), ours)

    def ours(self, peer: str, theirs: str) -> str | None:
        """What the router calls a peer's record; None for one that nobody noted.

        A peer that names a record it was never given is not believed: what it shows is its own.
        """
        if theirs in self._noted and (peer, theirs) not in self._ours:
            return f"{peer}:{theirs}"
        return self._ours.get((peer, theirs))
