"""Group commit: who is told what, when the transaction ends well, badly, or nobody hears how."""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import pytest

from quipu.errors import BackendUnavailableError, ConflictError, InvalidError
from quipu.ledger.commit import Commit, Keep
from quipu.ledger.driver import Cursor, Driver, OutcomeUnknownError
from quipu.ledger.index import Space
from quipu.ledger.ledger import Ledger
from quipu.memory.scope import STORES
from quipu.model.store import Store
from tests.ledger.builders import T, commit, faults, put

#: What becomes of a COMMIT: it works, it works and nobody hears of it, it does not and nobody hears of it, it is refused.
End: TypeAlias = Literal["heard", "kept", "lost", "unreachable"]


class Unsteady:
    """A driver whose next commits end as a test says; everything else is the real one's."""

    def __init__(self, inner: Driver) -> None:
        self.inner = inner
        self.ends: list[End] = []
        self.writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @contextmanager
    def writing(self, lane: str) -> Generator[Cursor]:
        self.writes += 1
        end = self.ends.pop(0) if self.ends else "heard"
        if end == "unreachable":
            raise BackendUnavailableError(reason="unreachable")
        try:
            with self.inner.writing(lane) as cursor:
                yield cursor
                _take_back(end)
        except _TakenBackError:
            raise OutcomeUnknownError from None
        if end == "kept":
            raise OutcomeUnknownError


class _TakenBackError(Exception):
    pass


def _take_back(end: End) -> None:
    if end == "lost":
        raise _TakenBackError


@pytest.fixture
def unsteady(new_driver: Callable[[], Driver]) -> Unsteady:
    return Unsteady(new_driver())


@pytest.fixture
async def ledger(unsteady: Unsteady, tables: Sequence[Any]) -> AsyncIterator[Ledger]:
    driver: Any = unsteady
    opened = Ledger(driver, tables)
    yield opened
    await opened.close()


@pytest.mark.parametrize("end", ["kept", "lost"])
async def test_a_commit_nobody_heard_the_end_of_is_made_once(
    ledger: Ledger, unsteady: Unsteady, end: End
) -> None:
    heard: list[int] = []
    ledger.on_commit(lambda tenant, seq, commits: heard.append(seq))
    await ledger.commit(commit(put("mem_0")))
    unsteady.ends = [end]
    (done,) = await ledger.commit(commit(put("mem_1")))
    assert done.seq == 2
    assert heard == [1, 2]
    assert (await ledger.head(T)).seq == 2
    assert [one.version for one in await ledger.versions(T, "mem_1")] == [1]
    assert await faults(ledger) == []


@pytest.mark.parametrize("end", ["kept", "lost"])
async def test_a_whole_group_whose_end_nobody_heard_is_told_as_it_ended(
    ledger: Ledger, unsteady: Unsteady, end: End
) -> None:
    await ledger.commit(commit(put("mem_0")))
    first = asyncio.create_task(ledger.commit(commit(put("mem_first"))))
    await asyncio.sleep(0)
    unsteady.ends = ["heard", end]
    asked = [ledger.commit(commit(put(f"mem_{number}"))) for number in range(12)]  # mem_0 is there already
    told = await asyncio.gather(first, *asked, return_exceptions=True)
    assert isinstance(told[1], ConflictError)
    assert all(not isinstance(one, BaseException) for one in (told[0], *told[2:]))
    seqs = [one[0].seq for one in told if not isinstance(one, BaseException)]
    assert sorted(seqs) == list(range(2, 14))
    assert await faults(ledger) == []


async def test_two_processes_that_tie_the_same_commit_are_told_apart(
    unsteady: Unsteady, new_driver: Callable[[], Driver], tables: Sequence[Any]
) -> None:
    """The entry's nonce: without it, what the other one wrote would pass for one's own."""
    one_driver: Any = unsteady
    one, other = Ledger(one_driver, tables), Ledger(new_driver(), tables)
    try:
        await one.commit(commit(put("mem_0")))
        heard = asyncio.Event()
        taken_back = unsteady.writing

        @contextmanager
        def writing(lane: str) -> Generator[Cursor]:
            """The first commit is lost, and the other process commits the very same before it is asked about."""
            try:
                with taken_back(lane) as cursor:
                    yield cursor
            except OutcomeUnknownError:
                loop.call_soon_threadsafe(heard.set)
                asyncio.run_coroutine_threadsafe(other.commit(same), loop).result(20)
                raise

        loop = asyncio.get_running_loop()
        same = commit(op="recall", at=5)  # no change, no salt
        unsteady.writing = writing  # type: ignore[method-assign]
        unsteady.ends = ["lost"]
        (done,) = await one.commit(same)
        assert heard.is_set()
        assert done.seq == 3
        assert (await one.head(T)).seq == 3
        assert await faults(one) == []
    finally:
        await one.close()
        await other.close()


async def test_a_database_that_is_away_for_a_moment_is_waited_for(ledger: Ledger, unsteady: Unsteady) -> None:
    unsteady.ends = ["unreachable", "unreachable", "unreachable"]
    await ledger.commit(commit(put()))
    assert unsteady.writes == 4
    assert await faults(ledger) == []


async def test_nobody_hears_anything_before_it_is_durable(ledger: Ledger, unsteady: Unsteady) -> None:
    """While the transaction is open neither the caller nor a listener knows of it."""
    heard: list[str] = []
    ledger.on_commit(lambda tenant, seq, commits: heard.append("listener"))
    inside: list[list[str]] = []
    writing = unsteady.inner.writing

    @contextmanager
    def noted(lane: str) -> Generator[Cursor]:
        with writing(lane) as cursor:
            yield cursor
            inside.append(list(heard))

    unsteady.inner.writing = noted  # type: ignore[method-assign]
    task = asyncio.create_task(ledger.commit(commit(put())))
    task.add_done_callback(lambda _: heard.append("caller"))
    await task
    assert inside == [[]]
    await asyncio.sleep(0)
    assert sorted(heard) == ["caller", "listener"]


async def test_what_the_database_refuses_of_one_is_told_to_that_one_alone(
    ledger: Ledger, unsteady: Unsteady
) -> None:
    """Nobody foresaw it, so no branch could refuse it: the group is done again, each alone."""
    await ledger.commit(commit(put("mem_first")))
    bad = commit(Keep(STORES, Store(id="ms_1", name="x", scope="nowhere", created_at=1)))  # type: ignore[arg-type]
    first = asyncio.create_task(ledger.commit(commit(put("mem_second"))))
    await asyncio.sleep(0)
    told = await asyncio.gather(
        first,
        ledger.commit(commit(put("mem_a"))),
        ledger.commit(bad),
        ledger.commit(commit(put("mem_b"))),
        return_exceptions=True,
    )
    assert [isinstance(one, Exception) for one in told] == [False, False, True, False]
    assert set(await ledger.records(T, ["mem_a", "mem_b"])) == {"mem_a", "mem_b"}
    assert await faults(ledger) == []


async def test_a_write_that_waits_is_done_before_the_ledger_is_closed(
    new_driver: Callable[[], Driver], tables: Sequence[Any]
) -> None:
    ledger = Ledger(new_driver(), tables)
    waiting = [asyncio.create_task(ledger.commit(commit(put(f"mem_{n}")))) for n in range(40)]
    await asyncio.sleep(0)
    await ledger.close()
    await asyncio.gather(*waiting)
    again = Ledger(new_driver(), tables)
    assert len(await again.records(T, [f"mem_{n}" for n in range(40)])) == 40
    await again.close()


async def test_operational_rows_are_written_again_when_nobody_heard_how_it_ended(
    ledger: Ledger, unsteady: Unsteady
) -> None:
    unsteady.ends = ["unreachable", "kept"]
    space = await ledger.settle_space(T, Space("m", 2))
    assert space == Space("m", 2)
    unsteady.ends = ["kept"]
    await ledger.add_vectors(T, Space("n", 3), [])
    assert await ledger.space(T) == space


async def test_work_under_the_lock_is_refused_with_its_own_error_and_leaves_nothing(ledger: Ledger) -> None:
    def refuses(reader: Any) -> tuple[None, Sequence[Commit]]:
        raise InvalidError("no")

    with pytest.raises(InvalidError):
        await ledger.locked(T, refuses)

    def conflicts(reader: Any) -> tuple[str, Sequence[Commit]]:
        return "not told", [commit(put("mem_1", expects=5))]

    with pytest.raises(ConflictError):
        await ledger.locked(T, conflicts)
    assert (await ledger.head(T)).seq == 0
