"""The chain: dense, linked, in order of time, never changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from quipu.model.journal import GENESIS, Checkpoint, Entry, Mention, Op
from quipu.ports.ledger import Entries
from quipu.rules.chain import entry_hash
from quipu.testing.builders import FixedClock, Scribe, adding, canonical, mention
from quipu.testing.ledger.case import LedgerCase


class JournalContract(LedgerCase):
    """Entries, the head, positions by time, checkpoints."""

    async def test_entries_form_one_dense_chain(self, scribe: Scribe) -> None:
        record = await scribe.put()
        await scribe.forget(await scribe.change(record))
        await scribe.touch(record.id)
        await scribe.erase(record.id)
        entries = await scribe.entries()
        assert [entry.seq for entry in entries] == list(range(1, 7))
        assert [entry.op for entry in entries] == [
            Op.GENESIS,
            Op.REMEMBER,
            Op.UPDATE,
            Op.FORGET,
            Op.RECALL,
            Op.ERASE,
        ]
        previous = GENESIS
        for entry in entries:
            assert entry.prev == previous
            assert entry.hash == entry_hash(entry, canonical)
            previous = entry.hash
        head = await scribe.ledger.head(scribe.tenant)
        assert (head.seq, head.hash, head.at) == (6, previous, entries[-1].at)
        assert await scribe.audit() == []

    async def test_an_entry_tells_who_did_what_to_which_versions(self, scribe: Scribe) -> None:
        one, other = scribe.drafted("content nobody may read"), scribe.drafted()
        done = await scribe.commit(adding(one), adding(other), detail={"k": [1, 2.5, "é"]})
        entry = (await scribe.ledger.entries(scribe.tenant, done.seq - 1))[0]
        assert entry.records == (mention(one), mention(other))
        assert (entry.actor, entry.detail, entry.at) == ("tester", {"k": [1, 2.5, "é"]}, done.at)
        assert "content nobody may read" not in repr(entry)

    async def test_a_read_mentions_what_it_read(self, scribe: Scribe) -> None:
        record = await scribe.put()
        told = (mention(record), Mention("mem_foreign", 1, "0" * 64))
        done = await scribe.commit(op=Op.RECALL, mentions=told)
        assert (await scribe.ledger.entries(scribe.tenant, done.seq - 1))[0].records == told

    async def test_entries_come_in_pages(self, scribe: Scribe) -> None:
        for _ in range(4):
            await scribe.put()
        assert [e.seq for e in await scribe.ledger.entries(scribe.tenant, 1, 2)] == [2, 3]
        assert [e.seq for e in await scribe.ledger.entries(scribe.tenant, 4)] == [5]
        assert await scribe.ledger.entries(scribe.tenant, 5) == []

    async def test_entries_are_found_by_what_they_say(self, scribe: Scribe) -> None:
        """However an id or a text is written down, and wherever else its words stand."""
        first, second = await scribe.put(), await scribe.put(agent_id="bo")
        await scribe.forget(first)
        odd = [Mention(name, 1, "0" * 64) for name in ('a "b" é', 'x a "b" é', "b", "a b")]
        for one in odd:
            await scribe.commit(op=Op.READ, mentions=(one,), detail={"import_id": f"imp_{one.id}", "n": 1})
        every = await scribe.entries()

        async def found(**wanted: Any) -> list[int]:
            return [one.seq for one in await scribe.ledger.entries_with(scribe.tenant, Entries(**wanted))]

        def told(holds: Callable[[Entry], bool]) -> list[int]:
            return [entry.seq for entry in every if holds(entry)]

        assert await found() == list(range(1, len(every) + 1))
        both = frozenset({Op.FORGET, Op.READ})
        assert await found(ops=both) == told(lambda entry: entry.op in both)
        assert await found(ops=frozenset()) == []
        assert await found(ops=both, limit=2, is_newest_first=True) == told(lambda e: e.op in both)[:-3:-1]
        assert await found(after=2, last=4) == [3, 4]
        assert await found(after=2, last=4, is_newest_first=True, limit=1) == [4]
        assert await found(record=first.id) == told(lambda e: any(m.id == first.id for m in e.records))
        assert await found(record=second.id, ops=both) == []
        assert await found(record="mem_") == []
        for place, one in enumerate(odd):
            where = every[-4 + place].seq
            assert await found(record=one.id, limit=1) == [where]
            assert await found(record=one.id, limit=1, is_newest_first=True) == [where]
            assert await found(told=f"imp_{one.id}", limit=1) == [where]
        assert await found(told="imp_") == []
        assert await found(actor=every[1].actor) == told(lambda e: e.actor == every[1].actor)
        for name in ("agent", "actor", "run", "record", "told"):
            assert await found(**{name: "nobody"}) == await found(**{name: "no\0body"}) == []
        await scribe.ledger.open("other")
        assert await scribe.ledger.entries_with("other", Entries(record=first.id)) == []

    async def test_concurrent_commits_get_dense_positions(self, scribe: Scribe) -> None:
        records = await asyncio.gather(*(scribe.put(f"text {number}") for number in range(200)))
        assert sorted(record.born for record in records) == list(range(2, 202))
        for record in records:
            entry = (await scribe.ledger.entries(scribe.tenant, record.born - 1, 1))[0]
            assert entry.records == (mention(record),)
        assert await scribe.audit() == []

    async def test_each_tenant_has_a_chain_of_its_own(self, scribe: Scribe) -> None:
        other = await Scribe.at(scribe.ledger, scribe.clock, tenant="other")
        await scribe.put()
        await other.put()
        await scribe.put()
        assert [entry.seq for entry in await other.entries()] == [1, 2]
        assert await scribe.audit() == []
        assert await other.audit() == []

    async def test_time_never_runs_back_along_the_chain(self, scribe: Scribe, clock: FixedClock) -> None:
        late = clock.move(1000)
        await scribe.put()
        clock.move(-5000)
        done = await scribe.commit(adding(scribe.drafted()))
        assert done.at == late
        assert (await scribe.entries())[-1].at == late
        clock.move(10_000)
        assert (await scribe.commit()).at == clock()

    async def test_a_moment_has_the_last_position_at_or_before_it(
        self, scribe: Scribe, clock: FixedClock
    ) -> None:
        start = clock()
        moments = [start]
        for step in (0, 10, 0, 0, 7, 0):
            moments.append(clock.move(step))
            await scribe.put()
        for moment in range(start - 2, clock() + 3):
            expected = sum(at <= moment for at in moments)
            assert await scribe.ledger.position_at(scribe.tenant, moment) == expected

    async def test_checkpoints_are_kept_in_order_and_never_replaced(self, scribe: Scribe) -> None:
        points = [
            Checkpoint(tenant=scribe.tenant, seq=seq, hash="ab" * 32, at=9, key_id="k", signature=f"s{seq}")
            for seq in (3, 1, 2)
        ]
        for point in points:
            await scribe.ledger.add_checkpoint(point)
        forged = Checkpoint(tenant=scribe.tenant, seq=2, hash="cd" * 32, at=9, key_id="k", signature="forged")
        await scribe.ledger.add_checkpoint(forged)
        assert await scribe.ledger.checkpoints(scribe.tenant) == sorted(points, key=lambda p: p.seq)
        await scribe.ledger.open("other")
        assert await scribe.ledger.checkpoints("other") == []

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE journal SET actor = 'somebody else' WHERE seq = 2",
            "UPDATE journal SET hash = prev",
            "DELETE FROM journal WHERE seq = 2",
            "DELETE FROM journal",
        ],
    )
    async def test_the_database_itself_refuses_to_change_the_journal(
        self, scribe: Scribe, statement: str
    ) -> None:
        await scribe.put()
        before = await scribe.entries()
        with pytest.raises(Exception, match="append-only"):
            await self.raw(scribe.ledger, statement)
        assert await scribe.entries() == before
