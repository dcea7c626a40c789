"""How much is too much: a bucket that refills for requests, an hour that slides for hits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_MINUTE_MS = 60_000
#: The hour moves on in steps of a minute.
_STEPS = 60


@dataclass(frozen=True, slots=True)
class Bucket:
    """How many requests are left, and when that was true."""

    left: float
    at: int


def taken(bucket: Bucket | None, per_minute: int, now: int) -> tuple[Bucket, int | None]:
    """The bucket after one request, and None; or unchanged, and the seconds until there is one again."""
    full = max(1.0, float(per_minute))
    before = Bucket(full, now) if bucket is None else bucket
    left = min(full, before.left + max(0, now - before.at) * per_minute / _MINUTE_MS)
    if left < 1:
        return Bucket(left, now), _up((1 - left) * _MINUTE_MS / per_minute)
    return Bucket(left - 1, now), None


Spent = Mapping[int, int]


def spent_within_an_hour(spent: Spent, now: int) -> int:
    """What was spent in the last sixty minutes."""
    return sum(count for _, count in _counted(spent, now))


def spending(spent: Spent, count: int, now: int) -> dict[int, int]:
    """With so much more spent now, and without what is over an hour old."""
    minute = now // _MINUTE_MS
    kept = dict(_counted(spent, now))
    kept[minute] = kept.get(minute, 0) + count
    return kept


def seconds_until_free(spent: Spent, now: int) -> int:
    """When the oldest minute that was spent in leaves the hour."""
    oldest = min((minute for minute, _ in _counted(spent, now)), default=now // _MINUTE_MS)
    return _up((oldest + _STEPS) * _MINUTE_MS - now)


def _counted(spent: Spent, now: int) -> list[tuple[int, int]]:
    """What is not over an hour away: further ahead only a clock can have been that was wrong, and nobody waits for it."""
    minute = now // _MINUTE_MS
    return [(when, much) for when, much in spent.items() if abs(when - minute) < _STEPS]


def _up(milliseconds: float) -> int:
    return max(1, -int(-milliseconds // 1000))
