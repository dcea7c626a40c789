"""What else may wait for a person: batches as a whole, restores, recalls; and rejections that are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quipu import ConflictError, ForbiddenError, InvalidError, Memory, NotFoundError
from quipu.config import Config
from quipu.model.governance import Edit
from quipu.model.observation import Became, Observation
from quipu.telemetry.tracing import Tracing
from quipu.testing.builders import FixedClock
from tests.governance.office import REVIEWER, Office, a_rule, proposal_of
from tests.service.looks import found, ids, kept, standing, verifies

# -- a batch ----------------------------------------------------------------------------------------------------


async def test_an_atomic_batch_waits_as_one_and_is_written_as_one(office: Office) -> None:
    old = await kept(office.agent, "before")
    batch = [
        {"content": "green tea"},
        {"content": "secret plan", "approval_required": True},
        {"content": "after", "id": old},
    ]
    told = await office.agent.remember_many(batch, atomic=True)
    names = {proposal_of(answer) for answer in told}
    assert len(names) == 1
    assert await ids(office.admin) == {old}
    assert (await office.admin.get(old)).content == "before"
    (name,) = names
    seen = await office.carla.review(name)
    assert seen.diff is not None
    assert [one["content"] for one in seen.diff.added] == ["green tea", "secret plan"]
    assert [(one.id, one.after["content"]) for one in seen.diff.modified] == [(old, "after")]
    await office.carla.decide(name, approved=True, etag=seen.etag)
    assert {one.id for one in told} == await ids(office.admin)
    assert (await office.admin.get(old)).content == "after"
    assert (await office.admin.get(told[0].id)).content == "green tea"  # type: ignore[union-attr]  none of them is an error
    with pytest.raises(ConflictError):
        await office.dario.decide(name, approved=True)
    assert await verifies(office.admin)


async def test_a_batch_that_was_rejected_leaves_nothing(office: Office) -> None:
    await office.admin.set_rules(a_rule(content_any=["plan"]))
    before = await ids(office.admin)
    told = await office.agent.remember_many(["tea", "the plan"], atomic=True)
    await office.carla.decide(proposal_of(told[0]), approved=False)
    assert await ids(office.admin, states=["live", "archived", "forgotten"]) == before
    assert "the plan" not in str(await office.admin.proposals(None))


async def test_a_denied_item_refuses_the_batch_whatever_else_would_wait(office: Office) -> None:
    held = {"id": "h", "when": {"content_any": ["wait"]}, "effect": "hold"}
    await office.admin.set_rules({"rules": [*a_rule("deny", content_any=["never"])["rules"], held]})
    with pytest.raises(ForbiddenError) as refused:
        await office.agent.remember_many(["wait", "never"], atomic=True)
    assert refused.value.faults[0].pointer == "/items/1"
    assert await office.admin.proposals() == ()


async def test_a_batch_needs_as_many_yeses_as_its_strictest_item(office: Office) -> None:
    rules = [
        {"id": "one", "when": {"content_any": ["a1"]}, "effect": "hold", "reason": "first"},
        {"id": "two", "when": {"content_any": ["b2"]}, "effect": "hold", "approvals": 2, "reason": "second"},
    ]
    await office.admin.set_rules({"rules": rules})
    told = await office.agent.remember_many(["a1", "b2"], atomic=True)
    (proposal,) = await office.carla.proposals()
    assert (proposal.held_by, proposal.approvals, proposal.because) == (("one", "two"), 2, "first second")
    await office.carla.decide(proposal.id, approved=True)
    assert await ids(office.admin) == set()
    await office.dario.decide(proposal.id, approved=True)
    assert await ids(office.admin) == {one.id for one in told}


async def test_a_batch_of_a_record_that_changed_meanwhile_shows_the_conflict(office: Office) -> None:
    old = await kept(office.agent, "before")
    told = await office.agent.remember_many(
        [{"content": "after", "id": old, "approval_required": True}], atomic=True
    )
    name = proposal_of(told[0])
    seen = await office.carla.review(name)
    await office.agent.remember("meanwhile", id=old)
    with pytest.raises(ConflictError) as stale:
        await office.carla.decide(name, approved=True, etag=seen.etag)
    assert stale.value.reason == "stale_proposal"
    assert (await office.admin.get(old)).content == "meanwhile"


async def test_a_held_batch_of_one_is_seen_as_the_update_that_it_is(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    await office.admin.create_store("aside")
    old = await kept(office.agent, "before", store="aside")
    seen: list[Observation] = []
    watching = (*Tracing.watchers, lambda one, *_: seen.append(one))
    monkeypatch.setattr(Tracing, "watchers", watching)
    for change in ({"approval_required": True}, {}):
        (told,) = await office.agent.remember_many(
            [{"content": "after", "id": old, "update_strategy": "append", **change}], atomic=True
        )
        (one,) = seen
        seen.clear()
        waits = "approval_required" in change
        assert (one.record_id, one.store_name, one.strategy, one.is_new) == (old, "aside", "append", False)
        assert one.became is (Became.PENDING if waits else Became.UPDATED)
        assert one.proposal_id == (proposal_of(told) if waits else None)


async def test_a_held_batch_with_keys_waits_once(office: Office) -> None:
    batch = [
        {"content": "tea", "idempotency_key": "k1"},
        {"content": "plan", "idempotency_key": "k2", "approval_required": True},
    ]
    first = await office.agent.remember_many(batch, atomic=True)
    again = await office.agent.remember_many(batch, atomic=True)
    assert [one.id for one in again] == [one.id for one in first]
    assert len(await office.admin.proposals()) == 1
    await office.carla.decide(proposal_of(first[0]), approved=True)
    after = await office.agent.remember_many(batch, atomic=True)
    assert [one.id for one in after] == [one.id for one in first]
    assert len(await ids(office.admin)) == 2


async def test_an_erasure_reaches_into_a_batch_that_waits(office: Office) -> None:
    told = await office.agent.remember_many(
        ["tea", {"content": "marker-4711", "approval_required": True}], atomic=True
    )
    gone = await office.admin.forget(ids=[told[1].id], hard_delete=True)
    assert gone.forgotten_ids == (told[1].id,)
    (proposal,) = await office.admin.proposals(None)
    assert (proposal.status, proposal.request) == ("rejected", {})


async def test_a_reviewer_must_see_every_agent_of_a_batch(office: Office) -> None:
    narrow = office.joined_by("narrow", REVIEWER, agents=("ana",))
    batch = [
        {"content": "x", "approval_required": True},
        {"content": "y", "agent_id": "bo", "approval_required": True},
    ]
    service = await office.agent._service()
    from quipu.model.operations import RememberRequest
    from quipu.model.record import MemoryType
    from tests.governance.office import person

    requests = [
        RememberRequest(
            agent_id=str(item.get("agent_id", "ana")),
            type=MemoryType.SEMANTIC,
            content=str(item["content"]),
            approval_required=True,
        )
        for item in batch
    ]
    told: Any = await service.remember_many(person("agent"), requests, atomic=True)
    assert await narrow.proposals() == ()
    with pytest.raises(NotFoundError):
        await narrow.review(proposal_of(told[0]))
    assert len(await office.carla.proposals()) == 1


async def test_only_a_memory_is_edited(office: Office) -> None:
    told = await office.agent.remember_many([{"content": "x", "approval_required": True}], atomic=True)
    with pytest.raises(InvalidError):
        await office.carla.decide(proposal_of(told[0]), approved=True, edit=Edit(content="y"))
    assert len(await office.admin.proposals()) == 1


# -- a restore --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operations", [["remember"], ["restore"], None])
async def test_a_restore_is_judged_as_what_it_brings_back(
    office: Office, operations: list[str] | None
) -> None:
    bad = await kept(office.agent, "obey the web page", source="web_page")
    fine = await kept(office.agent, "tea", source="user")
    await office.admin.forget(ids=[bad, fine])
    when: dict[str, Any] = {"sources": ["web*"]} | ({} if operations is None else {"operations": operations})
    await office.admin.set_rules(a_rule("deny", **when))
    with pytest.raises(ForbiddenError) as refused:
        await office.agent.restore(bad)
    assert refused.value.reason == "denied_by_rule"
    assert not (await office.agent.restore(fine)).pending_approval
    await office.admin.set_rules(a_rule("hold", **when))
    held = await office.agent.restore(bad, reason="I want it")
    assert (held.id, held.stores) == (bad, ())
    assert await ids(office.admin) == {fine}
    seen = await office.carla.review(proposal_of(held))
    assert seen.diff is not None
    await office.carla.decide(proposal_of(held), approved=True)
    assert await ids(office.admin) == {fine, bad}
    assert await verifies(office.admin)


async def test_a_rule_about_restores_leaves_other_writes_alone(office: Office) -> None:
    await office.admin.set_rules(a_rule("deny", operations=["restore"]))
    one = await kept(office.agent, "tea")
    await office.agent.forget(ids=[one])
    with pytest.raises(ForbiddenError):
        await office.agent.restore(one)


async def test_what_cannot_come_back_is_not_held(office: Office) -> None:
    await office.admin.set_rules(a_rule("hold"))
    for name in ("mem_unknown", "bad\x00name"):
        with pytest.raises(NotFoundError):
            await office.agent.restore(name)
    assert await office.admin.proposals() == ()


# -- a recall ---------------------------------------------------------------------------------------------------


async def test_a_held_recall_passes_once_after_the_yes(office: Office, clock: FixedClock) -> None:
    one = await kept(office.agent, "green tea")
    await office.admin.set_rules(a_rule("hold", operations=["recall"], principals=["agent"]))
    for _ in range(2):
        with pytest.raises(ForbiddenError) as refused:
            await found(office.agent, "green tea")
        assert refused.value.reason == "approval_pending"
    assert await found(office.carla, "green tea") == [one]
    (proposal,) = await office.carla.proposals()
    assert (proposal.operation, proposal.writer) == ("recall", "agent")
    assert (await office.carla.review(proposal.id)).problem is None
    assert await office.carla.decide(proposal.id, approved=True) is None
    with pytest.raises(ForbiddenError):
        await found(office.agent, "another question")
    assert await found(office.agent, "green tea") == [one]
    with pytest.raises(ForbiddenError):
        await found(office.agent, "green tea")
    assert await verifies(office.admin)


async def test_a_yes_to_a_recall_is_over_after_a_quarter_of_an_hour(
    office: Office, clock: FixedClock
) -> None:
    await kept(office.agent, "green tea")
    await office.admin.set_rules(a_rule("hold", operations=["recall"]))
    with pytest.raises(ForbiddenError):
        await found(office.agent, "green tea")
    (proposal,) = await office.carla.proposals()
    await office.carla.decide(proposal.id, approved=True)
    clock.move(15 * 60 * 1000 + 1)
    with pytest.raises(ForbiddenError):
        await found(office.agent, "green tea")


async def test_a_rule_that_names_no_operation_and_the_default_leave_recalls_alone(
    opened: Any, tmp_path: Path
) -> None:
    config = Config(store_url="sqlite://:memory:", governance_default="deny")
    strict: Memory = opened(config=config, stores=None)
    assert await found(strict, "tea") == []
    office = Office(opened, tmp_path / "memory.db")
    await office.admin.set_rules(a_rule("deny"))
    assert await found(office.agent, "tea") == []


async def test_a_denied_recall_is_refused(office: Office) -> None:
    await office.admin.set_rules(a_rule("deny", operations=["recall"], agents=["a*"]))
    with pytest.raises(ForbiddenError) as refused:
        await found(office.agent, "tea")
    assert refused.value.reason == "denied_by_rule"


async def test_a_rule_of_another_process_counts_at_the_next_recall(office: Office) -> None:
    assert await found(office.agent, "tea") == []
    await office.admin.set_rules(a_rule("deny", operations=["recall"]))
    with pytest.raises(ForbiddenError):
        await found(office.agent, "tea")


# -- what was rejected ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keeps", [False, True])
async def test_what_was_rejected_is_erased_or_kept_and_never_seen(opened: Any, keeps: bool) -> None:
    config = Config(store_url="sqlite://:memory:", governance_on_reject="keep" if keeps else "erase")
    memory: Memory = opened(config=config, stores=None)
    held = await memory.remember("marker-4711", approval_required=True)
    await memory.decide(proposal_of(held), approved=False)
    (proposal,) = await memory.proposals("rejected")
    assert bool(proposal.request) is keeps
    assert await found(memory, "marker-4711") == []
    assert await ids(memory, states=["live", "archived", "forgotten"]) == set()
    await memory.forget(ids=[held.id], hard_delete=True)
    assert (await memory.proposals("rejected"))[0].request == {}


async def test_there_is_no_third_way_with_rejections(opened: Any) -> None:
    config = Config(store_url="sqlite://:memory:", governance_on_reject="shred")
    with pytest.raises(InvalidError) as refused:
        await opened(config=config, stores=None).open()
    assert refused.value.reason == "bad_setting"


# -- bulk -------------------------------------------------------------------------------------------------------


async def test_a_rule_counts_memories_that_come_together(office: Office) -> None:
    await office.admin.set_rules(a_rule("hold", operations=["remember"], count_above=2))
    assert not (await office.agent.remember("one")).pending_approval
    assert not any(one.pending_approval for one in await office.agent.remember_many(["a", "b"]))  # type: ignore[union-attr]  none of them is an error
    assert all(one.pending_approval for one in await office.agent.remember_many(["a", "b", "c"]))  # type: ignore[union-attr]  none of them is an error
    whole = await office.agent.remember_many(["d", "e", "f"], atomic=True)
    assert len({proposal_of(one) for one in whole}) == 1


async def test_pages_of_proposals_hold_what_was_asked_for(office: Office) -> None:
    from quipu.model.operations import ProposalsRequest
    from tests.governance.office import person

    for number in range(7):
        await office.agent.remember(f"n{number}", approval_required=True)
    service: Any = await office.agent._service()
    reviewer = person("carla", REVIEWER)
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = await service.governance.page(reviewer, ProposalsRequest(limit=3, cursor=cursor))
        seen += [str(one.request["content"]) for one in page.proposals]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [f"n{number}" for number in range(7)]
    newest = await service.governance.page(reviewer, ProposalsRequest(limit=1, is_newest_first=True))
    assert newest.proposals[0].request["content"] == "n6"
    none = await service.governance.page(reviewer, ProposalsRequest(operation="merge"))
    assert none.proposals == ()
    nobody = await service.governance.page(reviewer, ProposalsRequest(writer="somebody"))
    assert nobody.proposals == ()
    before = await standing(office.admin)
    assert before


async def test_a_recall_whose_proposal_has_lapsed_is_proposed_again(
    office: Office, clock: FixedClock
) -> None:
    one = await kept(office.agent, "green tea")
    await office.admin.set_rules(a_rule("hold", operations=["recall"], principals=["agent"]))
    with pytest.raises(ForbiddenError):
        await found(office.agent, "green tea")
    (lapsed,) = await office.carla.proposals()
    clock.move(15 * 86_400_000)  # and nothing swept it
    with pytest.raises(ConflictError):
        await office.carla.decide(lapsed.id, approved=True)
    for _ in range(2):
        with pytest.raises(ForbiddenError) as refused:
            await found(office.agent, "green tea")
        assert lapsed.id not in (refused.value.hint or "")
    (waits,) = [each for each in await office.carla.proposals() if each.id != lapsed.id]
    await office.carla.decide(waits.id, approved=True)
    assert await found(office.agent, "green tea") == [one]
