"""A process that dies in the middle of what the host does by itself: no event without its change, no change untold."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from quipu.errors import InvalidError, NotFoundError
from quipu.model.change import Commit, Committed
from quipu.model.journal import Op
from quipu.model.principal import Principal, local
from quipu.model.record import Ending
from quipu.model.runs import Driver, EventType, RunStatus
from quipu.rules.runs_refs import WORKSPACE, summary_id
from quipu.rules.runs_wire import entry_id
from quipu.rules.runs_workflows import UPKEEP
from quipu.service.runs import OpenRequest
from quipu.service.runs_commitments import Condition
from tests.openwop.conftest import Opened
from tests.openwop.hosts import REF, Host
from tests.requirement import requirement

KEEPS = {"openwop_keeps": REF, "openwop_keep_every_s": 3600, "openwop_compact_above": 2}


class DiedError(BaseException):
    """The process is not there any more: nobody catches this."""


@dataclass
class Mortal:
    """A ledger that takes so many commits and no more, as if the process were killed before the next one."""

    commit: Callable[..., Awaitable[Sequence[Committed]]]
    left: int = 0

    async def take(self, *commits: Commit, guard: int | None = None) -> Sequence[Committed]:
        if all(commit.draft.op in (Op.RECALL, Op.READ) for commit in commits):
            return await self.commit(
                *commits, guard=guard
            )  # that something was read is noted later, at any time
        if self.left == 0:
            raise DiedError
        self.left -= 1
        return await self.commit(*commits, guard=guard)


def mortal(host: Host) -> Mortal:
    """The host's ledger from now on."""
    ledger: Any = host.running.parts.ledger
    made = Mortal(ledger.commit)
    ledger.commit = made.take
    return made


async def died(work: Awaitable[object]) -> bool:
    """Whether the process was killed before it had done its work."""
    with contextlib.suppress(DiedError):
        await work
        return False
    return True


def system(host: Host) -> Principal:
    return replace(local(host.principal.tenant), name="system")


async def done(host: Host) -> dict[str, list[Any]]:
    """What has happened to the entries, whoever tells of it."""
    found: dict[str, list[Any]] = {"fired": [], "merged": [], "compacted": []}
    versions = [v async for v in host.running.parts.ledger.every_version(host.principal.tenant)]
    made = {v.id for v in versions if any(tag.startswith("compacted-from:") for tag in v.tags)}
    found["compacted"] = sorted(made)
    for version in versions:
        if "commitment-fired" in version.tags:
            found["fired"].append(entry_id(version))
        if version.ending is Ending.MERGED and version.merged_into not in made:
            found["merged"].append(entry_id(version))
    return {name: sorted(ids) for name, ids in found.items()}


async def told(host: Host) -> dict[str, list[Any]]:
    """What the runs of the host tell."""
    found: dict[str, list[Any]] = {"fired": [], "merged": [], "compacted": []}
    for run in await host.service.runs.list(host.principal, workflow_id=UPKEEP):
        for event in await host.events(run):
            payload: Any = event.payload
            match event.type:
                case EventType.COMMITMENT_FIRED:
                    found["fired"].append(payload["commitmentId"])
                case EventType.MEMORY_CONSOLIDATED:
                    assert payload["inputCount"] - payload["outputCount"] == len(payload["mergedIds"])
                    found["merged"] += payload["mergedIds"]
                case EventType.MEMORY_COMPACTED:
                    found["compacted"].append(payload["outputId"])
                case _:
                    pass
    return {name: sorted(ids) for name, ids in found.items()}


async def ended(host: Host) -> None:
    """Whatever the dead process left open is ended by an engine, once its lease has passed."""
    host.clock.move(300_000)
    await host.service.runs.engine.recover()
    await host.service.runs.engine.settle()
    for run in await host.service.runs.list(host.principal, workflow_id=UPKEEP):
        assert (run.status, run.driver) == (RunStatus.COMPLETED, Driver.ENGINE)
        assert (await host.types(run))[-2:] == ["memory.written", "run.completed"]


@requirement("openwop:upkeep.crash")
async def test_a_round_that_is_killed_anywhere_tells_exactly_what_it_did(opened: Opened) -> None:
    victim, survivor = await opened(**KEEPS), await opened(**KEEPS)
    ledger = mortal(victim)
    for count in range(20):
        one, other = await victim.of(f"tenant-{count}"), await survivor.of(f"tenant-{count}")
        await other.service.runs.commitments.add(
            system(other), REF, "Call Ana.", Condition(due_at=other.clock())
        )
        for text in ("Lit.", "lit.", "Shut.", "shut.", "Wet."):
            await other.put(text)
        ledger.left = count
        is_killed = await died(one.service.runs.upkeep.keep(system(one)))
        assert await told(other) == await done(other)
        await ended(other)
        await survivor.service.runs.upkeep.keep(system(other))
        final = await done(other)
        assert await told(other) == final
        assert {name: len(ids) for name, ids in final.items()} == {"fired": 1, "merged": 2, "compacted": 1}
        if not is_killed:
            break
    assert (
        count == 6
    )  # a commitment, two merges, a compaction, the summary, the end: it was killed before each


@requirement("openwop:upkeep.crash")
async def test_a_distillation_that_is_killed_leaves_entry_index_and_events_or_nothing(opened: Opened) -> None:
    victim, survivor = await opened(), await opened()
    ledger = mortal(victim)
    for count in range(20):
        one, other = await victim.of(f"tenant-{count}"), await survivor.of(f"tenant-{count}")
        await other.put("The lamp is lit. Boats wait.")
        ledger.left = count
        is_killed = await died(one.service.runs.upkeep.distill(system(one), REF, 8000, with_index=True))
        (name,) = [*(await done(other))["compacted"], None][:1]
        file = await other.get("MEMORY-INDEX.json", WORKSPACE)
        assert (name is None) == (count == 0)
        assert (file is not None) == (name is not None)
        await ended(other)
        runs = await other.service.runs.list(other.principal, workflow_id=UPKEEP)
        assert len(runs) == (0 if name is None else 1)
        if file is not None:
            assert json.loads(file["content"])["refs"] == {REF: name}
            events = {event.type.value: event.payload for event in await other.events(runs[0])}
            assert list(events)[1:3] == ["memory.compacted", "workspace.updated"]
            payload: Any = events["memory.compacted"]
            assert payload["distillation"]["indexUpdated"] is True
        if not is_killed:
            break
    assert count == 3


@requirement("openwop:upkeep.crash")
async def test_a_round_that_changes_nothing_tells_nothing_and_outsiders_cannot_drive_its_runs(
    opened: Opened,
) -> None:
    host = await opened(**KEEPS)
    assert await host.service.runs.upkeep.keep(system(host)) is None
    assert await host.service.runs.list(host.principal) == []
    with pytest.raises(NotFoundError):
        await host.service.runs.open(host.principal, OpenRequest(workflow_id=UPKEEP))
    ledger = mortal(host)
    await died_after_a_merge(host, ledger)
    (run,) = await host.service.runs.list(host.principal, workflow_id=UPKEEP)
    with pytest.raises(InvalidError):
        await host.service.runs.complete(host.principal, run.id)


async def died_after_a_merge(host: Host, ledger: Mortal) -> None:
    ledger.left = 3
    for _ in range(2):
        await host.put("The same.")
    assert await died(host.service.runs.upkeep.keep(system(host)))


@requirement("openwop:run.summary-once")
async def test_a_run_whose_end_is_tried_again_has_one_summary(opened: Opened) -> None:
    victim, survivor = await opened(), await opened()
    run = await victim.open()
    ledger = mortal(victim)
    ledger.left = 1  # the summary, and not the last event
    assert await died(victim.complete(run))
    assert await survivor.types(run) == ["run.started", "memory.written"]
    assert (await survivor.complete(run)).status is RunStatus.COMPLETED
    assert await survivor.types(run) == ["run.started", "memory.written", "run.completed"]
    versions = await survivor.running.parts.ledger.versions("default", summary_id(run.id))
    assert len(versions) == 1
