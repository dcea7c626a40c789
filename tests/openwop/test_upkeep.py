"""What the server does with memory by itself, and how it tells of it."""

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from quipu.errors import ConflictError, InvalidError
from quipu.model.operations import ForgetRequest
from quipu.model.principal import Principal, local
from quipu.model.record import Trust
from quipu.rules.runs_options import ListOptions, NewEntry
from quipu.rules.runs_refs import WORKSPACE, derived_id
from quipu.service.runs_commitments import Condition
from tests.openwop.conftest import Opened
from tests.openwop.hosts import REF, Host
from tests.openwop.suite import payload_checked, suite
from tests.requirement import requirement

KEEPS = {"openwop_keeps": f"{REF}, team/other", "openwop_keep_every_s": 3600}
SYSTEM: Principal = replace(local(), name="system")


async def kept(host: Host) -> list[tuple[str, Any]]:
    """What a round tells: each event between the run's beginning and its summary, checked against its schema."""
    run = await host.service.runs.upkeep.keep(SYSTEM)
    if run is None:
        return []
    events = [(event.type.value, event.payload) for event in await host.events(run)]
    assert [events[0][0], *(kind for kind, _ in events[-2:])] == [
        "run.started",
        "memory.written",
        "run.completed",
    ]
    return [(kind, payload_checked(kind, payload)) for kind, payload in events[1:-2]]


@requirement("openwop:upkeep.rounds")
async def test_a_round_fires_commitments_merges_and_compacts_and_the_next_finds_nothing_to_do(
    opened: Opened,
) -> None:
    host = await opened(**KEEPS, openwop_compact_above=2)
    commitments = host.service.runs.commitments
    name = await commitments.add(SYSTEM, REF, "Call Ana.", Condition(due_at=host.clock() + 1000))
    await commitments.add(SYSTEM, REF, "Call Ben.", Condition(tag="never"))
    for text in ("The lamp is lit.", "the  lamp is LIT.", "Boats wait.", "Doors are shut."):
        await host.put(text)
    before = await host.open()
    host.clock.move(1000)
    told = await kept(host)
    assert [kind for kind, _ in told] == [
        "commitment.fired",
        "agent.memory.consolidated",
        "memory.compacted",
    ]
    fired, merged, compacted = (payload for _, payload in told)
    assert fired["commitmentId"] == name
    assert "Ana" not in str(told)
    assert (merged["inputCount"], merged["outputCount"], merged["trigger"]) == (4, 3, "scheduled")
    assert compacted["sourceCount"] == 3
    texts = await host.texts()
    assert sorted(texts) == ["Call Ana.", "Call Ben.", "The lamp is lit.\nBoats wait.\nDoors are shut."]
    assert len(await host.list(run=before)) == 6  # a run at work still sees everything
    assert await kept(host) == []


@requirement("openwop:upkeep.rounds")
async def test_refs_that_are_not_named_are_left_alone(opened: Opened) -> None:
    host = await opened(**KEEPS, openwop_compact_above=1)
    for _ in range(3):
        await host.put("The same.", "team/elsewhere")
    assert await kept(host) == []
    assert len(await host.list("team/elsewhere")) == 3


@requirement("openwop:upkeep.rounds")
async def test_another_tenants_ref_is_passed_over(opened: Opened) -> None:
    first = await opened()
    other = await first.of("other")
    minted = await other.service.runs.mint(other.principal, "ana", "main")
    host = await opened(openwop_keeps=f"{minted.ref},{REF}", openwop_keep_every_s=60)
    for _ in range(2):
        await host.put("The same.")
    assert [kind for kind, _ in await kept(host)] == ["agent.memory.consolidated"]


@requirement("openwop:upkeep.people")
async def test_what_is_one_persons_never_becomes_part_of_what_everybody_sees(opened: Opened) -> None:
    host = await opened(**KEEPS, openwop_compact_above=1)
    for user in ("ana", "ben"):
        person = replace(local(), user_id=user)
        await host.service.runs.memory.put(person, REF, NewEntry(content=f"Of {user}."))
        await host.service.runs.memory.put(person, REF, NewEntry(content=f"More of {user}."))
    assert await kept(host) == []
    assert len(await host.texts()) == 4


@requirement("openwop:upkeep.people")
async def test_what_is_made_is_trusted_no_more_than_its_sources(opened: Opened) -> None:
    host = await opened(**KEEPS, openwop_compact_above=1)
    for trust in (Trust.USER, Trust.EXTERNAL):
        writer = replace(local(), trust=trust)
        await host.service.runs.memory.put(writer, REF, NewEntry(content=f"Said by {trust}."))
    assert [kind for kind, _ in await kept(host)] == ["memory.compacted"]
    (made,) = await host.service.runs.memory.list(host.principal, REF, ListOptions())
    assert made.provenance.trust is Trust.EXTERNAL


@requirement("openwop:upkeep.commitments")
async def test_a_commitment_fires_however_much_was_written_after_it(host: Host) -> None:
    commitments = host.service.runs.commitments
    name = await commitments.add(host.principal, REF, "Call Ana.", Condition(tag="arrived"))
    requests = [{"agent_id": REF, "content": f"note {number}"} for number in range(510)]
    from quipu.model.operations import RememberRequest
    from quipu.model.record import MemoryType

    await host.service.remember_many(
        host.principal, [RememberRequest(type=MemoryType.SEMANTIC, **given) for given in requests]
    )
    assert await commitments.fire(host.principal, REF) == []
    await host.put("She is here.", tags=["arrived"])
    assert [event["commitmentId"] for event in await commitments.fire(host.principal, REF)] == [name]
    assert await commitments.fire(host.principal, REF) == []


@requirement("openwop:distillation.index")
async def test_distillation_keeps_an_index_and_tells_of_it(host: Host) -> None:
    upkeep = host.service.runs.upkeep
    for ref in (REF, "team/other"):
        await host.put("The lamp is lit. Boats wait.", ref)
        await upkeep.distill(host.principal, ref, 8000, with_index=True)
    made, _, index = await upkeep.distill(host.principal, REF, 8000, ["A door."], with_index=True)
    file = await host.get("MEMORY-INDEX.json", WORKSPACE)
    assert file["content"] == index
    refs = json.loads(file["content"])["refs"]
    assert set(refs) == {REF, "team/other"}
    assert refs[REF] == made.payload["outputId"]
    assert await host.get(refs["team/other"], "team/other") is not None
    run, *_ = await host.service.runs.list(host.principal, workflow_id="quipu.upkeep")
    told = {event.type.value: event.payload for event in await host.events(run)}
    assert payload_checked("workspace.updated", told["workspace.updated"]) == {"path": "MEMORY-INDEX.json"}
    assert payload_checked("memory.compacted", told["memory.compacted"])["distillation"]["indexUpdated"]


async def test_an_index_that_was_erased_is_not_written_again(host: Host) -> None:
    upkeep, index = host.service.runs.upkeep, derived_id(WORKSPACE, "MEMORY-INDEX.json")
    await host.put("The lamp is lit. Boats wait.", REF)
    await upkeep.distill(host.principal, REF, 8000, with_index=True)
    asked = ForgetRequest(agent_id=WORKSPACE, ids=(index,), hard_delete=True)
    assert (await host.service.forget(local(), asked)).forgotten_ids == (index,)
    with pytest.raises(ConflictError) as refused:
        await upkeep.distill(host.principal, REF, 8000, ["A door."], with_index=True)
    assert refused.value.reason == "index_erased"
    await upkeep.distill(host.principal, REF, 8000, ["A door."])


@requirement("openwop:upkeep.server")
def test_a_server_makes_these_rounds_when_it_is_told_to_and_says_so() -> None:
    with suite(openwop_keeps="harbour", openwop_keep_every_s=1, openwop_compact_above=1) as a:
        schedule = a.get("/.well-known/openwop")["agents"]["memoryConsolidation"]["schedule"]
        assert schedule == "scheduled"
        for text in ("The lamp is lit.", "Boats wait."):
            a.memory("put", 201, memoryRef="harbour", entry={"content": text})
        until = time.monotonic() + 20
        while len(found := a.get("/v1/memory/harbour")["entries"]) > 1:
            assert time.monotonic() < until, "nothing was compacted"
            time.sleep(0.1)
        assert sorted(found[0]["content"].split("\n")) == ["Boats wait.", "The lamp is lit."]


@requirement("openwop:upkeep.server")
@pytest.mark.parametrize(
    "settings",
    [{"openwop_keeps": "..", "openwop_keep_every_s": 1}, {"openwop_lease_s": 0}],
    ids=["no ref", "no lease"],
)
async def test_a_setting_that_makes_no_sense_stops_the_start(
    opened: Opened, settings: dict[str, Any]
) -> None:
    with pytest.raises(InvalidError) as refused:
        await opened(**settings)
    assert refused.value.reason == "bad_setting"
