"""Erasing a memory takes along what consolidation made out of it: its words live on nowhere."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from quipu.bootstrap import Running
from quipu.model.consolidation import ConsolidateRequest, Settlement
from quipu.model.operations import ForgetRequest, RememberRequest
from quipu.model.record import Link, MemoryType, State
from quipu.service.memory import MemoryService
from tests.consolidation.conftest import OWNER, SYSTEM, Push
from tests.consolidation.test_extracting import endpoint, facts, memory
from tests.consolidation.test_extracting import push as pushed

SAID = "Tom lives at Birkenstrasse 7"
HOLD = {
    "rules": [
        {"id": "look", "when": {"operations": ["remember"], "sources": ["consolidation"]}, "effect": "hold"}
    ]
}


async def erase(service: MemoryService, *ids: str) -> tuple[str, ...]:
    request = ForgetRequest(agent_id="ana", ids=ids, hard_delete=True)
    return (await service.forget(OWNER, request)).forgotten_ids


async def settle(service: MemoryService) -> Any:
    return await service.consolidating.consolidate(SYSTEM, ConsolidateRequest())


async def said(running: Running, record_id: str) -> set[str]:
    return {one.content for one in await running.parts.ledger.versions(OWNER.tenant, record_id)}


async def kept_words(service: MemoryService) -> list[str]:
    """What is staged, waiting or decided."""
    proposals = await service.governance.proposals(OWNER)
    return [str(one.request["content"]) for one in proposals if one.request]


async def test_what_a_memory_was_promoted_to_is_erased_with_it(running: Running, push: Push) -> None:
    source = await push(SAID, importance=1.0)
    into = (await settle(running.service)).settled[0].into
    assert await said(running, into) == {SAID}
    # It was changed since: what it said before is in its history.
    change = RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content="Tom has moved", id=into)
    await running.service.remember(OWNER, change)
    assert set(await erase(running.service, source)) == {source, into}
    assert await said(running, into) == {""}
    assert (await running.service.audit.verify(OWNER)).holds


async def test_what_several_memories_were_promoted_to_goes_with_any_of_them(
    running: Running, push: Push
) -> None:
    one, other = await push(SAID, importance=1.0), await push(f"{SAID}.", importance=1.0)
    (settled,) = (await settle(running.service)).settled
    assert set(settled.ids) == {one, other}
    assert set(await erase(running.service, one)) == {one, settled.into}
    assert (await running.service.audit.verify(OWNER)).holds


async def test_who_erases_what_was_promoted_is_told_that_its_source_still_says_it(
    running: Running, push: Push
) -> None:
    source = await push(SAID, importance=1.0)
    into = (await settle(running.service)).settled[0].into
    for ids, warned in (((into,), True), ((into, source), False)):
        request = ForgetRequest(agent_id="ana", ids=ids, hard_delete=True, dry_run=True)
        told = (await running.service.forget(OWNER, request)).extensions
        said_so = f"{into} was made out of {source}, and what that says stays: erase it too, if it is to go."
        assert told.get("warnings") == ([said_so] if warned else None)
    assert await erase(running.service, into) == (into,)
    assert await said(running, source) == {SAID}


async def test_a_store_that_is_erased_takes_along_what_was_promoted_out_of_it(
    running: Running, push: Push
) -> None:
    await push(SAID, importance=1.0)
    into = (await settle(running.service)).settled[0].into
    await running.service.stores.delete(OWNER, "window", "window", hard_delete=True)
    assert await said(running, into) == {""}


async def test_what_somebody_wrote_and_linked_by_hand_stays(running: Running, push: Push) -> None:
    source = await push("The minutes of Monday")
    own = RememberRequest(
        agent_id="ana",
        type=MemoryType.SEMANTIC,
        content="We buy the boat",
        links=(Link(source, "derived_from"),),
    )
    decision = (await running.service.remember(OWNER, own)).id
    assert await erase(running.service, source) == (source,)
    assert await said(running, decision) == {"We buy the boat"}


@pytest.mark.parametrize("decided", [None, True, False])
async def test_a_promotion_that_waits_or_was_decided_goes_with_its_source(
    running: Running, push: Push, decided: bool | None
) -> None:
    service = running.service
    await service.policies.set(OWNER, HOLD)
    source = await push(SAID, importance=1.0)
    (settled,) = (await settle(service)).settled
    assert settled.outcome is Settlement.HELD
    if decided is not None:
        await service.decide(OWNER, settled.into, approved=decided, undoable=True)
    held = await running.parts.ledger.proposal(OWNER.tenant, settled.into)
    assert held is not None
    assert held.request["content"] == SAID
    await erase(service, source)
    held = await running.parts.ledger.proposal(OWNER.tenant, settled.into)
    assert held is not None
    assert held.request == {}
    assert held.status == ("approved" if decided else "rejected")
    assert await said(running, str(held.record_id)) == ({""} if decided else set())
    assert (await service.audit.verify(OWNER)).holds


async def test_a_store_that_is_erased_takes_along_the_promotions_that_wait(
    running: Running, push: Push
) -> None:
    await running.service.policies.set(OWNER, HOLD)
    await push(SAID, importance=1.0)
    assert (await settle(running.service)).counts == {"held": 1}
    await running.service.stores.delete(OWNER, "window", "window", hard_delete=True)
    assert await kept_words(running.service) == []


async def test_facts_that_a_model_found_go_with_what_they_were_found_in(tmp_path: Path) -> None:
    with endpoint(lambda _: facts("Tom lives in a house.", "Tom has a door.")) as model:
        async with memory(model.url, tmp_path) as service:
            source = await pushed(service, SAID)
            await settle(service)
            waiting = await service.governance.proposals(OWNER, "pending")
            assert len(waiting) == 2
            await service.decide(OWNER, waiting[0].id, approved=True)
            gone = await erase(service, source)
            assert len(gone) == 3
            assert waiting[0].record_id in gone
            assert await kept_words(service) == []
            assert await service.governance.proposals(OWNER, "pending") == ()


async def test_facts_of_what_is_erased_while_a_model_reads_it_are_not_proposed(tmp_path: Path) -> None:
    """A model takes its time, and what it was shown may be gone when it answers."""
    loop, gone = asyncio.get_running_loop(), list[str]()

    def answers(_: dict[str, Any]) -> tuple[int, bytes]:
        gone.extend(asyncio.run_coroutine_threadsafe(erase(service, source), loop).result(10))
        return facts("Tom lives in a house.", "Tom has a door.")

    with endpoint(answers) as model:
        async with memory(model.url, tmp_path) as service:
            source = await pushed(service, SAID)
            done = await settle(service)
            assert (done.counts, done.proposed) == ({"promoted": 1}, 0)
            assert set(gone) == {source, done.settled[0].into}
            assert await kept_words(service) == []
            assert (await service.audit.verify(OWNER)).holds


async def test_a_fact_that_is_staged_just_behind_an_erasure_goes_too(tmp_path: Path) -> None:
    with endpoint(lambda _: facts("Tom lives in a house.", "Tom has a door.")) as model:
        async with memory(model.url, tmp_path) as service:
            source = await pushed(service, SAID)
            extracting: Any = service.consolidating._extracting
            remember = extracting._remember

            async def late(*asked: Any) -> Any:
                await erase(service, source)
                return await remember(*asked)

            extracting._remember = late
            assert (await settle(service)).proposed == 0
            assert await kept_words(service) == []
            assert (await service.audit.verify(OWNER)).holds


async def test_retention_of_a_source_leaves_what_it_was_promoted_to(running: Running, push: Push) -> None:
    """Only an erasure takes along: what is let go of for its age was no secret."""
    await push(SAID, importance=1.0)
    into = (await settle(running.service)).settled[0].into
    head = await running.parts.ledger.head(OWNER.tenant)
    await running.parts.ledger.prune(OWNER.tenant, head.seq)
    record = (await running.parts.ledger.read(OWNER.tenant, [into]))[into]
    assert (record.standing, record.content) == (State.LIVE, SAID)
