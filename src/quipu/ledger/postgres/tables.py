"""The tables by name, in an order in which one only needs those before it."""

from __future__ import annotations

from psycopg import sql

from quipu.ledger.postgres.statements import SQL

#: Every table that holds something of a tenant's.
TABLES = (
    "tenant",
    "space",
    "store",
    "record",
    "embedding",
    "link",
    "mark",
    "journal",
    "reason",
    "checkpoint",
    "answer",
    "answer_record",
    "proposal",
    "outbox",
    "token",
    "secret",
)
#: Those that an erasure takes something out of.
ERASABLE = ("record", "embedding", "link", "mark", "reason", "answer", "answer_record", "proposal")


def over(statement: str, tables: tuple[str, ...]) -> sql.Composed:
    """A statement about several tables."""
    return sql.SQL(SQL[statement]).format(tables=sql.SQL(", ").join(map(sql.Identifier, tables)))


def of(statement: str, table: str) -> sql.Composed:
    """A statement about one table."""
    return sql.SQL(SQL[statement]).format(table=sql.Identifier(table))
