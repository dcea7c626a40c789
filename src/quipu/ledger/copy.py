"""Copying tenants into another ledger, row for row: history, chain, checkpoints, vectors, rows of all capabilities.

1. Rows are read at one moment and written in one transaction: the target has everything or nothing.
2. A tenant that the target has already is refused.
3. Before the target is committed it is read back: every row must be there as it was.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from quipu.errors import ConflictError, NotFoundError, TamperedError
from quipu.ledger.driver import Cursor, Driver
from quipu.ledger.queries import SQL, Query, schema_statements
from quipu.ledger.table import Row

Progress = Callable[[int, int], None]
_PAGE = 500
_MOST_TENANTS = 1_000


@dataclass(frozen=True)
class StoredTable:
    """Any table of the schema as it stands, for copying whole tenants."""

    name: str
    #: The tenant first.
    columns: tuple[str, ...]
    key: tuple[str, ...]

    @cached_property
    def rows(self) -> Query:
        """All rows of a tenant, in an order that both engines share."""
        start = f"SELECT {', '.join(self.columns)} FROM {self.name} WHERE tenant = :tenant"  # noqa: S608  names from our schema
        return Query(f"{start} ORDER BY {', '.join(self.key)}")

    @cached_property
    def any(self) -> Query:
        return Query(f"SELECT 1 FROM {self.name} WHERE tenant = :tenant LIMIT 1")  # noqa: S608  a table's name

    @cached_property
    def insert(self) -> Query:
        values = ", ".join(f":{name}" for name in self.columns)
        return Query(f"INSERT INTO {self.name} ({', '.join(self.columns)}) VALUES ({values})")  # noqa: S608  names from our schema


def stored_tables(statements: Sequence[str]) -> list[StoredTable]:
    """The tables that these statements make, in their order."""
    tables: list[StoredTable] = []
    for statement in statements:
        made = re.match(r"CREATE TABLE (\w+) \((.*)\)", statement, re.S)
        if made is None:
            continue
        lines = [line.strip() for line in made[2].splitlines()]
        columns = tuple(line.split()[0] for line in lines if line and not line.startswith("CONSTRAINT"))
        key = re.search(r"PRIMARY KEY \(([^)]*)\)", made[2])
        assert key is not None
        tables.append(StoredTable(made[1], columns, tuple(name.strip() for name in key[1].split(","))))
    return tables


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
