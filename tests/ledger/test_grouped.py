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
from quipu.testing.builders import CountedIds, FixedClock, Scribe, adding


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
