"""A fresh store on each ledger: what the product does, it does on both."""

from __future__ import annotations

import contextlib

import apsw
import psycopg
import pytest


@pytest.fixture(params=["sqlite", "postgres"])
def ledger_url(request: pytest.FixtureRequest) -> str:
    """The address of an empty store; a test that asks for it runs once on each ledger."""
    if request.param == "sqlite":
        return f"sqlite://{request.getfixturevalue('tmp_path')}/memory.db"
    return str(request.getfixturevalue("postgres_url"))


def slip_in(url: str, record_id: str, content: str, version: int = 1) -> None:
    """Put other words into a record behind everybody's back, as an old file or a broken importer might."""
    found = altered(
        url, "UPDATE record SET content = {} WHERE id = {} AND version = {}", content, record_id, version
    )
    assert found == 1


def altered(url: str, statement: str, *values: str | int) -> int:
    """One statement, `{}` for each value; returns how many rows it changed."""
    if url.startswith("sqlite://"):
        # The library that the ledger uses: another one in the same process would not see its locks.
        with contextlib.closing(apsw.Connection(url.removeprefix("sqlite://"))) as connection:
            connection.set_busy_timeout(10_000)
            connection.execute(statement.format(*["?"] * len(values)), values)
            return connection.changes()
    with psycopg.connect(url) as connection:
        return connection.execute(statement.format(*["%s"] * len(values)).encode(), values).rowcount
