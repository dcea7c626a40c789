"""What the host makes out of entries keeps the promises made for them, and asks nobody twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from quipu.model.operations import CreateStoreRequest, RememberRequest
from quipu.model.principal import local
from quipu.model.record import MemoryType, PrivacyIntent, Record, Sensitivity
from quipu.rules.runs_deriving import handled_alike
from quipu.rules.runs_options import ListOptions
from quipu.service.runs_commitments import Condition
from tests.openwop.conftest import Opened
from tests.openwop.hosts import REF, Host
from tests.requirement import requirement

KEEPS = {"openwop_keeps": REF, "openwop_keep_every_s": 3600}
SYSTEM = replace(local(), name="system")


async def remember(host: Host, content: str, **given: Any) -> str:
    """As an agent writes by any other face."""
    request = RememberRequest(agent_id=REF, type=MemoryType.SEMANTIC, content=content, **given)
    return (await host.service.remember(host.principal, request)).id


async def entries(host: Host) -> list[Record]:
    return await host.service.runs.memory.list(host.principal, REF, ListOptions())


async def hold(host: Host, *operations: str) -> None:
    when = {"operations": list(operations), "agents": [REF]}
    rule = {"id": "look", "when": when, "effect": "hold"}
    await host.service.policies.set(host.principal, {"rules": [rule]})


@requirement("openwop:upkeep.people")
async def test_what_is_secret_stays_secret_when_it_is_compacted(host: Host) -> None:
    secret = PrivacyIntent(sensitivity=Sensitivity.SECRET, consent_id="c1", share_with=())
    for number in range(3):
        await remember(host, f"The code of door {number} is kept apart.", privacy_intent=secret)
    for number in range(2):
        await remember(host, f"Boat {number} waits.")
    for _ in range(2):
        assert await host.service.runs.upkeep.compact(SYSTEM, REF) is not None
    assert await host.service.runs.upkeep.compact(SYSTEM, REF) is None
    made = {record.content: record.privacy for record in await entries(host)}
    assert sorted(made.values(), key=str) == sorted([secret, None], key=str)
    assert all(("code" in text) is (privacy == secret) for text, privacy in made.items())


@requirement("openwop:upkeep.people")
async def test_what_is_not_to_leave_does_not_leave_in_other_words(host: Host) -> None:
    for number in range(2):
        held_back = {"exportable": False, "scope_id": "health", "mood": number}
        await remember(host, f"Pill {number} at noon. And more.", metadata=held_back)
    await remember(host, "Boats wait.")
    made, _, _ = await host.service.runs.upkeep.distill(SYSTEM, REF, 8000)
    assert "Boats" not in made.record.content
    assert made.record.metadata == {"exportable": False, "scope_id": "health"}


async def test_the_largest_lot_is_taken_and_nothing_of_nothing(host: Host) -> None:
    assert handled_alike([]) == []
    await remember(host, "One.")
    one = (await entries(host))[0]
    other = replace(one, privacy=PrivacyIntent(retain="30d"))
    assert handled_alike([other, one, one]) == [one, one]
    assert handled_alike([replace(one, metadata={"scope_id": ["odd"]}), one])[0].metadata


@requirement("openwop:upkeep.rounds")
async def test_the_same_words_in_two_stores_stay_two_and_stop_no_round(opened: Opened) -> None:
    host = await opened(**KEEPS, openwop_compact_above=1)
    await host.service.stores.create(host.principal, CreateStoreRequest(name="attic"))
    for store in ("main", "attic", "main"):
        await remember(host, "The lamp is lit.", store=store)
    await remember(host, "Boats wait.")
    run = await host.service.runs.upkeep.keep(SYSTEM)
    assert run is not None
    assert (await host.types(run))[1:-2] == ["agent.memory.consolidated", "memory.compacted"]
    kept = [(record.store_id == "main", record.content) for record in await entries(host)]
    stores = {record.store_id for record in await entries(host)}
    assert len(stores) == 2
    assert sorted(content for _, content in kept) == ["The lamp is lit.", "The lamp is lit.\nBoats wait."]


@requirement("openwop:upkeep.rounds")
async def test_a_merge_that_a_rule_holds_is_asked_for_once_and_not_told_as_done(opened: Opened) -> None:
    host = await opened(**KEEPS)
    for _ in range(2):
        await host.put("The lamp is lit.")
    await hold(host, "merge")
    for _ in range(3):
        told = await host.service.runs.upkeep.consolidate(SYSTEM, REF)
        assert (told["mergedIds"], told["inputCount"], told["outputCount"]) == ([], 2, 2)
    (waiting,) = await host.service.governance.proposals(host.principal, "pending")
    await host.service.decide(host.principal, waiting.id, approved=True)
    assert len(await host.list()) == 1


@requirement("openwop:upkeep.rounds")
async def test_rounds_under_a_rule_that_holds_ask_nobody_and_lose_nothing(opened: Opened) -> None:
    host = await opened(**KEEPS, openwop_compact_above=1)
    commitments = host.service.runs.commitments
    name = await commitments.add(SYSTEM, REF, "Call Ana.", Condition(due_at=host.clock()))
    for text in ("Boats wait.", "Doors are shut."):
        await host.put(text)
    await hold(host, "remember")
    for _ in range(3):
        assert await host.service.runs.upkeep.keep(SYSTEM) is None
    assert await host.service.governance.proposals(host.principal, "pending") == ()
    assert len(await host.list()) == 3
    await host.service.policies.set(host.principal, {"rules": []})
    run = await host.service.runs.upkeep.keep(SYSTEM)
    assert run is not None
    told = {event.type.value: event.payload for event in await host.events(run)}
    assert told["commitment.fired"]["commitmentId"] == name
    assert "memory.compacted" in told
