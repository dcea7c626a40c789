"""Copying tenants into another ledger, row for row: history, chain, checkpoints, vectors, rows of all capabilities.

1. Rows are read at one moment and written in one transaction: the target has everything or nothing.
2. A tenant that the target has already is refused.
3. Before the target is committed it is read back: every row must be there as it was.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence

from quipu.errors import ConflictError, NotFoundError, TamperedError
from quipu.ledger.driver import Cursor, Driver
from quipu.ledger.queries import SQL, schema_statements
from quipu.ledger.table import Row, StoredTable, stored_tables

Progress = Callable[[int, int], None]
_PAGE = 500
_MOST_TENANTS = 1_000


def copy(
    source: Driver, target: Driver, tenants: Sequence[str] | None, progress: Progress | None = None
) -> dict[str, int]:
    """Copy some tenants, or all; how many rows each has. `progress` is called with tenants done and tenants in all."""
    tables = stored_tables(schema_statements(source.dialect))
    counts: dict[str, int] = {}
    with source.reading() as one, target.writing("") as two:
        known = list(_known(one))
        if tenants is not None and not set(tenants) <= set(known):
            raise NotFoundError(
                "There is no such tenant.", reason="tenant", hint="`quipu tenant list` shows them."
            )
        wanted = known if tenants is None else tenants
        for done, tenant in enumerate(wanted):
            if progress is not None:
                progress(done, len(wanted))
            counts[tenant] = sum(_copied(one, two, table, tenant) for table in tables)
        if progress is not None:
            progress(len(wanted), len(wanted))
    return counts


def _known(cursor: Cursor) -> Iterable[str]:
    after = ""
    while True:
        rows = cursor.rows(SQL["tenants"], tenant=after, limit=_MOST_TENANTS)
        yield from (row[0] for row in rows)
        if len(rows) < _MOST_TENANTS:
            return
        after = rows[-1][0]


def _copied(source: Cursor, target: Cursor, table: StoredTable, tenant: str) -> int:
    if target.row(table.any, tenant=tenant) is not None:
        raise ConflictError(
            "The target holds a tenant of that name already.",
            reason="name_taken",
            hint="Copy into a ledger that does not have it.",
        )
    count, digest = 0, hashlib.sha256()
    for page in source.pages(table.rows, size=_PAGE, tenant=tenant):
        count += len(page)
        digest.update(_bytes(page))
        target.run_many(table.insert, [dict(zip(table.columns, row, strict=True)) for row in page])
    back = hashlib.sha256()
    for page in target.pages(table.rows, size=_PAGE, tenant=tenant):
        back.update(_bytes(page))
    if back.digest() != digest.digest():
        raise TamperedError(
            f"Rows of the table {table.name} did not arrive as they were; nothing was kept.",
            reason="copy_differs",
            hint="Verify the source, then copy it again.",
        )
    return count


def _bytes(rows: Iterable[Row]) -> bytes:
    return "\n".join(map(repr, rows)).encode()
