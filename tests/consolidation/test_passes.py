"""Passes: what weighs enough becomes long-term memory, once; what is old and light goes; people have the last word."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from quipu.consolidation.operations import CONSOLIDATE
from quipu.consolidation.rules import Thresholds
from quipu.errors import ForbiddenError
from quipu.governance.operations import SUGGESTED_RULES, WITHDRAW_PROPOSAL
from quipu.memory.operations import HISTORY, RECALL, RESTORE, UPDATE
from quipu.model.principal import Permission, Principal
from tests.consolidation.room import DAY, HEAVY, HOUR, LOOK, OWNER, SYSTEM, Room, room_at
from tests.requirement import requirement


def derived(record: Any) -> list[str]:
    return [link.to for link in record.links if link.rel == "derived_from"]


@requirement("memorywire:consolidation.score")
async def test_what_weighs_enough_becomes_a_long_term_fact_with_a_link_to_its_source(any_room: Room) -> None:
    room = any_room
    source = await room.push(
        "Mara cancelled her order by phone",
        type="episodic",
        user_id="mara",
        tags=["order"],
        confidence=0.9,
        metadata={"topic": "orders"},
        event_time=7,
        location="home",
        **HEAVY,
    )
    done = await room.consolidate()
    assert (done.counts, done.windows) == ({"promoted": 1}, 1)
    (decision,) = done.decisions
    assert (decision.ids, decision.user_id, decision.outcome) == ((source,), "mara", "promoted")
    assert decision.score > 0.6
    (record,) = (await room.live()).values()
    assert (record.id, record.type, record.tier) == (decision.into, "semantic", "long_term")
    assert (record.content, record.user_id, record.tags) == (
        "Mara cancelled her order by phone",
        "mara",
        ("order",),
    )
    # What only an event can say is kept beside the fact.
    assert record.metadata == {"topic": "orders", "event_time": 7, "location": "home"}
    assert derived(record) == [source]
    assert (record.source, record.provenance.written_by) == ("consolidation", "system")
    (version,) = (await room(HISTORY, id=source)).versions
    assert version.reason == f"Consolidation: it became {record.id}."
    assert await room.is_verified()


async def test_procedures_and_feelings_stay_what_they_are(room: Room) -> None:
    machine = {"name": "m", "initial": "a", "states": ["a"], "transitions": []}
    await room.push(machine, type="procedural", **HEAVY)
    await room.push("glad", type="emotional", valence=0.5, **HEAVY)
    await room.consolidate()
    kept = {one.type: one for one in (await room.live()).values()}
    assert set(kept) == {"procedural", "emotional"}
    assert kept["emotional"].details == {"valence": 0.5}


@requirement("memorywire:consolidation.once")
async def test_a_second_pass_changes_nothing(any_room: Room) -> None:
    room = any_room
    for number in range(5):
        await room.push(f"fact number {number} about topic{number}", **HEAVY)
    assert (await room.consolidate()).counts == {"promoted": 5}
    before = await room.container.ledger.head("default")
    assert (await room.consolidate()).counts == {}
    assert await room.container.ledger.head("default") == before


@requirement("memorywire:consolidation.score")
async def test_the_young_and_light_stay_and_the_old_and_light_go(room: Room) -> None:
    light = await room.push("it rained", confidence=0.3)
    assert (await room.consolidate()).counts == {"kept": 1}
    room.move(DAY - 1)
    assert (await room.consolidate()).counts == {"kept": 1}
    room.move(1)
    assert (await room.consolidate()).counts == {"evicted": 1}
    assert await room.texts() == []
    await room(RESTORE, id=light)
    assert await room.texts() == ["it rained"]


async def test_recalls_make_a_memory_weigh_more(room: Room) -> None:
    await room.push("Mara likes tea")
    room.move(HOUR)
    assert (await room.consolidate(dry_run=True)).counts == {"kept": 1}
    for _ in range(4):
        assert (await room(RECALL, query="Mara likes tea")).results
    assert (await room.consolidate(dry_run=True)).counts == {"promoted": 1}


def with_window_of(room: Room, size: int) -> None:
    """A smaller window, put in place of the usual one."""
    windows = room.container.consolidation.windows
    object.__setattr__(windows, "thresholds", Thresholds(window=size))


async def test_what_is_pushed_out_of_the_window_does_not_stay(room: Room) -> None:
    with_window_of(room, 3)
    for number in range(5):
        await room.push(f"note{number} word{number}", confidence=0.1)
        room.move(1)
    assert (await room.consolidate()).counts == {"evicted": 2, "kept": 3}
    assert await room.texts() == [f"note{number} word{number}" for number in (2, 3, 4)]


async def test_windows_are_of_one_agent_and_one_user(room: Room) -> None:
    for agent, user in (("ana", "mara"), ("ana", "jon"), ("bo", "mara"), ("bo", None)):
        given = {} if user is None else {"user_id": user}
        await room.push("the same words", agent_id=agent, **given, **HEAVY)
    done = await room.consolidate()
    assert (done.windows, done.counts) == (4, {"promoted": 4})
    assert {(one.agent_id, one.user_id, len(one.ids)) for one in done.decisions} == {
        ("ana", "mara", 1),
        ("ana", "jon", 1),
        ("bo", "mara", 1),
        ("bo", None, 1),
    }


@requirement("memorywire:consolidation.similarity")
async def test_the_same_words_said_twice_become_one_memory_and_near_ones_never_do(room: Room) -> None:
    one = await room.push("Mara lives in Ulm", **HEAVY)
    room.move(1)
    other = await room.push("mara lives  in Ulm.", **HEAVY)
    await room.push("Mara lives in Bonn", **HEAVY)
    await room.push("Mara never lives in Ulm", **HEAVY)
    done = await room.consolidate()
    assert done.counts == {"promoted": 4}
    assert {frozenset(each.ids) for each in done.decisions if len(each.ids) > 1} == {frozenset({one, other})}
    assert await room.texts() == ["Mara lives in Bonn", "Mara never lives in Ulm", "mara lives  in Ulm."]
    assert [{pair.id, pair.other} for pair in done.similar] == [{one, other}]


async def test_what_is_meant_for_others_or_was_true_at_another_time_is_not_joined(room: Room) -> None:
    await room.push("Mara lives in Ulm", **HEAVY)
    await room.push("Mara lives in Ulm", privacy_intent={"sensitivity": "confidential"}, **HEAVY)
    await room.push("Mara lives in Ulm", valid_from=1, valid_until=2, **HEAVY)
    assert (await room.consolidate()).counts == {"promoted": 3}
    kept = (await room.live()).values()
    assert sorted(
        (one.valid_until or 0, one.privacy_intent.sensitivity if one.privacy_intent else "") for one in kept
    ) == [
        (0, ""),
        (0, "confidential"),
        (2, ""),
    ]


async def test_what_long_term_memory_says_already_is_not_said_again(any_room: Room) -> None:
    room = any_room
    there = await room.known("Mara lives in Bonn")
    source = await room.push("mara lives in Bonn.", **HEAVY)
    await room.push("Jon keeps bees", **HEAVY)
    would = await room.consolidate(dry_run=True)
    done = await room.consolidate()
    assert would.counts == done.counts == {"known": 1, "promoted": 1}
    assert [one.into for one in would.decisions if one.outcome == "known"] == [there]
    assert source not in await room.live()


@pytest.mark.parametrize("given", [{"tags": ["vip"]}, {"metadata": {"source_page": 7}}])
async def test_what_an_older_saying_adds_is_not_lost_with_the_newest(
    room: Room, given: dict[str, Any]
) -> None:
    await room.known("Mara lives in Bonn")
    await room.push("Mara lives in Bonn", **HEAVY, **given)
    room.move(1)
    await room.push("Mara lives in Bonn", **HEAVY)
    assert (await room.consolidate()).counts == {"promoted": 2}
    (kept,) = [one for one in (await room.live()).values() if one.source == "consolidation"]
    assert (list(kept.tags), kept.metadata) == (given.get("tags", []), given.get("metadata", {}))


async def test_trust_is_no_better_and_time_no_longer_than_the_worst_sources(room: Room) -> None:
    end = room.office.clock() + DAY
    await room.push("copied from a page", source="web_page", **HEAVY)
    room.move(1)
    await room.push("copied from a page", expires_at=end, **HEAVY)
    await room.consolidate()
    (record,) = (await room.live()).values()
    assert (record.provenance.trust, record.expires_at) == ("external", end)


@requirement("memorywire:consolidation.once")
async def test_bursts_and_passes_at_once_promote_each_memory_exactly_once(any_room: Room) -> None:
    room = any_room

    async def burst(number: int) -> list[str]:
        return [await room.push(f"burst{number} item{item} word{number}{item}", **HEAVY) for item in range(4)]

    async def passes() -> list[str]:
        for _ in range(4):
            await room.consolidate()
        return []

    work = [burst(number) for number in range(5)]
    pushed = [name for names in await asyncio.gather(*work, passes(), passes()) for name in names]
    await room.consolidate()
    records = (await room.live()).values()
    assert sorted(name for record in records for name in derived(record)) == sorted(pushed)
    assert len(pushed) == 20
    assert await room.is_verified()


@requirement("memorywire:consolidation.once")
async def test_two_processes_consolidate_a_memory_once(any_room: Room, address: str) -> None:
    """No lock is shared between processes: the version that is closed decides."""
    async with room_at(address) as other:
        for number in range(12):
            await any_room.push(f"fact{number} thing{number}", **HEAVY)
        done = await asyncio.gather(*[one.consolidate() for one in (any_room, other, other, any_room)])
    assert sum(one.counts.get("promoted", 0) for one in done) == 12
    assert len(await any_room.live()) == 12


class _Meddling:
    """Somebody who writes in the very moment in which a pass looks for what memory says already."""

    def __init__(self, inner: Any, act: Any) -> None:
        self._inner, self._act = inner, act

    async def to(self, *given: Any) -> Any:
        await self._act()
        return await self._inner.to(*given)


async def test_what_changes_while_it_is_weighed_stays_as_it_was_changed(room: Room) -> None:
    light = await room.push("it rained", confidence=0.1)
    room.move(DAY)
    heavy = await room.push("Mara moved to Ulm", **HEAVY)

    async def correct() -> None:
        await room(UPDATE, id=light, content="it rained, and Mara was late")
        await room(UPDATE, id=heavy, content="Mara moved to Bonn")

    consolidation = room.container.consolidation
    inner = consolidation.similar
    object.__setattr__(consolidation, "similar", _Meddling(inner, correct))
    assert (await room.consolidate()).counts == {"kept": 2}
    assert await room.texts() == ["Mara moved to Bonn", "it rained, and Mara was late"]
    object.__setattr__(consolidation, "similar", inner)
    assert (await room.consolidate()).counts == {"kept": 1, "promoted": 1}


async def test_a_dry_run_says_what_would_happen_and_writes_nothing(room: Room) -> None:
    await room.push("heavy", **HEAVY)
    await room.push("light", confidence=0.1)
    before = await room.container.ledger.head("default")
    done = await room.consolidate(dry_run=True)
    assert (done.counts, done.dry_run) == ({"kept": 1, "promoted": 1}, True)
    assert await room.container.ledger.head("default") == before


async def test_another_scorer_can_be_handed_in() -> None:
    async with room_at(scorer=lambda item, now: float("tea" in item.record.content)) as room:
        await room(_create(), name="window", tier="short_term")
        await room.push("Mara likes tea", confidence=0.0)
        await room.push("Mara likes coffee", **HEAVY)
        assert (await room.consolidate()).counts == {"kept": 1, "promoted": 1}


def _create() -> Any:
    from quipu.memory.operations import CREATE_STORE

    return CREATE_STORE


# -- people -----------------------------------------------------------------------------------------------------------


@requirement("memorywire:consolidation.governed")
async def test_a_held_promotion_leaves_its_source_and_is_proposed_once(any_room: Room) -> None:
    room = any_room
    await room.rules(LOOK)
    source = await room.push("Mara moved to Ulm", **HEAVY)
    for _ in range(3):
        assert (await room.consolidate()).counts == {"held": 1}
    room.move(DAY + 1)
    await room.consolidate()
    assert list(await room.live()) == [source]
    await room.decided(approved=True)
    room.move(-DAY)
    assert (await room.consolidate()).counts == {"known": 1}
    assert [one.tier for one in (await room.live()).values()] == ["long_term"]


@requirement("memorywire:consolidation.governed")
async def test_two_processes_ask_a_person_once(any_room: Room, address: str) -> None:
    await any_room.rules(LOOK)
    for number in range(6):
        await any_room.push(f"fact{number} thing{number}", **HEAVY)
    async with room_at(address) as other:
        await asyncio.gather(*[one.consolidate() for one in (any_room, other, any_room, other)])
    assert len(await any_room.waiting()) == 6


@requirement("memorywire:consolidation.refused")
async def test_a_no_to_a_promotion_holds_for_good_and_for_the_same_words(
    any_room: Room, address: str
) -> None:
    room = any_room
    await room.rules(LOOK)
    source = await room.push("Mara moved to Ulm", metadata={"user_flagged": True}, **HEAVY)
    held = await room.consolidate()
    assert held.decisions[0].into == await room.decided(approved=False), "the proposal that waits is named"
    for _ in range(3):
        done = await room.consolidate()
        assert (done.counts, done.decisions[0].reason) == ({"kept": 1}, "approval_rejected")
        room.move(5 * HOUR)
    room.move(2 * DAY)
    for _ in range(4):  # so that it weighs enough in spite of its age
        await room(RECALL, query="Mara moved to Ulm")
    await room.push("mara moved to Ulm.", **HEAVY)
    # Another process, and rules that would let it through by now: the no still holds.
    await room.rules()
    async with room_at(address) as other:
        other.office.clock.now = room.office.clock.now
        for one in (room, other):
            assert (await one.consolidate()).counts == {"kept": 2}
    assert await room.waiting() == []
    assert source in await room.live()


async def test_what_changes_after_a_no_is_another_question(room: Room) -> None:
    await room.rules(LOOK)
    source = await room.push("Mara moved to Ulm", **HEAVY)
    await room.consolidate()
    await room.decided(approved=False)
    await room(UPDATE, id=source, content="Mara moved to Bonn")
    assert (await room.consolidate()).counts == {"held": 1}
    (waiting,) = await room.waiting()
    assert waiting.request["content"] == "Mara moved to Bonn"
    await room.decided(approved=True)
    assert (await room.consolidate()).counts == {"known": 1}


async def test_who_takes_the_proposal_back_has_said_no_no(room: Room) -> None:
    """Withdrawn, or lapsed: nobody decided, so somebody is asked again."""
    await room.rules(LOOK)
    await room.push("Mara moved to Ulm", metadata={"user_flagged": True}, confidence=1.0, **HEAVY)
    await room.consolidate()
    (first,) = await room.waiting()
    await room(WITHDRAW_PROPOSAL, SYSTEM, id=first.id)
    assert (await room.consolidate()).counts == {"held": 1}
    (second,) = await room.waiting()
    room.move(15 * DAY)
    await room.container.governance.proposals.lapse("default", room.office.clock())
    for _ in range(5):
        await room(RECALL, query="Mara moved to Ulm")
    assert (await room.consolidate()).counts == {"held": 1}
    (third,) = await room.waiting()
    assert len({first.id, second.id, third.id}) == 3


async def test_a_no_does_not_keep_what_is_pushed_out_of_the_window(room: Room) -> None:
    await room.rules(LOOK)
    source = await room.push("Mara moved to Ulm", **HEAVY)
    await room.consolidate()
    await room.decided(approved=False)
    room.move(1)
    await room.push("something newer", confidence=0.1)
    with_window_of(room, 1)
    assert (await room.consolidate()).counts == {"evicted": 1, "kept": 1}
    assert source not in await room.live()


@requirement("memorywire:consolidation.refused")
async def test_a_no_to_an_eviction_keeps_it_in_the_window(room: Room) -> None:
    await room.rules({"id": "look", "when": {"operations": ["forget"]}, "effect": "hold"})
    source = await room.push("light", confidence=0.1)
    room.move(DAY)
    held = await room.consolidate()
    assert (held.counts, held.decisions[0].into) == ({"held": 1}, await room.decided(approved=False))
    room.move(2 * DAY)
    done = await room.consolidate()
    assert (done.counts, done.decisions[0].reason) == ({"kept": 1}, "approval_rejected")
    # Said already in long-term memory: that it may go is the same question.
    await room.known("light")
    await room(UPDATE, id=source, confidence=1.0, **HEAVY)
    assert (await room.consolidate()).counts == {"held": 1}
    await room.decided(approved=False)
    room.move(2 * DAY)
    assert (await room.consolidate()).counts == {"kept": 1}
    assert await room.waiting() == []


async def test_held_evictions_are_proposed_once(room: Room) -> None:
    await room.rules({"id": "look", "when": {"operations": ["forget"]}, "effect": "hold"})
    for number in range(3):
        await room.push(f"light{number} word{number}", confidence=0.1)
    room.move(DAY)
    for _ in range(3):
        assert (await room.consolidate()).counts == {"held": 3}
    assert len(await room.waiting()) == 1
    assert len(await room.live()) == 3


async def test_refusals_suggest_a_rule_all_the_same(room: Room) -> None:
    """Which memories a pass asked about does not make its proposals unlike one another."""
    await room.rules(LOOK)
    for number in range(5):
        await room.push(f"fact{number} thing{number}", **HEAVY)
    await room.consolidate()
    for waiting in await room.waiting():
        await room.office.decide(waiting.id, OWNER, approved=False)
    (suggested,) = (await room(SUGGESTED_RULES)).suggestions
    assert suggested.decisions == 5


async def test_a_rule_that_denies_leaves_the_source_and_is_asked_once(room: Room) -> None:
    forbidden = {"operations": ["remember"], "sources": ["consolidation"], "users": ["mara"]}
    await room.rules({"id": "no", "when": forbidden, "effect": "deny"})
    kept = await room.push("about mara", user_id="mara", **HEAVY)
    await room.push("about jon", user_id="jon", **HEAVY)
    assert (await room.consolidate()).counts == {"failed": 1, "promoted": 1}
    for _ in range(3):
        done = await room.consolidate()
        assert (done.counts, done.decisions[0].reason) == ({"failed": 1}, "denied")
    assert kept in await room.live()
    assert len(await room.office.entries("deny")) == 1, "the journal is not filled by asking again and again"
    await room.rules()
    assert (await room.consolidate()).counts == {"promoted": 1}


# -- undo -------------------------------------------------------------------------------------------------------------


@requirement("memorywire:consolidation.governed")
async def test_a_pass_is_undone_as_a_whole(any_room: Room) -> None:
    room = any_room
    light = await room.push("light", confidence=0.1)
    room.move(DAY)
    heavy = [await room.push(f"heavy{number} thing{number}", **HEAVY) for number in range(3)]
    done = await room.consolidate()
    assert done.counts == {"evicted": 1, "promoted": 3}
    promoted = {one.into for one in done.decisions if one.into}
    undone = await room.undo(done.pass_id)
    assert undone == {
        **dict.fromkeys([light, *heavy], ("restore", "done")),
        **dict.fromkeys(promoted, ("forget", "done")),
    }
    assert set(await room.live()) == {light, *heavy}
    assert {step for step, _ in (await room.undo(done.pass_id)).values()} <= {"leave"}
    assert await room.is_verified()


async def test_what_a_person_corrected_is_not_undone(room: Room) -> None:
    source = await room.push("Mara moved to Ulm", **HEAVY)
    other = await room.push("Jon keeps bees", **HEAVY)
    done = await room.consolidate()
    into = {one.ids[0]: one.into for one in done.decisions}
    await room(UPDATE, id=into[source], content="Mara moved to Bonn")
    assert await room.undo(done.pass_id) == {
        source: ("restore", "done"),
        other: ("restore", "done"),
        into[other]: ("forget", "done"),
        into[source]: ("leave", "left"),
    }
    assert "Mara moved to Bonn" in await room.texts()


async def test_a_promotion_stays_while_its_source_is_not_back(room: Room) -> None:
    source = await room.push("Mara moved to Ulm", **HEAVY)
    done = await room.consolidate()
    promoted = done.decisions[0].into
    await room.rules({"id": "look", "when": {"operations": ["restore"]}, "effect": "hold"})
    assert await room.undo(done.pass_id) == {source: ("restore", "held"), promoted: ("forget", "failed")}
    assert list(await room.live()) == [promoted]
    await room.decided(approved=True)
    assert (await room.undo(done.pass_id))[promoted] == ("forget", "done")
    assert list(await room.live()) == [source]


async def test_a_later_pass_is_not_undone_with_an_earlier_one(room: Room) -> None:
    await room.push("Mara moved to Ulm", **HEAVY)
    first = await room.consolidate()
    await room.undo(first.pass_id)
    second = await room.consolidate()
    assert second.counts == {"promoted": 1}
    assert {outcome for _, outcome in (await room.undo(first.pass_id)).values()} <= {"left"}
    assert list(await room.live()) == [second.decisions[0].into]


async def test_the_journal_says_what_a_pass_did_in_numbers(room: Room) -> None:
    await room.push("Mara moved to Ulm", **HEAVY)
    done = await room.consolidate()
    (note,) = await room.office.entries("consolidate")
    assert (note.actor, note.detail["pass_id"], note.detail["counts"]) == (
        "system",
        done.pass_id,
        {"promoted": 1},
    )
    of_pass = [
        entry.op for entry in await room.office.entries() if entry.detail.get("pass_id") == done.pass_id
    ]
    assert of_pass == ["remember", "forget", "consolidate"]
    (forgotten,) = await room.office.entries("forget")
    assert forgotten.detail["scores"] == [round(1000 * done.decisions[0].score)]


# -- reach ------------------------------------------------------------------------------------------------------------


async def test_a_pass_goes_no_further_than_its_credential(room: Room) -> None:
    await room.push("mine", user_id="mara", **HEAVY)
    worker = Principal(
        tenant="default",
        name="w",
        permissions=frozenset({Permission.READ, Permission.WRITE, Permission.DELETE}),
        agents=("bo",),
        default_agent="bo",
    )
    for fields in ({"agent_id": "ana"}, {"all_agents": True}):
        with pytest.raises(ForbiddenError):
            await room(CONSOLIDATE, worker, **fields)
    unable = replace(worker, permissions=frozenset({Permission.DELETE}))
    with pytest.raises(ForbiddenError):
        await room(CONSOLIDATE, unable)
    assert (await room(CONSOLIDATE, worker)).windows == 0
    bound = replace(worker, agents=("*",), default_agent="ana", user_id="jon")
    with pytest.raises(ForbiddenError):
        await room(CONSOLIDATE, bound, user_id="mara")
    assert (await room(CONSOLIDATE, bound)).windows == 0
    elsewhere = replace(worker, agents=("*",), default_agent="ana", review_stores=("main",))
    assert (await room(CONSOLIDATE, elsewhere)).windows == 0
    narrow = replace(OWNER, agents=("ana",))
    with pytest.raises(ForbiddenError):
        await room(CONSOLIDATE, narrow, all_agents=True)
    own = replace(worker, agents=("ana",), default_agent="ana")
    assert (await room(CONSOLIDATE, own)).counts == {"promoted": 1}


async def test_a_server_makes_passes_by_itself(room: Room) -> None:
    from quipu.bootstrap import background_jobs

    await room.push("Mara moved to Ulm", **HEAVY)
    (job,) = [one for one in background_jobs(room.container) if one.name == "consolidation"]
    assert job.every_s == 60
    await job.work()
    (record,) = (await room.live()).values()
    assert (record.tier, record.provenance.written_by) == ("long_term", "system")
