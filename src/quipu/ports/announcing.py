"""Being told of commits, where a ledger can tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable

#: Called with the tenants of a commit, on the event loop that asked for it.
Told: TypeAlias = Callable[[frozenset[str]], None]


@runtime_checkable
class Announcing(Protocol):
    """A ledger that tells of what this process commits, so that nobody has to wait for the next look."""

    def on_commit(self, told: Told) -> None:
        """Call this after every commit from now on."""
        ...
