"""Walks through records, and what has had its time."""

from __future__ import annotations

import operator

from quipu.model.change import Close
from quipu.model.journal import Op
from quipu.model.record import (
    Ending,
    MemoryType,
    State,
)
from quipu.testing.builders import Scribe, adding, vector
from quipu.testing.ledger.case import LedgerCase


class WalkingContract(LedgerCase):
    """Pages, selections, moments, expiry."""

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

    async def test_a_walk_finds_records_by_what_became_of_them(self, scribe: Scribe) -> None:
        live, gone, erased = await scribe.put(), await scribe.put(), await scribe.put()
        kept = await scribe.put(state=State.ARCHIVED)
        again = await scribe.change(await scribe.put(state=State.ARCHIVED), state=State.LIVE)
        late = (await scribe.forget(gone)).seq
        await scribe.erase(erased.id)
        wanted = {
            State.LIVE: [again.id, live.id],
            State.ARCHIVED: [kept.id],
            State.FORGOTTEN: [gone.id],
            State.ERASED: [erased.id],
        }
        for state, ids in wanted.items():
            assert await scribe.scanned(states=frozenset({state})) == ids, state
            assert await scribe.scanned(agent_id="ana", states=frozenset({state})) == ids, state
        assert await scribe.scanned(states=frozenset({State.ARCHIVED, State.FORGOTTEN})) == [kept.id, gone.id]
        assert await scribe.scanned(states=frozenset({State.LIVE, State.ERASED})) == [
            again.id,
            erased.id,
            live.id,
        ]
        then = {"seq": late - 1}
        assert await scribe.scanned(states=frozenset({State.LIVE}), **then) == [again.id, gone.id, live.id]
        assert await scribe.scanned(states=frozenset({State.ARCHIVED}), **then) == [kept.id]

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
        both = frozenset({MemoryType.EPISODIC, MemoryType.SEMANTIC})
        assert await scribe.scanned(agent_id="ana", types=both) == mine
        assert await scribe.scanned(created_to=plain.created_at - 1) == []
        assert plain.id in await scribe.scanned(created_to=plain.created_at)
        assert await scribe.scanned(filter={"n": {"$gte": 1}}) == [user.id, plain.id]
        assert await scribe.scanned(filter={"tags": "red"}) == [plain.id]
        assert await scribe.scanned(filter={"store": "other"}) == [elsewhere.id]

    async def test_a_walk_finds_whatever_its_filter_matches(self, scribe: Scribe) -> None:
        """However the value is written down, and wherever it stands."""
        values = [
            "plain",
            'with "quotes"',
            "back\\slash",
            "a/b",
            "tab\there",
            "Zoë",
            "東京",
            "🦊",
            "",
            "~ !",
            "1",
        ]
        for value in values:
            flat = await scribe.put(metadata={"said": value, "other": "x"})
            deep = await scribe.put(metadata={"in": {"a": [{"said": value}]}})
            from_there = await scribe.put(source=value or "nowhere", tags=(value or "none", "more"))
            assert await scribe.scanned(filter={"said": value, "other": "x"}) == [flat.id]
            assert await scribe.scanned(filter={"in.a.0.said": value}) == [deep.id]
            assert await scribe.scanned(filter={"source": value or "nowhere"}) == [from_there.id]
            assert await scribe.scanned(filter={"tags": ["more", value or "none"]}) == [from_there.id]
            either = {"$or": [{"said": value}, {"source": value or "nowhere"}]}
            assert await scribe.scanned(filter=either) == [from_there.id, flat.id]
            await scribe.forget(flat)
            gone = frozenset({State.FORGOTTEN})
            assert await scribe.scanned(filter={"said": value}, states=gone) == [flat.id]
        assert await scribe.scanned(filter={"said": 1}) == []

    async def test_a_walk_finds_whatever_its_filter_on_numbers_matches(self, scribe: Scribe) -> None:
        """However a number is written down, next to its neighbours, and beside what is no number."""
        numbers = [
            -(2**63),
            -7,
            -0.1,
            0,
            5e-324,
            0.1,
            0.30000000000000004,
            1,
            1.5,
            2**53 + 1,
            2**63 - 1,
            1e300,
        ]
        others = ["5", True, False, None, [5], {"b": 5}]
        records = [await scribe.put(metadata={"n": n, "in": {"a": n}}) for n in (*numbers, *others)]
        await scribe.put()
        ids = {record.id: record for record in records}
        operators = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}
        for bound in numbers:
            for name, holds in {**operators, "$eq": operator.eq}.items():
                wanted = [one for one, n in zip(records, numbers, strict=False) if holds(n, bound)]
                for path in ("n", "in.a", "metadata.in.a"):
                    found = await scribe.scanned(filter={path: {name: bound}})
                    assert [ids[one] for one in reversed(found)] == wanted
        listed = {"n": {"$in": [0, 1.5, 1e300]}, "in.a": {"$gte": 1}}
        assert await scribe.scanned(filter=listed) == [records[11].id, records[8].id]
        assert await scribe.scanned(filter={"n": {"$in": [1, "5"]}}) == [records[12].id, records[7].id]
        listed = {"n": {"$gt": 0.1, "$lt": 1}}
        assert await scribe.scanned(filter=listed) == [records[6].id]
        assert len(await scribe.scanned(filter={"$not": {"n": {"$lt": 1e300}}})) == 1 + len(others) + 1
        assert await scribe.scanned(filter={"n.0": 5}) == [records[16].id]

    async def test_a_walk_finds_what_its_filter_on_confidence_importance_and_times_matches(
        self, scribe: Scribe
    ) -> None:
        sure, unsure = await scribe.put(confidence=0.7, importance=0.3), await scribe.put(confidence=0.1)
        for path, value in (("confidence", 0.7), ("record.importance", 0.3)):
            assert await scribe.scanned(filter={path: {"$gte": value}}) == [sure.id]
            assert await scribe.scanned(filter={path: value}) == [sure.id]
            assert await scribe.scanned(filter={path: {"$gt": value}}) == []
        assert await scribe.scanned(filter={"confidence": {"$lt": 0.7}}) == [unsure.id]
        assert await scribe.scanned(filter={"record.importance": {"$lt": 0.3}}) == []
        assert await scribe.scanned(confidence_below=0.7) == [unsure.id]
        assert await scribe.scanned(confidence_below=0.71) == [unsure.id, sure.id]
        assert await scribe.scanned(confidence_below=0.5, filter={"confidence": {"$gt": 0.1}}) == []
        at = sure.created_at
        for test, is_found in (
            ({"$gte": at}, True),
            ({"$gt": at}, False),
            ({"$lte": at}, True),
            ({"$lt": at}, False),
            ({"$gt": at - 0.5, "$lt": at + 0.5}, True),
            ({"$lt": 1e300, "$gt": -1e300}, True),
        ):
            assert (sure.id in await scribe.scanned(filter={"created_at": test})) is is_found

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
