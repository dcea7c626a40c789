"""Held writes: staged apart, decided once, carried out as they were shown."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quipu import ConflictError, ForbiddenError, InvalidError, Memory, NotFoundError
from quipu.bootstrap import start
from quipu.config import Config
from quipu.errors import BackendUnavailableError
from quipu.model.operations import RememberRequest
from quipu.model.principal import Permission, local
from quipu.model.record import MemoryType
from quipu.testing.builders import FixedClock
from quipu.testing.embedders import WordEmbedder
from tests.service.looks import found, ids, kept, standing, verifies


async def test_a_held_write_is_a_proposal_and_nothing_else(memory: Memory, clock: FixedClock) -> None:
    held = await memory.remember(
        "risky", metadata={"n": 1}, reasoning="he said so", approval_required=True, user_id="mara"
    )
    (proposal,) = await memory.proposals()
    assert (held.stores, held.approval_url) == ((), f"quipu:proposal/{proposal.id}")
    assert held.extensions == {"seq": 2, "proposal_id": proposal.id, "held_by": ["caller"]}
    assert (proposal.id[:4], proposal.operation, proposal.agent_id) == ("prp_", "remember", "ana")
    assert (proposal.status, proposal.writer, proposal.held_by) == ("pending", "local", ("caller",))
    assert (proposal.record_id, proposal.created_at) == (held.id, clock())
    assert proposal.lapses_at == clock() + 14 * 86_400_000
    assert (proposal.request["content"], proposal.request["reasoning"]) == ("risky", "he said so")
    assert await ids(memory, states=["live", "archived", "forgotten"]) == set()
    assert await verifies(memory)


async def test_approval_commits_what_was_held_under_its_id(memory: Memory, clock: FixedClock) -> None:
    target = await kept(memory, "target")
    held = await memory.remember(
        "risky",
        approval_required=True,
        tags=["t"],
        links=[{"to": target, "rel": "about"}],
        confidence=0.5,
        privacy_intent={"sensitivity": "internal", "share_with": ["bo"]},
        embedding={"model": "words-64", "vector": [1.0] * 64},
        idempotency_key="k",
    )
    clock.move(5)
    answer = await memory.decide(held.extensions["proposal_id"], approved=True, reason="fine")
    assert (answer.id, answer.extensions["version"]) == (held.id, 1)
    record = await memory.get(held.id)
    assert (record.tags, record.confidence, record.created_at) == (("t",), 0.5, clock())
    assert record.links[0].to == target
    assert record.privacy is not None
    assert record.privacy.share_with == ("bo",)
    (decided,) = await memory.proposals("approved")
    assert (decided.reviewer, decided.reviewed_at, decided.reason) == ("local", clock(), "fine")
    assert decided.request == {}
    assert [entry.op for entry in await memory.journal()][-2:] == ["decide", "remember"]
    assert await verifies(memory)


async def test_rejection_drops_what_was_held(memory: Memory) -> None:
    held = await memory.remember("risky", approval_required=True)
    assert await memory.decide(held.extensions["proposal_id"], approved=False) is None
    (decided,) = await memory.proposals("rejected")
    assert (decided.id, decided.request) == (held.extensions["proposal_id"], {})
    assert await memory.proposals() == ()
    assert len(await memory.proposals(None)) == 1
    assert await ids(memory) == set()


@pytest.mark.parametrize("strategy", ["overwrite", "append"])
async def test_a_held_change_waits_and_then_changes(memory: Memory, strategy: str) -> None:
    record_id = await kept(memory, "before")
    held = await memory.remember("after", id=record_id, update_strategy=strategy, approval_required=True)
    assert held.id == record_id
    assert (await memory.get(record_id)).content == "before"
    await memory.decide(held.extensions["proposal_id"], approved=True)
    assert (await memory.get(record_id)).content == ("after" if strategy == "overwrite" else "before\nafter")


async def test_what_could_never_be_carried_out_is_not_held(memory: Memory) -> None:
    before = await standing(memory)
    for call, error in (
        (memory.remember("x", id="mem_unknown", approval_required=True), NotFoundError),
        (memory.remember("x", links=[{"to": "mem_no", "rel": "r"}], approval_required=True), InvalidError),
        (memory.remember("", approval_required=True), InvalidError),
        (memory.forget(approval_required=True), InvalidError),
        (memory.expire({}, approval_required=True), InvalidError),
        (memory.merge("a", [], approval_required=True), InvalidError),
    ):
        with pytest.raises(error):
            await call
    assert await standing(memory) == before


async def test_a_held_write_with_a_key_waits_once(memory: Memory, clock: FixedClock) -> None:
    one = await kept(memory, "x")
    calls: list[Any] = [
        lambda: memory.remember("risky", approval_required=True, idempotency_key="k"),
        lambda: memory.forget(ids=[one], approval_required=True, idempotency_key="k"),
    ]
    for call in calls:
        first = await call()
        clock.move(1)
        assert await call() == first
    assert len(await memory.proposals()) == 2
    with pytest.raises(ConflictError) as other:
        await memory.remember("riskier", approval_required=True, idempotency_key="k")
    assert other.value.reason == "idempotency_key_mismatch"
    for proposal in await memory.proposals():
        await memory.decide(proposal.id, approved=True)
    assert len(await ids(memory)) == 1


async def test_a_dry_run_is_never_held(memory: Memory) -> None:
    one, two = await kept(memory, "a"), await kept(memory, "b")
    answers = [
        await memory.forget(ids=[one], dry_run=True, approval_required=True),
        await memory.merge(one, [two], dry_run=True, approval_required=True),
        await memory.expire({"type": "semantic"}, dry_run=True, approval_required=True),
    ]
    assert not any(answer.pending_approval for answer in answers)
    assert await memory.proposals() == ()


async def test_a_proposal_is_decided_once_even_when_many_decide(memory: Memory) -> None:
    held = await memory.remember("risky", approval_required=True)
    decisions = await asyncio.gather(
        *(memory.decide(held.extensions["proposal_id"], approved=True) for _ in range(8)),
        return_exceptions=True,
    )
    conflicts = [decision for decision in decisions if isinstance(decision, ConflictError)]
    assert len(conflicts) == 7
    assert {conflict.reason for conflict in conflicts} == {"already_decided"}
    assert len(await memory.history(held.id)) == 1


async def test_a_decision_that_cannot_be_carried_out_leaves_the_proposal(memory: Memory) -> None:
    record_id = await kept(memory, "before")
    held = await memory.remember("after", id=record_id, if_version=1, approval_required=True)
    await memory.remember("meanwhile", id=record_id)
    before = await standing(memory)
    with pytest.raises(ConflictError) as late:
        await memory.decide(held.extensions["proposal_id"], approved=True)
    assert late.value.reason == "version_mismatch"
    assert await standing(memory) == before
    assert len(await memory.proposals()) == 1
    await memory.decide(held.extensions["proposal_id"], approved=False)


async def test_an_approved_removal_of_what_is_already_gone_settles_quietly(memory: Memory) -> None:
    record_id = await kept(memory, "x")
    held = await memory.forget(ids=[record_id], approval_required=True)
    await memory.forget(ids=[record_id])
    answer = await memory.decide(held.extensions["proposal_id"], approved=True)
    assert answer.forgotten_ids == ()
    assert await memory.proposals() == ()


async def test_a_held_archive_matches_when_it_is_approved(memory: Memory) -> None:
    await memory.remember("x")
    held = await memory.expire(
        {"type": "semantic", "confidence_below": 1, "older_than_days": 1},
        action="archive",
        approval_required=True,
    )
    answer = await memory.decide(held.extensions["proposal_id"], approved=True)
    assert answer.matched_count == 0


async def test_a_held_expiry_of_nothing_can_be_approved(memory: Memory) -> None:
    held = await memory.expire({"type": "episodic"}, approval_required=True)
    answer = await memory.decide(held.extensions["proposal_id"], approved=True)
    assert answer.forgotten_ids == ()


async def test_a_lapsed_proposal_cannot_be_approved(memory: Memory, clock: FixedClock) -> None:
    held = await memory.remember("risky", approval_required=True)
    clock.move(14 * 86_400_000)
    with pytest.raises(ConflictError) as late:
        await memory.decide(held.extensions["proposal_id"], approved=True)
    assert late.value.reason == "already_decided"
    await memory.decide(held.extensions["proposal_id"], approved=False)


async def test_nobody_but_the_local_person_approves_their_own_write(opened: Any, tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    carla = replace(local(), name="carla", is_local=False)
    mine: Memory = opened(file, principal=carla)
    theirs: Memory = opened(file, principal=replace(carla, name="dario"))
    held = await mine.remember("risky", approval_required=True)
    with pytest.raises(ForbiddenError) as refused:
        await mine.decide(held.extensions["proposal_id"], approved=True)
    assert refused.value.reason == "self_approval"
    await theirs.decide(held.extensions["proposal_id"], approved=True)
    assert await found(mine, "risky") == [held.id]
    withdrawn = await mine.remember("another", approval_required=True)
    await mine.decide(withdrawn.extensions["proposal_id"], approved=False)


async def test_a_reviewer_sees_and_decides_only_for_their_agents(opened: Any, tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    memory: Memory = opened(file)
    held = await memory.remember("risky", approval_required=True)
    reviewer = replace(
        local(), name="carla", is_local=False, agents=("bo*",), permissions=frozenset({Permission.REVIEW})
    )
    other: Memory = opened(file, principal=reviewer)
    assert await other.proposals() == ()
    with pytest.raises(NotFoundError) as hidden:
        await other.decide(held.extensions["proposal_id"], approved=True)
    assert hidden.value.reason == "proposal"


async def test_the_reason_of_a_decision_is_cut_like_any_other(memory: Memory) -> None:
    held = await memory.remember("risky", approval_required=True)
    await memory.decide(held.extensions["proposal_id"], approved=False, reason="no " * 1_000)
    (decided,) = await memory.proposals("rejected")
    assert decided.reason is not None
    assert len(decided.reason) == 1_024


class Leaving(WordEmbedder):
    """Knows words until it is gone."""

    is_gone = False

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        if self.is_gone:
            raise BackendUnavailableError("It is gone.", reason="endpoint_unreachable")
        return await super().embed(texts)


async def test_what_a_yes_would_do_is_shown_also_while_no_model_can_be_had(clock: FixedClock) -> None:
    embedder = Leaving()
    running = await start(Config(store_url="sqlite://:memory:"), embedder=embedder, clock=clock)
    person, service = local(), running.service
    await running.parts.ledger.open(person.tenant)
    asked = RememberRequest(agent_id="ana", type=MemoryType.EPISODIC, content="tea at five")
    for text in ("tea at noon", "coffee at nine"):
        await service.remember(person, replace(asked, content=text))
    held = await service.remember(person, replace(asked, approval_required=True))
    seen = await service.reviewing.review(person, str(held.extensions["proposal_id"]))
    for embedder.is_gone in (False, True):
        shown = await service.previewing.shown(person, seen, "tea at five")
        assert shown is not None
        told = [(line.content, line.mark) for line in shown.after]
        assert told[:2] == [("tea at five", "new"), ("tea at noon", "")]
    await running.close()
