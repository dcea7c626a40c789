"""Work that the review page finds by itself: memories that may go, or belong together."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from quipu.model.record import Record


class Finding(StrEnum):
    """Why memories are candidates."""

    #: Never recalled, old and doubtful.
    UNUSED = "unused"
    #: Not recalled for long.
    STALE = "stale"
    #: Two that say the same.
    DUPLICATE = "duplicate"
    #: Two that contradict each other; the older one may go.
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One memory that may go, or two of which the first stays."""

    finding: Finding
    records: tuple[Record, ...]
    similarity: float | None = None

    @property
    def operation(self) -> str:
        return "merge" if self.finding is Finding.DUPLICATE else "forget"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """What was found among the memories that were looked at."""

    candidates: tuple[Candidate, ...] = ()
    #: Live memories by type, among the newest: what is remembered at all. Told with the first stretch alone.
    coverage: dict[str, int] = field(default_factory=dict[str, int])
    #: So many were looked at this time; behind the cursor are those that were not. None: there are no more.
    looked_at: int = 0
    next_cursor: str | None = None
