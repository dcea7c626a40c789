"""A decision is taken back within a minute, by who made it, at whichever process; after that it stands."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from quipu import ConflictError, NotFoundError
from quipu.model.governance import Edit
from quipu.model.principal import local
from quipu.testing.builders import FixedClock
from tests.governance.office import REVIEWER, Office, person, proposal_of
from tests.service.looks import ids, kept, verifies

CARLA, DARIO = person("carla", REVIEWER), person("dario", REVIEWER)


async def decided(office: Office, held: Any, *, approved: bool = True, **said: Any) -> str:
    """Carla decides, at a process that keeps what was proposed for a while."""
    service: Any = await office.carla._service()
    await service.decide(CARLA, proposal_of(held), approved=approved, undoable=True, **said)
    return proposal_of(held)


async def texts(office: Office) -> set[str]:
    return {record.content for record in (await office.admin.list()).records}


async def test_an_approval_is_undone_by_who_gave_it_with_all_it_did(office: Office) -> None:
    service: Any = await office.carla._service()
    old = await kept(office.agent, "old")
    held = await office.agent.remember("new", approval_required=True)
    name = await decided(office, held, supersedes=[old])
    assert await ids(office.admin) == {held.id}
    with pytest.raises(ConflictError) as refused:
        await service.undoing.undo(DARIO, name)
    assert refused.value.reason == "too_late"
    assert (await service.undoing.undo(CARLA, name)).proposal_id
    assert await ids(office.admin) == {old}
    assert await verifies(office.admin)


async def test_an_approval_that_is_undone_waits_again_and_can_be_decided_again(office: Office) -> None:
    service: Any = await office.carla._service()
    old = await kept(office.agent, "before")
    answers = {
        "new": await office.agent.remember("new", approval_required=True),
        "change": await office.agent.remember("after", id=old, approval_required=True),
        "batch": (
            await office.agent.remember_many(
                ["one", {"content": "two", "approval_required": True}], atomic=True
            )
        )[0],
        "forget": await office.agent.forget(ids=[old], approval_required=True),
    }
    for name, answer in answers.items():
        before = await texts(office)
        was = await decided(office, answer)
        after = await texts(office)
        assert after != before, name
        done = await service.undoing.undo(CARLA, was)
        assert await texts(office) == before, name
        waits = await service.governance.proposal(CARLA, done.proposal_id)
        assert (waits.writer, waits.status, waits.given) == ("agent", "pending", ())
        assert waits.id in {one.id for one in await office.carla.proposals()}
        await office.dario.decide(waits.id, approved=True)
        assert await texts(office) == after, name
        with pytest.raises(ConflictError):
            await service.undoing.undo(CARLA, was)
        assert await texts(office) == after, f"{name}: once"
    assert await verifies(office.admin)


async def test_a_rejection_is_reopened_under_its_writer_once(office: Office) -> None:
    service: Any = await office.carla._service()
    held = await office.agent.remember("again", approval_required=True)
    was = await decided(office, held, approved=False)
    both = await asyncio.gather(
        service.undoing.undo(CARLA, was), service.undoing.undo(CARLA, was), return_exceptions=True
    )
    (done,) = [one for one in both if not isinstance(one, ConflictError)]
    again = await service.governance.proposal(CARLA, done.proposal_id)
    assert (again.writer, again.status, again.record_id) == ("agent", "pending", held.id)
    await office.carla.decide(again.id, approved=True)
    assert (await office.admin.get(held.id)).content == "again"
    entries = [e for e in await office.admin.journal(limit=100) if e.op == "hold"]
    assert (len(entries), entries[-1].actor, entries[-1].detail["was"]) == (2, "carla", was)


async def test_what_was_edited_waits_again_as_it_was_proposed(office: Office) -> None:
    service: Any = await office.carla._service()
    held = await office.agent.remember("as proposed", source="chat", approval_required=True)
    was = await decided(office, held, edit=Edit(content="as edited"))
    assert await texts(office) == {"as edited"}
    done = await service.undoing.undo(CARLA, was)
    waits = await service.governance.proposal(CARLA, done.proposal_id)
    assert (waits.request["content"], waits.traits["source"]) == ("as proposed", "chat")


async def test_what_was_decided_just_before_it_lapsed_waits_again_as_long_as_any_other(
    office: Office, clock: FixedClock
) -> None:
    service: Any = await office.carla._service()
    held = await office.agent.remember("again", approval_required=True)
    waits = await service.governance.proposal(CARLA, proposal_of(held))
    clock.move(waits.lapses_at - clock() - 1)
    await decided(office, held)
    clock.move(1_000)
    done = await service.undoing.undo(CARLA, waits.id)
    await office.admin.sweep()
    await office.dario.decide(done.proposal_id, approved=True)
    assert await texts(office) == {"again"}


async def test_after_a_minute_it_stands_and_a_sweep_lets_the_text_go(
    office: Office, clock: FixedClock
) -> None:
    service: Any = await office.carla._service()
    yes, no = [await office.agent.remember(text, approval_required=True) for text in ("yes", "never")]
    names = [await decided(office, yes), await decided(office, no, approved=False)]
    for name in names:
        assert (await service.governance.proposal(CARLA, name)).request == {}, "told to nobody meanwhile"
        assert (await service.reviewing.review(CARLA, name)).proposal.request == {}
    await service.sweep(local())
    assert (await service._parts.ledger.proposal("default", names[1])).request["content"] == "never"
    clock.move(60_001)
    for name in names:
        with pytest.raises(ConflictError):
            await service.undoing.undo(CARLA, name)
    await service.sweep(local())
    for name in names:
        left = await service._parts.ledger.proposal("default", name)
        assert (left.request, left.salt) == ({}, b"")
    assert await ids(office.admin) == {yes.id}


async def test_a_decision_that_is_not_to_be_taken_back_keeps_nothing(office: Office) -> None:
    service: Any = await office.carla._service()
    held = await office.agent.remember("gone at once", approval_required=True)
    await office.carla.decide(proposal_of(held), approved=False)
    assert (await service._parts.ledger.proposal("default", proposal_of(held))).request == {}
    with pytest.raises(ConflictError):
        await service.undoing.undo(CARLA, proposal_of(held))


async def test_nobody_takes_back_what_is_out_of_reach_waits_or_was_erased(office: Office) -> None:
    service: Any = await office.carla._service()
    held = await office.agent.remember("x", approval_required=True)
    with pytest.raises(ConflictError):
        await service.undoing.undo(CARLA, proposal_of(held))
    far = person("far", REVIEWER, agents=("bo",))
    with pytest.raises(NotFoundError):
        await service.undoing.undo(far, proposal_of(held))
    name = await decided(office, held)
    await office.admin.forget(ids=[held.id], hard_delete=True)
    assert (await service._parts.ledger.proposal("default", name)).request == {}, "the erasure reaches it"
    with pytest.raises(ConflictError):
        await service.undoing.undo(CARLA, name)


@pytest.mark.parametrize("approved", [True, False])
async def test_another_process_takes_it_back_and_so_does_one_that_was_started_again(
    opened: Any, clock: FixedClock, tmp_path: Path, approved: bool
) -> None:
    """Each memory has a ledger, caches and services of its own over one file."""
    file = tmp_path / "shared.db"
    first, second = Office(opened, file), Office(opened, file)
    for office in (second, None):
        held = await first.agent.remember("across", approval_required=True)
        was = await decided(first, held, approved=approved)
        if office is None:
            for one in (first.admin, first.agent, first.carla, first.dario):
                await one.close()
            office = Office(opened, file)
        service: Any = await office.carla._service()
        assert await service.undoing.can_undo(CARLA, was)
        done = await service.undoing.undo(CARLA, was)
        waits = await service.governance.proposal(CARLA, done.proposal_id)
        assert (waits.status, waits.request["content"]) == ("pending", "across")
        assert not await service.undoing.can_undo(CARLA, was)
        assert await ids(office.admin) == set()
