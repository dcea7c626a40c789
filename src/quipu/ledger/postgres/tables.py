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
    "mirror",
    "mirrored",
    "token",
    "secret",
    "run",
    "run_event",
    "run_variable",
    "run_variable_record",
    "run_note",
    "memory_ref",
    "lent_grant",
    "lent_item",
    "item_log",
    "receipt",
    "erasure",
    "cascade_step",
    "held_item",
    "used_proof",
    "task_step",
    "webhook",
    "dismissal",
)
#: Those that an erasure takes something out of.
ERASABLE = (
    "record",
    "embedding",
    "link",
    "mark",
    "reason",
    "answer",
    "answer_record",
    "proposal",
    "run_event",
    "run_variable",
    "held_item",
)


def over(statement: str, tables: tuple[str, ...]) -> sql.Composed:
    """A statement about several tables."""
    return sql.SQL(SQL[statement]).format(tables=sql.SQL(", ").join(map(sql.Identifier, tables)))


def of(statement: str, table: str) -> sql.Composed:
    """A statement about one table."""
    return sql.SQL(SQL[statement]).format(table=sql.Identifier(table))
