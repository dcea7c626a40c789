"""The same move with a database on either side."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from quipu import Memory
from quipu.service.memory import MemoryService
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from tests.exchange.conftest import Host, Hosted
from tests.exchange.test_round_trip import OWNER, filled, parts
from tests.exchange.test_tombstones import Pair, stones, texts
from tests.postgres import Server


@pytest.fixture
async def database(postgres: Server, clock: FixedClock) -> AsyncIterator[Host]:
    url = postgres.database(is_empty=True)
    memory = Memory(agent_id="ana", stores=url, embedder=WordEmbedder(), clock=clock)
    service = await memory._service()
    assert isinstance(service, MemoryService)
    yield Host(memory, service)
    await memory.close()
    postgres.drop(url)


async def test_a_memory_moves_from_a_file_to_a_database_and_back(hosted: Hosted, database: Host) -> None:
    one, back = await hosted(), await hosted()
    await filled(one)
    data, _ = await one.out(owner=OWNER)
    assert (await database.into(data, keys=await one.keys())).accepted == 6
    there, _ = await database.out(owner=OWNER)
    assert parts(there) == parts(data)
    report = await back.into(there, keys=await database.keys())
    assert report.accepted == 6
    again, _ = await back.out(owner=OWNER)
    assert parts(again) == parts(data)
    assert stones(there) == stones(data) != []
    undone = await database.memory.roll_back_import((await database.memory.imports())[0].import_id)
    assert undone.forgotten == 6
    assert (await database.memory.verify()).holds


async def test_increments_and_tombstones_reach_a_database_and_are_undone(
    hosted: Hosted, database: Host, clock: FixedClock
) -> None:
    pair = Pair(await hosted(), database, clock)
    edited = await pair.one.memory.remember("Tom likes jam")
    gone = await pair.one.memory.remember("Ana likes figs")
    await pair.send()
    since = str(await pair.one.positions())
    clock.move(1000)
    await pair.one.memory.remember("Tom likes honey", id=edited.id)
    await pair.one.memory.forget(ids=[gone.id])
    report = await pair.send(since=since)
    assert (report.updated, report.removed) == (1, 1)
    mine, theirs = await pair.both()
    assert theirs["items.jsonl"] == mine["items.jsonl"]
    undone = await database.memory.roll_back_import(report.import_id)
    assert undone.restored == 2
    assert await texts(database) == {"Tom likes jam", "Ana likes figs"}
    assert (await database.memory.verify()).holds
