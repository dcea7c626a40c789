"""The same writes at the same moments give the same chain, to the byte, in every release."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quipu.crypto.canonical import canonical
from quipu.ledger.sqlite.ledger import SqliteLedger
from quipu.model.journal import Mention, Op
from quipu.testing.builders import SPACE, TENANT, CountedIds, FixedClock, Scribe, linked, vector


@pytest.fixture
async def scribe(tmp_path: Path) -> AsyncIterator[Scribe]:
    clock = FixedClock()
    ledger = SqliteLedger(tmp_path / "memory.db", clock=clock, mint_id=CountedIds(), canonical=canonical)
    yield await Scribe.at(ledger, clock)
    await ledger.close()


async def test_a_fixed_story_ends_with_the_hash_it_always_had(scribe: Scribe) -> None:
    await scribe.ledger.adopt_space(TENANT, SPACE)
    tea = await scribe.put("tea at noon", vector=vector("tea"), user_id="mara", tags=("red",))
    scribe.clock.move(5)
    cake = await scribe.put(
        'cake, "with" caf\u00e9 \U0001f600\n',
        metadata={"n": 2**60, "x": 0.5},
        confidence=0.25,
        links=linked(tea.id),
    )
    later = await scribe.change(tea, content="tea at one", session_id="s")
    await scribe.touch(tea.id, cake.id)
    await scribe.ledger.commit(
        scribe.committing(
            op=Op.RECALL,
            mentions=(Mention(cake.id, cake.version, cake.digest),),
        )
    )
    await scribe.demote(later)
    await scribe.forget(cake)
    await scribe.erase(tea.id)
    entries = await scribe.entries()
    assert (len(entries), entries[-1].hash) == (
        9,
        "9642111c86b805af78f4c4cabcb7f2914a1193e4551cfa7929bdca86561dad58",
    )
    assert await scribe.audit() == []


async def test_rows_are_written_as_they_always_were(scribe: Scribe, tmp_path: Path) -> None:
    await scribe.put(
        'cake, "with" caf\u00e9 and cake \U0001f600\n',
        metadata={"n": 2**60, "x": 0.5},
        tags=("red", "\u00e9"),
        subject="Ana",
        links=linked("mem_2"),
    )
    await scribe.put("tea")
    connection = sqlite3.connect(tmp_path / "memory.db")
    written = {
        "journal": connection.execute("SELECT records, detail FROM journal ORDER BY seq").fetchall(),
        "record": connection.execute(
            "SELECT metadata, tags, links, provenance, hex(terms) FROM record ORDER BY row"
        ).fetchall(),
    }
    connection.close()
    assert written == {
        "journal": [
            ("[]", "{}"),
            (
                '["1 KTWUlGfbp9CufYOpPo6L8JE8liY0MTnZN/5vXIQdLA8 mem_00000000000000000000000011"]',
                "{}",
            ),
            (
                '["1 hcesBloH2MFq33LNxSq57Cm6Ex6Sxgz4wXkT/9M31wE mem_00000000000000000000000021"]',
                "{}",
            ),
        ],
        "record": [
            (
                '{"n":1152921504606846976,"x":0.5}',
                '["red","\u00e9"]',
                '[["mem_2","about"]]',
                '{"written_by":"tester","trust":"unknown","subject":"Ana"}',
                "6D9BF507107FBD4FE26F9F770EE290985A7ADAEF5D0113FA8F5F61FA01010101010201",
            ),
            (None, None, None, '["tester","unknown"]', "B2D7868E01"),
        ],
    }
