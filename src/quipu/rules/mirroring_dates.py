"""A record's time as a date. A record may hold any time of 64 bits; dates have years of four digits."""

from __future__ import annotations

from datetime import datetime

from quipu.rules.grants_times import rfc3339


def dated(at: int) -> datetime:
    """The moment in UTC, to the millisecond; one that no date can name is the nearest that can."""
    return datetime.fromisoformat(rfc3339(at, fraction=True))
