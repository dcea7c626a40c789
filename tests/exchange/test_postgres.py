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
    undone = await database.memory.roll_back_import((await database.memory.imports())[0].import_id)
    assert undone.forgotten == 6
