"""A replica answers where it has got as far as its reader has, and never shows anybody an older world."""

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from quipu.errors import BackendUnavailableError
from quipu.ledger.commit import Erase
from quipu.ledger.index import Known, Owner, Space
from quipu.ledger.ledger import Ledger
from quipu.ledger.postgres import replica as replicas
from quipu.ledger.postgres.driver import PostgresDriver
from quipu.ledger.queries import Query
from tests.fixtures.postgres import Server, name_of
from tests.ledger.builders import T, commit, put

PATIENCE_S = 30.0
_WHERE = Query("SELECT pg_is_in_recovery()")


@dataclass
class Pair:
    """A primary and its replica."""

    primary: Server
    replica: Server
    database: str = ""

    def lag(self) -> None:
        """The replica hears everything and does nothing of it."""
        self.replica.execute("SELECT pg_wal_replay_pause()")

    def catch_up(self) -> None:
        self.replica.execute("SELECT pg_wal_replay_resume()")

    async def level(self) -> None:
        """Wait until the replica has done what the primary has."""
        ((there,),) = self.primary.execute("SELECT pg_current_wal_lsn()::text")
        await until(
            lambda: self.replica.execute(f"SELECT pg_last_wal_replay_lsn() >= '{there}'::pg_lsn")[0][0]
        )

    def opened(self, tables: Sequence[Any]) -> Ledger:
        url, replica = self.primary.url(self.database), self.replica.url(self.database)
        return Ledger(PostgresDriver(url, size=4, replica=replica), tables)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110  another process does it
            await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def servers() -> Iterator[Pair]:
    primary = Server()
    replica = primary.standby()
    try:
        replica.start()
        yield Pair(primary, replica)
    finally:
        replica.stop()
        primary.stop()


@pytest.fixture
async def pair(servers: Pair) -> AsyncIterator[Pair]:
    servers.database = name_of(servers.primary.new_database())
    yield servers
    servers.catch_up()


@pytest.fixture
async def ledger(pair: Pair, tables: Sequence[Any]) -> AsyncIterator[Ledger]:
    opened = pair.opened(tables)
    await opened.settle_space(T, Space("m", 2))
    await opened.commit(commit(put("mem_1", content="first")))
    await pair.level()
    yield opened
    await opened.close()


async def is_replica(ledger: Ledger, reached: int | None = 0, tenant: str = T) -> bool:
    """Where the next read would be answered."""
    row = await ledger.read(tenant, lambda reader: reader.cursor.row(_WHERE), reached=reached)
    return row is not None and row[0]


async def texts(ledger: Ledger, seq: int | None = None) -> set[str]:
    ids = [f"mem_{number}" for number in range(1, 9)]
    return {one.content for one in (await ledger.records(T, ids, seq)).values()}


async def test_what_may_be_older_is_read_from_a_replica_that_has_caught_up(
    pair: Pair, ledger: Ledger
) -> None:
    assert await is_replica(ledger)
    assert not await is_replica(ledger, reached=None)  # operational rows, credentials, heads: the primary
    assert await texts(ledger) == {"first"}


async def test_ones_own_write_is_seen_though_the_replica_lags(pair: Pair, ledger: Ledger) -> None:
    pair.lag()
    await ledger.commit(commit(put("mem_2", content="late")))
    assert not await is_replica(ledger)
    assert await texts(ledger) == {"first", "late"}
    pair.catch_up()
    await pair.level()
    assert await is_replica(ledger)
    assert await texts(ledger) == {"first", "late"}


async def test_nobody_is_shown_something_older_than_they_have_seen(
    pair: Pair, ledger: Ledger, tables: Sequence[Any]
) -> None:
    other = pair.opened(tables)
    try:
        assert await is_replica(other)
        pair.lag()
        (done,) = await ledger.commit(commit(put("mem_2", content="late")))
        # Another process has not heard of it: the replica will do for it.
        assert await is_replica(other)
        assert await texts(other) == {"first"}
        # But as of that position, and from then on, it will not.
        assert not await is_replica(other, reached=done.seq)
        assert await texts(other, done.seq) == {"first", "late"}
        assert not await is_replica(other)
        assert await texts(other) == {"first", "late"}
    finally:
        await other.close()


async def test_who_has_seen_the_head_is_not_shown_what_was_erased_before_it(
    pair: Pair, ledger: Ledger, tables: Sequence[Any]
) -> None:
    other = pair.opened(tables)
    try:
        assert await texts(other) == {"first"}
        pair.lag()
        await ledger.commit(commit(Erase(id="mem_1"), op="erase"))
        assert await texts(ledger) == await texts(ledger, 1) == set()
        assert (await other.head(T)).seq == 2
        assert await texts(other) == await texts(other, 1) == set()
        news = await other.read(T, lambda reader: reader.news(Owner("agent", False), Known()), reached=0)
        assert news is not None
        assert news.rows == []
    finally:
        await other.close()


async def test_who_hears_of_an_erasure_looks_how_far_the_chain_has_come(
    pair: Pair, ledger: Ledger, tables: Sequence[Any]
) -> None:
    other = pair.opened(tables)
    heard: list[str] = []
    other.on_commit(lambda tenant, seq, commits: heard.append(tenant))
    ledger.listen()
    other.listen()
    try:
        await until(lambda: heard == [""])
        assert await texts(other) == {"first"}
        assert await is_replica(other)
        pair.lag()
        await ledger.commit(commit(Erase(id="mem_1"), op="erase"))
        await until(lambda: T in heard)
        assert await texts(other) == set()
        pair.catch_up()
        await pair.level()
        assert await is_replica(other)
    finally:
        await other.close()


async def test_a_new_space_is_not_answered_with_the_former_one(pair: Pair, ledger: Ledger) -> None:
    """Moving to another embedder leaves the position as it is."""
    assert await is_replica(ledger)
    pair.lag()
    await ledger.adopt_space(T, Space("n", 3))
    assert not await is_replica(ledger)
    assert await ledger.space(T) == Space("n", 3)


async def test_what_is_pruned_here_is_not_read_from_a_replica_that_still_has_it(
    pair: Pair, ledger: Ledger
) -> None:
    await ledger.commit(commit(put("mem_1", content="second", expects=1)))
    await pair.level()
    assert await is_replica(ledger)
    pair.lag()
    assert await ledger.prune(T, 2, "tester", 5) == 1
    assert not await is_replica(ledger)


async def test_a_replica_that_is_down_is_left_alone_and_read_from_when_it_is_back(
    pair: Pair, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(replicas, "_REST_S", 0.1)
    assert await is_replica(ledger)
    with caplog.at_level(logging.WARNING, "quipu.ledger"):
        await asyncio.to_thread(pair.replica.kill)
        try:
            async with asyncio.timeout(PATIENCE_S):
                assert await texts(ledger) == {"first"}
                assert not await is_replica(ledger)
        finally:
            await asyncio.to_thread(pair.replica.start)
        async with asyncio.timeout(PATIENCE_S):
            while not await is_replica(ledger):  # noqa: ASYNC110  another process does it
                await asyncio.sleep(0.02)
    said = [record.getMessage() for record in caplog.records if record.name == "quipu.ledger"]
    assert said == ["The replica does not answer; the primary is read from.", "The replica answers again."]


async def test_a_read_that_a_replica_breaks_off_is_made_up_for(pair: Pair, ledger: Ledger) -> None:
    assert await is_replica(ledger)
    seen: list[bool] = []

    def work(reader: Any) -> Any:
        (there,) = reader.cursor.row(_WHERE)
        seen.append(there)
        if there:
            pair.replica.kill()
            end = time.monotonic() + PATIENCE_S
            while time.monotonic() < end:  # its processes take a moment to go, and then the read breaks off
                reader.records(["mem_1"])
        return reader.records(["mem_1"])

    try:
        assert set(await ledger.read(T, work, reached=0)) == {"mem_1"}
        assert seen == [True, False]
    finally:
        await asyncio.to_thread(pair.replica.start)


async def test_a_replica_that_answers_nobody_holds_nobody_up_twice(
    pair: Pair, tables: Sequence[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "_PATIENCE_S", 3.0)
    monkeypatch.setattr(replicas, "_REST_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # a machine that takes calls and says nothing
        there = f"postgresql://quipu@127.0.0.1:{deaf.getsockname()[1]}/x?connect_timeout=2"
        driver = PostgresDriver(pair.primary.url(pair.database), size=4, replica=there)
        ledger = Ledger(driver, tables)
        await ledger.commit(commit(put("mem_1")))
        async with asyncio.timeout(10):  # together, not one after the other
            assert not any(await asyncio.gather(*(is_replica(ledger) for _ in range(4))))
        for _ in range(5):
            began = time.monotonic()
            assert not await is_replica(ledger)
            assert time.monotonic() - began < 2.5
        await ledger.close()


async def test_a_replica_is_refused_as_the_place_to_write(
    pair: Pair, ledger: Ledger, tables: Sequence[Any]
) -> None:
    with pytest.raises(BackendUnavailableError) as refused:
        Ledger(PostgresDriver(pair.replica.url(pair.database), size=2), tables)
    assert refused.value.reason == "read_only"
