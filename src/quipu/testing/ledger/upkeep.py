"""What an operator does: vector spaces, checks, backup, retention."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from quipu.errors import ConflictError, InvalidError
from quipu.model.change import Put
from quipu.model.record import State
from quipu.ports.ledger import Indexed, Space
from quipu.rules.texts import search_text
from quipu.testing.builders import SPACE, FixedClock, Scribe, adding, cosine, vector
from quipu.testing.ledger.case import LedgerCase

_WIDER = Space("wider", 12)


class UpkeepContract(LedgerCase):
    """The ledger as a whole."""

    # -- vector spaces ------------------------------------------------------------------------------------------

    async def test_a_tenant_has_no_space_until_it_adopts_one(self, scribe: Scribe) -> None:
        other = await Scribe.at(scribe.ledger, scribe.clock, tenant="other")
        assert await scribe.ledger.space("other") is None
        record = await other.put("word")
        assert await other.found("word", vector(1)) == {record.id}
        assert await scribe.ledger.space(scribe.tenant) == SPACE
        await scribe.ledger.adopt_space(scribe.tenant, SPACE)
        assert await scribe.ledger.space(scribe.tenant) == SPACE

    async def test_of_two_who_come_at_once_one_settles_the_space(self, scribe: Scribe) -> None:
        await Scribe.at(scribe.ledger, scribe.clock, tenant="other")
        settled = await asyncio.gather(
            *(scribe.ledger.settle_space("other", space) for space in (SPACE, _WIDER, SPACE, _WIDER))
        )
        assert set(settled) == {await scribe.ledger.space("other")}
        assert await scribe.ledger.settle_space(scribe.tenant, _WIDER) == SPACE
        assert await scribe.ledger.space(scribe.tenant) == SPACE

    async def test_moving_to_another_space_goes_on_beside_recall(self, scribe: Scribe) -> None:
        ledger, tenant = scribe.ledger, scribe.tenant
        records = [await scribe.put(f"text {n}", vector=vector(n)) for n in range(10)]
        old = await scribe.change(records[0], vector=vector("changed"))
        gone = records.pop()
        await scribe.forget(gone)
        await scribe.erase(records.pop().id)
        missing = await ledger.without_vector(tenant, _WIDER, 4)
        assert len(missing) == 4
        added = await ledger.add_vectors(tenant, _WIDER, [(r, vector(r.id, 12)) for r in missing])
        assert added == 4
        assert await scribe.ranked(vector("changed"), limit=1) == [old.id]
        late = await scribe.put("late", vector=vector("late"))
        moved = list(missing)
        while missing := await ledger.without_vector(tenant, _WIDER, 4):
            await ledger.add_vectors(tenant, _WIDER, [(r, vector(r.id, 12)) for r in missing])
            moved.extend(missing)
        versions = [record async for record in ledger.every_version(tenant) if not record.is_emptied]
        assert {(r.id, r.version) for r in moved} == {(r.id, r.version) for r in versions}
        assert await ledger.space(tenant) == SPACE
        assert await scribe.ranked(vector("late"), limit=1) == [late.id]
        await ledger.adopt_space(tenant, _WIDER)
        assert await ledger.space(tenant) == _WIDER
        assert await scribe.ranked(vector(late.id, 12), limit=1) == [late.id]
        assert await scribe.ranked(vector(gone.id, 12), limit=1, seq=gone.born) == [gone.id]
        assert (await ledger.statistics(tenant))["vectors"] == len(versions)
        with pytest.raises(InvalidError):
            await scribe.put("narrow", vector=vector(1))
        fresh = await scribe.put("fresh", vector=vector("fresh", 12))
        assert await scribe.ranked(vector("fresh", 12), limit=1) == [fresh.id]

    async def test_an_unfinished_move_makes_room_for_another(self, scribe: Scribe) -> None:
        ledger, tenant = scribe.ledger, scribe.tenant
        record = await scribe.put("word", vector=vector(1))
        for model in ("one", "two", "three"):
            space = Space(model, 12)
            missing = await ledger.without_vector(tenant, space, 10)
            assert [r.id for r in missing] == [record.id]
            await ledger.add_vectors(tenant, space, [(record, vector(model, 12))])
            assert await ledger.without_vector(tenant, space, 10) == []
            assert await scribe.ranked(vector(1)) == [record.id]
        await ledger.adopt_space(tenant, Space("three", 12))
        (found,) = (await scribe.search("", vector("three", 12))).candidates
        assert found.cosine == pytest.approx(1.0, abs=1e-5)
        await ledger.adopt_space(tenant, Space("one", 12))
        assert await scribe.ranked(vector("one", 12)) == []

    async def test_spaces_of_tenants_are_apart(self, scribe: Scribe) -> None:
        other = await Scribe.at(scribe.ledger, scribe.clock, tenant="other")
        await scribe.ledger.adopt_space("other", SPACE)
        mine = await scribe.put(vector=vector(1))
        theirs = await other.put(vector=vector(1))
        await scribe.ledger.adopt_space("other", _WIDER)
        assert await scribe.ranked(vector(1)) == [mine.id]
        assert await other.ranked(vector(1, 12)) == []
        assert [r.id for r in await scribe.ledger.without_vector("other", _WIDER, 9)] == [theirs.id]

    async def test_vectors_that_were_missing_are_searched_once_added(self, scribe: Scribe) -> None:
        record = await scribe.put("word")
        assert await scribe.ranked(vector(1)) == []
        (missing,) = await scribe.ledger.without_vector(scribe.tenant, SPACE, 10)
        assert await scribe.ledger.add_vectors(scribe.tenant, SPACE, [(missing, vector(1))]) == 1
        assert await scribe.ranked(vector(1)) == [record.id]

    async def test_the_vectors_of_versions_can_be_read(self, scribe: Scribe) -> None:
        ledger, tenant = scribe.ledger, scribe.tenant
        other = await Scribe.at(ledger, scribe.clock, tenant="other")
        await ledger.adopt_space("other", SPACE)
        theirs = await other.put("theirs", vector=vector("theirs"))
        first = await scribe.put("one", vector=vector(1))
        changed = await scribe.change(first, vector=vector(2))
        bare = await scribe.put("bare")
        gone = await scribe.put("gone", vector=vector(3))
        assert await ledger.vectors(tenant, []) == {}
        assert await ledger.vectors(tenant, [first]) == {first.id: vector(1)}
        await scribe.erase(gone.id)
        assert await ledger.vectors(tenant, [changed, bare, gone]) == {first.id: vector(2)}
        assert await ledger.vectors("other", [theirs]) == {theirs.id: vector("theirs")}
        await ledger.adopt_space(tenant, _WIDER)
        assert await ledger.vectors(tenant, [first, changed]) == {}
        assert await ledger.vectors("nobody", [first]) == {}

    async def test_vectors_of_the_wrong_width_are_not_added(self, scribe: Scribe) -> None:
        record = await scribe.put("word")
        with pytest.raises(InvalidError) as refused:
            await scribe.ledger.add_vectors(
                scribe.tenant, SPACE, [(record, vector(1)), (record, vector(1, 12))]
            )
        assert refused.value.reason == "embedding_mismatch"
        assert len(await scribe.ledger.without_vector(scribe.tenant, SPACE, 10)) == 1

    async def test_vectors_are_not_added_to_what_is_gone(self, scribe: Scribe) -> None:
        record = await scribe.put("word")
        await scribe.erase(record.id)
        assert await scribe.ledger.add_vectors(scribe.tenant, SPACE, [(record, vector(1))]) == 0
        assert await scribe.ledger.integrity_faults() == []

    async def test_archived_records_are_not_embedded(self, scribe: Scribe) -> None:
        await scribe.put("archived", state=State.ARCHIVED)
        assert await scribe.ledger.without_vector(scribe.tenant, SPACE, 10) == []

    # -- checks -------------------------------------------------------------------------------------------------

    async def test_a_sound_index_has_no_faults(self, scribe: Scribe) -> None:
        record = await scribe.put("word", vector=vector(1))
        archived = await scribe.put("archived", state=State.ARCHIVED)
        expected = [
            Indexed(record=record, search_text=search_text(record)),
            Indexed(record=archived, search_text=None),
        ]
        assert await scribe.ledger.index_faults(scribe.tenant, expected) == []
        assert await scribe.ledger.integrity_faults() == []

    async def test_an_index_that_says_something_else_is_named(self, scribe: Scribe) -> None:
        sound, wrong = await scribe.put("word"), await scribe.put("word")
        silent, hidden = await scribe.put("word"), scribe.drafted("hidden")
        await scribe.commit(Put(record=hidden, search_text="hidden"))
        await self.raw(scribe.ledger, "UPDATE record SET terms = NULL WHERE id = :id", id=silent.id)
        expected = [
            Indexed(record=sound, search_text="word"),
            Indexed(record=wrong, search_text="another word"),
            Indexed(record=silent, search_text="word"),
            Indexed(record=hidden, search_text=None),
        ]
        faults = await scribe.ledger.index_faults(scribe.tenant, expected)
        assert [(f.kind, f.id) for f in faults] == [
            ("index_differs", wrong.id),
            ("index_differs", silent.id),
            ("index_differs", hidden.id),
        ]
        assert faults[0].seq == wrong.born

    async def test_an_altered_record_is_found_by_its_digest(self, scribe: Scribe) -> None:
        record = await scribe.put("the truth")
        await scribe.put("another")
        assert await scribe.audit() == []
        await self.raw(scribe.ledger, "UPDATE record SET content = 'a lie' WHERE id = :id", id=record.id)
        assert [told.split(":")[0] for told in await scribe.audit()] == [f"altered_record at {record.born}"]

    async def test_a_record_closed_behind_the_journal_is_found(self, scribe: Scribe) -> None:
        record = await scribe.put()
        await self.raw(scribe.ledger, "UPDATE record SET died = born + 1 WHERE id = :id", id=record.id)
        assert [told.split(" ")[0] for told in await scribe.audit()] == ["life_differs"]

    async def test_a_record_removed_behind_the_journal_is_found(self, scribe: Scribe) -> None:
        record = await scribe.put()
        await self.raw(scribe.ledger, "DELETE FROM record WHERE id = :id", id=record.id)
        assert [told.split(" ")[0] for told in await scribe.audit()] == ["missing_record"]

    # -- backup, retention, numbers -----------------------------------------------------------------------------

    async def test_a_backup_is_refused_where_something_stands(self, scribe: Scribe, tmp_path: Path) -> None:
        target = tmp_path / "copy"
        target.write_text("mine")
        with pytest.raises(InvalidError):
            await scribe.ledger.backup(target)
        assert target.read_text() == "mine"

    async def test_a_backup_is_written_while_others_write(self, scribe: Scribe, tmp_path: Path) -> None:
        for n in range(20):
            await scribe.put(f"text {n}", vector=vector(n))
        steps: list[tuple[int, int]] = []
        writing = asyncio.gather(*(scribe.put(f"more {n}") for n in range(50)))
        await scribe.ledger.backup(tmp_path / "copy", lambda done, total: steps.append((done, total)))
        await writing
        assert (tmp_path / "copy").stat().st_size > 0
        assert steps
        assert steps[-1][0] == steps[-1][1]

    async def test_of_two_backups_to_one_place_one_is_kept_whole(
        self, scribe: Scribe, tmp_path: Path
    ) -> None:
        for n in range(20):
            await scribe.put(f"text {n}", vector=vector(n))
        target = tmp_path / "copies" / "copy"
        target.parent.mkdir()
        both = await asyncio.gather(*(scribe.ledger.backup(target) for _ in range(2)), return_exceptions=True)
        assert [type(one) for one in both if one is not None] == [InvalidError]
        assert [path.name for path in target.parent.iterdir()] == ["copy"]
        with target.open("rb") as copy:
            assert copy.read(15) == b"SQLite format 3"

    async def test_pruning_empties_what_died_before_the_horizon(
        self, scribe: Scribe, clock: FixedClock
    ) -> None:
        first = await scribe.put("old", subject="Ana", metadata={"a": "b"}, vector=vector(1))
        second = await scribe.change(first, content="new", vector=vector(2))
        gone = await scribe.put("gone", user_id="u", session_id="s", vector=vector(3))
        await scribe.forget(gone)
        late = await scribe.put("late", vector=vector(4))
        head = await scribe.ledger.head(scribe.tenant)
        await scribe.forget(late)
        assert await scribe.found("old gone", seq=gone.born) == {gone.id}
        clock.move(3)
        assert await scribe.ledger.prune(scribe.tenant, head.seq) == 2
        after = await scribe.ledger.head(scribe.tenant)
        assert (after.horizon, after.seq, after.at) == (head.seq, head.seq + 2, clock())
        versions = await scribe.ledger.versions(scribe.tenant, first.id)
        assert [(v.is_emptied, v.content) for v in versions] == [(True, ""), (False, "new")]
        assert (versions[0].metadata, versions[0].provenance.subject) == ({}, None)
        assert await scribe.found("old gone", vector(3), seq=gone.born) == {second.id}
        assert await scribe.scanned(seq=gone.born) == [second.id]
        assert await scribe.found("late", seq=head.seq) == {late.id}
        assert await scribe.audit() == []
        assert await scribe.ledger.prune(scribe.tenant, head.seq) == 0

    async def test_erasing_after_pruning_leaves_nothing(self, scribe: Scribe) -> None:
        first = await scribe.put("old", user_id="u", session_id="s", subject="Ana", source="x")
        second = await scribe.change(first, content="new")
        await scribe.ledger.prune(scribe.tenant, second.born)
        await scribe.erase(first.id)
        for version in await scribe.ledger.versions(scribe.tenant, first.id):
            assert (version.standing, version.user_id, version.session_id) == (State.ERASED, None, None)
            assert version.provenance.written_by == ""
        assert await scribe.audit() == []

    async def test_a_horizon_ahead_of_the_journal_is_refused(self, scribe: Scribe) -> None:
        head = await scribe.ledger.head(scribe.tenant)
        with pytest.raises(ConflictError):
            await scribe.ledger.prune(scribe.tenant, head.seq + 1)
        assert await scribe.ledger.head(scribe.tenant) == head

    async def test_statistics_count(self, scribe: Scribe) -> None:
        live = await scribe.put("live", vector=vector(1))
        await scribe.change(live, content="again", vector=vector(2))
        await scribe.put("archived", state=State.ARCHIVED)
        await scribe.forget(await scribe.put("forgotten"))
        await scribe.erase((await scribe.put("erased", vector=vector(3))).id)
        counted = await scribe.ledger.statistics(scribe.tenant)
        assert {name: counted[name] for name in ("live", "archived", "versions", "vectors")} == {
            "live": 1,
            "archived": 1,
            "versions": 5,
            "vectors": 2,
        }
        assert counted["bytes"] > 0

    async def test_compacting_changes_nothing_that_can_be_read(self, scribe: Scribe) -> None:
        drafts = [scribe.drafted(f"text {n} " * 50) for n in range(100)]
        await scribe.commit(*(adding(d, vector=vector(d.id)) for d in drafts))
        await scribe.erase(*(d.id for d in drafts[::2]))
        before = [record async for record in scribe.ledger.every_version(scribe.tenant)]
        await scribe.ledger.compact()
        assert [record async for record in scribe.ledger.every_version(scribe.tenant)] == before
        for draft in drafts[1::2]:
            (found,) = (await scribe.search("", vector(draft.id), limit=1)).candidates
            assert found.id == draft.id
            assert found.cosine == pytest.approx(cosine(vector(draft.id), vector(draft.id)), abs=1e-5)
        assert await scribe.audit() == []
        assert await scribe.ledger.integrity_faults() == []
