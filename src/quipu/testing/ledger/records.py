"""Versions of records: what a commit does, and what every later read says of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from quipu.errors import BackendUnavailableError, ConflictError, NotFoundError, QuipuError
from quipu.model.change import Close, Demote, Put
from quipu.model.journal import Op
from quipu.model.record import (
    Ending,
    Link,
    MemoryType,
    PrivacyIntent,
    Provenance,
    Sensitivity,
    State,
    Tier,
    Trust,
)
from quipu.ports.ledger import Ledger
from quipu.testing.builders import Scribe, adding, linked, sealed, vector
from quipu.testing.ledger.case import LedgerCase

_DAY_MS = 24 * 3600 * 1000


class RecordsContract(LedgerCase):
    """Commits, reads, walks, marks, reasons, idempotency, proposals."""

    # -- versions -----------------------------------------------------------------------------------------------

    async def test_a_record_comes_back_as_it_was_given(self, scribe: Scribe) -> None:
        given = scribe.drafted(
            "Ana drinks maté — 🧉 “tea”\n\ttwice",
            user_id="u",
            session_id="s",
            type=MemoryType.EPISODIC,
            tier=Tier.SHORT_TERM,
            metadata={"a": [1, 2.5, None, True, {"": "é"}], "big": 2**53 + 1, "small": 1e-300},
            tags=("red", "green"),
            links=(Link("mem_1", "about"), Link("mem_1", "follows")),
            confidence=0.3,
            importance=0.7,
            source="user",
            details={"event_time": 5, "participants": ["Ana"]},
            privacy=PrivacyIntent(
                retain="P1D", share_with=("bo",), consent_id="c", sensitivity=Sensitivity.SECRET
            ),
            provenance=Provenance(
                written_by="w",
                trust=Trust.EXTERNAL,
                run_id="r",
                node_id="n",
                subject="Ana",
                import_id="i",
                captured_at=7,
                receipt="x",
            ),
            expires_at=scribe.clock() + 1,
        )
        record = await scribe.put_drafted(given)
        assert (await scribe.ledger.read(scribe.tenant, [given.id])) == {given.id: record}
        assert await scribe.ledger.versions(scribe.tenant, given.id) == [record]

    async def test_a_change_closes_the_version_before_it(self, scribe: Scribe) -> None:
        first = await scribe.put("one")
        second = await scribe.change(first, content="two")
        versions = await scribe.ledger.versions(scribe.tenant, first.id)
        assert versions == [replace(first, died=second.born, ending=Ending.REPLACED), second]
        assert [version.standing for version in versions] == [State.LIVE, State.LIVE]

    async def test_a_closed_record_has_no_current_version(self, scribe: Scribe) -> None:
        record = await scribe.put()
        done = await scribe.forget(record)
        newest = (await scribe.ledger.read(scribe.tenant, [record.id]))[record.id]
        assert (newest.died, newest.ending, newest.standing) == (
            done.seq,
            Ending.FORGOTTEN,
            State.FORGOTTEN,
        )
        assert await scribe.ledger.read(scribe.tenant, [record.id], done.seq) == {}

    async def test_a_version_after_a_closed_one_brings_the_record_back(self, scribe: Scribe) -> None:
        record = await scribe.put("one")
        gone = await scribe.forget(record)
        back = await scribe.change(record)
        versions = await scribe.ledger.versions(scribe.tenant, record.id)
        assert [(v.born, v.died, v.ending) for v in versions] == [
            (record.born, gone.seq, Ending.FORGOTTEN),
            (back.born, None, None),
        ]
        assert await scribe.found("one") == {record.id}

    async def test_a_merged_record_says_what_it_was_merged_into(self, scribe: Scribe) -> None:
        one, other = await scribe.put(), await scribe.put()
        await scribe.merge(one, other)
        newest = (await scribe.ledger.read(scribe.tenant, [one.id]))[one.id]
        assert (newest.ending, newest.merged_into) == (Ending.MERGED, other.id)

    async def test_every_past_position_can_be_read(self, scribe: Scribe) -> None:
        first = await scribe.put("one")
        second = await scribe.change(first, content="two")
        gone = await scribe.forget(second)
        third = await scribe.change(second, content="three")
        told: list[str | None] = []
        for seq in range((await scribe.ledger.head(scribe.tenant)).seq + 1):
            read = await scribe.ledger.read(scribe.tenant, [first.id], seq)
            told.append(read[first.id].content if read else None)
        positions = (first.born, second.born, gone.seq, third.born)
        assert told == [
            None if seq < positions[0] or positions[2] <= seq < positions[3] else
            ("one" if seq < positions[1] else "two" if seq < positions[2] else "three")
            for seq in range(len(told))
        ]  # fmt: skip

    async def test_unknown_ids_are_left_out(self, scribe: Scribe) -> None:
        record = await scribe.put()
        assert set(await scribe.ledger.read(scribe.tenant, ["mem_none", record.id])) == {record.id}
        assert await scribe.ledger.versions(scribe.tenant, "mem_none") == []

    async def test_another_tenant_reads_nothing(self, scribe: Scribe) -> None:
        record = await scribe.put()
        other = await Scribe.at(scribe.ledger, scribe.clock, tenant="other")
        assert await other.ledger.read("other", [record.id]) == {}
        assert await other.scanned() == []
        await other.put_drafted(other.drafted(id=record.id))
        await other.erase(record.id)
        assert (await scribe.ledger.read(scribe.tenant, [record.id]))[record.id].content

    async def test_every_version_is_walked_in_the_order_of_birth(self, scribe: Scribe) -> None:
        one = await scribe.put("one")
        other = await scribe.put("other")
        await scribe.change(one, content="one again")
        await scribe.erase(other.id)
        walked = [record async for record in scribe.ledger.every_version(scribe.tenant)]
        assert [(v.id, v.version) for v in walked] == [(one.id, 1), (other.id, 1), (one.id, 2)]
        assert walked[1].is_emptied

    # -- conflicts and atomicity --------------------------------------------------------------------------------

    async def test_an_id_can_be_taken_once(self, scribe: Scribe) -> None:
        record = await scribe.put("one")
        with pytest.raises(ConflictError) as refused:
            await scribe.put_drafted(scribe.drafted("two", id=record.id))
        assert refused.value.reason == "version_mismatch"
        assert (await scribe.ledger.read(scribe.tenant, [record.id]))[record.id].content == "one"

    async def test_a_change_of_a_version_that_has_moved_on_is_a_conflict(self, scribe: Scribe) -> None:
        first = await scribe.put("one")
        await scribe.change(first, content="two")
        before = await scribe.ledger.head(scribe.tenant)
        for stale in (
            adding(scribe.next_version(first, content="other"), expects=1),
            Close(record=first, ending=Ending.FORGOTTEN),
            Demote(record=first),
        ):
            with pytest.raises(ConflictError) as refused:
                await scribe.commit(stale)
            assert refused.value.reason == "version_mismatch"
        assert await scribe.ledger.head(scribe.tenant) == before

    async def test_a_record_is_closed_once(self, scribe: Scribe) -> None:
        record = await scribe.put()
        await scribe.forget(record)
        with pytest.raises(ConflictError):
            await scribe.forget(record)

    async def test_an_erased_record_cannot_be_changed(self, scribe: Scribe) -> None:
        record = await scribe.put()
        await scribe.erase(record.id)
        for change in (
            adding(scribe.next_version(record), expects=1),
            adding(sealed(replace(record, born=0))),
            Close(record=record, ending=Ending.FORGOTTEN),
            Demote(record=record),
        ):
            with pytest.raises(ConflictError):
                await scribe.commit(change)

    async def test_commits_handed_in_together_stand_or_fall_together(self, scribe: Scribe) -> None:
        kept = await scribe.put("kept")
        await scribe.change(kept, content="moved on")
        fresh = scribe.drafted("fresh", id="mem_fresh", links=linked(kept.id))
        before = await scribe.ledger.head(scribe.tenant)
        statistics = await scribe.ledger.statistics(scribe.tenant)
        good = scribe.committing(adding(fresh, vector=vector(1)), reason="because")
        stale = scribe.committing(Close(record=kept, ending=Ending.FORGOTTEN), op=Op.FORGET)
        with pytest.raises(ConflictError):
            await scribe.ledger.commit(good, stale)
        assert await scribe.ledger.head(scribe.tenant) == before
        assert await scribe.ledger.read(scribe.tenant, [fresh.id]) == {}
        assert await scribe.found("fresh", vector(1)) == set()
        assert (await scribe.ledger.statistics(scribe.tenant))["versions"] == statistics["versions"]
        assert await scribe.neighbours(kept.id) == {kept.id: frozenset()}
        assert await scribe.ledger.reasons(scribe.tenant, fresh.id) == {}

    async def test_commits_handed_in_together_build_on_each_other(self, scribe: Scribe) -> None:
        first = scribe.drafted("one")
        second = scribe.next_version(first, content="two")
        done = await scribe.ledger.commit(
            scribe.committing(adding(first)), scribe.committing(adding(second, expects=1), op=Op.UPDATE)
        )
        assert done[1].seq == done[0].seq + 1
        assert (await scribe.ledger.read(scribe.tenant, [first.id]))[first.id].content == "two"

    async def test_each_of_many_new_records_has_its_own_words_and_vector(
        self, ledger: Ledger, scribe: Scribe
    ) -> None:
        first = await scribe.put("the first", vector=vector("first"))
        ahead = scribe.clock() + 1_000
        many = [scribe.drafted(f"herb{number} tea", created_at=ahead - number) for number in range(100)]
        puts = [
            replace(adding(record, vector=None if number % 7 == 3 else vector(number)), search_text=None)
            if number % 9 == 4
            else adding(record, vector=None if number % 7 == 3 else vector(number))
            for number, record in enumerate(many)
        ]
        last = scribe.drafted("linked", links=linked(first.id))
        done = await scribe.commit(*puts, adding(last, vector=vector("last")))
        assert (await ledger.read(scribe.tenant, [many[42].id]))[many[42].id] == replace(
            many[42], born=done.seq
        )
        entry = (await ledger.entries(scribe.tenant))[-1]
        assert [mention.id for mention in entry.records] == [record.id for record in (*many, last)]
        rows = await self.raw(ledger, "SELECT ahead FROM tenant WHERE tenant = :tenant", tenant=scribe.tenant)
        assert [tuple(row) for row in rows] == [(ahead,)]
        for number, record in enumerate(many):
            assert await scribe.found(f"herb{number}") == (set() if number % 9 == 4 else {record.id})
        kept = await ledger.vectors(scribe.tenant, [first, *many, last])
        assert kept == {
            first.id: vector("first"),
            last.id: vector("last"),
            **{record.id: vector(number) for number, record in enumerate(many) if number % 7 != 3},
        }

    async def test_one_of_many_that_cannot_be_kept_keeps_all_of_them_out(self, scribe: Scribe) -> None:
        taken = await scribe.put()
        others = [adding(scribe.drafted(f"tea {number}"), vector=vector(number)) for number in range(3)]
        faulty = [
            adding(scribe.drafted("again", id=taken.id)),
            adding(scribe.drafted("short"), vector=b"1234"),
            replace(adding(scribe.drafted("of another"), vector=vector("m")), model="another"),
            adding(scribe.drafted("nowhere", store_id="ms_none")),
        ]
        reasons: list[str | None] = []
        for one in faulty:
            with pytest.raises(QuipuError) as refused:
                await scribe.commit(*others, one)
            reasons.append(refused.value.reason)
        assert reasons == ["version_mismatch", "embedding_mismatch", "embedding_mismatch", "store"]
        assert await scribe.scanned() == [taken.id]
        done = await scribe.commit(*others)
        assert done.seq == taken.born + 1
        assert len(await scribe.scanned()) == 4

    async def test_of_concurrent_changes_of_one_version_one_wins(self, scribe: Scribe) -> None:
        record = await scribe.put("start")
        attempts = await asyncio.gather(
            *(scribe.change(record, content=f"attempt {number}") for number in range(20)),
            return_exceptions=True,
        )
        won = [attempt for attempt in attempts if not isinstance(attempt, BaseException)]
        assert len(won) == 1
        assert all(isinstance(a, ConflictError) for a in attempts if isinstance(a, BaseException))
        newest = (await scribe.ledger.read(scribe.tenant, [record.id]))[record.id]
        assert newest.content == won[0].content
        assert await scribe.audit() == []

    async def test_readers_never_see_half_a_commit(self, scribe: Scribe) -> None:
        one, other = scribe.drafted("one"), scribe.drafted("other")
        await scribe.commit(adding(one), adding(other))

        async def write() -> None:
            left, right = one, other
            for _ in range(50):
                left, right = scribe.next_version(left), scribe.next_version(right)
                expects = left.version - 1
                await scribe.commit(adding(left, expects=expects), adding(right, expects=expects))

        writing = asyncio.create_task(write())
        while not writing.done():
            read = await scribe.ledger.read(scribe.tenant, [one.id, other.id])
            assert read[one.id].version == read[other.id].version
        await writing

    async def test_an_unknown_tenant_or_store_is_not_found(self, scribe: Scribe) -> None:
        with pytest.raises(NotFoundError):
            await scribe.put_drafted(scribe.drafted(store_id="ms_none"))
        foreign = replace(scribe, tenant="nobody")
        for asked in (foreign.put(), foreign.ledger.head("nobody"), foreign.ledger.position_at("nobody", 0)):
            with pytest.raises(NotFoundError):
                await asked

    # -- closing ------------------------------------------------------------------------------------------------

    async def test_a_closed_ledger_says_so(self, ledger: Ledger, scribe: Scribe) -> None:
        record = await scribe.put()
        await ledger.close()
        await ledger.close()
        for asked in (scribe.put(), ledger.read(scribe.tenant, [record.id])):
            with pytest.raises(BackendUnavailableError) as refused:
                await asked
            assert refused.value.reason == "closed"

    async def test_a_put_without_search_text_is_kept_and_not_found(self, scribe: Scribe) -> None:
        record = scribe.drafted("hidden")
        await scribe.commit(Put(record=record))
        assert await scribe.scanned() == [record.id]
        assert await scribe.found("hidden") == set()
