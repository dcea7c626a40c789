"""Rows that a vendor has deleted leave its files in PostgreSQL, also while somebody still looks."""

from __future__ import annotations

import threading

import psycopg

from quipu.backends.compacting import compact
from tests.postgres import Server
from tests.vendors.sharing import files_with

_MARKER = "quillaja-bark-tincture"


def test_a_row_that_somebody_still_sees_is_waited_for(postgres: Server) -> None:
    address = postgres.database(is_empty=True)
    with (
        psycopg.connect(address, autocommit=True) as connection,
        psycopg.connect(address) as looking,
    ):
        connection.execute("CREATE TABLE notes (text TEXT)")
        connection.execute("INSERT INTO notes VALUES (%s), ('tea')", [_MARKER])
        looking.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        looking.execute("SELECT 1")  # not at the table, whose lock would be waited for
        connection.execute("DELETE FROM notes WHERE text = %s", [_MARKER])
        leaving = threading.Timer(0.3, looking.rollback)
        leaving.start()
        compact(connection, ["notes"])
        leaving.join()
        connection.execute("CHECKPOINT")
        assert files_with(postgres.files_of(address), _MARKER) == []
        assert connection.execute("SELECT text FROM notes").fetchall() == [("tea",)]
