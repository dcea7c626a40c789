"""Nothing acknowledged is lost and nothing half-written stays: processes killed, and the server killed under them."""

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest

from quipu.ledger.postgres.ledger import PostgresLedger
from quipu.testing.builders import SPACE, TENANT, FixedClock, Scribe
from tests.ledger.postgres.opening import opened
from tests.ledger.test_crash import Writing, check_found_by_their_vectors, check_whole, processes
from tests.postgres import Server, name_of, serving

ROUNDS = 6

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    """A server that is killed, with every safeguard on."""
    yield from serving(fsync="on", full_page_writes="on")


async def prepared(url: str, mark: str = "p") -> tuple[PostgresLedger, Scribe]:
    ledger = opened(url, mark=mark)
    scribe = await Scribe.at(ledger, FixedClock())
    await ledger.adopt_space(TENANT, SPACE)
    return ledger, scribe


def stored_vectors(server: Server, url: str) -> dict[tuple[str, int], bytes]:
    """Read behind the ledger's back."""
    rows = server.execute(
        "SELECT r.id, r.version, e.data::real[] FROM record AS r JOIN embedding AS e USING (tenant, row)",
        name_of(url),
    )
    assert len(rows) == len({row[:2] for row in rows}), "a version has two vectors"
    return {(row[0], row[1]): np.array(row[2], "<f4").tobytes() for row in rows}


async def test_a_process_killed_at_any_moment_loses_nothing_that_was_acknowledged(own: Server) -> None:
    url = own.database()
    chance = np.random.default_rng(20)
    acknowledged: list[tuple[int, str, int]] = []
    ledger, scribe = await prepared(url)
    for number in range(ROUNDS):
        writing = Writing(url, f"r{number}", writers=4, count=100_000)
        writing.wait_until_told(1)
        writing.start()
        # One dies while it opens the ledger, the others after so many acknowledgements and a little more.
        if number:
            writing.wait_until_told(int(chance.integers(2, 80)))
        writing.read(float(chance.uniform(0, 0.03)))
        writing.kill()
        acknowledged += writing.acknowledged
        async with asyncio.timeout(20):
            await scribe.commit()  # the tenant's turn is free again
        await check_whole(scribe, stored_vectors(own, url), acknowledged)
    assert len(acknowledged) > 10 * ROUNDS, "nobody wrote enough to prove anything"
    await check_found_by_their_vectors(scribe, [record_id for _, record_id, _ in acknowledged[-50:]])
    await ledger.close()


async def test_the_server_killed_under_its_writers_loses_nothing_that_was_acknowledged(own: Server) -> None:
    url = own.database()
    ledger, scribe = await prepared(url)
    chance = np.random.default_rng(7)
    with processes(url, count=2, writers=3, each=60) as started:
        for _ in range(3):
            told = [len(writing.told) for writing in started]
            for writing, before in zip(started, told, strict=True):
                writing.wait_until_told(before + int(chance.integers(5, 30)))
            own.kill()
            own.start()
        codes = await asyncio.gather(*(asyncio.to_thread(writing.finish) for writing in started))
        acknowledged = [found for writing in started for found in writing.acknowledged]
    assert codes == [0, 0], "whoever waited for the server has gone on"
    assert len(acknowledged) == 2 * 3 * 60 * 3
    await check_whole(scribe, stored_vectors(own, url), acknowledged)
    await check_found_by_their_vectors(scribe, {record_id for _, record_id, _ in acknowledged[::10]})
    await ledger.close()


async def test_four_processes_on_one_database_lose_and_mix_up_nothing(own: Server) -> None:
    url = own.database()
    ledger, scribe = await prepared(url)
    with processes(url, count=4, writers=4, each=15) as started:
        codes = await asyncio.gather(*(asyncio.to_thread(writing.finish) for writing in started))
        acknowledged = [found for writing in started for found in writing.acknowledged]
    assert codes == [0] * 4
    assert len(acknowledged) == 4 * 4 * 15 * 3
    await check_whole(scribe, stored_vectors(own, url), acknowledged)
    await check_found_by_their_vectors(scribe, {record_id for _, record_id, _ in acknowledged[::5]})
    await ledger.close()


async def test_processes_may_open_an_empty_database_at_once(own: Server) -> None:
    url = own.database()
    with processes(url, count=6, writers=1, each=1) as started:
        codes = await asyncio.gather(*(asyncio.to_thread(writing.finish) for writing in started))
        acknowledged = [found for writing in started for found in writing.acknowledged]
    assert codes == [0] * 6
    ledger, scribe = await prepared(url)
    assert [store.name for store in await ledger.stores(TENANT)] == ["main"]
    await check_whole(scribe, stored_vectors(own, url), acknowledged)
    await ledger.close()
