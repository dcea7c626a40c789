"""The write-ahead log is written back behind the writers' backs, stays short under load, and is cut after an erasure."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import apsw
import pytest

from quipu.ledger.queries import SQLITE, Query, schema_statements
from quipu.ledger.sqlite import log as logs
from quipu.ledger.sqlite.driver import SqliteDriver

FRAME = 4096 + 24
SOON, LATE = 16, 64
_ADD = Query("INSERT INTO reason (tenant, record_id, seq, text) VALUES ('t', 'mem_1', :number, :text)")
_COUNT = Query("SELECT count(*) FROM reason WHERE tenant = 't'")
_EMPTY = Query("DELETE FROM reason WHERE tenant = 't'")


class Filled:
    """A file that grows by a page or two with every write."""

    def __init__(self, path: Path) -> None:
        self.path, self.log_path = path, path.with_name(f"{path.name}-wal")
        self.driver = SqliteDriver(path)
        self.driver.create(schema_statements(SQLITE), tuple)
        assert self.driver.scrub(5_000)
        self.pages = self.path.stat().st_size // 4096

    def write(self, number: int) -> None:
        with self.driver.writing("") as cursor:
            cursor.run(_ADD, number=number, text=f"{number:04d}" * 800)

    @property
    def count(self) -> int:
        with self.driver.reading() as cursor:
            row = cursor.row(_COUNT)
        assert row is not None
        return row[0]

    @property
    def log(self) -> logs.Log:
        assert self.driver._log is not None
        return self.driver._log

    @property
    def log_pages(self) -> int:
        return self.log_path.stat().st_size // FRAME


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Filled]:
    monkeypatch.setattr(logs, "SOON", SOON)
    monkeypatch.setattr(logs, "LATE", LATE)
    filled = Filled(tmp_path / "memory.db")
    yield filled
    filled.driver.close()


def until(holds: Callable[[], bool], within_s: float = 20.0) -> None:
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_is_written_reaches_the_file_without_anybody_closing_it(filled: Filled) -> None:
    for number in range(SOON):
        filled.write(number)
    until(lambda: filled.path.stat().st_size // 4096 >= filled.pages + SOON // 2)


def test_a_log_that_is_short_is_left_alone(filled: Filled) -> None:
    before = filled.path.stat().st_size
    for number in range(3):
        filled.write(number)
    assert not filled.log._has_work.is_set()
    assert filled.path.stat().st_size == before


def test_no_commit_writes_the_log_back(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that writes leaves it to another, which has a connection of its own."""
    by: set[str] = set()
    opened = logs.opened

    def noted(path: Path | str, flags: int) -> logs.Connection:
        by.add(threading.current_thread().name)
        return opened(path, flags)

    monkeypatch.setattr(logs, "opened", noted)
    for number in range(2 * SOON):
        filled.write(number)
    until(lambda: bool(by))
    assert by == {"ledger-log"}
    with filled.driver.writing("") as cursor:
        assert cursor.row(Query("PRAGMA wal_autocheckpoint")) == (0,)


def test_under_writers_who_never_pause_the_log_is_begun_anew(filled: Filled) -> None:
    longest = 0
    for number in range(20_000):
        filled.write(number)
        if filled.log.pages < longest:
            break
        longest = filled.log.pages
    assert longest >= LATE
    assert filled.log.pages < longest
    assert filled.log_pages <= longest  # the file does not grow on


def test_what_the_thread_has_left_is_written_back_by_the_writer_and_the_log_begins_anew(
    filled: Filled,
) -> None:
    for number in range(SOON // 2):
        filled.write(number)

    numbers = count(100)

    def is_begun_anew() -> bool:  # not while the thread itself writes back
        filled.log._is_due = True  # as the thread says when it has written back a long one
        filled.write(next(numbers))
        filled.write(next(numbers))
        return filled.log.pages < SOON // 2

    until(is_begun_anew)


def test_where_no_thread_can_be_had_the_writer_writes_back_a_long_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "SOON", SOON)
    monkeypatch.setattr(logs, "LATE", LATE)
    before = threading.stack_size(1 << 46)  # more than any machine can give
    try:
        filled = Filled(tmp_path / "memory.db")
    finally:
        threading.stack_size(before)
    assert not filled.log._thread.is_alive()
    for number in range(2 * LATE):
        filled.write(number)
    assert filled.log.pages < LATE + SOON
    assert filled.count == 2 * LATE
    filled.driver.close()


def test_a_reader_that_holds_on_keeps_its_moment_and_hinders_no_write(filled: Filled) -> None:
    reader = apsw.Connection(str(filled.path))
    reader.execute("BEGIN").fetchall()
    assert reader.execute(SQLITE.sql(_COUNT)).get == 0
    for number in range(200):
        filled.write(number)
    assert reader.execute(SQLITE.sql(_COUNT)).get == 0
    reader.execute("COMMIT")
    reader.close()
    for number in range(200, 200 + 2 * LATE):
        filled.write(number)
    assert filled.count == 200 + 2 * LATE


def test_an_erasure_cuts_the_log_also_while_it_is_written_back(filled: Filled) -> None:
    for turn in range(20):
        for number in range(SOON):
            filled.write(turn * 100 + number)
        with filled.driver.writing("") as cursor:
            cursor.run(_EMPTY)
        assert filled.driver.scrub(5_000)
        assert filled.log_path.stat().st_size == 0
    assert b"00010001" not in filled.path.read_bytes()


def test_writers_go_on_while_an_erasure_waits_for_a_reader(filled: Filled) -> None:
    """It tries again and again instead of holding the writer until the reader lets go."""
    filled.write(1)
    reader = apsw.Connection(str(filled.path))
    reader.execute("BEGIN").fetchall()
    assert reader.execute(SQLITE.sql(_COUNT)).get == 1
    filled.write(2)
    cutting = threading.Thread(target=filled.driver.scrub, args=(60_000,))
    cutting.start()
    for number in range(3, 23):
        filled.write(number)
    assert cutting.is_alive(), "it has not given up meanwhile"
    reader.execute("COMMIT")
    reader.close()
    cutting.join()
    assert filled.count == 22


async def test_writing_to_a_log_that_cannot_be_written_back_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "SOON", SOON)
    filled = Filled(tmp_path / "memory.db")
    filled.log._path = tmp_path / "absent" / "memory.db"  # a disk that fails only for the thread
    for number in range(2 * SOON):
        filled.write(number)
    await asyncio.to_thread(filled.driver.close)
    check = apsw.Connection(str(filled.path))
    assert check.execute(SQLITE.sql(_COUNT)).get == 2 * SOON
    check.close()
