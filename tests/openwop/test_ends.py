"""How runs end when several want it at once, and what is told of those whose history is gone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from quipu.errors import ConflictError
from quipu.model.change import Commit, Put
from quipu.model.runs import RunStatus
from quipu.rules.runs_refs import SUMMARIES, summary_id
from tests.openwop.conftest import Opened
from tests.openwop.hosts import Host
from tests.openwop.test_runs import TRIP, fork, left_behind
from tests.requirement import requirement


@requirement("openwop:run.summary-once")
async def test_a_summary_tells_the_end_that_came_and_not_the_one_that_was_too_late(host: Host) -> None:
    run = await host.open()
    ledger: Any = host.running.parts.ledger
    commit = ledger.commit

    async def cancelled_meanwhile(*commits: Commit, guard: int | None = None) -> Any:
        done = await commit(*commits, guard=guard)
        if any(isinstance(change, Put) for given in commits for change in given.changes):
            ledger.commit = commit
            await host.service.runs.cancel(host.principal, run.id)
        return done

    ledger.commit = cancelled_meanwhile
    with pytest.raises(ConflictError) as refused:
        await host.complete(run)
    assert refused.value.reason == "run_over"
    assert (await host.run(run)).status is RunStatus.CANCELLED
    summary = await host.get(summary_id(run.id), SUMMARIES)
    assert "cancelled: nodes completed: 0, memories written: 0." in summary["content"]
    assert await host.types(run) == ["run.started", "memory.written", "run.cancelled"]


@requirement("openwop:run.summary-once")
async def test_whoever_is_too_late_changes_no_summary(host: Host) -> None:
    run = await host.open()
    runs: Any = host.service.runs
    stepping = runs.engine._stepping
    real = stepping._summarise

    async def late(given: Any, status: RunStatus) -> None:
        stepping._summarise = real
        await runs.cancel(host.principal, run.id)
        await real(given, status)

    stepping._summarise = late
    with pytest.raises(ConflictError):
        await host.complete(run)
    assert (await host.run(run)).status is RunStatus.CANCELLED
    assert "cancelled:" in (await host.get(summary_id(run.id), SUMMARIES))["content"]


@requirement("openwop:run.cancel")
async def test_a_run_that_nobody_executes_any_more_is_cancelled_at_once(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await opened(), await opened()
    run = await left_behind(first, monkeypatch)
    await first.service.runs.engine.close()
    await second.service.runs.cancel(second.principal, run.id)
    await second.service.runs.engine.settle()
    assert (await second.run(run)).status is RunStatus.CANCELLED
    assert (await second.types(run))[-2:] == ["memory.written", "run.cancelled"]


@requirement("openwop:retention.sweep")
async def test_whoever_follows_a_run_whose_history_is_gone_comes_to_an_end(host: Host) -> None:
    run = await host.complete(await host.open())
    await host.service.runs.expire(host.principal, run.id)

    async def followed() -> list[Any]:
        return [some async for some in host.service.runs.follow(host.principal, run.id, idle_s=0.01)]

    assert await asyncio.wait_for(followed(), 5) == [()]


@requirement("openwop:fork.branch")
async def test_what_a_branch_came_with_is_done_for_its_branches_too(host: Host) -> None:
    source = await host.execute(TRIP)
    branch = await fork(host, source, "branch", source.last)
    again = await fork(host, branch, "branch", 1)
    for run in (branch, again):
        assert (run.status, await host.types(run)) == (
            RunStatus.COMPLETED,
            ["run.started", "memory.written", "run.completed"],
        )
        assert await host.variables(run) == await host.variables(source)
    anew = await fork(host, branch, "branch", 0)
    assert "node.completed" in await host.types(anew)
