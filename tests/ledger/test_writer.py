"""Group commit: who shares a transaction with whom, and who answers for whose fault."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import apsw
import pytest

from quipu.errors import ConflictError
from quipu.ledger.sqlite.log import Log
from quipu.ledger.sqlite.writer import Writer


class Counted:
    """A writer on a file of its own, and how many transactions it has committed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.transactions = 0
        connection = apsw.Connection(str(path))
        connection.pragma("journal_mode", "wal")
        connection.execute("CREATE TABLE kept (name TEXT PRIMARY KEY)")
        connection.set_commit_hook(self._count)
        self.writer = Writer(connection, Log(path, is_durable=False))

    def _count(self) -> bool:
        self.transactions += 1
        return False

    def rows(self) -> set[str]:
        return {name for (name,) in apsw.Connection(str(self.path)).execute("SELECT name FROM kept")}


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Counted]:
    counted = Counted(tmp_path / "kept.db")
    yield counted
    counted.writer.close()


def keeping(name: str, after: threading.Event | None = None) -> Callable[[apsw.Connection], str]:
    def job(connection: apsw.Connection) -> str:
        if after is not None:
            after.wait()
        connection.execute("INSERT INTO kept VALUES (?)", (name,))
        return name

    return job


def failing(name: str) -> Callable[[apsw.Connection], str]:
    def job(connection: apsw.Connection) -> str:
        keeping(name)(connection)
        raise ConflictError("no")

    return job


async def held_up(counted: Counted, name: str = "first") -> tuple[threading.Event, asyncio.Task[str]]:
    """A job that keeps the writer busy until it is let go, so that what comes meanwhile waits."""
    gate, begun = threading.Event(), threading.Event()

    def job(connection: apsw.Connection) -> str:
        begun.set()
        return keeping(name, gate)(connection)

    task = asyncio.create_task(counted.writer.run(job))
    await asyncio.to_thread(begun.wait)
    return gate, task


async def test_what_waits_is_committed_together(counted: Counted) -> None:
    gate, first = await held_up(counted)
    rest = [asyncio.create_task(counted.writer.run(keeping(f"n{number}"))) for number in range(8)]
    await asyncio.sleep(0)
    gate.set()
    assert await first == "first"
    assert await asyncio.gather(*rest) == [f"n{number}" for number in range(8)]
    assert counted.transactions == 2


async def test_callers_answered_together_are_served_together_again(counted: Counted) -> None:
    gate, first = await held_up(counted)

    async def caller(number: int) -> None:
        for turn in range(5):
            await counted.writer.run(keeping(f"{number}.{turn}"))

    callers = [asyncio.create_task(caller(number)) for number in range(8)]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(first, *callers)
    assert counted.transactions == 1 + 5
    assert len(counted.rows()) == 1 + 8 * 5


async def test_nothing_is_begun_before_all_who_were_answered_have_had_their_turn(counted: Counted) -> None:
    gate, first = await held_up(counted)
    begun = threading.Event()

    def next_job(connection: apsw.Connection) -> str:
        begun.set()
        return keeping("next")(connection)

    async def asks_at_once() -> str:
        await counted.writer.run(keeping("a"))
        return await counted.writer.run(next_job)

    async def takes_its_time() -> bool:
        await counted.writer.run(keeping("b"))
        return begun.wait(0.2)

    asking, slow = asyncio.create_task(asks_at_once()), asyncio.create_task(takes_its_time())
    await asyncio.sleep(0)
    gate.set()
    await first
    assert not await slow
    assert await asking == "next"


async def test_two_groups_that_take_turns_become_one(counted: Counted) -> None:
    """While one caller's job is being done, the next jobs of others wait for that caller's next."""
    gate, first = await held_up(counted)
    begun, writing, late = threading.Event(), threading.Event(), threading.Event()
    asked = asyncio.Event()

    def of_a(connection: apsw.Connection) -> str:
        begun.set()
        return keeping("a", writing)(connection)

    async def caller(name: str, job: Callable[[apsw.Connection], str]) -> None:
        await counted.writer.run(job)
        if name == "b":
            asked.set()
        await counted.writer.run(keeping(f"next of {name}"))

    callers = [asyncio.create_task(caller("a", of_a)), asyncio.create_task(caller("b", keeping("b")))]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.to_thread(begun.wait)
    callers.append(asyncio.create_task(caller("late", keeping("late", late))))
    await asyncio.sleep(0)
    writing.set()
    await asked.wait()
    await asyncio.sleep(0)
    late.set()
    await asyncio.gather(first, *callers)
    assert counted.transactions == 4  # the first, the two, the late one, and the next of all three
    assert len(counted.rows()) == 1 + 2 * 3


async def test_a_job_that_fails_aloneleaves_nothing_and_the_writer_goes_on(counted: Counted) -> None:
    with pytest.raises(ConflictError):
        await counted.writer.run(failing("bad"))
    assert (counted.rows(), counted.transactions) == (set(), 0)
    assert await counted.writer.run(keeping("good")) == "good"
    assert counted.rows() == {"good"}


async def test_a_job_that_fails_in_a_groupleaves_the_others(counted: Counted) -> None:
    gate, first = await held_up(counted)
    jobs = [keeping("a"), failing("b"), keeping("c"), keeping("a")]
    rest = [asyncio.create_task(counted.writer.run(job)) for job in jobs]
    await asyncio.sleep(0)
    gate.set()
    await first
    answers = await asyncio.gather(*rest, return_exceptions=True)
    assert [answer if isinstance(answer, str) else type(answer) for answer in answers] == [
        "a",
        ConflictError,
        "c",
        ConflictError,  # the name is taken
    ]
    assert counted.rows() == {"first", "a", "c"}


async def together(counted: Counted, *jobs: Callable[[apsw.Connection], str]) -> list[str]:
    """Jobs of one group: what each gave, or the name of what it raised."""
    gate, first = await held_up(counted, f"before {len(counted.rows())}")
    rest = [asyncio.create_task(counted.writer.run(job)) for job in jobs]
    await asyncio.sleep(0)
    gate.set()
    await first
    answers = await asyncio.gather(*rest, return_exceptions=True)
    return [answer if isinstance(answer, str) else type(answer).__name__ for answer in answers]


def noting(job: Callable[[apsw.Connection], str], runs: list[str]) -> Callable[[apsw.Connection], str]:
    def noted(connection: apsw.Connection) -> str:
        runs.append("run")
        return job(connection)

    return noted


async def test_a_group_of_which_none_fails_is_done_once(counted: Counted) -> None:
    runs: list[str] = []
    assert await together(counted, *(noting(keeping(name), runs) for name in "abc")) == ["a", "b", "c"]
    assert len(runs) == 3


async def test_a_group_of_which_one_fails_is_done_again_and_nothing_of_it_stands_twice(
    counted: Counted,
) -> None:
    runs: list[str] = []
    jobs = [noting(keeping("a"), runs), failing("b"), noting(keeping("c"), runs)]
    assert await together(counted, *jobs) == ["a", "ConflictError", "c"]
    assert len(runs) == 3  # "a" came before the fault and was done again, "c" behind it only once
    assert counted.rows() == {"before 0", "a", "c"}
    assert counted.transactions == 2


async def test_after_a_fault_groups_are_done_apart_until_there_is_none(counted: Counted) -> None:
    await together(counted, keeping("a"), failing("b"))
    runs: list[str] = []
    assert await together(counted, noting(keeping("c"), runs), failing("d")) == ["c", "ConflictError"]
    assert len(runs) == 1  # nothing had to be done again
    assert await together(counted, keeping("e"), keeping("f")) == ["e", "f"]
    assert await together(counted, noting(keeping("g"), runs), failing("h")) == ["g", "ConflictError"]
    assert len(runs) == 1 + 2


class Later:
    """Leaves names to be kept for all jobs of a group, as a ledger does."""

    def __init__(self, path: Path) -> None:
        self.names: list[str] = []
        self.flushed: list[list[str]] = []
        self.connection = apsw.Connection(str(path))
        self.connection.execute("CREATE TABLE kept (name TEXT PRIMARY KEY)")
        self.writer = Writer(self.connection, Log(path, is_durable=False), self.names.clear, self.flush)

    def flush(self) -> None:
        self.flushed.append(list(self.names))
        self.connection.executemany("INSERT INTO kept VALUES (?)", [(name,) for name in self.names])
        self.names.clear()

    async def together(self, *names: str) -> list[str]:
        gate, begun = threading.Event(), threading.Event()
        first = asyncio.create_task(self.writer.run(lambda _: (begun.set(), gate.wait())))
        await asyncio.to_thread(begun.wait)
        rest = [asyncio.create_task(self.writer.run(partial(self.leave, name))) for name in names]
        await asyncio.sleep(0)
        gate.set()
        await first
        answers = await asyncio.gather(*rest, return_exceptions=True)
        return [answer if isinstance(answer, str) else type(answer).__name__ for answer in answers]

    def leave(self, name: str, _: apsw.Connection) -> str:
        self.names.append(name)
        return name


@pytest.fixture
def later(tmp_path: Path) -> Iterator[Later]:
    later = Later(tmp_path / "later.db")
    yield later
    later.writer.close()


async def test_what_a_group_has_left_is_written_once_before_anybody_is_answered(later: Later) -> None:
    assert await later.together("a", "b", "c") == ["a", "b", "c"]
    assert later.flushed == [[], ["a", "b", "c"]]


async def test_who_cannot_be_written_is_told_and_the_others_stand(later: Later) -> None:
    assert await later.together("a", "a", "b") == ["a", "ConflictError", "b"]
    assert later.flushed[-3:] == [["a"], ["a"], ["b"]]
    with pytest.raises(ConflictError):
        await later.writer.run(partial(later.leave, "b"))
    assert await later.writer.run(partial(later.leave, "c")) == "c"


async def test_what_is_held_back_when_the_writer_is_closed_is_still_done(counted: Counted) -> None:
    gate, first = await held_up(counted)

    async def asks_again() -> str:
        await counted.writer.run(keeping("a"))
        return await counted.writer.run(keeping("again"))

    async def closes() -> None:
        await counted.writer.run(keeping("b"))
        counted.writer.close()

    asking, closing = asyncio.create_task(asks_again()), asyncio.create_task(closes())
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(first, closing)
    assert await asking == "again"
    assert counted.rows() == {"first", "a", "b", "again"}


async def test_what_was_read_is_forgotten_only_when_it_holds_no_more(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.execute("CREATE TABLE kept (name TEXT PRIMARY KEY)")
    forgotten: list[str] = []
    writer = Writer(connection, Log(path, is_durable=False), lambda: forgotten.append("forgotten"))
    await writer.run(keeping("a"))
    forgotten.clear()
    await writer.run(keeping("b"))
    assert forgotten == []
    other = apsw.Connection(str(path))
    other.execute("INSERT INTO kept VALUES ('of another')")
    other.close()
    await writer.run(keeping("c"))
    assert len(forgotten) == 1
    with pytest.raises(ConflictError):
        await writer.run(failing("d"))
    await writer.run(keeping("e"))
    assert len(forgotten) == 2
    await writer.run(lambda _: None, alone=True)
    await writer.run(keeping("f"))
    assert len(forgotten) == 4  # for the job that was alone, and after it
    writer.close()
