"""How long a memory may be kept, read from text.

- ISO 8601 durations in whole numbers: `P30D`, `P2W`, `PT12H`, `P1Y2M`; a year is 365 days, a month 30.
- Short forms: `30d`, `12h`, `15m` (days, hours, minutes).
- `session` and `forever` are names, not lengths.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from quipu.errors import InvalidError

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
#: The longest length that can be named; beyond it lies `forever`.
LONGEST_MS: Final = 1_000 * 365 * DAY_MS
#: A session ends so long after its last write.
SESSION_MS: Final = DAY_MS

ACCEPTED: Final = ("P30D", "PT12H", "P1Y2M", "30d", "12h", "15m", "session", "forever")

_ISO: Final = re.compile(
    r"P(?=[0-9T])(?:(?P<years>[0-9]{1,9})Y)?(?:(?P<months>[0-9]{1,9})M)?(?:(?P<weeks>[0-9]{1,9})W)?(?:(?P<days>[0-9]{1,9})D)?"
    r"(?:T(?=[0-9])(?:(?P<hours>[0-9]{1,9})H)?(?:(?P<minutes>[0-9]{1,9})M)?(?:(?P<seconds>[0-9]{1,9})S)?)?"
)
_SHORT: Final = re.compile(r"(?:(?P<days>[0-9]{1,9})d|(?P<hours>[0-9]{1,9})h|(?P<minutes>[0-9]{1,9})m)")
_UNITS: Final = {
    "years": 365 * DAY_MS,
    "months": 30 * DAY_MS,
    "weeks": 7 * DAY_MS,
    "days": DAY_MS,
    "hours": HOUR_MS,
    "minutes": MINUTE_MS,
    "seconds": SECOND_MS,
}


class Span(StrEnum):
    """A time to keep that is not a number of milliseconds."""

    SESSION = "session"
    FOREVER = "forever"


_NAMES: Final = {span.value: span for span in Span}


def duration(text: str, pointer: str = "/privacy_intent/retain") -> int | Span:
    """The length in milliseconds, or the name of one that has no fixed length."""
    if text in _NAMES:
        return _NAMES[text]
    parts = _ISO.fullmatch(text) or _SHORT.fullmatch(text)
    if parts is None:
        raise InvalidError.at(
            pointer, "bad_value", "This is not a duration.", accepted=ACCEPTED, hint=_hint(text)
        )
    length_ms = sum(int(amount) * _UNITS[unit] for unit, amount in parts.groupdict("0").items())
    if length_ms == 0:
        raise InvalidError.at(
            pointer, "bad_value", "A duration must be longer than nothing.", accepted=ACCEPTED
        )
    if length_ms > LONGEST_MS:
        raise InvalidError.at(
            pointer,
            "bad_value",
            "A duration may be at most 1,000 years; write `forever` for no end.",
            accepted=ACCEPTED,
        )
    return length_ms


def _hint(text: str) -> str | None:
    """What was probably meant, where only the case of the letters or a space is wrong."""
    squeezed = text.replace(" ", "")
    for attempt in (squeezed.lower(), squeezed.upper()):
        if attempt in _NAMES or _ISO.fullmatch(attempt) or _SHORT.fullmatch(attempt):
            return f"Did you mean {attempt}?"
    return None
