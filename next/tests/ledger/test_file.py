"""A file that is not what it should be is left alone, with a reason."""

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from quipu.errors import BackendUnavailableError, TamperedError
from quipu.ledger.ledger import Ledger
from quipu.ledger.postgres.driver import PostgresDriver
from quipu.ledger.sqlite.driver import SqliteDriver
from tests.fixtures.postgres import Server
from tests.ledger.builders import T, commit, faults, put


def reason(error: pytest.ExceptionInfo[Any]) -> str:
    return error.value.reason


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE theirs (a)")
    other.close()
    with pytest.raises(BackendUnavailableError) as refused:
        SqliteDriver(path)
    assert reason(refused) == "foreign_file"


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "text.db"
    path.write_text("no database " * 1000)
    with pytest.raises(TamperedError) as refused:
        SqliteDriver(path)
    assert reason(refused) == "damaged_file"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailableError) as refused:
        SqliteDriver(tmp_path / "missing" / "memory.db")
    assert reason(refused) == "cannot_open"


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path, tables: Sequence[Any]) -> None:
    path = tmp_path / "memory.db"
    driver = SqliteDriver(path)
    Ledger(driver, tables)
    driver.close()
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(BackendUnavailableError) as refused:
        SqliteDriver(path)
    assert reason(refused) == "newer_schema"


async def test_a_write_to_a_file_that_is_not_at_its_place_is_refused(
    tmp_path: Path, tables: Sequence[Any]
) -> None:
    path = tmp_path / "memory.db"
    ledger = Ledger(SqliteDriver(path), tables)
    try:
        await ledger.commit(commit(put()))
        path.rename(tmp_path / "moved.db")
        with pytest.raises(BackendUnavailableError) as refused:
            await ledger.commit(commit(put("mem_2")))
        assert reason(refused) == "moved_file"
        assert (await ledger.health()).reason == "moved_file"
        (tmp_path / "moved.db").rename(path)
        await ledger.commit(commit(put("mem_2")))
        assert (await ledger.health()).writable
    finally:
        await ledger.close()


def test_a_forked_child_does_not_touch_its_parents_file(tmp_path: Path, tables: Sequence[Any]) -> None:
    driver = SqliteDriver(tmp_path / "memory.db")
    Ledger(driver, tables)
    child = os.fork()
    if child == 0:  # pragma: no cover  in the child
        try:
            with driver.reading():
                os._exit(1)
        except BackendUnavailableError as error:
            driver.close()
            os._exit(0 if error.reason == "forked" else 2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    with driver.reading():
        pass
    driver.close()


async def test_the_journal_cannot_be_changed_or_cut_by_whoever_has_the_file(
    tmp_path: Path, tables: Sequence[Any]
) -> None:
    path = tmp_path / "memory.db"
    ledger = Ledger(SqliteDriver(path), tables)
    await ledger.commit(commit(put()))
    await ledger.close()
    connection = apsw.Connection(str(path))
    for statement in ("UPDATE journal SET actor = 'x'", "DELETE FROM journal", "DELETE FROM checkpoint"):
        if "checkpoint" in statement:
            connection.execute("INSERT INTO checkpoint VALUES ('t', 1, x'00', 1, 'k', 's')")
        with pytest.raises(apsw.ConstraintError, match="append-only"):
            connection.execute(statement)
    connection.close()


async def test_the_journal_cannot_be_changed_or_cut_on_a_server(
    postgres: Server, tables: Sequence[Any]
) -> None:
    import psycopg

    address = postgres.new_database()
    ledger = Ledger(PostgresDriver(address, size=2), tables)
    await ledger.commit(commit(put()))
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in ("UPDATE journal SET actor = 'x'", "DELETE FROM journal", "TRUNCATE journal"):
            with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
                connection.execute(statement)
        assert await ledger.schema_faults() == []
        connection.execute("ALTER TABLE journal DISABLE TRIGGER journal_is_never_changed")
        connection.execute("DROP TRIGGER journal_is_never_emptied ON journal")
        assert await ledger.schema_faults() == [
            "journal_is_never_emptied is missing",
            "journal_is_never_changed is not as it was made",
        ]
    await ledger.close()


async def test_a_schema_that_was_altered_is_named(tmp_path: Path, tables: Sequence[Any]) -> None:
    path = tmp_path / "memory.db"
    ledger = Ledger(SqliteDriver(path), tables)
    await ledger.commit(commit(put()))
    assert await ledger.schema_faults() == []
    connection = apsw.Connection(str(path))
    connection.execute("DROP TRIGGER journal_is_never_cut")
    connection.execute("DROP TRIGGER journal_is_never_changed")
    connection.execute("CREATE TRIGGER journal_is_never_changed BEFORE UPDATE ON journal BEGIN SELECT 1; END")
    connection.execute("CREATE TABLE extra (a)")
    connection.close()
    assert await ledger.schema_faults() == [
        "journal_is_never_cut is missing",
        "journal_is_never_changed is not as it was made",
        "extra is not ours",
    ]
    await ledger.close()


async def test_a_backup_is_a_whole_ledger_of_one_moment(tmp_path: Path, tables: Sequence[Any]) -> None:
    ledger = Ledger(SqliteDriver(tmp_path / "memory.db"), tables)
    await ledger.commit(*(commit(put(f"mem_{n}")) for n in range(50)))
    seen: list[tuple[int, int]] = []
    await ledger.backup(tmp_path / "copy.db", lambda done, total: seen.append((done, total)))
    with pytest.raises(BackendUnavailableError):
        await ledger.backup(tmp_path / "copy.db")
    await ledger.close()
    copy = Ledger(SqliteDriver(tmp_path / "copy.db"), tables)
    assert len(await copy.records(T, [f"mem_{n}" for n in range(50)])) == 50
    assert await faults(copy) == []
    assert seen[-1][0] == seen[-1][1]
    await copy.close()
