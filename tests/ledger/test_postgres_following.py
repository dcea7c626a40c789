"""A second server with a replica that lags: what the first one has erased is not shown by it once it has heard of it."""

import asyncio

from quipu.ledger.postgres.ledger import PostgresLedger
from quipu.testing.builders import TENANT, FixedClock, Scribe, vector
from tests.ledger.postgres.test_replica import Pair, is_replica, pair, readers_of, scribe, servers

__all__ = ["pair", "scribe", "servers"]

PATIENCE_S = 30.0


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
