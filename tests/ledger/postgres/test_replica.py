"""A replica answers where it has got as far as its reader has, and never shows anybody an older world."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest

from quipu.errors import BackendUnavailableError
from quipu.ledger.postgres import replica
from quipu.ledger.postgres.database import Database, Place
from quipu.ledger.postgres.ledger import PostgresLedger
from quipu.ledger.postgres.replica import Readers
from quipu.testing.builders import SPACE, TENANT, CountedIds, FixedClock, Scribe, vector
from tests.ledger.postgres.opening import opened
from tests.postgres import Server, name_of, serving

PATIENCE_S = 30.0


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
        async with asyncio.timeout(PATIENCE_S):
            asked = "SELECT pg_last_wal_replay_lsn() >= %(there)s::pg_lsn"
            while not self.replica.execute(asked, there=there)[0][0]:  # noqa: ASYNC110  another process does it
                await asyncio.sleep(0.01)

    def opened(self, mark: str) -> PostgresLedger:
        return opened(
            self.primary.url(self.database), mark=mark, replica=Place(self.replica.url(self.database))
        )


@pytest.fixture(scope="module")
def servers() -> Iterator[Pair]:
    for primary in serving(hot_standby_feedback="on"):
        replica = primary.standby()
        try:
            replica.start()
            yield Pair(primary, replica)
        finally:
            replica.remove()


@pytest.fixture
async def pair(servers: Pair) -> AsyncIterator[Pair]:
    servers.database = name_of(servers.primary.database())
    yield servers
    servers.catch_up()


@pytest.fixture
async def scribe(pair: Pair) -> AsyncIterator[Scribe]:
    ledger = pair.opened("1")
    scribe = await Scribe.at(ledger, FixedClock(), CountedIds("1"))
    await ledger.adopt_space(TENANT, SPACE)
    await scribe.put("first word", vector=vector(1))
    await pair.level()
    yield scribe
    await ledger.close()


def readers_of(scribe: Scribe) -> Readers:
    assert isinstance(scribe.ledger, PostgresLedger)
    return scribe.ledger._readers


async def is_replica(scribe: Scribe, seq: int | None = None) -> bool:
    """Where the next search would be answered."""
    readers = readers_of(scribe)
    return await readers.choose(TENANT, seq) is not readers._primary


async def test_recall_is_answered_by_a_replica_that_has_caught_up(pair: Pair, scribe: Scribe) -> None:
    assert await is_replica(scribe)
    assert len(await scribe.found("word", vector(1))) == 1
    assert (await scribe.shares("word")).in_reach == 1
    read = await scribe.ledger.read(TENANT, await scribe.scanned(), 2)
    assert [record.content for record in read.values()] == ["first word"]
    pair.primary.kill()  # nobody else could have answered
    try:
        assert len(await scribe.found("word", vector(1))) == 1
    finally:
        pair.primary.start()


async def test_ones_own_write_is_seen_though_the_replica_lags(pair: Pair, scribe: Scribe) -> None:
    pair.lag()
    for number in range(3):
        record = await scribe.put(f"late word {number}", vector=vector(f"late {number}"))
        assert not await is_replica(scribe)
        assert await scribe.ranked(vector(f"late {number}"), limit=1) == [record.id]
        assert record.id in await scribe.ledger.read(TENANT, [record.id], record.born)
    pair.catch_up()
    await pair.level()
    assert await is_replica(scribe)
    assert len(await scribe.found("word")) == 4


async def test_nobody_is_shown_something_older_than_they_have_seen(pair: Pair, scribe: Scribe) -> None:
    other = pair.opened("2")
    reader = await Scribe.at(other, FixedClock())
    pair.lag()
    record = await scribe.put("late word")
    # Another process has not heard of it: the replica will do for it.
    assert await is_replica(reader)
    assert len(await reader.found("word")) == 1
    # But as of that position, and from then on, it will not.
    assert not await is_replica(reader, record.born)
    assert await reader.found("late", seq=record.born) == {record.id}
    assert not await is_replica(reader)
    assert len(await reader.found("word")) == 2
    await other.close()


async def test_a_replica_that_is_down_is_left_alone(pair: Pair, scribe: Scribe) -> None:
    pair.replica.kill()
    try:
        async with asyncio.timeout(10):
            assert len(await scribe.found("word", vector(1))) == 1
            assert not await is_replica(scribe)
    finally:
        pair.replica.start()


async def test_a_replica_that_is_back_is_read_from_again(
    pair: Pair, scribe: Scribe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "_REST_S", 0.0)
    pair.replica.kill()
    assert not await is_replica(scribe)
    pair.replica.start()
    async with asyncio.timeout(30):
        while not await is_replica(scribe):  # noqa: ASYNC110  another process does it
            await asyncio.sleep(0.01)


async def test_a_replica_that_answers_nobody_holds_nobody_up_twice(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "_PATIENCE_S", 0.3)
    monkeypatch.setattr(replica, "_REST_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # a machine that takes calls and says nothing
        there = Place(f"postgresql://quipu@127.0.0.1:{deaf.getsockname()[1]}/x")
        ledger = opened(pair.primary.url(pair.database), replica=there)
        scribe = await Scribe.at(ledger, FixedClock())
        await scribe.put("first word")
        async with asyncio.timeout(5):  # together, not one after the other
            assert not any(await asyncio.gather(*(is_replica(scribe) for _ in range(8))))
        for _ in range(5):
            began = time.monotonic()
            assert not await is_replica(scribe)
            assert time.monotonic() - began < 0.2, "whoever looks again keeps nobody waiting"
            await asyncio.sleep(0.1)
        await ledger.close()


@pytest.mark.parametrize("way", ["search", "read"])
async def test_a_replica_that_breaks_off_a_read_is_made_up_for(
    pair: Pair, scribe: Scribe, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    readers = readers_of(scribe)
    (record_id,) = await scribe.found("word")
    assert await is_replica(scribe)
    choose = readers.choose

    async def chosen(tenant: str, seq: int | None = None) -> Database:
        """It was there when it was chosen."""
        near = await choose(tenant, seq)
        pair.replica.kill()
        return near

    monkeypatch.setattr(readers, "choose", chosen)
    try:
        async with asyncio.timeout(10):
            if way == "search":
                assert await scribe.found("word", vector(1)) == {record_id}
            else:
                assert set(await scribe.ledger.read(TENANT, [record_id], 2)) == {record_id}
        monkeypatch.setattr(readers, "choose", choose)
        assert not await is_replica(scribe)  # it is left alone for a while
    finally:
        pair.replica.start()


async def test_an_erased_record_is_not_searched_on_a_replica_that_still_has_it(
    pair: Pair, scribe: Scribe
) -> None:
    (record_id,) = await scribe.found("word")
    pair.lag()
    await scribe.erase(record_id)
    assert await scribe.found("word", vector(1)) == set()
    read = await scribe.ledger.read(TENANT, [record_id], 2)
    assert [record.content for record in read.values()] == [""]


async def test_a_replica_is_refused_as_the_place_to_write(pair: Pair, scribe: Scribe) -> None:
    ledger = opened(pair.replica.url(pair.database))
    assert [tenant.id for tenant in await ledger.tenants()] == [TENANT]
    with pytest.raises(BackendUnavailableError) as refused:
        await ledger.open("another")
    assert refused.value.reason == "read_only"
    await ledger.close()


# -- a second server, which hears of what the first one has erased ---------------------------------------------


async def texts(reader: Scribe, record_id: str, seq: int) -> list[str]:
    return [one.content for one in (await reader.ledger.read(TENANT, [record_id], seq)).values()]


async def test_who_has_seen_the_head_is_not_shown_what_was_erased_before_it(
    pair: Pair, scribe: Scribe
) -> None:
    other = pair.opened("2")
    reader = await Scribe.at(other, FixedClock())
    (record_id,) = await reader.found("word")
    pair.lag()
    await scribe.erase(record_id)
    assert (await other.head(TENANT)).seq == 3
    assert await texts(reader, record_id, 2) == [""]
    assert await reader.found("word", seq=2) == set()
    assert await reader.found("word", vector(1)) == set()
    await other.close()


async def test_who_hears_of_an_erasure_looks_how_far_the_chain_has_come(pair: Pair, scribe: Scribe) -> None:
    heard = asyncio.Event()
    other = pair.opened("2")
    other.on_commit(lambda tenants: heard.set() if TENANT in tenants else None)
    reader = await Scribe.at(other, FixedClock())
    async with asyncio.timeout(PATIENCE_S):
        await heard.wait()  # it listens from now on
    (record_id,) = await reader.found("word")
    assert await is_replica(reader)
    heard.clear()
    pair.lag()
    await scribe.erase(record_id)
    async with asyncio.timeout(PATIENCE_S):
        await heard.wait()
    assert await texts(reader, record_id, 2) == [""]
    assert await reader.found("word") == set()
    pair.catch_up()
    await pair.level()
    assert await is_replica(reader)
    await other.close()


async def test_what_is_pruned_here_is_not_read_from_a_replica_that_still_has_it(
    pair: Pair, scribe: Scribe
) -> None:
    assert isinstance(scribe.ledger, PostgresLedger)
    (record_id,) = await scribe.found("word")
    old = (await scribe.ledger.read(TENANT, [record_id]))[record_id]
    await scribe.forget(old)
    await pair.level()
    assert await is_replica(scribe)
    pair.lag()
    assert await scribe.ledger.prune(TENANT, 3) == 1
    assert readers_of(scribe)._seen[TENANT] == 4
    assert not await is_replica(scribe)
