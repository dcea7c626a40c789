"""A host that goes on for years: it keeps nothing of what is over, and nothing keeps it from what is due."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from quipu.model.operations import RememberRequest
from quipu.model.principal import Principal, local
from quipu.model.record import MemoryType
from quipu.rules.runs_options import ListOptions
from quipu.service.runs_commitments import Condition
from tests.openwop.conftest import Opened
from tests.openwop.hosts import REF, Host

SYSTEM: Principal = replace(local(), name="system")


def held_by(host: Host) -> set[tuple[str, str]]:
    return host.service.runs.scratch._held


async def test_a_run_that_is_over_or_has_no_notes_is_not_held_any_more(opened: Opened) -> None:
    first, second = await opened(), await opened()
    notes = first.service.runs.scratch
    runs = [await first.open() for _ in range(3)]
    for run in runs:
        await notes.add(run, "scratchpad", "noted")
    await first.complete(runs[0])
    await notes.clear(runs[1], "scratchpad")
    await notes.tend()
    assert held_by(first) == {("default", runs[2].id)}
    # Another server takes up what this one let go of, and what it notes there is not lost when this one stops.
    await second.service.runs.scratch.add(runs[1], "scratchpad", "anew")
    await first.service.runs.close()
    second.clock.move(60_000)
    await second.service.runs.scratch.tend()
    for run, told in ((runs[1], ["anew"]), (runs[2], ["noted"])):
        assert await second.service.runs.scratch.read(run, "scratchpad") == told
    assert held_by(second) == {("default", run.id) for run in runs[1:]}


async def test_of_many_commitments_the_oldest_fires_too(host: Host) -> None:
    commitments = host.service.runs.commitments
    name = await commitments.add(SYSTEM, REF, "Call Ana.", Condition(due_at=host.clock() + 1000))
    later = {"due_at": host.clock() + 1_000_000, "tag": None, "fired_at": None}
    await host.service.remember_many(
        SYSTEM,
        [
            RememberRequest(
                agent_id=REF,
                type=MemoryType.SEMANTIC,
                content=f"Call number {number}.",
                tags=("commitment",),
                metadata={"commitment": later},
            )
            for number in range(501)
        ],
    )
    host.clock.move(1000)
    assert [event["commitmentId"] for event in await commitments.fire(SYSTEM, REF)] == [name]
    assert await commitments.fire(SYSTEM, REF) == []


async def test_one_commitment_that_cannot_fire_keeps_no_other_from_firing(opened: Opened) -> None:
    host = await opened(openwop_keeps=REF, openwop_keep_every_s=3600)
    commitments = host.service.runs.commitments
    due = host.clock() + 1000
    name = await commitments.add(SYSTEM, REF, "Call Ana.", Condition(due_at=due))
    await commitments.add(SYSTEM, REF, "Tell the salary.", Condition(due_at=due))
    odd: list[Any] = [
        {"due_at": "soon"},
        {"due_at": True},
        {"due_at": due, "tag": "x"},
        {"tag": 7},
        {},
        "soon",
        None,
    ]
    for given in odd:
        await host.service.remember(
            SYSTEM,
            RememberRequest(
                agent_id=REF,
                type=MemoryType.SEMANTIC,
                content="It looks like one.",
                tags=("commitment",),
                metadata={"commitment": given},
            ),
        )
    await host.service.remember(
        SYSTEM,
        RememberRequest(
            agent_id=REF,
            type=MemoryType.EPISODIC,  # which cannot become what a commitment is
            content="Of another type.",
            tags=("commitment",),
            metadata={"commitment": {"due_at": due}},
        ),
    )
    rules = [{"id": "never", "when": {"content_any": ["salary"]}, "effect": "deny"}]
    await host.service.policies.set(host.principal, {"rules": rules})
    host.clock.move(1000)
    run = await host.service.runs.upkeep.keep(SYSTEM)
    assert run is not None
    told = [event for event in await host.events(run) if event.type == "commitment.fired"]
    assert [event.payload["commitmentId"] for event in told] == [name]


async def test_a_list_by_relevance_is_paid_for_once(host: Host) -> None:
    for number in range(3):
        await host.put(f"tea number {number}")
    reader = replace(local(), name="reader", is_local=False, recall_budget=7)
    memory = host.service.runs.memory
    for _ in range(2):
        found = await memory.list(reader, REF, ListOptions(query="tea number", limit=3))
        assert len(found) == 3
    assert host.service._budgets._spent["default", "credential", "reader"] == {host.clock() // 60_000: 6}
    await memory.list(reader, REF, ListOptions(limit=1))
    assert host.service._budgets._spent["default", "agent", REF] == {host.clock() // 60_000: 7}
