"""Which records of several peers are one record of a router's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class PeerIds(Protocol):
    """A router's ids, and what each peer calls them."""

    async def note(self, ours: str, theirs: Mapping[str, str], agent_id: str) -> None:
        """Each of these peers has taken a record under an id of its own."""
        ...

    async def of(self, peer: str, ours: Sequence[str]) -> Mapping[str, str]:
        """By the router's id, what a peer calls those that it took."""
        ...

    async def ours(self, peer: str, theirs: Sequence[str]) -> Mapping[str, str]:
        """By the peer's id, what the router calls those that were noted."""
        ...
