"""Terms and vectors that one process renews, and another searches."""

import psycopg
import pytest

from quipu.bootstrap import start
from quipu.config import Config
from quipu.model.principal import local
from quipu.testing.builders import SPACE, FixedClock, Scribe, vector
from tests.ledger.postgres.opening import opened


@pytest.mark.parametrize("held_bytes", [0, None])
async def test_another_process_sees_what_was_renewed(postgres_url: str, held_bytes: int | None) -> None:
    reader = opened(postgres_url, held_bytes=held_bytes)
    scribe = await Scribe.at(reader, FixedClock())
    await reader.adopt_space(scribe.tenant, SPACE)
    record = await scribe.put("\U0001f375tea", vector=vector(1))
    later = await scribe.change(record, content="\U0001f375tea again", vector=vector(2))
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
        await connection.execute("UPDATE record SET terms = '\\x0102030401'")
        await connection.execute("UPDATE tenant SET terms = 0")
    assert await scribe.found("tea") == set()
    running = await start(Config(store_url=postgres_url, embedder="none"))
    try:
        assert [count async for count in running.service.reembed(local())] == [2]
        assert await scribe.found("tea") == {record.id}
        assert await scribe.found("again", seq=record.born) == set()
        async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
            await connection.execute("UPDATE embedding SET data = '[1,2]' WHERE row = 2")
        (missing,) = await running.parts.ledger.without_vector(scribe.tenant, SPACE, 10)
        assert missing.version == later.version
        assert not await reader.has_other_terms(scribe.tenant)
    finally:
        await running.close()
        await reader.close()


async def test_vectors_of_nothing_go_when_space_is_given_back(postgres_url: str) -> None:
    ledger = opened(postgres_url)
    scribe = await Scribe.at(ledger, FixedClock())
    await ledger.adopt_space(scribe.tenant, SPACE)
    record = await scribe.put("tea", vector=vector(1))
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
        await connection.execute("INSERT INTO embedding SELECT tenant, row + 100, space, data FROM embedding")
    (fault,) = await ledger.integrity_faults()
    assert "`quipu vacuum`" in fault.detail
    await ledger.compact()
    assert await ledger.integrity_faults() == []
    assert await scribe.ranked(vector(1)) == [record.id]
    await ledger.close()
