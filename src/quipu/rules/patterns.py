"""Regular expressions that are compiled when they are first used: a table of a hundred costs a start a lot of time."""

from __future__ import annotations

import re
from functools import cache


@cache
def compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """The expression, compiled once."""
    return re.compile(pattern, flags)
