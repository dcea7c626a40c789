"""Whether tables, constraints, indexes and triggers are as they were made."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any, TypeAlias

import psycopg

_CHECK = "quipu_check"
#: Kind and name → the server's words for it.
Description: TypeAlias = dict[tuple[str, str], str]


def schema_faults(connection: psycopg.Connection[Any], statements: Sequence[str]) -> list[str]:
    """They are made once more in a schema that is thrown away again, so that the server describes both in its own words."""
    row = connection.execute(b"SELECT current_schema()").fetchone()
    schema = "" if row is None else str(row[0])
    connection.execute(f"SAVEPOINT {_CHECK}".encode())
    connection.execute(f"CREATE SCHEMA {_CHECK}; SET LOCAL search_path TO {_CHECK}".encode())
    for statement in statements:
        connection.execute(statement.encode())
    expected = _described(connection, _CHECK, None)
    found = _described(connection, schema, sorted(name for kind, name in expected if kind == "table"))
    connection.execute(f"ROLLBACK TO SAVEPOINT {_CHECK}".encode())
    missing = [f"{name} is missing" for kind, name in sorted(expected) if (kind, name) not in found]
    altered = [
        f"{name} is not as it was made"
        for (kind, name), words in sorted(expected.items())
        if found.get((kind, name), words) != words
    ]
    return missing + altered + [f"{name} is not ours" for _, name in sorted(found.keys() - expected.keys())]


def _described(connection: psycopg.Connection[Any], schema: str, tables: list[str] | None) -> Description:
    """Tables of a schema, or some of them, and all that hangs on them."""
    text = files("quipu.ledger.postgres").joinpath("schema.sql").read_text("utf-8")
    rows = connection.execute(text.encode(), {"schema": schema, "tables": tables}).fetchall()
    return {(kind, name): words.replace(f"{schema}.", "") for kind, name, words in rows}
