"""A memory that is copied between a file and a database is the same memory, row for row."""

import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from quipu.bootstrap import TABLES
from quipu.errors import ConflictError, NotFoundError, TamperedError
from quipu.ledger.commit import Close, Demote, Erase, Keep, Once, Touch
from quipu.ledger.copy import stored_tables
from quipu.ledger.index import Space
from quipu.ledger.ledger import Ledger
from quipu.ledger.postgres.driver import PostgresDriver
from quipu.ledger.queries import SQLITE, schema_statements
from quipu.ledger.sqlite.driver import SqliteDriver
from quipu.memory.scope import STORES
from quipu.model.record import Link
from quipu.model.store import Store
from quipu.secrets.model import SECRETS, Secret
from tests.fixtures.ledgers import database, postgres
from tests.ledger.builders import T, commit, faults, put

__all__ = ["database", "postgres"]
ALL = stored_tables(schema_statements(SQLITE))


async def filled(ledger: Ledger, tenant: str = T) -> None:
    """Something of everything that a commit can leave behind."""
    await ledger.settle_space(tenant, Space("m", 2))
    vector = b"\0\0\x80?\0\0\0\0"
    once = Once(
        principal="p",
        operation="o",
        key="k",
        fingerprint="f",
        answer={"id": "mem_1"},
        record_ids=("mem_1",),
    )
    await ledger.commit(
        commit(
            put("mem_1", vector=vector, model="m", terms=b"12345", metadata={"a": [1.5, None]}),
            put("mem_2", content="東京 ✨", importance=0.1, links=(Link("mem_1", "about"),)),
            put("mem_3"),
            once=once,
            reason="because",
            tenant=tenant,
        )
    )
    await ledger.commit(commit(put("mem_1", content="again", expects=1, keeps_index=True), tenant=tenant))
    await ledger.commit(
        commit(Demote(id="mem_2", expects=1), Touch(ids=("mem_1",), at=5), Erase(id="mem_3"), tenant=tenant)
    )
    store = Store(id="ms_1", name="main", created_at=1)
    secret = Secret(id="sec_1", label="key", created_at=1, created_by="me", sealed=b"\xff\0sealed")
    await ledger.commit(commit(Keep(STORES, store), Keep(SECRETS, secret), tenant=tenant))
    await ledger.commit(commit(Close(id="mem_2", expects=1, ending="forgotten"), tenant=tenant))


def rows(ledger: Ledger, tenant: str = T) -> dict[str, list[tuple[Any, ...]]]:
    with ledger._driver.reading() as cursor:
        return {table.name: cursor.rows(table.rows, tenant=tenant) for table in ALL}


@pytest.fixture
async def source(tmp_path: Path) -> AsyncIterator[Ledger]:
    ledger = Ledger(SqliteDriver(tmp_path / "source.db"), TABLES)
    await filled(ledger)
    yield ledger
    await ledger.close()


async def test_a_memory_goes_into_a_database_and_back_as_it_was(
    source: Ledger, database: str, tmp_path: Path
) -> None:
    server = Ledger(PostgresDriver(database, size=4), TABLES)
    back = Ledger(SqliteDriver(tmp_path / "back.db"), TABLES)
    try:
        counts = await source.copy_to(server)
        assert counts[T] == sum(map(len, rows(source).values())) > 20
        await server.copy_to(back)
        assert rows(source) == rows(server) == rows(back)
        for copy in (server, back):
            assert await faults(copy) == []
            done = await copy.commit(commit(put("mem_9")))
            assert done[0].seq == 6
            assert await faults(copy) == []
    finally:
        await server.close()
        await back.close()


def test_every_table_of_the_database_travels(tmp_path: Path) -> None:
    driver = SqliteDriver(tmp_path / "memory.db")
    Ledger(driver, TABLES)
    driver.close()
    with sqlite3.connect(tmp_path / "memory.db") as connection:
        named = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        assert {name for (name,) in named if not name.startswith("sqlite_")} == {table.name for table in ALL}
        for table in ALL:
            columns = connection.execute(f"SELECT name FROM pragma_table_info('{table.name}')").fetchall()  # noqa: S608  names of our tables
            assert tuple(name for (name,) in columns) == table.columns
    connection.close()


async def test_only_some_tenants_travel_and_none_that_is_there(source: Ledger, tmp_path: Path) -> None:
    await filled(source, "other")
    target = Ledger(SqliteDriver(tmp_path / "target.db"), TABLES)
    try:
        assert list(await source.copy_to(target, ["other"])) == ["other"]
        assert rows(target, "other") == rows(source, "other")
        with pytest.raises(ConflictError) as refused:
            await source.copy_to(target)
        assert refused.value.reason == "name_taken"
        assert [one.tenant for one in await target.tenants()] == [
            "other"
        ]  # nothing of the first one was kept
        with pytest.raises(NotFoundError):
            await source.copy_to(target, ["nobody"])
    finally:
        await target.close()


async def test_rows_that_do_not_arrive_as_they_were_are_noticed(source: Ledger, tmp_path: Path) -> None:
    target = Ledger(SqliteDriver(tmp_path / "target.db"), TABLES)
    try:
        with sqlite3.connect(tmp_path / "target.db") as other:
            other.execute(
                "CREATE TRIGGER alters AFTER INSERT ON mark BEGIN UPDATE mark SET recall_count = 7; END"
            )
        other.close()
        with pytest.raises(TamperedError) as refused:
            await source.copy_to(target)
        assert refused.value.reason == "copy_differs"
        assert await target.tenants() == []
    finally:
        await target.close()


async def test_a_copy_is_of_one_moment_though_others_write(source: Ledger, tmp_path: Path) -> None:
    target = Ledger(SqliteDriver(tmp_path / "target.db"), TABLES)
    writer = Ledger(SqliteDriver(tmp_path / "source.db"), TABLES)
    wrote: list[int] = []

    def between(done: int, total: int) -> None:
        """The copy has begun: its tenants are read, its rows are not."""
        if not wrote:
            driver = writer._driver
            with driver.writing("") as cursor:
                wrote.append(cursor.run(ALL[6].insert, **_mark("mem_late")))

    try:
        await source.copy_to(target, None, between)
        assert wrote
        assert "mem_late" in str(rows(source)["mark"])
        assert "mem_late" not in str(rows(target)["mark"])
    finally:
        await writer.close()
        await target.close()


def _mark(record_id: str) -> dict[str, Any]:
    values: Sequence[Any] = (T, record_id, 5, 1, 0, 0)
    return dict(zip(ALL[6].columns, values, strict=True))
