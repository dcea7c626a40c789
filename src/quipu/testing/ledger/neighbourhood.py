"""The graph around a record: links, subjects, turns of a session."""

from __future__ import annotations

from itertools import pairwise

from quipu.model.search import SharedWord
from quipu.testing.builders import FixedClock, Scribe, linked
from quipu.testing.ledger.case import LedgerCase


class NeighbourhoodContract(LedgerCase):
    """One hop, in reach and as of a position."""

    async def test_links_are_followed_both_ways(self, scribe: Scribe) -> None:
        target = await scribe.put()
        source = await scribe.put(links=linked(target.id))
        alone = await scribe.put()
        assert await scribe.neighbours(source.id, target.id, alone.id, "mem_none") == {
            source.id: frozenset({target.id}),
            target.id: frozenset({source.id}),
            alone.id: frozenset(),
            "mem_none": frozenset(),
        }

    async def test_a_link_ends_with_the_version_that_carries_it(self, scribe: Scribe) -> None:
        one, other = await scribe.put(), await scribe.put()
        source = await scribe.put(links=linked(one.id))
        moved = await scribe.change(source, links=linked(other.id))
        assert (await scribe.neighbours(source.id))[source.id] == {other.id}
        assert (await scribe.neighbours(one.id))[one.id] == frozenset()
        assert (await scribe.neighbours(one.id, seq=source.born))[one.id] == {source.id}
        await scribe.forget(moved)
        assert (await scribe.neighbours(other.id))[other.id] == frozenset()
        assert (await scribe.neighbours(other.id, seq=moved.born))[other.id] == {source.id}

    async def test_a_link_to_a_merged_record_leads_to_the_one_it_was_merged_into(
        self, scribe: Scribe
    ) -> None:
        duplicate, kept = await scribe.put(), await scribe.put()
        source = await scribe.put(links=linked(duplicate.id))
        done = await scribe.merge(duplicate, kept)
        assert (await scribe.neighbours(source.id))[source.id] == {kept.id}
        assert (await scribe.neighbours(kept.id))[kept.id] == {source.id}
        assert (await scribe.neighbours(source.id, seq=done.seq - 1))[source.id] == {duplicate.id}

    async def test_a_link_to_what_was_merged_again_and_again_leads_to_what_is_left(
        self, scribe: Scribe
    ) -> None:
        names = [await scribe.put() for _ in range(4)]
        for duplicate, kept in pairwise(names):
            await scribe.merge(duplicate, kept)
        for to in ([names[0].id], [names[2].id], [one.id for one in names]):
            source = await scribe.put(links=linked(*to))
            assert (await scribe.neighbours(source.id))[source.id] == {names[-1].id}

    async def test_a_link_between_merged_records_does_not_lead_to_itself(self, scribe: Scribe) -> None:
        duplicate = await scribe.put()
        kept = await scribe.put(links=linked(duplicate.id))
        await scribe.merge(duplicate, kept)
        assert (await scribe.neighbours(kept.id))[kept.id] == frozenset()

    async def test_links_to_what_is_out_of_reach_lead_nowhere(self, scribe: Scribe) -> None:
        mine, also_mine = await scribe.put(), await scribe.put()
        gone = await scribe.put()
        short = await scribe.put(expires_at=scribe.clock() + 1)
        source = await scribe.put(links=linked(gone.id, short.id, mine.id, "mem_none"))
        foreign = await scribe.put(agent_id="bo", links=linked(mine.id, also_mine.id))
        await scribe.forget(gone)
        scribe.clock.move(1)
        around = await scribe.neighbours(source.id, mine.id, also_mine.id, foreign.id, gone.id)
        assert around == {
            source.id: frozenset({mine.id}),
            mine.id: frozenset({source.id}),
            also_mine.id: frozenset(),
            foreign.id: frozenset(),
            gone.id: frozenset(),
        }

    async def test_records_of_one_subject_are_neighbours(self, scribe: Scribe) -> None:
        one, other = await scribe.put(subject="Ana"), await scribe.put(subject="Ana")
        await scribe.put(subject="Bo")
        await scribe.put(subject="Ana", agent_id="bo")
        forgotten = await scribe.put(subject="Ana")
        await scribe.forget(forgotten)
        assert (await scribe.neighbours(one.id))[one.id] == {other.id}
        past = await scribe.neighbours(one.id, seq=forgotten.born)
        assert past[one.id] == {other.id, forgotten.id}

    async def test_turns_beside_each_other_in_a_session_are_neighbours(
        self, scribe: Scribe, clock: FixedClock
    ) -> None:
        turns: list[str] = []
        for _ in range(4):
            turns.append((await scribe.put(session_id="s")).id)
            clock.move(1)
            await scribe.put(session_id="other")
        around = await scribe.neighbours(*turns)
        assert [around[turn] for turn in turns] == [
            {turns[1]},
            {turns[0], turns[2]},
            {turns[1], turns[3]},
            {turns[2]},
        ]

    async def test_events_are_in_the_order_they_happened(self, scribe: Scribe) -> None:
        late = await scribe.put(session_id="s", details={"event_time": 300})
        early = await scribe.put(session_id="s", details={"event_time": 100})
        middle = await scribe.put(session_id="s", details={"event_time": 200})
        assert (await scribe.neighbours(early.id))[early.id] == {middle.id}
        assert (await scribe.neighbours(late.id))[late.id] == {middle.id}

    async def test_a_turn_changed_many_times_stays_beside_its_neighbours(
        self, scribe: Scribe, clock: FixedClock
    ) -> None:
        first = await scribe.put(session_id="s")
        clock.move(1)
        middle = await scribe.put(session_id="s")
        clock.move(1)
        last = await scribe.put(session_id="s")
        for _ in range(12):
            middle = await scribe.change(middle)
        assert (await scribe.neighbours(first.id))[first.id] == {middle.id}
        await scribe.forget(middle)
        assert (await scribe.neighbours(first.id))[first.id] == {last.id}

    async def test_erased_links_are_gone_from_every_position(self, scribe: Scribe) -> None:
        target = await scribe.put()
        source = await scribe.put(links=linked(target.id))
        await scribe.erase(source.id)
        for seq in range((await scribe.ledger.head(scribe.tenant)).seq + 1):
            assert (await scribe.neighbours(target.id, seq=seq))[target.id] == frozenset()

    # -- words in common ----------------------------------------------------------------------------------------

    async def test_rare_words_in_common_are_told_with_who_has_them(self, scribe: Scribe) -> None:
        for number in range(57):
            await scribe.put(f"about {number}")
        leader = await scribe.put("about the kiln and a kayak")
        kiln = await scribe.put("two kilns")
        both = await scribe.put("a kayak beside a kiln")
        asked = [leader.id], [kiln.id, both.id], "a"
        kayaks, kilns = sorted(await scribe.shared_words(*asked), key=lambda one: one.share)
        assert kayaks == SharedWord(2 / 60, frozenset({leader.id}), frozenset({both.id}))
        assert kilns == SharedWord(3 / 60, frozenset({leader.id}), frozenset({kiln.id, both.id}))
        await scribe.put("kiln", agent_id="bo")
        assert len(await scribe.shared_words(*asked)) == 2
        await scribe.put("one kiln more")
        (only,) = await scribe.shared_words(*asked)
        assert only.members == {both.id}

    async def test_a_word_of_the_text_and_a_forgotten_record_say_nothing(self, scribe: Scribe) -> None:
        for number in range(40):
            await scribe.put(f"note {number}")
        leader, other = await scribe.put("old kiln"), await scribe.put("kiln too")
        assert await scribe.shared_words([leader.id], [other.id], "Which kilns?") == []
        await scribe.forget(other)
        assert await scribe.shared_words([leader.id], [other.id]) == []
        assert await scribe.shared_words(["mem_none"], [leader.id]) == []
        (kiln,) = await scribe.shared_words([leader.id], [other.id], seq=other.born)
        assert kiln.members == {other.id}
