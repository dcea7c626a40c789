"""Tables of a vendor in PostgreSQL, rewritten without the rows that were deleted."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final

#: Others that look at the same database with a snapshot of their own.
_LOOKING: Final = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL"
)
_PATIENCE_S: Final = 5.0
_PAUSE_S: Final = 0.02


def compact(connection: Any, tables: Iterable[str]) -> None:
    """Take the pages that deleted rows stood on. The connection of psycopg commits by itself.

    A deleted row that somebody's snapshot still shows would be copied with the rest, so those who look are waited for;
    not for ever, as one who never stops looking is no reason to leave everything as it is.
    """
    end = time.monotonic() + _PATIENCE_S
    for table in tables:
        while connection.execute(_LOOKING).fetchone()[0] and time.monotonic() < end:
            time.sleep(_PAUSE_S)
        quoted = table.replace('"', '""')
        connection.execute(f'VACUUM FULL "{quoted}"')
