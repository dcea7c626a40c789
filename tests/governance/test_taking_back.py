"""A decision is taken back within a minute, by who made it; after that it stands."""

from __future__ import annotations

from typing import Any

import pytest

from quipu import ConflictError, NotFoundError
from quipu.testing.builders import FixedClock
from tests.governance.office import REVIEWER, Office, person, proposal_of
from tests.service.looks import ids, kept, verifies

CARLA, DARIO = person("carla", REVIEWER), person("dario", REVIEWER)


async def test_an_approval_is_undone_by_who_gave_it_with_all_it_did(office: Office) -> None:
    service: Any = await office.carla._service()
    old = await kept(office.agent, "old")
    held = await office.agent.remember("new", approval_required=True)
    await office.carla.decide(proposal_of(held), approved=True, supersedes=[old])
    assert await ids(office.admin) == {held.id}
    with pytest.raises(ConflictError) as refused:
        await service.recovery.take_back(DARIO, proposal_of(held))
    assert refused.value.reason == "too_late"
    done = await service.recovery.take_back(CARLA, proposal_of(held))
    assert {one.outcome for one in done.findings} == {"done"}
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
        before = {record.content for record in (await office.admin.list()).records}
        was = await service.governance.proposal(CARLA, proposal_of(answer))
        await office.carla.decide(was.id, approved=True)
        after = {record.content for record in (await office.admin.list()).records}
        assert after != before, name
        done, waits = await service.recovery.put_back(CARLA, was)
        assert {one.outcome for one in done.findings} == {"done"}, name
        assert {record.content for record in (await office.admin.list()).records} == before, name
        assert (waits.writer, waits.status, waits.given) == ("agent", "pending", ())
        assert waits.id in {one.id for one in await office.carla.proposals()}
        await office.dario.decide(waits.id, approved=True)
        assert {record.content for record in (await office.admin.list()).records} == after, name
        assert (await service.recovery.put_back(CARLA, was))[1] is None, "once"
        assert {record.content for record in (await office.admin.list()).records} == after, name
    assert await verifies(office.admin)


async def test_a_rejection_is_reopened_under_its_writer(office: Office) -> None:
    service: Any = await office.carla._service()
    held = await office.agent.remember("again", approval_required=True)
    was = await service.governance.proposal(CARLA, proposal_of(held))
    await office.carla.decide(was.id, approved=False)
    again = await service.governance.reopen(CARLA, was)
    assert (again.writer, again.status, again.record_id) == ("agent", "pending", held.id)
    await office.carla.decide(again.id, approved=True)
    assert (await office.admin.get(held.id)).content == "again"
    entries = [e for e in await office.admin.journal(limit=100) if e.op == "hold"]
    assert (entries[-1].actor, entries[-1].detail["was"]) == ("carla", was.id)


async def test_after_a_minute_it_stands(office: Office, clock: FixedClock) -> None:
    service: Any = await office.carla._service()
    yes, no = [await office.agent.remember(text, approval_required=True) for text in ("yes", "no")]
    was = await service.governance.proposal(CARLA, proposal_of(no))
    await office.carla.decide(proposal_of(yes), approved=True)
    await office.carla.decide(proposal_of(no), approved=False)
    clock.move(60_001)
    with pytest.raises(ConflictError):
        await service.recovery.take_back(CARLA, proposal_of(yes))
    with pytest.raises(ConflictError):
        await service.governance.reopen(CARLA, was)
    assert await ids(office.admin) == {yes.id}


async def test_nobody_takes_back_what_is_out_of_reach_or_waits(office: Office) -> None:
    service: Any = await office.carla._service()
    held = await office.agent.remember("x", approval_required=True)
    with pytest.raises(ConflictError):
        await service.recovery.take_back(CARLA, proposal_of(held))
    far = person("far", REVIEWER, agents=("bo",))
    with pytest.raises(NotFoundError):
        await service.recovery.take_back(far, proposal_of(held))
