"""Running the named statements, with rows typed as what SQLite gives: tuples of anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import apsw

from quipu.ledger.queries import queries
from quipu.ledger.rows import Row, Value

_SQL = queries("quipu.ledger.sqlite")


def run(connection: apsw.Connection, statement: str, /, **values: Value) -> None:
    """Do it; there is nothing to read."""
    connection.execute(_SQL[statement], values)


def run_many(connection: apsw.Connection, statement: str, values: Sequence[Mapping[str, Value]]) -> None:
    """Do it once for each of these."""
    if values:
        connection.executemany(_SQL[statement], values)


def insert(connection: apsw.Connection, statement: str, values: tuple[Value, ...]) -> None:
    """Do it, values by position."""
    connection.execute(_SQL[statement], values)


def insert_many(connection: apsw.Connection, statement: str, values: Sequence[tuple[Value, ...]]) -> None:
    """Do it once for each of these, values by position."""
    if values:
        connection.executemany(_SQL[statement], values)


def select(connection: apsw.Connection, statement: str, /, **values: Value) -> list[Row]:
    """All rows."""
    try:
        return cast("list[Row]", connection.execute(_SQL[statement], values).fetchall())
    except UnicodeDecodeError as error:
        raise _damaged() from error


def first(connection: apsw.Connection, statement: str, /, **values: Value) -> Row | None:
    """The first row, if there is one."""
    try:
        return cast("Row | None", connection.execute(_SQL[statement], values).fetchone())
    except UnicodeDecodeError as error:
        raise _damaged() from error


def scalar(connection: apsw.Connection, statement: str, /, **values: Value) -> Any:
    """The one value of the one row."""
    try:
        return connection.execute(_SQL[statement], values).get
    except UnicodeDecodeError as error:
        raise _damaged() from error


def _damaged() -> apsw.CorruptError:
    """Nothing but Unicode is ever written, so a text that is none was written by something else, such as a bad disk.

    SQLite hands texts on as they are and does not look.
    """
    return apsw.CorruptError("a text is not UTF-8")
