"""What somebody who looks back asks of the journal."""

from __future__ import annotations

from dataclasses import dataclass

from quipu.model.journal import Op


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailRequest:
    """Page through the journal, oldest first."""

    operation: Op | None = None
    agent_id: str | None = None
    #: Only entries that mention a record of this user.
    user_id: str | None = None
    #: Moments, both included: ISO 8601 with zone, or milliseconds.
    since: str | None = None
    until: str | None = None
    limit: int = 100
    #: The position that the last page ended with.
    cursor: int | None = None
