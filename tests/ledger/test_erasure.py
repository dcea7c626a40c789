"""After an erasure no byte of what was said is left in any file, and the chain still verifies."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import apsw
import numpy as np
import pytest

from quipu.ledger.search.terms import Tokenizer
from quipu.ledger.sqlite.ledger import SqliteLedger
from quipu.model.change import Close, Erase, Once, Put, Settle, Stage
from quipu.model.journal import Op
from quipu.model.record import Ending, Link, PrivacyIntent, Provenance, Record, State
from quipu.rules.texts import search_text
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

MARKER = "Xylophonquark"
DATA = vector("the marked one")


@pytest.fixture
async def scribe(tmp_path: Path) -> AsyncIterator[Scribe]:
    ledger = SqliteLedger(
        tmp_path / "memory.db", clock=FixedClock(), mint_id=CountedIds(), canonical=canonical
    )
    scribe = await Scribe.at(ledger, FixedClock())
    await ledger.adopt_space(TENANT, SPACE)
    yield scribe
    await ledger.close()


def path_of(scribe: Scribe) -> Path:
    assert isinstance(scribe.ledger, SqliteLedger)
    return scribe.ledger.path


def forms(text: str) -> list[bytes]:
    """A text as it may lie in a file."""
    plain = text.encode("utf-8")
    wide = [text.encode("utf-16-le"), text.encode("utf-16-be")]
    return [plain, plain.lower(), plain.upper(), *wide, plain.hex().encode(), plain.hex().upper().encode()]


def traces(folder: Path, *needles: bytes) -> list[str]:
    """Which files hold one of the needles."""
    return [
        f"{file.name}: {needle!r}"
        for file in sorted(folder.iterdir())
        for needle in needles
        if needle in file.read_bytes()
    ]


def marked(scribe: Scribe, **fields: object) -> Record:
    """A record that says the marker wherever something can be said."""
    return scribe.drafted(
        f"{MARKER} plays {MARKER}",
        user_id=f"user {MARKER}",
        session_id=f"session {MARKER}",
        metadata={MARKER: {"deep": [MARKER]}},
        tags=(MARKER, "tag"),
        links=(Link("mem_other", MARKER),),
        source=MARKER,
        details={"location": MARKER, "participants": [MARKER]},
        privacy=PrivacyIntent(consent_id=MARKER, share_with=(MARKER,)),
        provenance=Provenance(written_by="w", subject=MARKER, receipt=MARKER, run_id=MARKER),
        **fields,
    )


def needles(*records: Record) -> list[bytes]:
    """Marker, vector, salts and index entries of records."""
    tokenizer = Tokenizer()
    words = [tokenizer.terms(search_text(record)) for record in records]
    return [*forms(MARKER), DATA, *words, *(record.salt for record in records)]


async def test_no_byte_is_left_of_what_an_erased_record_said(scribe: Scribe) -> None:
    folder = path_of(scribe).parent
    other = await scribe.put("another record stays", id="mem_other")
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
    assert await scribe.found(MARKER) == {first.id}
    assert traces(folder, *needles(first, second, third)), "the needles would not be found anyway"
    await scribe.erase(first.id)
    assert traces(folder, *needles(first, second, third)) == []
    assert await scribe.audit() == []
    assert await scribe.ledger.integrity_faults() == []
    assert set(await scribe.ledger.read(TENANT, [other.id])) == {other.id}
    await scribe.put("a new record")
    assert await scribe.found(MARKER, DATA) == set()
    assert traces(folder, *needles(first, second, third)) == []


@pytest.mark.parametrize("way", ["forgotten", "archived", "expired", "merged", "replaced", "pruned"])
async def test_erasure_reaches_records_that_nobody_sees_any_more(scribe: Scribe, way: str) -> None:
    folder = path_of(scribe).parent
    record = marked(scribe, expires_at=scribe.clock() if way == "expired" else None)
    await scribe.commit(adding(record, vector=DATA))
    if way == "archived":
        await scribe.change(record, state=State.ARCHIVED)
    elif way == "forgotten":
        await scribe.commit(Close(record=record, ending=Ending.FORGOTTEN), op=Op.FORGET, reason=MARKER)
    elif way == "merged":
        keeper = await scribe.put("kept")
        await scribe.put("pointing", links=linked(record.id))
        await scribe.merge(record, keeper)
    elif way in ("replaced", "pruned"):
        changed = await scribe.change(record, content="harmless", links=())
        if way == "pruned":
            await scribe.ledger.prune(TENANT, changed.born)
    await scribe.erase(record.id)
    assert traces(folder, *needles(record)) == []
    assert await scribe.audit() == []
    for seq in range((await scribe.ledger.head(TENANT)).seq + 1):
        assert await scribe.found(MARKER, DATA, seq=seq) <= {"mem_other"}
        assert record.id not in await scribe.scanned(seq=seq)


@pytest.mark.parametrize("is_by_record", [True, False], ids=["by its record", "by its own id"])
async def test_erasure_reaches_what_is_still_pending(scribe: Scribe, is_by_record: bool) -> None:
    folder = path_of(scribe).parent
    stage = Stage(
        proposal_id="prop_1",
        operation="remember",
        agent_id="ana",
        request={"content": MARKER, "metadata": {MARKER: [MARKER]}},
        held_by=("rule",),
        lapses_at=None,
        record_id="mem_held" if is_by_record else None,
    )
    await scribe.commit(stage, op=Op.HOLD)
    assert traces(folder, *forms(MARKER))
    await scribe.commit(Erase(id="mem_held" if is_by_record else "prop_1"), op=Op.ERASE)
    assert traces(folder, *forms(MARKER)) == []
    assert await scribe.ledger.proposals(TENANT, "pending") == []
    assert await scribe.audit() == []


async def test_a_decided_proposal_keeps_nothing_of_its_request(scribe: Scribe) -> None:
    stage = Stage(
        proposal_id="prop_1",
        operation="remember",
        agent_id="ana",
        request={"content": MARKER},
        held_by=(),
        lapses_at=None,
        record_id="mem_held",
    )
    await scribe.commit(stage, op=Op.HOLD)
    settle = Settle(proposal_id="prop_1", approved=False, reviewer="bo", reason=f"not {MARKER}")
    await scribe.commit(settle, op=Op.DECIDE)
    await scribe.erase("mem_held")
    assert traces(path_of(scribe).parent, *forms(MARKER)) == []


def random_text(random: np.random.Generator, marker: str) -> str:
    return f"{marker} " * int(random.integers(1, 400))


async def test_no_page_keeps_what_was_moved_around_in_it(scribe: Scribe) -> None:
    """Splitting and joining pages copies rows: a copy left behind would outlive the row."""
    random = np.random.default_rng(3)
    ids = [f"mem_{number:04d}" for number in range(400)]
    random.shuffle(ids)
    newest: dict[str, Record] = {}
    for record_id in ids:
        text = random_text(random, MARKER)
        record = scribe.drafted(text, id=record_id, links=(Link("mem_other", f"{MARKER} {record_id}"),))
        once = Once(
            principal="p",
            operation="o",
            key=f"key {record_id}",
            fingerprint="f",
            answer={"a": text},
            record_ids=(record_id,),
        )
        await scribe.commit(adding(record, vector=vector(record_id)), once=once, reason=text)
        newest[record_id] = record
    for record_id in ids[::2]:
        newest[record_id] = await scribe.change(newest[record_id], content=random_text(random, MARKER))
    for record_id in ids[::3]:
        await scribe.forget(newest[record_id])
    random.shuffle(ids)
    for start in range(0, len(ids), 40):
        await scribe.erase(*ids[start : start + 40])
    folder = path_of(scribe).parent
    assert traces(folder, *forms(MARKER), *(vector(record_id) for record_id in ids)) == []
    assert await scribe.audit() == []


@pytest.mark.parametrize("is_one", [True, False])
async def test_what_a_decided_proposal_held_is_gone_from_the_log_too(scribe: Scribe, is_one: bool) -> None:
    folder = path_of(scribe).parent
    await decided.approved(scribe, MARKER)
    assert traces(folder, *forms(MARKER)) != []
    await decided.let_go(scribe, is_one=is_one)
    assert traces(folder, *forms(MARKER)) == []


async def test_compacting_and_backups_bring_nothing_back(scribe: Scribe) -> None:
    folder = path_of(scribe).parent
    records = [await scribe.put_drafted(marked(scribe), vector=DATA) for _ in range(30)]
    await scribe.erase(*(record.id for record in records))
    await scribe.ledger.backup(folder / "copy.db")
    await scribe.ledger.compact()
    assert traces(folder, *needles(*records)) == []


async def test_erasure_is_finished_as_soon_as_slow_readers_let_go(scribe: Scribe) -> None:
    folder = path_of(scribe).parent
    record = await scribe.put_drafted(marked(scribe), vector=DATA)
    reader = apsw.Connection(str(path_of(scribe)))
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM record").fetchall() == [(1,)]
    erasing = asyncio.create_task(scribe.erase(record.id))
    while not (await scribe.ledger.read(TENANT, [record.id]))[record.id].is_emptied:
        pass
    assert reader.execute("SELECT content FROM record").fetchall() == [(record.content,)]
    reader.execute("COMMIT")
    reader.close()
    await erasing
    await finished(scribe)
    assert traces(folder, *needles(record)) == []


async def finished(scribe: Scribe) -> None:
    """An erasure that could not be finished at once is finished with a later write."""
    await scribe.put("something else")


async def test_an_erasure_does_not_wait_for_a_reader_that_never_lets_go(scribe: Scribe) -> None:
    folder = path_of(scribe).parent
    record = await scribe.put_drafted(marked(scribe), vector=DATA)
    reader = apsw.Connection(str(path_of(scribe)))
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM record").fetchall() == [(1,)]
    async with asyncio.timeout(20):
        await scribe.erase(record.id)
        await scribe.put("others go on writing")
    assert await scribe.found(MARKER, DATA) == set()
    reader.close()
    await finished(scribe)
    assert traces(folder, *needles(record)) == []


async def test_another_process_that_has_the_record_in_memory_forgets_it(scribe: Scribe) -> None:
    other = SqliteLedger(path_of(scribe), clock=FixedClock(), mint_id=CountedIds("o"), canonical=canonical)
    reader = await Scribe.at(other, FixedClock())
    record = await scribe.put_drafted(marked(scribe), vector=DATA)
    assert await reader.found(MARKER, DATA, filter={"tags": MARKER}) == {record.id}
    await scribe.erase(record.id)
    assert await reader.found(MARKER, DATA) == set()
    assert await reader.found(MARKER, DATA, seq=record.born) == set()
    assert (await reader.shares(MARKER)).subjects == frozenset()
    await other.close()


async def test_a_caller_that_goes_away_leaves_nothing_of_it_in_the_log(scribe: Scribe) -> None:
    """The erasure was handed over and is done; nobody writes afterwards."""
    folder = path_of(scribe).parent
    record = await scribe.put_drafted(marked(scribe), vector=DATA)
    busy = apsw.Connection(str(path_of(scribe)))
    busy.execute("BEGIN IMMEDIATE")
    erasing = asyncio.create_task(scribe.erase(record.id))
    await asyncio.sleep(0.05)
    erasing.cancel()
    assert isinstance((await asyncio.gather(erasing, return_exceptions=True))[0], asyncio.CancelledError)
    busy.execute("ROLLBACK")
    busy.close()
    async with asyncio.timeout(20):
        while traces(folder, *needles(record)):
            await scribe.scanned()
    assert (await scribe.ledger.read(TENANT, [record.id]))[record.id].is_emptied


async def erased_beside_a_reader(scribe: Scribe) -> tuple[Record, SqliteLedger, apsw.Connection]:
    """Another ledger on the same file has erased a record, and a reader kept it from cutting the log."""
    record = await scribe.put_drafted(marked(scribe), vector=DATA)
    other = SqliteLedger(path_of(scribe), clock=FixedClock(), mint_id=CountedIds("o"), canonical=canonical)
    reader = apsw.Connection(str(path_of(scribe)))
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM record").fetchall() == [(1,)]
    await (await Scribe.at(other, FixedClock())).erase(record.id)
    return record, other, reader


async def test_what_another_process_could_not_cut_from_the_log_is_cut_with_the_next_write(
    scribe: Scribe,
) -> None:
    folder = path_of(scribe).parent
    record, other, reader = await erased_beside_a_reader(scribe)
    await other.close()
    reader.close()
    assert traces(folder, *needles(record)), "there was nothing left to be cut"
    await finished(scribe)
    assert traces(folder, *needles(record)) == []


async def test_what_was_owed_is_cut_at_closing(scribe: Scribe) -> None:
    folder = path_of(scribe).parent
    record, other, reader = await erased_beside_a_reader(scribe)
    reader.close()
    assert traces(folder, *needles(record)), "there was nothing left to be cut"
    await other.close()  # the other one has the file open still
    assert traces(folder, *needles(record)) == []


def test_the_forms_of_a_text_are_told_apart() -> None:
    found: Iterable[bytes] = forms("Ab")
    assert set(found) == {b"Ab", b"ab", b"AB", b"A\0b\0", b"\0A\0b", b"4162"}
