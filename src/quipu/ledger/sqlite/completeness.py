"""Whether a file has every table that its schema version promises.

A file that was restored in part, or that somebody mended by hand, can say that it is up to date and lack one. It would
open, and fail much later. Triggers are not looked for: a file whose journal was tampered with must still open, so that
`quipu verify` can name the entry.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import apsw

from quipu.errors import BackendUnavailableError
from quipu.ledger.sqlite import statements

_MADE: Final = re.compile(r"^CREATE\s+TABLE\s+(\w+)", re.MULTILINE)


def promised(steps: Sequence[str]) -> frozenset[str]:
    """The tables that the steps make. None of them takes one away."""
    return frozenset(name for step in steps for name in _MADE.findall(step))


def check(connection: apsw.Connection, steps: Sequence[str]) -> None:
    """Refuse a file that lacks one."""
    there = {str(name) for (name,) in statements.select(connection, "tables")}
    if lost := sorted(promised(steps) - there):
        raise BackendUnavailableError(
            f"Part of the file's schema is missing: table {lost[0]}.",
            reason="half_migrated",
            hint="It was restored or changed in part. Restore the latest backup; nothing was touched.",
        )
