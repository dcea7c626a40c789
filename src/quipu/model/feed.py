"""The change feed: that something changed, and to which records; never what they say."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from quipu.model.record import MemoryType


class Happening(StrEnum):
    """What an event of the feed tells."""

    REMEMBERED = "remembered"
    UPDATED = "updated"
    FORGOTTEN = "forgotten"
    ERASED = "erased"
    MERGED = "merged"
    ARCHIVED = "archived"
    DEMOTED = "demoted"
    RESTORED = "restored"
    HELD = "held"
    DECIDED = "decided"


@dataclass(frozen=True, slots=True)
class ChangedRecord:
    """A version that an event speaks of."""

    id: str
    version: int
    type: MemoryType


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedEvent:
    """One journal entry as one reader may see it."""

    #: Journal position; a reader that comes back names the last one it has seen.
    seq: int
    at: int
    op: Happening
    #: None where the records belong to several.
    agent_id: str | None
    store: str | None
    records: tuple[ChangedRecord, ...]
    #: The proposal, import or run that led to it.
    cause: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedRequest:
    """Which changes to follow, and from where."""

    agent_id: str | None = None
    store: str | None = None
    types: tuple[MemoryType, ...] = ()
    #: The last position that was seen; None begins with what happens from now on.
    since: int | None = None
