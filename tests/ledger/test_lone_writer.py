"""Who writes alone, one job after the other, does so on their own thread, and holds up nobody for long."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from quipu.errors import BackendUnavailableError, ConflictError
from quipu.ledger.sqlite.file import BUSY_MS
from quipu.ledger.sqlite.log import Log
from quipu.ledger.sqlite.writer import Writer

#: Every transaction is quick, or none.
ALWAYS, NEVER = 60.0, 0.0


class Desk:
    """A writer on a file of its own, and jobs that tell on which thread they were done."""

    def __init__(self, path: Path, quick_s: float) -> None:
        self.path = path
        connection = apsw.Connection(str(path))
        connection.set_busy_timeout(BUSY_MS)
        connection.pragma("journal_mode", "wal")
        connection.execute("CREATE TABLE kept (name TEXT PRIMARY KEY)")
        self.log = Log(path, is_durable=False)
        self.writer = Writer(connection, self.log, quick_s=quick_s)

    async def keep(
        self, name: str, then: Callable[[], None] = lambda: None, *, is_small: bool = True
    ) -> bool:
        """Whether it was done on the caller's own thread."""

        def job(connection: apsw.Connection) -> int:
            connection.execute("INSERT INTO kept VALUES (?)", (name,))
            then()
            return threading.get_ident()

        return await self.writer.run(job, is_small=is_small) == threading.get_ident()

    def kept(self) -> set[str]:
        """As another process would see it."""
        connection = apsw.Connection(str(self.path))
        try:
            return {name for (name,) in connection.execute("SELECT name FROM kept")}
        finally:
            connection.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path / "kept.db", ALWAYS)
    yield desk
    desk.writer.close()


async def test_the_second_of_two_is_done_on_the_caller_s_thread_and_is_durable(desk: Desk) -> None:
    assert not await desk.keep("first")
    assert await desk.keep("second")
    assert desk.kept() == {"first", "second"}


async def test_what_is_not_small_goes_to_the_other_thread(desk: Desk) -> None:
    assert not await desk.keep("first")
    assert not await desk.keep("large", is_small=False)
    assert await desk.keep("small again")


async def test_another_task_goes_to_the_other_thread_first(desk: Desk) -> None:
    await desk.keep("first")
    assert not await asyncio.create_task(desk.keep("of another"))
    assert not await desk.keep("no longer the last one to ask")
    assert await desk.keep("and now it is")


async def test_callers_at_once_share_transactions_on_the_other_thread(desk: Desk) -> None:
    async def caller(number: int) -> list[bool]:
        return [await desk.keep(f"{number}.{turn}") for turn in range(10)]

    own = [is_own for told in await asyncio.gather(*map(caller, range(8))) for is_own in told]
    assert len(desk.kept()) == 80
    assert sum(own) <= 10  # who is left over at the end may be alone


async def test_where_the_disk_is_slow_everything_goes_to_the_other_thread(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "slow.db", NEVER)
    assert not any([await desk.keep(str(number)) for number in range(4)])
    desk.writer.close()


async def test_a_lock_of_another_process_is_not_waited_for_on_the_caller_s_thread(desk: Desk) -> None:
    await desk.keep("first")
    other = apsw.Connection(str(desk.path))
    other.execute("BEGIN IMMEDIATE")
    asyncio.get_running_loop().call_later(0.05, other.execute, "ROLLBACK")  # never, if the loop were held up
    async with asyncio.timeout(20):
        assert not await desk.keep("second")
    other.close()
    assert await desk.keep("third")
    assert desk.kept() == {"first", "second", "third"}


async def test_who_is_alone_does_not_shorten_the_log(desk: Desk) -> None:
    await desk.keep("first")
    desk.log.is_due = True
    assert not await desk.keep("second")
    await desk.keep("third", is_small=False)  # behind what the other thread did after the second
    assert not desk.log.is_due
    assert await desk.keep("fourth")


async def test_a_fault_undoes_its_own_and_the_next_goes_on(desk: Desk) -> None:
    def refuse() -> None:
        raise ConflictError("no")

    await desk.keep("first")
    with pytest.raises(ConflictError):
        await desk.keep("bad", refuse)
    with pytest.raises(ConflictError):
        await desk.keep("first")  # the name is taken
    assert await desk.keep("good")
    assert desk.kept() == {"first", "good"}


async def test_an_interrupt_leaves_nothing_half_written(desk: Desk) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    await desk.keep("first")
    with pytest.raises(KeyboardInterrupt):
        await desk.keep("interrupted", interrupt)
    assert desk.kept() == {"first"}
    assert await desk.keep("second")
    assert desk.kept() == {"first", "second"}


async def test_others_of_the_event_loop_have_their_turn(desk: Desk) -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    going = asyncio.create_task(other())
    own = [await desk.keep(str(number)) for number in range(20)]
    going.cancel()
    assert sum(own) > 10
    assert turns >= 20


async def test_after_closing_nothing_is_written(desk: Desk) -> None:
    await desk.keep("first")
    await asyncio.to_thread(desk.writer.close)
    with pytest.raises(BackendUnavailableError):
        await desk.keep("second")
    assert desk.kept() == {"first"}


async def test_two_event_loops_write_through_one_writer(desk: Desk) -> None:
    def elsewhere() -> None:
        async def writing() -> None:
            for number in range(200):
                await desk.keep(f"there {number}")

        asyncio.run(writing())

    thread = threading.Thread(target=elsewhere)
    thread.start()
    for number in range(200):
        await desk.keep(f"here {number}")
    await asyncio.to_thread(thread.join)
    assert len(desk.kept()) == 400
