"""Times as grants and receipts write them: RFC 3339, UTC, nothing else."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHAPE = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z")
#: The years 1 to 9999: a record may hold any time of 64 bits, and RFC 3339 has four digits for a year.
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999


@lru_cache(maxsize=1024)
def rfc3339(at: int, *, fraction: bool = False) -> str:
    """A moment in milliseconds as text; thousandths only where there are some, or where `fraction` asks for them.

    One that cannot be written is told as the nearest that can.
    """
    at = min(max(at, _FIRST), _LAST)
    text = (_EPOCH + timedelta(milliseconds=at)).isoformat()[: len("0001-01-01T00:00:00")]
    return f"{text}.{at % 1000:03d}Z" if fraction or at % 1000 else f"{text}Z"


def instant(text: object) -> int | None:
    """The moment that a text names, in milliseconds; None for one that is not RFC 3339 in UTC."""
    if not isinstance(text, str) or not _SHAPE.fullmatch(text):
        return None
    try:
        return (datetime.fromisoformat(text) - _EPOCH) // timedelta(milliseconds=1)
    except ValueError:
        return None
