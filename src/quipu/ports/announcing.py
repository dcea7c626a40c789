"""Being told of commits, where a ledger can tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from quipu.model.change import Commit

#: Called with the tenants of a commit, on the event loop that asked for it.
Told: TypeAlias = Callable[[frozenset[str]], None]
#: Called with what this process has just committed, on the event loop that asked for it.
Written: TypeAlias = Callable[[Sequence[Commit]], None]


@runtime_checkable
class Announcing(Protocol):
    """A ledger that tells of what this process commits, so that nobody has to wait for the next look."""

    def on_commit(self, told: Told) -> None:
        """Call this after every commit from now on."""
        ...


@runtime_checkable
class Recounting(Protocol):
    """A ledger that tells what exactly this process commits, so that nobody has to read it again."""

    def on_written(self, told: Written) -> None:
        """Call this after every commit from now on. It must be quick, and may not raise."""
        ...
