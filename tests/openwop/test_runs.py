"""Runs: their logs, their ends, forks, engines that come and go, and orchestrators outside."""

import asyncio
from typing import Any

import pytest

from quipu.errors import ConflictError, InvalidError, NotFoundError, QuipuError
from quipu.model.change import Commit, Put
from quipu.model.runs import Driver, EventType, ForkMode, Run, RunError, RunStatus, RunStep, Variable
from quipu.rules.runs_refs import SUMMARIES, summary_id
from quipu.rules.runs_wire import event_body
from quipu.service.runs import OpenRequest
from quipu.service.runs_forking import ForkRequest
from tests.openwop.conftest import Opened
from tests.openwop.hosts import REF, Host
from tests.openwop.suite import checked
from tests.requirement import requirement

TRIP = "conformance-agent-memory-roundtrip"


async def fork(host: Host, run: Run, mode: str = "replay", from_seq: int = 0, **given: Any) -> Run:
    request = ForkRequest(run_id=run.id, mode=ForkMode(mode), from_seq=from_seq, **given)
    opened = await host.service.runs.fork(host.principal, request)
    await host.service.runs.engine.settle()
    return await host.run(opened.run)


async def rows(host: Host) -> int:
    """How many versions of records there are."""
    return len([version async for version in host.running.parts.ledger.every_version("default")])


# -- logs and ends --------------------------------------------------------------------------------------------------


@requirement("openwop:run.order")
async def test_the_log_is_in_the_order_of_the_contract(host: Host) -> None:
    run = await host.execute(TRIP)
    assert await host.types(run) == [
        "run.started",
        "node.started",
        "memory.written",
        "variable.changed",
        "node.completed",
        "memory.written",
        "run.completed",
    ]
    events = await host.events(run)
    assert [event.sequence for event in events] == list(range(7))
    for event in events:
        checked("run-event", event_body(event))


@requirement("openwop:run.summary")
async def test_every_run_leaves_one_summary_before_its_end(host: Host) -> None:
    runs = host.service.runs
    failed = await host.open()
    await runs.fail(host.principal, failed.id, RunError("broken", "It broke."))
    cancelled = await host.open()
    await runs.cancel(host.principal, cancelled.id)
    completed = await host.complete(await host.open())
    executed = await host.execute("conformance-noop")
    for run, end in (
        (failed, "failed"),
        (cancelled, "cancelled"),
        (completed, "completed"),
        (executed, "completed"),
    ):
        types = await host.types(run)
        assert types[-2:] == ["memory.written", f"run.{end}"]
        entry = await host.get(summary_id(run.id), SUMMARIES)
        assert f"{end}: " in entry["content"]
        written = [e for e in await host.events(run) if e.type == "memory.written"][-1]
        assert written.node_id is None
        assert await host.get(written.payload["memoryId"], written.payload["memoryRef"]) == entry


@requirement("openwop:run.summary-failure")
async def test_a_store_that_fails_does_not_change_how_a_run_ends(host: Host) -> None:
    run = await host.open()
    ledger: Any = host.running.parts.ledger
    commit = ledger.commit

    async def failing(*commits: Commit, guard: int | None = None) -> Any:
        if any(isinstance(change, Put) for given in commits for change in given.changes):
            raise QuipuError("no room", reason="full")
        return await commit(*commits, guard=guard)

    ledger.commit = failing
    try:
        ended = await host.complete(run)
    finally:
        ledger.commit = commit
    assert ended.status is RunStatus.COMPLETED
    assert await host.types(run) == ["run.started", "run.completed"]


@requirement("openwop:run.atomic")
async def test_an_entry_and_its_event_are_one_commit(host: Host) -> None:
    run = await host.open()
    ledger: Any = host.running.parts.ledger
    commit, seen = ledger.commit, []

    async def watching(*commits: Commit, guard: int | None = None) -> Any:
        seen.extend(commits)
        return await commit(*commits, guard=guard)

    ledger.commit = watching
    try:
        await host.put("told", run=run, node_id="n")
    finally:
        ledger.commit = commit
    (writing,) = [given for given in seen if any(isinstance(change, Put) for change in given.changes)]
    assert [type(change) for change in writing.changes] == [Put, RunStep]


@requirement("openwop:run.unknown-action")
async def test_an_unknown_node_type_or_action_fails_with_a_code(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    from quipu.rules import runs_workflows

    made: dict[str, Any] = dict(runs_workflows.FIXTURES)
    for name, node in {
        "odd-type": {"typeId": "core.dance"},
        "odd-action": {"config": {"memoryAction": "dance"}},
    }.items():
        base: dict[str, Any] = made[TRIP]
        made[name] = {**base, "id": name, "nodes": [{**base["nodes"][0], **node}]}
    monkeypatch.setattr(runs_workflows, "FIXTURES", made)
    for name, code in (("odd-type", "unknown_node_type"), ("odd-action", "unknown_memory_action")):
        run = await host.execute(name)
        assert run.status is RunStatus.FAILED
        assert run.error is not None
        assert run.error.code == code
        types = await host.types(run)
        assert types[-3:] == ["node.failed", "memory.written", "run.failed"]
        assert await host.variables(run) == {}


@requirement("openwop:run.edges")
async def test_nodes_run_in_edge_order(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    from quipu.rules import runs_workflows

    base: Any = runs_workflows.FIXTURES["conformance-noop"]
    nodes = [{**base["nodes"][0], "id": name} for name in ("c", "a", "b")]
    edges = [{"source": "a", "target": "b"}, {"source": "b", "target": "c"}]
    many = {**base, "id": "many", "nodes": nodes, "edges": edges}
    monkeypatch.setattr(runs_workflows, "FIXTURES", {"many": many})
    run = await host.execute("many")
    done = [event.node_id for event in await host.events(run) if event.type == "node.completed"]
    assert done == ["a", "b", "c"]
    fourth = next(
        e.sequence for e in await host.events(run) if e.type == "node.completed" and e.node_id == "b"
    )
    branch = await fork(host, run, "branch", fourth)
    done = [event.node_id for event in await host.events(branch) if event.type == "node.completed"]
    assert done == ["b", "c"]


# -- forks ----------------------------------------------------------------------------------------------------------


@requirement("openwop:fork.replay")
@pytest.mark.parametrize("from_seq", [0, 3])
async def test_a_replay_writes_nothing_and_repeats_the_log_as_it_was(host: Host, from_seq: int) -> None:
    run = await host.execute(TRIP)
    await host.put("later", "conformance/agent-memory-roundtrip")
    host.clock.move(1_000)
    ledger = host.running.parts.ledger
    await host.service.flush()
    before, head = await rows(host), await ledger.head("default")
    copy = await fork(host, run, from_seq=from_seq)
    assert await rows(host) == before
    assert [entry.op for entry in await ledger.entries("default", head.seq)] == ["open_run"]
    assert copy.status is run.status
    assert copy.driver is Driver.REPLAY
    assert await host.variables(copy) == await host.variables(run)

    def told(events: Any) -> list[Any]:
        own = ("eventId", "runId", "causationId")
        return [{k: v for k, v in event_body(event).items() if k not in own} for event in events]

    source, repeated = await host.events(run), await host.events(copy)
    assert told(repeated) == told(source)
    assert {event.run_id for event in repeated} == {copy.id}
    assert [event.causation_id for event in repeated] == [event.id for event in source]


@requirement("openwop:fork.branch")
async def test_a_branch_sees_what_its_source_saw_and_writes_for_itself(host: Host) -> None:
    old = await host.put("known before")
    run = await host.open()
    mine = await host.put("by the source", run=run, node_id="a")
    await host.complete(run)
    await host.delete(old)
    await host.put("known later")
    branch = await fork(host, run, "branch", 0)
    assert branch.view == run.view
    assert await host.list(run=branch) == [old]
    assert (await host.get(old, run=branch))["content"] == "known before"
    assert await host.get(mine, run=branch) is None
    own = await host.put("by the branch", run=branch, node_id="a")
    assert own != mine
    assert await host.list(run=branch) == [old]
    ended = await host.complete(branch)
    ids = [e.payload["memoryId"] for e in await host.events(ended) if e.type == "memory.written"]
    assert ids == [own, summary_id(branch.id)]


@requirement("openwop:fork.engine-branch")
async def test_a_branch_of_the_engine_begins_anew_under_fresh_ids(host: Host) -> None:
    run = await host.execute(TRIP)
    branch = await fork(host, run, "branch", 0, inputs={"a": 1})
    assert branch.status is RunStatus.COMPLETED
    assert branch.inputs == {"a": 1}
    ids = [
        {e.payload["memoryId"] for e in await host.events(one) if e.type == "memory.written"}
        for one in (run, branch)
    ]
    assert len(ids[1]) == 2
    assert not ids[0] & ids[1]


@requirement("openwop:fork.compacted")
async def test_a_branch_sees_the_sources_of_a_later_compaction(host: Host) -> None:
    names = [await host.put(f"Fact {n}.") for n in range(2)]
    run = await host.complete(await host.open())
    await host.service.runs.deriving.compact(host.principal, REF)
    assert await host.list(run=await fork(host, run, "branch", 0)) == names[::-1]


@requirement("openwop:fork.refused")
async def test_what_cannot_be_served_as_it_was_is_refused_and_bounds_come_first(host: Host) -> None:
    name = await host.put("soon gone")
    swept = await host.complete(await host.open())
    expired = await host.complete(await host.open())
    await host.delete(name)
    ledger = host.running.parts.ledger
    await host.service.runs.expire(host.principal, expired.id)
    with pytest.raises(ConflictError) as refused:
        await fork(host, expired)
    assert refused.value.reason == "event_log_unavailable"
    await ledger.prune("default", (await ledger.head("default")).seq)
    for mode in ("replay", "branch"):
        with pytest.raises(ConflictError) as refused:
            await fork(host, swept, mode)
        assert refused.value.reason == "retention_expired"
        with pytest.raises(InvalidError) as beyond:
            await fork(host, swept, mode, 99)
        assert beyond.value.reason == "from_seq"
    with pytest.raises(NotFoundError) as gone:
        await host.list(run=swept)
    assert gone.value.reason == "snapshot_unavailable"


@requirement("openwop:fork.active")
async def test_a_run_at_work_cannot_be_replayed_yet(host: Host) -> None:
    with pytest.raises(ConflictError) as refused:
        await fork(host, await host.open())
    assert refused.value.reason == "run_active"


@requirement("openwop:fork.expiry")
async def test_a_branch_goes_by_the_clock_of_its_own_day(host: Host) -> None:
    name = await host.put("short", expiresAt="2023-11-14T22:13:30.000Z")
    run = await host.complete(await host.open())
    assert await host.list(run=await fork(host, run, "branch", 0)) == [name]
    copy = await fork(host, run)
    host.clock.move(10_000)
    assert await host.list(run=await fork(host, run, "branch", 0)) == []
    # A replay goes by the time at which its source looked.
    for replay in (copy, await fork(host, run)):
        assert await host.list(run=replay) == await host.list(run=replay, query="short") == [name]
        assert (await host.get(name, run=replay))["content"] == "short"
    assert await host.list(run=run) == []


@requirement("openwop:retention.sweep")
async def test_a_sweep_drops_the_history_of_runs_that_ended_long_ago(opened: Opened) -> None:
    host = await opened(openwop_history_days=1)
    run = await host.complete(await host.open())
    await host.service.sweep(host.principal)
    assert not (await host.run(run)).is_expired
    host.clock.move(24 * 3600 * 1000 + 1)
    await host.service.sweep(host.principal)
    assert (await host.run(run)).is_expired
    assert await host.types(run) == []


# -- engines that come and go ---------------------------------------------------------------------------------------


async def left_behind(host: Host, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run whose engine dies after its node has written, before the node has ended."""
    from quipu.service import runs_nodes

    reached, real = asyncio.Event(), runs_nodes.performed

    async def dying(work: Any) -> Any:
        await real(work)
        reached.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(runs_nodes, "performed", dying)
    opened = await host.service.runs.open(host.principal, OpenRequest(workflow_id=TRIP))
    await asyncio.wait_for(reached.wait(), 20)
    monkeypatch.setattr(runs_nodes, "performed", real)
    return opened.run


@requirement("openwop:durability.resume")
async def test_a_run_goes_on_where_it_was_interrupted_and_writes_nothing_twice(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await opened()
    run = await left_behind(first, monkeypatch)
    second = await opened()
    assert await second.service.runs.engine.recover() == 0  # the first still has it
    await first.service.runs.engine.close()
    assert await second.service.runs.engine.recover() == 1
    await second.service.runs.engine.settle()
    ended = await second.run(run)
    assert ended.status is RunStatus.COMPLETED
    assert ended.view == run.view
    types = await second.types(run)
    assert types.count("node.started") == 1
    assert types.count("memory.written") == 2
    assert [event.sequence for event in await second.events(run)] == list(range(len(types)))
    assert len(await second.list("conformance/agent-memory-roundtrip")) == 1


@requirement("openwop:durability.restart")
async def test_after_a_restart_entries_snapshots_logs_and_forks_are_as_they_were(opened: Opened) -> None:
    first = await opened()
    for text in ("one", "two"):
        await first.put(text, tags=["t"])
    ended = await first.execute(TRIP)
    copy = await fork(first, ended)
    at_work = await first.open(inputs={"a": 1})
    await first.put("three", run=at_work, node_id="n")

    async def shown(host: Host) -> list[Any]:
        told: list[Any] = [[await host.get(name) for name in await host.list()]]
        for run in (ended, copy, at_work):
            told += [await host.service.runs.snapshot(host.principal, run.id)]
            told += [[event_body(event) for event in await host.events(run)]]
            told += [await host.texts(run=run), await host.texts(run=run, query="two")]
        return told

    before = await shown(first)
    await first.close()
    second = await opened()
    assert await shown(second) == before
    again, branch = await fork(second, ended), await fork(second, ended, "branch", 0)
    assert await second.variables(again) == await second.variables(ended)
    assert branch.view == ended.view
    assert (await second.complete(at_work)).status is RunStatus.COMPLETED


@requirement("openwop:durability.lease")
async def test_a_lease_that_has_passed_is_taken_and_the_former_engine_is_out(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await opened()
    run = await left_behind(first, monkeypatch)
    first.clock.move(60_000)
    second = await opened()
    assert await second.service.runs.engine.recover() == 1
    await second.service.runs.engine.settle()
    assert (await second.run(run)).status is RunStatus.COMPLETED


@requirement("openwop:run.cancel")
async def test_a_cancelled_run_ends_cancelled_and_cannot_complete(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    from quipu.service import runs_nodes

    reached, go = asyncio.Event(), asyncio.Event()

    async def waiting(_work: Any) -> Any:
        reached.set()
        await go.wait()
        return []

    monkeypatch.setattr(runs_nodes, "performed", waiting)
    opened = await host.service.runs.open(host.principal, OpenRequest(workflow_id="conformance-noop"))
    await asyncio.wait_for(reached.wait(), 20)
    asked = await host.service.runs.cancel(host.principal, opened.run.id)
    assert asked.status is RunStatus.CANCELLING
    go.set()
    await host.service.runs.engine.settle()
    assert (await host.run(opened.run)).status is RunStatus.CANCELLED
    assert (await host.types(opened.run))[-2:] == ["memory.written", "run.cancelled"]
    with pytest.raises(ConflictError) as refused:
        await host.service.runs.cancel(host.principal, opened.run.id)
    assert refused.value.reason == "run_over"


# -- orchestrators outside ------------------------------------------------------------------------------------------


@requirement("openwop:outside.drives")
async def test_an_orchestrator_outside_drives_a_run_to_its_end(host: Host) -> None:
    runs, ana = host.service.runs, host.principal
    run = await host.open()
    await runs.node(ana, run.id, "a", EventType.NODE_STARTED)
    await host.put("by the node", run=run, node_id="a")
    await runs.node(ana, run.id, "a", EventType.NODE_COMPLETED, variables=[Variable("v", 1)])
    ended = await runs.complete(ana, run.id, [Variable("w", [2])])
    assert ended.status is RunStatus.COMPLETED
    assert await host.variables(run) == {"v": 1, "w": [2]}
    assert await host.types(run) == [
        "run.started",
        "node.started",
        "memory.written",
        "variable.changed",
        "node.completed",
        "memory.written",
        "variable.changed",
        "run.completed",
    ]


@requirement("openwop:outside.finished")
async def test_nothing_can_be_done_in_a_run_that_is_over_or_somebody_elses(host: Host) -> None:
    runs = host.service.runs
    run = await host.complete(await host.open())
    other = await host.of("other")
    for work in (runs.complete, runs.driven, runs.cancel):
        with pytest.raises(ConflictError) as refused:
            await work(host.principal, run.id)
        assert refused.value.faults[0].accepted == ("completed",)
        with pytest.raises(NotFoundError):
            await work(other.principal, run.id)
    with pytest.raises(NotFoundError):
        await runs.snapshot(other.principal, run.id)
    with pytest.raises(NotFoundError):
        await runs.events(other.principal, run.id)
    with pytest.raises(NotFoundError):
        await fork(other, run)
    assert await runs.list(other.principal) == []
    assert [found.id for found in await runs.list(host.principal)] == [run.id]


@requirement("openwop:backends.notes")
async def test_scratchpad_and_conversation_are_the_runs_own_and_gone_with_it(host: Host) -> None:
    runs = host.service.runs
    await host.service.secrets.register(host.principal, label="db", value="hunter2-hunter2")
    for end in ("complete", "cancel", "fail"):
        run = await host.open()
        for backend in ("scratchpad", "conversation"):
            await runs.scratch.add(run, backend, "note hunter2-hunter2")
            await runs.scratch.add(run, backend, "second")
            assert await runs.scratch.read(run, backend) == ["note <REDACTED:db>", "second"]
        await runs.scratch.clear(run, "scratchpad")
        assert await runs.scratch.read(run, "scratchpad") == []
        assert len(await runs.scratch.read(run, "conversation")) == 2
        assert await host.types(run) == ["run.started"]
        why = [RunError("x", "it failed")] if end == "fail" else []
        ended = await getattr(runs, end)(host.principal, run.id, *why)
        with pytest.raises(ConflictError):
            await runs.scratch.read(ended, "conversation")
        assert await host.running.parts.ledger.run_notes("default", run.id, "conversation") == []


@requirement("openwop:backends.shared")
async def test_notes_are_the_same_for_every_service_over_one_ledger(opened: Opened) -> None:
    first, second = await opened(), await opened()
    run = await first.open()
    await first.service.runs.scratch.add(run, "scratchpad", "from the first")
    # A secret that the other service has just been told of is known here too.
    await first.service.secrets.register(first.principal, label="db", value="hunter2-hunter2")
    await second.service.runs.scratch.add(run, "scratchpad", "from the second hunter2-hunter2")
    for host in (first, second):
        told = await host.service.runs.scratch.read(run, "scratchpad")
        assert told == ["from the first", "from the second <REDACTED:db>"]
    await second.complete(run)
    assert await first.running.parts.ledger.run_notes("default", run.id, "scratchpad") == []
    with pytest.raises(ConflictError):  # the first was told of the run while it was at work
        await first.service.runs.scratch.add(run, "scratchpad", "too late")


@requirement("openwop:backends.shared")
async def test_an_engine_that_takes_a_run_over_begins_without_notes(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await opened()
    run = await left_behind(first, monkeypatch)
    await first.service.runs.scratch.add(run, "conversation", "of the one that died")
    first.clock.move(60_000)
    second = await opened()
    going, real = asyncio.Event(), asyncio.Event()
    from quipu.service import runs_nodes

    performed = runs_nodes.performed

    async def waiting(work: Any) -> Any:
        going.set()
        await real.wait()
        return await performed(work)

    monkeypatch.setattr(runs_nodes, "performed", waiting)
    assert await second.service.runs.engine.recover() == 1
    await asyncio.wait_for(going.wait(), 20)
    assert await second.service.runs.scratch.read(run, "conversation") == []
    real.set()
    await second.service.runs.engine.settle()


@requirement("openwop:backends.crash")
async def test_notes_of_a_server_that_died_are_gone_and_the_run_is_still_open(opened: Opened) -> None:
    first, second = await opened(), await opened()
    notes, ledger = second.service.runs.scratch, second.running.parts.ledger
    run = await first.open()
    for backend in ("scratchpad", "conversation"):
        await first.service.runs.scratch.add(run, backend, "of the one that died")
    first.clock.move(14_999)
    assert await notes.read(run, "conversation") == ["of the one that died"]
    first.clock.move(1)
    for backend in ("scratchpad", "conversation"):
        assert await notes.read(run, backend) == ()
    assert (await second.run(run)).status is RunStatus.RUNNING
    await notes.tend()
    assert await ledger.run_notes("default", run.id, "scratchpad") == []
    assert await ledger.run_notes("default", run.id, "conversation") == []
    await notes.add(run, "conversation", "anew")
    assert await notes.read(run, "conversation") == ["anew"]
    assert await second.types(run) == ["run.started"]
    assert (await second.complete(run)).status is RunStatus.COMPLETED


@requirement("openwop:backends.crash")
async def test_notes_stay_while_their_server_is_alive_and_when_it_stops_in_order(opened: Opened) -> None:
    first, second = await opened(), await opened()
    run = await first.open()
    await first.service.runs.scratch.add(run, "scratchpad", "kept")
    for _ in range(4):
        first.clock.move(10_000)
        await first.service.runs.scratch.tend()
        await second.service.runs.scratch.tend()
    assert await second.service.runs.scratch.read(run, "scratchpad") == ["kept"]
    await first.service.runs.close()
    second.clock.move(60_000)
    assert await second.service.runs.scratch.read(run, "scratchpad") == ["kept"]
    await second.service.runs.scratch.tend()  # from here on it is the second that holds them
    second.clock.move(15_000)
    third = await opened()
    assert await third.service.runs.scratch.read(run, "scratchpad") == ()
    assert await second.service.runs.scratch.read(run, "scratchpad") == ["kept"]  # who is asked is alive


@requirement("openwop:backends.crash")
async def test_notes_of_an_engine_that_died_are_gone_before_another_takes_the_run(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await opened(), await opened()
    run = await left_behind(first, monkeypatch)
    await first.service.runs.scratch.add(run, "scratchpad", "of the one that died")
    first.clock.move(60_000)
    assert await second.service.runs.scratch.read(run, "scratchpad") == ()


@requirement("openwop:backends.off")
async def test_a_backend_that_is_off_is_not_there_and_agents_show_it(opened: Opened) -> None:
    from quipu.rules.runs_manifests import KEEPER, inventory

    host = await opened(openwop_backends="longTerm", openwop_attribution=False)
    run = await host.open()
    with pytest.raises(NotFoundError):
        await host.service.runs.scratch.add(run, "scratchpad", "x")
    listed: Any = inventory(host.running.parts.host, frozenset())["agents"]
    (agent,) = listed
    assert agent["agentId"] == KEEPER["agentId"]
    assert agent["degradedMemoryDimensions"] == ["read", "write", "attribution"]


@requirement("openwop:server.key-expires")
async def test_a_key_is_good_for_a_day(host: Host) -> None:
    request = OpenRequest(workflow_id="w", is_external=True)

    async def opened() -> str:
        return (await host.service.runs.open(host.principal, request, "key")).run.id

    first = await opened()
    host.clock.move(24 * 3600 * 1000)
    assert await opened() == first
    host.clock.move(1)
    assert await opened() != first


@requirement("openwop:stream.keepalive")
async def test_a_silent_stream_says_that_it_is_still_there(host: Host) -> None:
    run = await host.open()
    followed = host.service.runs.follow(host.principal, run.id, idle_s=0.01)
    assert [event.type for event in await anext(followed)] == [EventType.RUN_STARTED]
    assert await anext(followed) == ()
    await followed.aclose()
