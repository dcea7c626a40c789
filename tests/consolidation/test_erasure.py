"""Erasing a memory takes along what consolidation made out of it: its words live on nowhere."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from quipu.errors import ConflictError
from quipu.governance.model import PROPOSALS
from quipu.memory.operations import DELETE_STORE, FORGET, UPDATE
from tests.consolidation.models import facts, model, reading_room
from tests.consolidation.room import HEAVY, LOOK, OWNER, Room

SAID = "Tom lives at Birkenstrasse 7"


async def said(room: Room, record_id: str | None) -> set[str]:
    assert record_id is not None
    return {one.content for one in await room.versions(record_id)}


async def kept_words(room: Room) -> list[str]:
    """What is staged, waiting or decided."""
    rows = await room.container.ledger.page(PROPOSALS, "default")
    return [str(row.request) for row in rows if row.request] + [row.reason for row in rows if row.reason]


async def test_what_a_memory_was_promoted_to_is_erased_with_it(any_room: Room) -> None:
    room = any_room
    source = await room.push(SAID, **HEAVY)
    into = (await room.consolidate()).decisions[0].into
    assert await said(room, into) == {SAID}
    # It was changed since: what it said before is in its history.
    await room(UPDATE, id=into, content="Tom has moved")
    assert await room.erase(source) == {source, into}
    assert await said(room, into) == {""}
    assert await room.is_verified()


async def test_what_several_memories_were_promoted_to_goes_with_any_of_them(room: Room) -> None:
    one, other = await room.push(SAID, **HEAVY), await room.push(f"{SAID}.", **HEAVY)
    (decision,) = (await room.consolidate()).decisions
    assert set(decision.ids) == {one, other}
    assert await room.erase(one) == {one, decision.into}


async def test_who_erases_what_was_promoted_hears_that_its_source_still_says_it(room: Room) -> None:
    source = await room.push(SAID, **HEAVY)
    into = (await room.consolidate()).decisions[0].into
    for ids, is_warned in (([into], True), ([into, source], False)):
        answer = await room(FORGET, ids=ids, hard_delete=True, dry_run=True)
        warning = f"{into} was made out of {source}, and what that says stays: erase it too, if it is to go."
        assert answer.warnings == ((warning,) if is_warned else ())


async def test_a_store_that_is_erased_takes_along_what_was_promoted_out_of_it(room: Room) -> None:
    await room.push(SAID, **HEAVY)
    into = (await room.consolidate()).decisions[0].into
    await room(DELETE_STORE, name="window", confirm="window", hard_delete=True)
    assert await said(room, into) == {""}


@pytest.mark.parametrize("decided", [None, True, False])
async def test_a_promotion_that_waits_or_was_decided_goes_with_its_source(
    any_room: Room, decided: bool | None
) -> None:
    room = any_room
    await room.rules(LOOK)
    source = await room.push(SAID, **HEAVY)
    (decision,) = (await room.consolidate()).decisions
    assert decision.into is not None
    made = str((await room.proposal(decision.into)).record_id)
    if decided is not None:
        await room.office.decide(decision.into, OWNER, approved=decided, reason=f"I know: {SAID}")
    assert SAID in str(await kept_words(room))
    assert source in await room.erase(source)
    assert await kept_words(room) == []
    assert (await room.proposal(decision.into)).status == ("approved" if decided else "rejected")
    assert await said(room, made) == ({""} if decided else set())
    assert await room.is_verified()


async def test_a_store_that_is_erased_takes_along_the_promotions_that_wait(room: Room) -> None:
    await room.rules(LOOK)
    await room.push(SAID, **HEAVY)
    assert (await room.consolidate()).counts == {"held": 1}
    await room(DELETE_STORE, name="window", confirm="window", hard_delete=True)
    assert await kept_words(room) == []


async def test_facts_that_a_model_found_go_with_what_they_were_found_in(tmp_path: Path) -> None:
    with model(lambda: facts("Tom lives in a house.", "Tom has a door.")) as server:
        async with reading_room(server, tmp_path) as room:
            source = await room.push(SAID, **HEAVY)
            await room.consolidate()
            one, _ = await room.waiting()
            await room.office.decide(one.id, OWNER)
            gone = await room.erase(source)
            assert len(gone) >= 3
            assert one.record_id in gone
            assert await kept_words(room) == []
            assert await room.waiting() == []


async def test_facts_of_what_is_erased_while_a_model_reads_it_are_not_proposed(tmp_path: Path) -> None:
    """A model takes its time, and what it was shown may be gone when it answers."""
    loop = asyncio.get_running_loop()

    def answers() -> Any:
        gone.update(asyncio.run_coroutine_threadsafe(room.erase(source), loop).result(60))
        return facts("Tom lives in a house.", "Tom has a door.")

    with model(answers) as server:
        async with reading_room(server, tmp_path) as room:
            gone = set[str]()
            source = await room.push(SAID, **HEAVY)
            done = await room.consolidate()
            assert (done.counts, done.proposed) == ({"promoted": 1}, 0)
            assert gone == {source, done.decisions[0].into}
            assert await kept_words(room) == []
            assert await room.is_verified()


async def test_what_is_erased_just_before_a_promotion_is_kept_for_a_person_is_not_kept(
    any_room: Room,
) -> None:
    """In the one moment between reading it and writing it down."""
    room = any_room
    await room.rules(LOOK)
    source = await room.push(SAID, **HEAVY)
    gate = room.container.governance.gate
    hold = type(gate).hold

    class Erasing(type(gate)):  # type: ignore[misc]  the gate as it is, and somebody who erases meanwhile
        async def hold(self, *given: Any) -> Any:
            held = await hold(gate, *given)
            await room.erase(source)
            return held

    pipeline = room.container.consolidation.pipeline
    late = Erasing(**{name: getattr(gate, name) for name in gate.__slots__})
    object.__setattr__(pipeline, "governor", late)
    assert (await room.consolidate()).counts == {"kept": 1}
    assert await kept_words(room) == []
    assert await room.waiting() == []


async def test_an_erasure_that_has_not_seen_a_proposal_is_planned_again(room: Room) -> None:
    await room.rules(LOOK)
    source = await room.push(SAID, **HEAVY)
    proposals = room.container.governance.proposals
    reached = type(proposals).reached
    asked: list[int] = []

    class Late(type(proposals)):  # type: ignore[misc]  the same, and a pass in between
        async def reached(self, *given: Any) -> Any:
            found = await reached(proposals, *given)
            asked.append(1)
            if len(asked) == 1:
                assert (await room.consolidate()).counts == {"held": 1}
            return found

    late = Late(**{name: getattr(proposals, name) for name in proposals.__slots__})
    object.__setattr__(room.container.memory.forget, "reach", (late,))
    await room.erase(source)
    assert len(asked) == 2
    assert await kept_words(room) == []


async def test_a_fact_cannot_be_made_out_of_what_is_gone(room: Room) -> None:
    source = await room.known(SAID)
    ledger = room.container.ledger
    from quipu.ledger.commit import Commit, Stands
    from quipu.model.journal import Draft

    commit = Commit(
        tenant="default", draft=Draft(op="remember", actor="x", at=1), changes=(Stands(ids=(source,)),)
    )
    await ledger.commit(commit)
    await room.erase(source)
    with pytest.raises(ConflictError):
        await ledger.commit(commit)


async def test_what_was_said_of_a_batch_goes_with_any_of_its_memories(any_room: Room) -> None:
    """The reason of a decision, whatever it was, may quote what was decided on."""
    from quipu.memory.operations import REMEMBER_MANY

    room = any_room
    await room.rules({"id": "all", "when": {"operations": ["remember"]}, "effect": "hold"})
    for approved in (True, False):
        items = [{"content": "Ana likes tea"}, {"content": SAID}]
        await room(REMEMBER_MANY, items=items, atomic=True)
        (waiting,) = await room.waiting()
        await room.office.decide(waiting.id, OWNER, approved=approved, reason=f"about {SAID}")
        assert SAID in str(await kept_words(room))
        second = (await room.proposal(waiting.id)).listed("makes")[1]
        await room.erase(second)
        assert await kept_words(room) == [], approved
    assert await room.is_verified()
