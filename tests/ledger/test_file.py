"""A file that is not what it should be is left alone, with a reason."""

import os
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from quipu.errors import BackendUnavailableError, TamperedError
from quipu.ledger.ledger import Ledger
from quipu.ledger.postgres.driver import PostgresDriver
from quipu.ledger.queries import SQL
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


def test_a_file_of_another_version_is_left_alone(tmp_path: Path, tables: Sequence[Any]) -> None:
    path = tmp_path / "memory.db"
    driver = SqliteDriver(path)
    Ledger(driver, tables)
    driver.close()
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA user_version = 1")
    connection.close()
    with pytest.raises(BackendUnavailableError) as older:
        SqliteDriver(path)
    assert reason(older) == "older_schema"
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


def test_a_file_that_was_open_at_a_fork_is_not_opened_by_the_child(
    tmp_path: Path, tables: Sequence[Any]
) -> None:
    """SQLite's account of the locks would be its parent's: closing the file, it would take away the log."""
    path = tmp_path / "memory.db"
    driver = SqliteDriver(path)
    Ledger(driver, tables)
    child = os.fork()
    if child == 0:  # pragma: no cover  in the child
        try:
            SqliteDriver(path)
            os._exit(1)
        except BackendUnavailableError as error:
            SqliteDriver(tmp_path / "other.db").close()  # any other file may be opened
            os._exit(0 if error.reason == "forked" else 2)
        finally:
            os._exit(3)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    with driver.reading():
        pass
    driver.close()


async def test_who_had_the_file_open_before_an_upgrade_writes_no_more(
    tmp_path: Path, tables: Sequence[Any]
) -> None:
    path = tmp_path / "memory.db"
    ledger = Ledger(SqliteDriver(path), tables)
    try:
        await ledger.commit(commit(put()))
        newer = apsw.Connection(str(path))
        newer.execute("PRAGMA user_version = 99")
        newer.close()
        with pytest.raises(BackendUnavailableError) as refused:
            await ledger.commit(commit(put("mem_2")))
        assert reason(refused) == "newer_schema"
        assert set(await ledger.records(T, ["mem_1", "mem_2"])) == {"mem_1"}
    finally:
        await ledger.close()


@pytest.mark.parametrize("became", ["deleted", "replaced"])
async def test_a_file_that_was_deleted_or_replaced_is_written_no_more(
    tmp_path: Path, tables: Sequence[Any], became: str
) -> None:
    path = tmp_path / "memory.db"
    ledger = Ledger(SqliteDriver(path), tables)
    try:
        await ledger.commit(commit(put()))
        path.rename(tmp_path / "kept.db")
        if became == "replaced":
            path.write_bytes(b"another file")
        with pytest.raises(BackendUnavailableError) as refused:
            await ledger.commit(commit(put("mem_2")))
        assert reason(refused) == "moved_file"
    finally:
        await ledger.close()


async def test_a_full_disk_fails_the_write_and_nothing_else(tmp_path: Path, tables: Sequence[Any]) -> None:
    driver = SqliteDriver(tmp_path / "memory.db")
    ledger = Ledger(driver, tables)
    try:
        await ledger.commit(commit(put()))
        (pages,) = next(iter(driver._writer.execute("PRAGMA page_count")))
        driver._writer.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(BackendUnavailableError) as refused:
            await ledger.commit(commit(put("mem_2", content="x" * 100_000)))
        assert reason(refused) == "disk_full"
        assert (await ledger.health()).reason == "disk_full"
        assert set(await ledger.records(T, ["mem_1", "mem_2"])) == {"mem_1"}
        driver._writer.execute(f"PRAGMA max_page_count = {pages + 1000}")
        await ledger.commit(commit(put("mem_2", content="x" * 100_000)))
        assert (await ledger.health()).writable
        assert await faults(ledger) == []
    finally:
        await ledger.close()


async def test_a_reader_cannot_write(tmp_path: Path, tables: Sequence[Any]) -> None:
    """A page that only shows has connections that could not change anything if it wanted to."""
    driver = SqliteDriver(tmp_path / "memory.db")
    Ledger(driver, tables)
    with pytest.raises(BackendUnavailableError), driver.reading() as cursor:
        cursor.run(SQL["add_tenant"], tenant="x", at=1)
    driver.close()


async def test_a_damaged_page_is_named_and_never_read_as_truth(tmp_path: Path, tables: Sequence[Any]) -> None:
    path = tmp_path / "memory.db"
    ledger = Ledger(SqliteDriver(path), tables)
    await ledger.commit(*(commit(put(f"mem_{number:03}", content="x" * 2000)) for number in range(60)))
    await ledger.close()
    data = bytearray(path.read_bytes())
    pages = len(data) // 4096
    for page in range(pages - 25, pages):
        data[page * 4096 : page * 4096 + 512] = b"\xff" * 512
    path.write_bytes(data)
    damaged = Ledger(SqliteDriver(path), tables)
    try:
        with pytest.raises(TamperedError) as refused:
            _ = [one async for one in damaged.every_version(T)]
        assert reason(refused) == "damaged_file"
        assert await damaged.integrity_faults()
    finally:
        await damaged.close()


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


async def test_a_brief_read_of_a_file_needs_no_thread_and_any_other_has_one(
    tmp_path: Path, tables: Sequence[Any]
) -> None:
    ledger = Ledger(SqliteDriver(tmp_path / "memory.db"), tables)
    own = threading.current_thread()
    assert await ledger.read(T, lambda _: threading.current_thread(), is_brief=True) is own
    assert await ledger.read(T, lambda _: threading.current_thread()) is not own
    await ledger.close()
    with pytest.raises(BackendUnavailableError) as refused:
        await ledger.read(T, lambda reader: reader.head(), is_brief=True)
    assert reason(refused) == "closed"


async def test_a_server_is_never_waited_for_on_the_event_loop(
    postgres: Server, tables: Sequence[Any]
) -> None:
    ledger = Ledger(PostgresDriver(postgres.new_database()), tables)
    own = threading.current_thread()
    assert await ledger.read(T, lambda _: threading.current_thread(), is_brief=True) is not own
    await ledger.close()


async def test_a_new_file_and_its_log_are_for_nobody_else(tmp_path: Path, tables: Sequence[Any]) -> None:
    path = tmp_path / "memory.db"
    before = os.umask(0o022)
    try:
        ledger = Ledger(SqliteDriver(path), tables)
        try:
            await ledger.commit(commit(put()))
            kept = {entry.name: oct(entry.stat().st_mode & 0o777) for entry in os.scandir(tmp_path)}
        finally:
            await ledger.close()
    finally:
        os.umask(before)
    assert kept == dict.fromkeys(("memory.db", "memory.db-wal", "memory.db-shm"), "0o600")
