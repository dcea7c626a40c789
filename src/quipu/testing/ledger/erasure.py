"""What an erasure leaves, and the marks and reasons beside a record."""

from __future__ import annotations

from dataclasses import replace

from quipu.errors import ConflictError
from quipu.model.change import Close, Erase, Stage
from quipu.model.journal import Op
from quipu.model.record import (
    Ending,
    Link,
    PrivacyIntent,
    Provenance,
    Record,
    State,
)
from quipu.testing.builders import FixedClock, Scribe, adding, linked, vector
from quipu.testing.ledger.case import LedgerCase


class ErasureContract(LedgerCase):
    """Tombstones, marks, reasons."""

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

    async def test_records_that_are_erased_together_leave_nothing_beside_any_of_them(
        self, scribe: Scribe
    ) -> None:
        gone = [await scribe.put(f"word {number}", vector=vector(number)) for number in range(12)]
        kept = await scribe.put("word", vector=vector(99))
        around = [await scribe.put(links=linked(record.id, kept.id)) for record in gone]
        for record in (*gone, kept):
            await scribe.touch(record.id)
            stage = Stage(
                proposal_id=f"prp_{record.id}",
                operation="remember",
                agent_id="ana",
                record_id=record.id,
                request={"content": f"changed {record.id}"},
                held_by=("caller",),
                lapses_at=None,
            )
            await scribe.commit(stage, op=Op.HOLD)
        await scribe.commit(*(Erase(id=record.id) for record in gone), op=Op.ERASE)
        read = await scribe.ledger.read(scribe.tenant, [record.id for record in gone])
        assert all(record.is_emptied and record.standing is State.ERASED for record in read.values())
        assert set(await scribe.ledger.marks(scribe.tenant, [one.id for one in (*gone, kept)])) == {kept.id}
        assert await scribe.found("word", vector(3)) == {kept.id}
        neighbours = await scribe.neighbours(*(record.id for record in around))
        assert set(neighbours.values()) == {frozenset({kept.id})}
        told = {one.record_id: bool(one.request) for one in await scribe.ledger.proposals(scribe.tenant)}
        assert told == {**{record.id: False for record in gone}, kept.id: True}
        assert await scribe.audit() == []

    async def test_what_was_made_here_out_of_a_record_is_known_and_what_was_linked_by_hand_is_not_meant(
        self, scribe: Scribe
    ) -> None:
        one, other = await scribe.put("tea"), await scribe.put("cake")

        async def made(rel: str, source: str | None, *of: Record) -> str:
            links = tuple(Link(record.id, rel) for record in of)
            return (await scribe.put("made", links=links, source=source)).id

        compacted = await made("compacted_from", None, one, other)
        promoted = await made("derived_from", "consolidation", one)
        fact = await made("derived_from", "extraction", other)
        await made("derived_from", "notebook", one)
        await made("about", "consolidation", one)
        # Changed since, and forgotten: it has said what they say.
        last = (await scribe.ledger.read(scribe.tenant, [promoted]))[promoted]
        await scribe.forget(await scribe.change(last, links=(), source=None))
        ledger, tenant = scribe.ledger, scribe.tenant
        assert set(await ledger.derived_from(tenant, [one.id])) == {compacted, promoted}
        assert set(await ledger.derived_from(tenant, [one.id, other.id])) == {compacted, promoted, fact}
        assert list(await ledger.derived_from(tenant, [])) == []
        assert list(await ledger.derived_from("nobody", [one.id])) == []

    async def test_an_erasure_leaves_nothing_behind_that_was_made_since_it_was_decided(
        self, scribe: Scribe
    ) -> None:
        """Made out of it, merged into something, or held: whoever erases looks again."""
        ledger, tenant = scribe.ledger, scribe.tenant

        async def is_refused(erased: Record, as_of: int) -> bool:
            commit = scribe.committing(Erase(id=erased.id), op=Op.ERASE, erases_as_of=as_of)
            try:
                await ledger.commit(commit)
            except ConflictError as conflict:
                return conflict.reason == "version_mismatch"
            return False

        async def promoted(one: Record) -> None:
            await scribe.put("made", links=(Link(one.id, "derived_from"),), source="consolidation")

        async def compacted(one: Record) -> None:
            await scribe.put("made", links=(Link(one.id, "compacted_from"),))

        async def merged(one: Record) -> None:
            other = await scribe.put("cake")
            close = Close(record=one, ending=Ending.MERGED, merged_into=other.id)
            await scribe.commit(close, op=Op.MERGE)

        async def held(one: Record) -> None:
            stage = Stage(
                proposal_id=f"prp_{one.id}",
                operation="remember",
                agent_id="ana",
                request={"content": "made", "links": [{"to": one.id, "rel": "derived_from"}]},
                held_by=("caller",),
                lapses_at=None,
            )
            await scribe.commit(stage, op=Op.HOLD, detail={"proposal": stage.proposal_id})

        async def noted(one: Record) -> None:
            await scribe.put("own", links=(Link(one.id, "about"),))

        async def changed(one: Record) -> None:
            await scribe.change(one, content="coffee")

        for happens, is_left in (
            (promoted, True),
            (compacted, True),
            (merged, True),
            (held, True),
            (noted, False),
            (changed, False),
        ):
            one, other = await scribe.put("tea"), await scribe.put("water")
            before = (await ledger.head(tenant)).seq
            await happens(one)
            assert await is_refused(one, before) is is_left, happens.__name__
            assert not await is_refused(other, before), "nothing has happened to this one"
            assert not await is_refused(one, (await ledger.head(tenant)).seq), "decided anew"
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
