"""How short-term memory settles, as it is set."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """The settings of consolidation."""

    #: So many of an agent's and user's short-term memories are the window.
    window: int = 100
    #: From this score on an item is promoted.
    threshold: float = 0.6
    #: Below it, it is evicted at this age.
    evict_after_ms: int = 24 * 3_600_000
    #: Texts this near count as said again; measured by `python -m bench.duplicates`.
    similar: float = 0.92
    #: The long-term store that promotions go to.
    store: str = "main"
    #: Whether a window that overflows is settled at once, and not only when somebody asks.
    is_at_once: bool = True
