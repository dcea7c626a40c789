"""Versions of records: what a commit does, and what every later read says of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from quipu.errors import BackendUnavailableError, ConflictError, NotFoundError
from quipu.model.change import Close, Demote, Erase, Once, Put, Settle, Stage
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
from quipu.testing.builders import FixedClock, Scribe, adding, linked, sealed, vector
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

    # -- walks --------------------------------------------------------------------------------------------------

    async def test_a_walk_goes_from_the_newest_id_down(self, scribe: Scribe) -> None:
        records = [await scribe.put() for _ in range(5)]
        await scribe.change(records[1])
        ids = [record.id for record in reversed(records)]
        assert await scribe.scanned() == ids
        assert await scribe.scanned(agent_id="ana", limit=2) == ids[:2]
        assert await scribe.scanned(agent_id="ana", limit=2, below=ids[1]) == ids[2:4]
        assert await scribe.scanned(agent_id="ana", limit=2, below=ids[3]) == ids[4:]

    async def test_a_walk_is_whole_over_many_pages(self, scribe: Scribe) -> None:
        drafts = [scribe.drafted(f"text {number}") for number in range(1203)]
        await scribe.commit(*(adding(draft) for draft in drafts))
        await scribe.commit(*(Close(record=draft, ending=Ending.FORGOTTEN) for draft in drafts[::2]))
        living = [draft.id for draft in reversed(drafts[1::2])]
        assert await scribe.scanned() == living
        assert await scribe.scanned(states=frozenset({State.LIVE, State.FORGOTTEN})) == [
            draft.id for draft in reversed(drafts)
        ]
        walked: list[str] = []
        while page := await scribe.scanned(limit=100, below=walked[-1] if walked else None):
            walked.extend(page)
        assert walked == living

    async def test_a_walk_keeps_to_its_selection(self, scribe: Scribe) -> None:
        store = await scribe.open_store("other")
        plain = await scribe.put(metadata={"n": 1}, tags=("red",))
        user = await scribe.put(user_id="u", metadata={"n": 2})
        session = await scribe.put(session_id="s", type=MemoryType.EPISODIC)
        elsewhere = await scribe.put(store_id=store.id)
        foreign = await scribe.put(agent_id="bo")
        mine = [elsewhere.id, session.id, user.id, plain.id]
        assert await scribe.scanned(agent_id="ana") == mine
        assert await scribe.scanned(agent_id="bo") == [foreign.id]
        assert await scribe.scanned(user_id="u") == [user.id]
        assert await scribe.scanned(session_id="s") == [session.id]
        assert await scribe.scanned(store_id=store.id) == [elsewhere.id]
        assert await scribe.scanned(types=frozenset({MemoryType.EPISODIC})) == [session.id]
        assert await scribe.scanned(ids=(plain.id, foreign.id, "mem_none")) == [foreign.id, plain.id]
        assert await scribe.scanned(filter={"n": {"$gte": 1}}) == [user.id, plain.id]
        assert await scribe.scanned(filter={"tags": "red"}) == [plain.id]
        assert await scribe.scanned(filter={"store": "other"}) == [elsewhere.id]

    async def test_a_walk_keeps_to_its_states(self, scribe: Scribe) -> None:
        live = await scribe.put()
        archived = await scribe.change(await scribe.put(), state=State.ARCHIVED)
        forgotten, erased = await scribe.put(), await scribe.put()
        await scribe.forget(forgotten)
        await scribe.erase(erased.id)
        by_state = {state: await scribe.scanned(states=frozenset({state})) for state in State}
        assert by_state == {
            State.LIVE: [live.id],
            State.ARCHIVED: [archived.id],
            State.FORGOTTEN: [forgotten.id],
            State.ERASED: [erased.id],
        }
        assert await scribe.scanned(states=frozenset({State.LIVE, State.ARCHIVED})) == [archived.id, live.id]

    async def test_a_walk_as_of_a_position_sees_what_stood_then(self, scribe: Scribe) -> None:
        one = await scribe.put("one", metadata={"n": 1})
        other = await scribe.put("other", metadata={"n": 1})
        changed = await scribe.change(one, metadata={"n": 2})
        gone = await scribe.forget(other)
        assert await scribe.scanned(seq=one.born - 1) == []
        assert await scribe.scanned(seq=one.born) == [one.id]
        assert await scribe.scanned(seq=other.born, filter={"n": 1}) == [other.id, one.id]
        assert await scribe.scanned(seq=changed.born, filter={"n": 1}) == [other.id]
        assert await scribe.scanned(seq=gone.seq) == [one.id]

    # -- expiry -------------------------------------------------------------------------------------------------

    async def test_a_record_is_gone_from_the_millisecond_it_expires(self, scribe: Scribe) -> None:
        moment = scribe.clock() + 1000
        record = await scribe.put("short-lived", expires_at=moment, vector=vector(1))
        for now, seen in ((moment - 1, {record.id}), (moment, set[str]()), (moment + 1, set[str]())):
            assert set(await scribe.scanned(now=now)) == seen
            assert await scribe.found("short-lived", now=now) == seen
            assert await scribe.found("", vector(1), now=now) == seen
            assert await scribe.found("short-lived", now=now, seq=record.born) == seen

    async def test_records_past_their_time_are_due_until_they_are_closed(self, scribe: Scribe) -> None:
        moment = scribe.clock() + 1000
        record = await scribe.put(expires_at=moment)
        await scribe.put(expires_at=moment + 1)
        await scribe.put()
        assert await scribe.ledger.due(scribe.tenant, moment - 1) == []
        assert await scribe.ledger.due(scribe.tenant, moment) == [record]
        assert len(await scribe.ledger.due(scribe.tenant, moment + 1)) == 2
        assert len(await scribe.ledger.due(scribe.tenant, moment + 1, limit=1)) == 1
        await scribe.commit(Close(record=record, ending=Ending.EXPIRED), op=Op.SWEEP)
        assert await scribe.ledger.due(scribe.tenant, moment) == []

    # -- erasure ------------------------------------------------------------------------------------------------

    async def test_erasure_leaves_tombstones_without_content(self, scribe: Scribe) -> None:
        first = await scribe.put(
            "word",
            user_id="u",
            session_id="s",
            metadata={"a": "b"},
            tags=("t",),
            links=linked("mem_1"),
            source="x",
            subject="Ana",
            details={"location": "Cusco"},
            privacy=PrivacyIntent(consent_id="c"),
            importance=0.5,
        )
        second = await scribe.change(first, content="another word")
        await scribe.erase(first.id)
        versions = await scribe.ledger.versions(scribe.tenant, first.id)
        assert [(v.version, v.digest, v.born) for v in versions] == [
            (1, first.digest, first.born),
            (2, second.digest, second.born),
        ]
        for version in versions:
            assert version.standing is State.ERASED
            assert version.is_emptied
            assert version.died is not None
            assert (version.content, version.metadata, version.tags, version.links) == ("", {}, (), ())
            assert (version.user_id, version.session_id, version.source) == (None, None, None)
            assert (version.details, version.privacy, version.importance) == ({}, None, None)
            assert version.provenance == Provenance(written_by="")

    async def test_erasure_beats_every_snapshot(self, scribe: Scribe) -> None:
        record = await scribe.put("word", vector=vector(1))
        assert await scribe.found("word", vector(1)) == {record.id}
        await scribe.erase(record.id)
        for seq in range((await scribe.ledger.head(scribe.tenant)).seq + 1):
            assert await scribe.scanned(seq=seq) == []
            assert await scribe.found("word", vector(1), seq=seq) == set()
            read = await scribe.ledger.read(scribe.tenant, [record.id], seq)
            assert not read or read[record.id].is_emptied

    async def test_erasure_names_every_version_in_the_journal(self, scribe: Scribe) -> None:
        first = await scribe.put()
        second = await scribe.change(first)
        done = await scribe.erase(first.id)
        entry = (await scribe.ledger.entries(scribe.tenant, done.seq - 1))[0]
        assert [(m.version, m.digest) for m in entry.records] == [(1, first.digest), (2, second.digest)]
        assert await scribe.audit() == []

    async def test_erasure_reaches_the_forgotten_the_archived_and_the_expired(self, scribe: Scribe) -> None:
        forgotten = await scribe.put("forgotten")
        await scribe.forget(forgotten)
        archived = await scribe.change(await scribe.put("archived"), state=State.ARCHIVED)
        expired = await scribe.put("expired", expires_at=scribe.clock())
        await scribe.erase(forgotten.id, archived.id, expired.id)
        for record in (forgotten, archived, expired):
            versions = await scribe.ledger.versions(scribe.tenant, record.id)
            assert versions
            assert all(version.is_emptied and not version.content for version in versions)
        assert await scribe.audit() == []

    async def test_erasing_twice_changes_nothing(self, scribe: Scribe) -> None:
        record = await scribe.put()
        await scribe.erase(record.id)
        before = await scribe.ledger.versions(scribe.tenant, record.id)
        await scribe.erase(record.id)
        assert await scribe.ledger.versions(scribe.tenant, record.id) == before
        assert await scribe.audit() == []

    # -- marks and reasons --------------------------------------------------------------------------------------

    async def test_recalls_are_counted_and_the_latest_is_kept(
        self, scribe: Scribe, clock: FixedClock
    ) -> None:
        record = await scribe.put()
        assert await scribe.ledger.marks(scribe.tenant, [record.id]) == {}
        late = clock.move(1000)
        await scribe.touch(record.id)
        clock.move(-500)
        await scribe.touch(record.id, "mem_none")
        marks = await scribe.ledger.marks(scribe.tenant, [record.id, "mem_none"])
        assert set(marks) == {record.id}
        mark = marks[record.id]
        assert (mark.recall_count, mark.last_recalled_at, mark.is_demoted) == (2, late, False)

    async def test_a_recall_does_not_change_the_record(self, scribe: Scribe) -> None:
        record = await scribe.put()
        await scribe.touch(record.id)
        assert await scribe.ledger.versions(scribe.tenant, record.id) == [record]

    async def test_a_demotion_stands_until_the_record_is_changed(self, scribe: Scribe) -> None:
        record = await scribe.put("word")

        async def demoted() -> tuple[bool, bool]:
            mark = (await scribe.ledger.marks(scribe.tenant, [record.id])).get(record.id)
            found = await scribe.search("word")
            return mark is not None and mark.is_demoted, found.candidates[0].is_demoted

        assert await demoted() == (False, False)
        await scribe.demote(record)
        await scribe.demote(record)
        assert await demoted() == (True, True)
        kept = scribe.next_version(record)
        await scribe.commit(replace(adding(kept, expects=1), lifts_demotion=False))
        assert await demoted() == (True, True)
        await scribe.change(kept)
        assert await demoted() == (False, False)

    async def test_marks_die_with_an_erasure_and_stay_dead(self, scribe: Scribe) -> None:
        record = await scribe.put()
        await scribe.touch(record.id)
        await scribe.demote(record)
        await scribe.erase(record.id)
        await scribe.touch(record.id)
        assert await scribe.ledger.marks(scribe.tenant, [record.id]) == {}

    async def test_reasons_are_kept_by_position_and_die_with_an_erasure(self, scribe: Scribe) -> None:
        one, other = scribe.drafted(), scribe.drafted()
        first = await scribe.commit(adding(one), adding(other), reason="both")
        last = await scribe.commit(
            Close(record=other, ending=Ending.FORGOTTEN), op=Op.FORGET, reason="no longer"
        )
        assert await scribe.ledger.reasons(scribe.tenant, one.id) == {first.seq: "both"}
        assert await scribe.ledger.reasons(scribe.tenant, other.id) == {
            first.seq: "both",
            last.seq: "no longer",
        }
        await scribe.erase(one.id)
        assert await scribe.ledger.reasons(scribe.tenant, one.id) == {}
        assert await scribe.ledger.reasons(scribe.tenant, other.id) == {last.seq: "no longer"}

    # -- idempotency --------------------------------------------------------------------------------------------

    def _once(self, key: str = "key", fingerprint: str = "body", *record_ids: str) -> Once:
        return Once(
            principal="p",
            operation="remember",
            key=key,
            fingerprint=fingerprint,
            answer={"id": "first"},
            record_ids=record_ids,
        )

    async def test_a_repeated_write_happens_once_and_answers_the_same(self, scribe: Scribe) -> None:
        record = scribe.drafted()
        first = await scribe.commit(adding(record), once=self._once())
        again = await scribe.commit(adding(scribe.drafted()), once=self._once())
        assert first.replayed is None
        assert (again.replayed, again.seq, again.at) == ({"id": "first"}, first.seq, first.at)
        assert await scribe.scanned() == [record.id]
        assert (await scribe.ledger.head(scribe.tenant)).seq == first.seq

    async def test_what_was_answered_under_a_key_can_be_asked_for(self, scribe: Scribe) -> None:
        tenant, now = scribe.tenant, scribe.clock()
        assert await scribe.ledger.answered(tenant, self._once(), now) is None
        first = await scribe.commit(adding(scribe.drafted()), once=self._once())
        known = await scribe.ledger.answered(tenant, self._once(), now)
        assert known is not None
        assert (known.replayed, known.seq, known.at) == ({"id": "first"}, first.seq, first.at)
        assert await scribe.ledger.answered(tenant, self._once("another key"), now) is None
        assert await scribe.ledger.answered(tenant, self._once(), now + 2 * 86_400_000) is None
        with pytest.raises(ConflictError):
            await scribe.ledger.answered(tenant, self._once("key", "other body"), now)

    async def test_equal_writes_at_once_make_one_record(self, scribe: Scribe) -> None:
        done = await asyncio.gather(
            *(scribe.commit(adding(scribe.drafted()), once=self._once()) for _ in range(10))
        )
        assert len(await scribe.scanned()) == 1
        assert sum(answer.replayed is None for answer in done) == 1
        assert len({answer.seq for answer in done}) == 1

    async def test_the_same_key_for_another_request_is_a_conflict(self, scribe: Scribe) -> None:
        await scribe.commit(adding(scribe.drafted()), once=self._once())
        with pytest.raises(ConflictError) as refused:
            await scribe.commit(adding(scribe.drafted()), once=self._once("key", "other body"))
        assert refused.value.reason == "idempotency_key_mismatch"
        assert len(await scribe.scanned()) == 1

    async def test_a_key_belongs_to_its_principal_operation_and_tenant(self, scribe: Scribe) -> None:
        await scribe.commit(adding(scribe.drafted()), once=self._once())
        other = await Scribe.at(scribe.ledger, scribe.clock, tenant="other")
        for writer, once in (
            (scribe, replace(self._once(), principal="q", fingerprint="x")),
            (scribe, replace(self._once(), operation="forget", fingerprint="x")),
            (scribe, self._once("another key", "x")),
            (other, self._once("key", "x")),
        ):
            assert (await writer.commit(adding(writer.drafted()), once=once)).replayed is None

    async def test_a_key_lives_for_a_day(self, scribe: Scribe, clock: FixedClock) -> None:
        await scribe.commit(adding(scribe.drafted()), once=self._once())
        clock.move(_DAY_MS)
        assert (await scribe.commit(adding(scribe.drafted()), once=self._once())).replayed is not None
        clock.move(1)
        fresh = await scribe.commit(adding(scribe.drafted()), once=self._once("key", "other body"))
        assert fresh.replayed is None
        assert (await scribe.commit(once=self._once("key", "other body"))).seq == fresh.seq

    async def test_answers_that_no_key_can_ask_for_any_more_are_dropped(
        self, scribe: Scribe, clock: FixedClock
    ) -> None:
        record = scribe.drafted()
        await scribe.commit(adding(record), once=self._once("old", "body", record.id))
        clock.move(_DAY_MS + 1)
        await scribe.commit(adding(scribe.drafted()), once=self._once("new"))
        assert [row[0] for row in await self.raw(scribe.ledger, "SELECT key FROM answer")] == ["new"]
        assert not await self.raw(scribe.ledger, "SELECT key FROM answer_record WHERE key = 'old'")

    async def test_a_failed_write_leaves_its_key_free(self, scribe: Scribe) -> None:
        record = await scribe.put()
        with pytest.raises(ConflictError):
            await scribe.commit(adding(record), once=self._once())
        assert (await scribe.commit(adding(scribe.drafted()), once=self._once())).replayed is None

    async def test_an_answer_dies_with_a_record_it_speaks_of(self, scribe: Scribe) -> None:
        one, other = scribe.drafted(), scribe.drafted()
        await scribe.commit(adding(one), adding(other), once=self._once("key", "body", one.id, other.id))
        await scribe.erase(other.id)
        again = await scribe.commit(adding(scribe.drafted()), once=self._once("key", "other body"))
        assert again.replayed is None

    # -- proposals ----------------------------------------------------------------------------------------------

    def _stage(self, name: str, record_id: str | None = None) -> Stage:
        return Stage(
            proposal_id=name,
            operation="remember",
            agent_id="ana",
            request={"content": "held"},
            held_by=("rule",),
            lapses_at=None,
            record_id=record_id,
        )

    async def test_a_staged_write_waits_and_is_decided_once(self, scribe: Scribe, clock: FixedClock) -> None:
        staged = await scribe.commit(self._stage("p1"), op=Op.HOLD)
        clock.move(1)
        await scribe.commit(self._stage("p2"), op=Op.HOLD)
        waiting = await scribe.ledger.proposals(scribe.tenant, "pending")
        assert [p.id for p in waiting] == ["p1", "p2"]
        first = waiting[0]
        assert (first.request, first.held_by, first.writer) == ({"content": "held"}, ("rule",), "tester")
        assert (first.created_at, first.status) == (staged.at, "pending")
        settle = Settle(proposal_id="p1", approved=True, reviewer="bo", reason="fine")
        done = await scribe.commit(settle, op=Op.DECIDE)
        decided = (await scribe.ledger.proposals(scribe.tenant, "approved"))[0]
        assert (decided.id, decided.request, decided.reviewer) == ("p1", {}, "bo")
        assert (decided.reviewed_at, decided.reason) == (done.at, "fine")
        with pytest.raises(ConflictError) as refused:
            await scribe.commit(replace(settle, approved=False), op=Op.DECIDE)
        assert refused.value.reason == "already_decided"
        assert [p.id for p in await scribe.ledger.proposals(scribe.tenant)] == ["p1", "p2"]

    async def test_a_decision_and_its_effect_are_one_commit(self, scribe: Scribe) -> None:
        record = scribe.drafted("held")
        await scribe.commit(self._stage("p1", record.id), op=Op.HOLD)
        assert await scribe.scanned() == []
        assert await scribe.found("held") == set()
        settle = Settle(proposal_id="p1", approved=True, reviewer="bo")
        with pytest.raises(ConflictError):
            await scribe.commit(settle, adding(record, expects=7), op=Op.DECIDE)
        assert [p.id for p in await scribe.ledger.proposals(scribe.tenant, "pending")] == ["p1"]
        await scribe.commit(settle, adding(record), op=Op.DECIDE)
        assert await scribe.found("held") == {record.id}

    async def test_erasure_reaches_what_is_staged(self, scribe: Scribe) -> None:
        await scribe.commit(self._stage("p1", "mem_held"), op=Op.HOLD)
        await scribe.commit(self._stage("p2"), op=Op.HOLD)
        await scribe.commit(Erase(id="mem_held"), Erase(id="p2"), op=Op.ERASE)
        proposals = await scribe.ledger.proposals(scribe.tenant)
        assert [(p.id, p.status, p.request) for p in proposals] == [
            ("p1", "rejected", {}),
            ("p2", "rejected", {}),
        ]

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
