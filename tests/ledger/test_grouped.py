"""Commits that share a transaction share what is read of their tenant, and still see all that came before them."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from quipu.crypto.canonical import canonical
from quipu.errors import ConflictError, NotFoundError
from quipu.ledger.sqlite.ledger import SqliteLedger
from quipu.model.change import Close, DropStore, KeepRules
from quipu.model.disclosure import Question, Standing, Writes
from quipu.model.journal import Op
from quipu.model.record import Ending
from quipu.ports.ledger import Space
from quipu.testing.builders import CountedIds, FixedClock, Scribe, adding, unit


@pytest.fixture
async def scribe(tmp_path: Path) -> AsyncIterator[Scribe]:
    clock = FixedClock()
    ledger = SqliteLedger(tmp_path / "memory.db", clock=clock, mint_id=CountedIds(), canonical=canonical)
    yield await Scribe.at(ledger, clock)
    await ledger.close()


async def grouped(scribe: Scribe, *work: Awaitable[Any]) -> list[Any]:
    """All of it in one transaction, in this order: what each gave, or raised."""
    begun, end = threading.Event(), threading.Event()

    def keeps_the_writer_busy(_: Standing) -> Writes:
        begun.set()
        end.wait()
        return Writes()

    decided = scribe.ledger.lending.decide(scribe.tenant, Question(), keeps_the_writer_busy)
    busy = asyncio.ensure_future(decided)
    await asyncio.to_thread(begun.wait)
    waiting = [asyncio.ensure_future(one) for one in work]
    await asyncio.sleep(0)
    end.set()
    await busy
    return await asyncio.gather(*waiting, return_exceptions=True)


async def test_the_chain_is_whole_when_one_of_a_group_fails(scribe: Scribe) -> None:
    taken = scribe.drafted("first", id="mem_taken")
    again = scribe.drafted("second", id="mem_taken")
    drafts = [scribe.drafted(f"tea {number}") for number in range(3)]
    done = await grouped(scribe, *(scribe.put_drafted(one) for one in (drafts[0], taken, again, *drafts[1:])))
    assert [type(one).__name__ for one in done] == ["Record", "Record", "ConflictError", "Record", "Record"]
    assert set(await scribe.scanned()) == {taken.id, *(one.id for one in drafts)}
    assert (await scribe.ledger.read(scribe.tenant, [taken.id]))[taken.id].content == "first"
    entries = await scribe.ledger.entries(scribe.tenant)
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    assert all(later.prev == earlier.hash for earlier, later in pairwise(entries))
    head = await scribe.ledger.head(scribe.tenant)
    assert (head.seq, head.hash) == (entries[-1].seq, entries[-1].hash)


async def test_what_comes_after_commits_that_were_taken_back_builds_on_what_was_before_them(
    scribe: Scribe,
) -> None:
    taken = await scribe.put("taken")
    again = scribe.drafted("again", id=taken.id)
    both = [scribe.committing(adding(record)) for record in (scribe.drafted("with it"), again)]
    failed, after = await grouped(scribe, scribe.ledger.commit(*both), scribe.put("after"))
    assert isinstance(failed, ConflictError)
    assert after.born == taken.born + 1


async def test_rules_that_change_within_a_group_refuse_what_was_judged_before(scribe: Scribe) -> None:
    old = (await scribe.ledger.guard(scribe.tenant)).position
    changing = scribe.commit(KeepRules(rules=({"id": "a"},)), op=Op.CHANGE_RULES)
    puts = [scribe.committing(adding(scribe.drafted())) for _ in range(2)]
    before, _, after = await grouped(
        scribe,
        scribe.ledger.commit(puts[0], guard=old),
        changing,
        scribe.ledger.commit(puts[1], guard=old),
    )
    assert not isinstance(before, Exception)
    assert isinstance(after, ConflictError)
    assert after.reason == "secrets_changed"


async def test_a_mirror_of_the_same_group_is_told_of_what_comes_after_it(scribe: Scribe) -> None:
    outbox = scribe.ledger.outbox
    _, _, after = await grouped(
        scribe, scribe.put("early"), outbox.register(scribe.tenant, "m", is_written=True), scribe.put("late")
    )
    intents = await outbox.intents(scribe.tenant, "m", scribe.clock(), 10)
    assert [intent.seq for intent in intents] == [after.born]


async def test_a_store_that_goes_within_a_group_takes_nothing_more(scribe: Scribe) -> None:
    store = await scribe.open_store("passing")
    record = scribe.drafted("there and gone", store_id=store.id)
    *_, late = await grouped(
        scribe,
        scribe.put_drafted(record),
        scribe.commit(Close(record=record, ending=Ending.FORGOTTEN), op=Op.FORGET),
        scribe.commit(DropStore(store_id=store.id), op=Op.DELETE_STORE),
        scribe.put("too late", store_id=store.id),
    )
    assert isinstance(late, NotFoundError)
    assert [known.name for known in await scribe.ledger.stores(scribe.tenant)] == ["main"]


async def test_a_vector_after_a_change_of_space_is_refused_in_the_same_group(scribe: Scribe) -> None:
    await scribe.ledger.adopt_space(scribe.tenant, Space("small", 2))
    fits = bytes(8)
    before, _, after = await grouped(
        scribe,
        scribe.put("before", vector=fits),
        scribe.ledger.adopt_space(scribe.tenant, Space("wide", 3)),
        scribe.put("after", vector=fits),
    )
    assert not isinstance(before, Exception)
    assert getattr(after, "reason", None) == "embedding_mismatch"


async def test_new_records_of_a_group_each_have_their_own_vector_words_and_place(scribe: Scribe) -> None:
    await scribe.ledger.adopt_space(scribe.tenant, Space("small", 2))
    before = (await scribe.ledger.head(scribe.tenant)).seq
    given = [unit((1.0, float(number))) if number % 3 else None for number in range(40)]
    records = await grouped(
        scribe, *(scribe.put(f"word{number}", vector=vector) for number, vector in enumerate(given))
    )
    assert [record.born for record in records] == list(range(before + 1, before + 41))
    kept = await scribe.ledger.vectors(scribe.tenant, records)
    assert [kept.get(record.id) for record in records] == given
    for number, record in enumerate(records):
        assert await scribe.found(f"word{number}") == {record.id}
    assert await scribe.audit() == []


async def test_what_is_new_in_a_group_can_be_changed_and_erased_in_it(scribe: Scribe) -> None:
    first, second = scribe.drafted("first"), scribe.drafted("second")
    done = await grouped(
        scribe,
        scribe.put_drafted(first),
        scribe.put_drafted(second),
        scribe.change(first, content="changed"),
        scribe.erase(second.id),
        scribe.put("third"),
    )
    assert not [one for one in done if isinstance(one, Exception)]
    known = await scribe.ledger.read(scribe.tenant, [first.id, second.id])
    assert (known[first.id].content, known[first.id].version, known[second.id].is_emptied) == (
        "changed",
        2,
        True,
    )
    assert await scribe.audit() == []


async def test_one_that_leaves_a_group_takes_none_of_what_waits_with_it(scribe: Scribe) -> None:
    await scribe.ledger.adopt_space(scribe.tenant, Space("small", 2))
    fits, wide = unit((1.0, 0.0)), unit((1.0, 0.0, 0.0))
    *others, refused = await grouped(
        scribe, scribe.put("one", vector=fits), scribe.put("two", vector=fits), scribe.put("bad", vector=wide)
    )
    assert getattr(refused, "reason", None) == "embedding_mismatch"
    assert set(await scribe.scanned()) == {record.id for record in others}
    assert await scribe.ledger.vectors(scribe.tenant, others) == {record.id: fits for record in others}
    assert await scribe.audit() == []


async def test_tenants_that_share_a_group_keep_chains_of_their_own(scribe: Scribe) -> None:
    other = await Scribe.at(scribe.ledger, scribe.clock, tenant="other")
    await grouped(scribe, *(one.put(f"{number}") for number in range(3) for one in (scribe, other)))
    for one in (scribe, other):
        assert len(await one.scanned()) == 3
        assert await one.audit() == []


async def test_a_tenant_whose_commit_was_taken_back_is_where_it_was(scribe: Scribe) -> None:
    other = await Scribe.at(scribe.ledger, scribe.clock, tenant="other")
    taken = await other.put("taken")
    _, refused = await grouped(
        scribe, scribe.put("stands"), other.put_drafted(other.drafted("again", id=taken.id))
    )
    assert isinstance(refused, ConflictError)
    assert (await other.ledger.head("other")).seq == taken.born
    assert await other.audit() == []


async def test_work_beside_commits_sees_those_of_its_group(scribe: Scribe) -> None:
    await scribe.ledger.adopt_space(scribe.tenant, Space("small", 2))
    record, found = await grouped(
        scribe,
        scribe.put("without a vector"),
        scribe.ledger.without_vector(scribe.tenant, Space("small", 2), 10),
    )
    assert [one.id for one in found] == [record.id]


async def test_each_commit_of_one_call_builds_on_those_before_it(scribe: Scribe) -> None:
    first = scribe.drafted("first")
    done = await scribe.ledger.commit(
        scribe.committing(adding(first)),
        scribe.committing(adding(scribe.next_version(first, content="changed"), expects=1), op=Op.UPDATE),
        scribe.committing(adding(scribe.drafted("second"))),
        scribe.committing(KeepRules(rules=({"id": "a"},)), op=Op.CHANGE_RULES),
        scribe.committing(adding(scribe.drafted("third"))),
    )
    assert [one.seq for one in done] == list(range(done[0].seq, done[0].seq + 5))
    assert await scribe.audit() == []
