"""The write-ahead log is copied behind the writers' backs, stays short under load, and is empty after an erasure."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from quipu.ledger.sqlite import file
from quipu.ledger.sqlite.log import Log
from quipu.ledger.sqlite.upkeep import Keeper
from quipu.ledger.sqlite.writer import Writer

PAGE = 4096
SOON, LATE = 16, 64


class Filled:
    """A file that grows by a page or two with every write."""

    def __init__(self, path: Path) -> None:
        self.path, self.log_path = path, path.with_name(path.name + "-wal")
        connection = apsw.Connection(str(path))
        connection.pragma("page_size", PAGE)
        connection.pragma("journal_mode", "wal")
        connection.pragma("secure_delete", "ON")
        connection.execute("CREATE TABLE kept (number INTEGER PRIMARY KEY, text TEXT)")
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        self.log = Log(path, is_durable=True)
        self.log.soon, self.log.late = SOON, LATE
        self.writer = Writer(connection, self.log, quick_s=0)

    async def write(self, number: int) -> None:
        text = f"{number:04d}" * (PAGE // 8)
        await self.writer.run(lambda c: c.execute("INSERT INTO kept VALUES (?, ?)", (number, text)))

    @property
    def log_pages(self) -> int:
        return self.log_path.stat().st_size // (PAGE + 24)

    async def until(self, pages: int) -> int:
        """The file's pages, once there are so many, or after a while."""
        until = time.monotonic() + 20
        while (now := self.path.stat().st_size // PAGE) < pages and time.monotonic() < until:
            await asyncio.to_thread(self.log.rest, 0.1)
        return now


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Filled]:
    filled = Filled(tmp_path / "kept.db")
    yield filled
    filled.writer.close()


async def test_what_is_written_reaches_the_file_without_anybody_closing_it(filled: Filled) -> None:
    before = filled.path.stat().st_size // PAGE
    for number in range(SOON):
        await filled.write(number)
    assert await filled.until(before + SOON // 2) >= before + SOON // 2


async def test_a_log_that_is_short_is_left_alone(filled: Filled) -> None:
    before = filled.path.stat().st_size
    for number in range(3):
        await filled.write(number)
    filled.log.rest(5)
    assert filled.path.stat().st_size == before


async def test_no_commit_copies_the_log(filled: Filled) -> None:
    """The thread that writes leaves it to another."""
    copying: set[str] = set()
    connect = file.connect

    def noted(path: Path, *, is_durable: bool = True, is_reader: bool = False) -> apsw.Connection:
        copying.add(threading.current_thread().name)
        return connect(path, is_durable=is_durable, is_reader=is_reader)

    file.connect = noted
    try:
        for number in range(2 * SOON):
            await filled.write(number)
        filled.log.rest(5)
    finally:
        file.connect = connect
    assert copying == {"quipu-log"}


async def test_under_writers_who_never_pause_the_log_is_begun_anew(filled: Filled) -> None:
    longest = 0
    for start in range(0, 40_000, 40):
        await asyncio.gather(*(filled.write(start + number) for number in range(40)))
        if filled.log.pages < longest:
            break
        longest = filled.log.pages
    assert LATE <= longest < 40_000
    assert filled.log.pages < longest


async def test_what_the_thread_has_left_is_copied_by_the_writer_and_the_log_begins_anew(
    filled: Filled,
) -> None:
    for number in range(SOON // 2):
        await filled.write(number)
    filled.log.rest(5)
    filled.log.is_due = True  # as the thread says when it has copied a long one
    await filled.write(100)
    await filled.write(101)
    assert filled.log.pages < SOON // 2


async def test_a_log_that_was_long_and_began_anew_is_copied_as_soon_as_the_first(filled: Filled) -> None:
    for number in range(2 * SOON):
        await filled.write(number)
    filled.log.rest(5)
    filled.log.is_due = True
    await filled.write(100)
    await filled.write(101)
    before = filled.path.stat().st_size // PAGE
    for number in range(200, 200 + SOON):
        await filled.write(number)
    assert await filled.until(before + SOON // 2) >= before + SOON // 2


async def test_a_reader_that_holds_on_does_not_make_every_write_copy(filled: Filled) -> None:
    reader = apsw.Connection(str(filled.path))
    reader.execute("BEGIN").fetchall()
    assert reader.execute("SELECT count(*) FROM kept").get == 0
    for number in range(300):
        await filled.write(number)
    assert reader.execute("SELECT count(*) FROM kept").get == 0  # its moment still stands
    reader.execute("COMMIT")
    reader.close()
    for number in range(300, 300 + 2 * LATE):
        await filled.write(number)
    filled.log.rest(5)
    await filled.write(1_000)
    check = apsw.Connection(str(filled.path))
    assert check.execute("SELECT count(*) FROM kept").get == 301 + 2 * LATE
    check.close()


async def test_an_erasure_empties_the_log_also_while_it_is_being_copied(filled: Filled) -> None:
    keeper = Keeper(filled.path)
    for turn in range(30):
        await asyncio.gather(*(filled.write(turn * 100 + number) for number in range(SOON)))
        await filled.writer.run(lambda c: c.execute("DELETE FROM kept"))
        assert await filled.writer.run(lambda c: keeper.flush_erased(c, 5_000), alone=True)
        assert filled.log_path.stat().st_size == 0
    assert b"01010101" not in filled.path.read_bytes()


async def test_an_erasure_waits_while_another_process_copies(filled: Filled) -> None:
    """SQLite waits for readers and writers, but not for somebody else's copying."""
    keeper = Keeper(filled.path)
    await filled.write(1)
    outside = apsw.Connection(str(filled.path))
    outside.pragma("schema_version")  # who has not read has no log to copy
    holds, lets_go = threading.Event(), threading.Event()

    def slowly(_count: int) -> bool:
        holds.set()
        return not lets_go.wait(0.2)  # it waits for the reader below, and holds the right to copy meanwhile

    reader = apsw.Connection(str(filled.path))
    reader.execute("BEGIN").fetchall()
    reader.execute("SELECT count(*) FROM kept").fetchall()
    await filled.write(2)
    outside.set_busy_handler(slowly)

    def copy() -> None:
        with contextlib.suppress(apsw.BusyError):
            outside.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)

    copying = threading.Thread(target=copy)
    copying.start()
    await asyncio.to_thread(holds.wait)
    emptied = asyncio.create_task(filled.writer.run(lambda c: keeper.flush_erased(c, 10_000), alone=True))
    await asyncio.sleep(0.05)
    reader.execute("COMMIT")
    lets_go.set()
    assert await emptied
    await asyncio.to_thread(copying.join)
    assert filled.log_path.stat().st_size == 0
    for connection in (reader, outside):
        connection.close()


async def test_a_log_that_cannot_be_copied_hinders_no_write(tmp_path: Path) -> None:
    filled = Filled(tmp_path / "kept.db")
    filled.log._path = tmp_path / "absent" / "kept.db"  # a disk that fails only for the copying
    for number in range(2 * SOON):
        await filled.write(number)
    filled.log.rest(5)
    filled.writer.close()
    check = apsw.Connection(str(filled.path))
    assert check.execute("SELECT count(*) FROM kept").get == 2 * SOON
    check.close()


async def test_where_no_thread_can_be_started_writes_go_on_and_the_writer_copies(tmp_path: Path) -> None:
    filled = Filled(tmp_path / "kept.db")
    before = threading.stack_size(1 << 46)  # more than any machine can give
    try:
        with pytest.raises(RuntimeError):
            threading.Thread(target=print).start()
        async with asyncio.timeout(20):
            for number in range(2 * LATE):
                await filled.write(number)
    finally:
        threading.stack_size(before)
    assert filled.log.pages < LATE + SOON
    filled.writer.close()
    check = apsw.Connection(str(filled.path))
    assert check.execute("SELECT count(*) FROM kept").get == 2 * LATE
    check.close()
