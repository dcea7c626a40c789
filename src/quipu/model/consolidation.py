"""What a pass of consolidation is asked for, and what it did."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Settlement(StrEnum):
    """What became of short-term memories."""

    #: Kept for good, as a long-term memory that links to them.
    PROMOTED = "promoted"
    #: A long-term memory said exactly the same already.
    KNOWN = "known"
    #: Forgotten, restorable: of little weight and old, or pushed out of the window.
    EVICTED = "evicted"
    #: A rule wants a person to decide first; they stay where they are.
    HELD = "held"
    #: Not yet decided: they stay in the window.
    KEPT = "kept"
    #: A rule forbids it, or it failed; they stay where they are.
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidateRequest:
    """Which windows to settle; without an agent all of the tenant's."""

    agent_id: str | None = None
    user_id: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Short-term memories that were settled together, and how."""

    ids: tuple[str, ...]
    agent_id: str
    user_id: str | None
    outcome: Settlement
    score: float
    #: The long-term memory that they became or that says the same, or the proposal that waits.
    into: str | None = None
    #: The code of what kept them where they are.
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NearlySame:
    """Two memories that seem to say the same. Named, never merged: that is a person's or a caller's act."""

    id: str
    other: str
    similarity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidation:
    """One pass."""

    #: Undoes the pass as a whole.
    pass_id: str
    dry_run: bool
    windows: int
    #: Memories by what became of them.
    counts: dict[str, int]
    #: Facts that an extractor proposed; each waits for a person.
    proposed: int = 0
    #: Memories whose text the extractor could not be asked about.
    unread: int = 0
    #: The first thousand that did not simply stay.
    settled: tuple[Settled, ...] = ()
    similar: tuple[NearlySame, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """What undoing a pass did."""

    pass_id: str
    restored: tuple[str, ...]
    forgotten: tuple[str, ...]
    #: Not undone: they have changed since, or a rule holds it.
    left: tuple[str, ...]
