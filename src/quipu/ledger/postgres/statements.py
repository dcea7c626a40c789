"""Running the named statements. `queries.sql` holds what both dialects say, `server.sql` what only a server needs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, LiteralString, TypeAlias

from psycopg import AsyncConnection, AsyncCursor

from quipu.ledger.queries import queries
from quipu.ledger.rows import Row

#: A connection whose rows are tuples of anything.
Connection: TypeAlias = AsyncConnection[tuple[Any, ...]]
#: By name, or by position.
Values: TypeAlias = "Mapping[str, Any] | Sequence[Any]"

SQL: Mapping[str, LiteralString] = {
    **queries("quipu.ledger.postgres"),
    **queries("quipu.ledger.postgres", "server.sql"),
}
#: Conditions that hold where no value is given for them.
_MAY_BE_LEFT_OUT = re.compile(r"%\(\w+\)s::\w+ IS NULL OR")
#: Those are planned for the values at hand. A plan for whatever values takes each such condition to leave next to nothing,
#: and then sorts all of an agent's records for each page instead of reading them in order.
#: Edges are looked for by where they lead to: of a tenant of average size it would be as quick to look at all of them.
_PLANNED_ANEW = frozenset(
    {"links_at", "derived_from", *(name for name, text in SQL.items() if _MAY_BE_LEFT_OUT.search(text))}
)


async def execute(
    connection: Connection, statement: str, values: Values = ()
) -> AsyncCursor[tuple[Any, ...]]:
    prepare = False if statement in _PLANNED_ANEW else None
    return await connection.execute(SQL[statement], values or None, prepare=prepare, binary=True)


async def run(connection: Connection, statement: str, /, **values: Any) -> int:
    """Do it; returns how many rows it touched."""
    return (await execute(connection, statement, values)).rowcount


async def select(connection: Connection, statement: str, /, **values: Any) -> list[Row]:
    """All rows."""
    return list(await (await execute(connection, statement, values)).fetchall())


async def first(connection: Connection, statement: str, /, **values: Any) -> Row | None:
    """The first row, if there is one."""
    return await (await execute(connection, statement, values)).fetchone()


async def scalar(connection: Connection, statement: str, /, **values: Any) -> Any:
    """The one value of the one row."""
    row = await first(connection, statement, **values)
    return None if row is None else row[0]
