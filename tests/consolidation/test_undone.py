"""A pass taken back leaves what people have done since, and nothing is in neither place."""

from __future__ import annotations

from typing import Any

from quipu.model.operations import RememberRequest
from quipu.model.record import MemoryType
from quipu.service.memory import MemoryService
from tests.consolidation.conftest import OWNER, Push
from tests.consolidation.test_consolidating import HEAVY, live, settle


async def rule(service: MemoryService, operation: str, effect: str) -> None:
    given = {"id": "look", "when": {"operations": [operation]}, "effect": effect}
    await service.policies.set(OWNER, {"rules": [given]})


async def test_what_a_person_corrected_is_not_forgotten(service: MemoryService, push: Push) -> None:
    source = await push("Mara moved to Ulm", **HEAVY)
    other = await push("Jon keeps bees", **HEAVY)
    done = await settle(service)
    into: dict[str, Any] = {one.ids[0]: one.into for one in done.settled}
    corrected = RememberRequest(
        agent_id="ana", type=MemoryType.SEMANTIC, content="Mara moved to Bonn", id=into[source]
    )
    await service.remember(OWNER, corrected)
    undone = await service.consolidating.undo(OWNER, done.pass_id)
    assert (set(undone.restored), undone.forgotten) == ({source, other}, (into[other],))
    assert undone.left == (into[source],)
    assert "Mara moved to Bonn" in [record.content for record in await live(service)]


async def test_a_promotion_stays_while_its_source_is_not_back(service: MemoryService, push: Push) -> None:
    source = await push("Mara moved to Ulm", **HEAVY)
    done = await settle(service)
    promoted = done.settled[0].into
    await rule(service, "restore", "hold")
    undone = await service.consolidating.undo(OWNER, done.pass_id)
    assert (undone.restored, undone.forgotten, set(undone.left)) == ((), (), {source, promoted})
    assert [record.id for record in await live(service)] == [promoted]
    (waiting,) = await service.governance.proposals(OWNER, "pending")
    await service.decide(OWNER, waiting.id, approved=True)
    again = await service.consolidating.undo(OWNER, done.pass_id)
    assert (again.restored, again.forgotten) == ((), (promoted,))
    assert [record.id for record in await live(service)] == [source]


async def test_a_later_pass_is_not_undone_with_an_earlier_one(service: MemoryService, push: Push) -> None:
    await push("Mara moved to Ulm", **HEAVY)
    first = await settle(service)
    await service.consolidating.undo(OWNER, first.pass_id)
    second = await settle(service)
    assert second.counts == {"promoted": 1}
    undone = await service.consolidating.undo(OWNER, first.pass_id)
    assert (undone.restored, undone.forgotten) == ((), ())
    assert [record.id for record in await live(service)] == [second.settled[0].into]


async def test_a_rule_that_denies_is_told_as_what_is_left(service: MemoryService, push: Push) -> None:
    source = await push("Mara moved to Ulm", **HEAVY)
    done = await settle(service)
    await rule(service, "forget", "deny")
    undone = await service.consolidating.undo(OWNER, done.pass_id)
    assert (undone.restored, undone.left) == ((source,), (done.settled[0].into,))
