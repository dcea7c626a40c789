"""After an erasure nothing reads it back; after `compact` no byte of it is left in the tables' files."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from quipu.errors import BackendUnavailableError
from quipu.ledger.postgres.ledger import PostgresLedger
from quipu.ledger.postgres.planning import Plan
from quipu.ledger.postgres.statements import SQL
from quipu.ledger.postgres.tables import ERASABLE
from quipu.ledger.postgres.working import Head, Working
from quipu.model.change import Erase, Once, Put, Settle, Stage
from quipu.model.journal import Op
from quipu.model.record import Record, State
from quipu.testing.builders import (
    SPACE,
    TENANT,
    CountedIds,
    FixedClock,
    Scribe,
    adding,
    canonical,
    linked,
    vector,
)
from tests.ledger import decided
from tests.ledger.postgres.opening import opened
from tests.ledger.test_erasure import DATA, MARKER, forms, marked, needles
from tests.postgres import Server, name_of


@pytest.fixture
async def scribe(fresh_url: str) -> AsyncIterator[Scribe]:
    ledger = opened(fresh_url)
    scribe = await Scribe.at(ledger, FixedClock())
    await ledger.adopt_space(TENANT, SPACE)
    yield scribe
    await ledger.close()


def url_of(scribe: Scribe) -> str:
    assert isinstance(scribe.ledger, PostgresLedger)
    return scribe.ledger.place.conninfo


def traces(postgres: Server, url: str, *sought: bytes) -> list[str]:
    """Which of the database's files hold one of the needles, once everything in memory has been written to them."""
    name = name_of(url)
    postgres.execute("CHECKPOINT", name)
    ((number,),) = postgres.execute("SELECT oid FROM pg_database WHERE datname = current_database()", name)
    return [
        f"{file.name}: {needle!r}"
        for file in sorted((postgres.data / "base" / str(number)).iterdir())
        for needle in sought
        if needle in file.read_bytes()
    ]


async def said_everywhere(scribe: Scribe) -> list[Record]:
    """A record that says the marker wherever something can be said, in three versions."""
    first = marked(scribe)
    once = Once(
        principal="p",
        operation="remember",
        key="k",
        fingerprint="f",
        answer={"said": MARKER},
        record_ids=(first.id,),
    )
    await scribe.commit(adding(first, vector=DATA), once=once, reason=f"because of {MARKER}")
    second = scribe.next_version(first, content=f"{MARKER} again")
    await scribe.commit(adding(second, vector=DATA, expects=1), op=Op.UPDATE, reason=MARKER)
    third = scribe.next_version(second, metadata={"n": MARKER})
    await scribe.commit(Put(record=third, expects=2, keeps_index=True), op=Op.UPDATE)
    stage = Stage(
        proposal_id="p1",
        operation="remember",
        agent_id="ana",
        request={"content": MARKER},
        held_by=("rule",),
        lapses_at=None,
        record_id=first.id,
    )
    await scribe.commit(stage, op=Op.HOLD)
    await scribe.touch(first.id)
    await scribe.demote(third)
    return [first, second, third]


async def test_no_byte_is_left_in_the_tables_once_they_were_compacted(
    postgres: Server, scribe: Scribe
) -> None:
    other = await scribe.put("another record stays", id="mem_other")
    records = await said_everywhere(scribe)
    assert await scribe.found(MARKER) == {records[0].id}
    sought = needles(*records)
    postgres.execute("ANALYZE", name_of(url_of(scribe)))  # which keeps samples of what it sees
    found = traces(postgres, url_of(scribe), *sought)
    assert len({line.partition(": ")[2] for line in found}) >= 4, "the needles would not be found anyway"
    await scribe.erase(records[0].id)
    assert await scribe.found(MARKER, DATA) == set()
    await scribe.ledger.compact()
    assert traces(postgres, url_of(scribe), *sought) == []
    assert await scribe.audit() == []
    assert await scribe.ledger.integrity_faults() == []
    assert set(await scribe.ledger.read(TENANT, [other.id])) == {other.id}
    await scribe.put("a new record")
    assert traces(postgres, url_of(scribe), *sought) == []


@pytest.mark.parametrize("way", ["forgotten", "archived", "merged", "pruned", "pending", "rejected"])
async def test_erasure_reaches_what_nobody_sees_any_more(postgres: Server, scribe: Scribe, way: str) -> None:
    record = marked(scribe)
    if way in ("pending", "rejected"):
        stage = Stage(
            proposal_id="prop_1",
            operation="remember",
            agent_id="ana",
            request={"content": MARKER},
            held_by=(),
            lapses_at=None,
            record_id=record.id,
        )
        await scribe.commit(stage, op=Op.HOLD)
        if way == "rejected":
            settle = Settle(proposal_id="prop_1", approved=False, reviewer="bo", reason=f"not {MARKER}")
            await scribe.commit(settle, op=Op.DECIDE)
    else:
        await scribe.commit(adding(record, vector=DATA))
    if way == "archived":
        await scribe.change(record, state=State.ARCHIVED)
    elif way == "forgotten":
        await scribe.forget(record)
    elif way == "merged":
        keeper = await scribe.put("kept")
        await scribe.put("pointing", links=linked(record.id))
        await scribe.merge(record, keeper)
    elif way == "pruned":
        changed = await scribe.change(record, content="harmless", links=())
        await scribe.ledger.prune(TENANT, changed.born)
    await scribe.commit(Erase(id=record.id), op=Op.ERASE)
    left = [""]
    for _ in range(10):  # what somebody was reading at that moment goes with the next time
        await scribe.ledger.compact()
        left = traces(postgres, url_of(scribe), *needles(record))
        if not left:
            break
        await asyncio.sleep(0.2)
    assert left == []
    assert await scribe.audit() == []
    for seq in range((await scribe.ledger.head(TENANT)).seq + 1):
        assert await scribe.found(MARKER, DATA, seq=seq) <= {"mem_other"}


def vacuumed(postgres: Server, url: str) -> dict[str, int]:
    """How often each table was."""
    return dict(postgres.execute("SELECT relname, vacuum_count FROM pg_stat_user_tables", name_of(url)))


async def test_dead_rows_are_taken_away_without_being_asked(postgres: Server, scribe: Scribe) -> None:
    records = [await scribe.put_drafted(marked(scribe), vector=DATA) for _ in range(20)]
    await scribe.erase(*(record.id for record in records))
    await scribe.ledger.close()  # waits for it
    runs = vacuumed(postgres, url_of(scribe))
    assert {table for table, count in runs.items() if count} == set(ERASABLE)
    ledger = opened(url_of(scribe))
    again = await Scribe.at(ledger, FixedClock(), CountedIds("2"))
    await again.put("nothing was erased")
    await ledger.close()
    assert vacuumed(postgres, url_of(scribe)) == runs


async def test_dead_rows_are_taken_away_though_the_caller_has_gone(postgres: Server, scribe: Scribe) -> None:
    record = await scribe.put_drafted(marked(scribe), vector=DATA)
    with psycopg.connect(url_of(scribe)) as holding:
        holding.execute("SELECT 1 FROM tenant FOR UPDATE")
        erasing = asyncio.create_task(scribe.erase(record.id))
        await scribe.found("anything")
        erasing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await erasing
        holding.commit()
    await scribe.ledger.close()  # waits for it
    assert {table for table, count in vacuumed(postgres, url_of(scribe)).items() if count} == set(ERASABLE)


@pytest.mark.parametrize("is_one", [True, False], ids=["one", "all"])
async def test_what_can_no_longer_be_taken_back_is_taken_away_as_well(
    postgres: Server, scribe: Scribe, is_one: bool
) -> None:
    await decided.approved(scribe, MARKER)
    ledger = scribe.ledger
    assert await ledger.let_go(TENANT, 0, keeps_rejected=False) == 0  # nothing is due yet
    assert not any(vacuumed(postgres, url_of(scribe)).values())
    await decided.let_go(scribe, is_one=is_one)
    await ledger.close()  # waits for it
    assert vacuumed(postgres, url_of(scribe))["proposal"] == 1


def test_every_table_that_an_erasure_empties_is_vacuumed() -> None:
    plan = Plan(Working(TENANT, Head(0, b"", 0, 0, None, 0, 0)), canonical, {})
    plan.working.versions["mem_1"] = ()
    plan._erase(Erase(id="mem_1"))
    tables = {
        table
        for statement, _ in plan.writes.others
        for table in re.findall(r"^(?:UPDATE|DELETE FROM) (\w+)", SQL[statement], re.MULTILINE)
    }
    assert "record" in tables
    assert tables <= set(ERASABLE)


async def test_a_user_who_may_not_vacuum_is_told_so(
    postgres: Server, scribe: Scribe, caplog: pytest.LogCaptureFixture
) -> None:
    """The server only remarks that it has passed a table over."""
    url = url_of(scribe)
    postgres.execute("CREATE ROLE writer LOGIN")
    postgres.execute(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO writer", name_of(url)
    )
    ledger = opened(url.replace("quipu@", "writer@"), mark="w")
    writer = await Scribe.at(ledger, FixedClock(), CountedIds("w"))
    record = await writer.put_drafted(marked(writer), vector=DATA)
    await writer.erase(record.id)
    with pytest.raises(BackendUnavailableError) as refused:
        await ledger.compact()
    assert refused.value.reason == "denied"
    await ledger.close()
    assert "erased rows are left to the server's own vacuum" in caplog.text
    postgres.execute("DROP OWNED BY writer", name_of(url))
    postgres.execute("DROP ROLE writer")


async def test_another_process_that_has_the_record_in_memory_forgets_it(scribe: Scribe) -> None:
    other = opened(url_of(scribe), mark="o")
    reader = await Scribe.at(other, FixedClock())
    record = await scribe.put_drafted(marked(scribe), vector=DATA)
    assert await reader.found(MARKER, DATA, filter={"tags": MARKER}) == {record.id}
    await scribe.erase(record.id)
    assert await reader.found(MARKER, DATA) == set()
    assert await reader.found(MARKER, DATA, seq=record.born) == set()
    assert (await reader.shares(MARKER)).subjects == frozenset()
    await other.close()


async def test_compacting_waits_for_nobody_who_reads_and_keeps_what_is_written(scribe: Scribe) -> None:
    records = [await scribe.put(f"text {n}", vector=vector(n)) for n in range(30)]
    await scribe.erase(*(record.id for record in records[::2]))
    written = asyncio.gather(*(scribe.put(f"more {n}") for n in range(20)))
    await scribe.ledger.compact()
    await written
    assert len(await scribe.scanned()) == 35
    assert await scribe.audit() == []


def test_the_file_of_a_database_is_where_it_is_looked_for(postgres: Server, fresh_url: str) -> None:
    postgres.execute("CREATE TABLE proof (x text)", name_of(fresh_url))
    postgres.execute("INSERT INTO proof VALUES (%(marker)s)", name_of(fresh_url), marker=MARKER)
    assert traces(postgres, fresh_url, *forms(MARKER))
    assert isinstance(postgres.data, Path)
