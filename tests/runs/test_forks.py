"""Forks: a replay repeats field by field and writes nothing; a branch goes on from a point, seeing what its source saw."""

from typing import Any

import pytest

from quipu.errors import ConflictError, InvalidError, NotFoundError, QuipuError
from quipu.memory.operations import FORGET, RECALL, REMEMBER, UPDATE
from quipu.runs import operations as ops
from quipu.runs.model import EVENTS
from tests.governance.office import Office
from tests.requirement import requirement


async def lived(office: Office) -> str:
    """A run of two nodes, with a memory and variables of each."""
    run = (await office(ops.OPEN_RUN, workflow_id="orders", user_id="mara", inputs={"n": 1}, tags=["a"])).id
    for node in ("first", "second"):
        await office(ops.RECORD_NODE, run_id=run, node_id=node, status="started")
        await office(REMEMBER, content=f"of {node}", user_id="mara", run_id=run, node_id=node)
        await office(ops.RECORD_NODE, run_id=run, node_id=node, status="completed", variables={node: node})
    await office(ops.END_RUN, run_id=run)
    return run


async def rows(office: Office, run: str) -> list[Any]:
    return list(await office.container.ledger.page(EVENTS, "default", {"run_id": run}, limit=500))


@requirement("openwop:fork.replay")
@pytest.mark.parametrize("from_seq", [None, 0, 5])
async def test_a_replay_repeats_the_log_field_by_field_and_writes_nothing(
    any_office: Office, from_seq: int | None
) -> None:
    office = any_office
    run = await lived(office)
    source = await office(ops.GET_RUN, run_id=run)
    before = len(await office.entries("remember", "update", "forget"))
    office.clock.now += 5_000
    made = (await office(ops.FORK_RUN, run_id=run, from_seq=from_seq)).run
    assert made.id != run
    assert (made.driver, made.mode, made.source_run_id) == ("replay", "replay", run)
    for name in (
        "status",
        "variables",
        "node_states",
        "agent_id",
        "user_id",
        "snapshot",
        "last_sequence",
        "writes",
    ):
        assert getattr(made, name) == getattr(source, name), name
    for mine, theirs in zip(await rows(office, made.id), await rows(office, run), strict=True):
        for name in ("sequence", "type", "node_id", "payload", "record_id", "record_version", "at"):
            assert getattr(mine, name) == getattr(theirs, name), name
        assert mine.causation_id == theirs.id
        assert mine.id != theirs.id
    assert len(await office.entries("remember", "update", "forget")) == before, "also no summary"
    with pytest.raises(InvalidError) as refused:
        await office(REMEMBER, content="in a replay", run_id=made.id)
    assert refused.value.reason == "run_over"


@requirement("openwop:fork.branch")
async def test_a_branch_from_the_middle_has_what_was_before_and_writes_for_itself(office: Office) -> None:
    await office(REMEMBER, content="seen by both", user_id="mara")
    run = await lived(office)
    await office(REMEMBER, content="after the source began", user_id="mara")
    log = await rows(office, run)
    middle = next(event.sequence for event in log if event.node_id == "second")
    overlay = {"inputs": {"n": 2}, "tags": ["b"]}
    made = (await office(ops.FORK_RUN, run_id=run, mode="branch", from_seq=middle, overlay=overlay)).run
    assert (made.status, made.driver, made.last_sequence, made.writes) == (
        "running",
        "external",
        middle - 1,
        1,
    )
    assert (made.node_states, made.variables, made.tags) == (
        {"first": "completed"},
        {"first": "first"},
        ("b",),
    )
    assert (made.agent_id, made.user_id) == ("agent", "mara")
    assert [
        one.content for one in await office(RECALL, query="seen both", user_id="mara", as_of=made.id)
    ] == ["seen by both"]
    kept = (await office(REMEMBER, content="of the branch", user_id="mara", run_id=made.id)).id
    done = await office(ops.END_RUN, run_id=made.id)
    own = (await rows(office, made.id))[middle:]
    assert [event.type for event in own] == ["memory.written", "memory.written", "run.completed"]
    assert own[0].record_id == kept
    assert own[1].record_id not in {event.record_id for event in log}, "its summary is its own"
    assert all(event.causation_id is None for event in own)
    assert done.status == "completed"
    assert (await office(ops.GET_RUN, run_id=run)).last_sequence == len(log) - 1, "the source is as it was"


@requirement("openwop:fork.branch")
async def test_a_branch_of_a_branch_and_one_of_a_run_at_work(office: Office) -> None:
    run = (await office(ops.OPEN_RUN, workflow_id="w")).id
    await office(ops.RECORD_NODE, run_id=run, node_id="n", status="completed", variables={"v": 1})
    first = (await office(ops.FORK_RUN, run_id=run, mode="branch", from_seq=3 - 1)).run
    second = (await office(ops.FORK_RUN, run_id=first.id, mode="branch", from_seq=2 - 1)).run
    assert (first.snapshot, second.snapshot) == (
        run_seen := (await office(ops.GET_RUN, run_id=run)).snapshot,
    ) * 2
    assert run_seen > 0
    assert (first.variables, second.variables) == ({"v": 1}, {})


@requirement("openwop:fork.checks")
async def test_what_cannot_be_served_as_it_was_is_refused_and_bounds_come_first(any_office: Office) -> None:
    office = any_office
    run = await lived(office)
    last = (await office(ops.GET_RUN, run_id=run)).last_sequence

    async def refused(**fields: Any) -> QuipuError:
        with pytest.raises(QuipuError) as error:
            await office(ops.FORK_RUN, **{"run_id": run, **fields})
        return error.value

    at_work = (await office(ops.OPEN_RUN, workflow_id="w")).id
    assert isinstance(await refused(run_id="run_none", from_seq=10**6), NotFoundError)
    assert isinstance(await refused(run_id=at_work), ConflictError)
    assert (await refused(from_seq=last + 1)).reason == "invalid_from_seq"
    assert (await refused(mode="branch", from_seq=last + 1)).reason == "invalid_from_seq"
    assert (await office(ops.FORK_RUN, run_id=run, mode="branch", from_seq=last)).run.status == "running"
    kept = (await office(REMEMBER, content="changed")).id
    await office(UPDATE, id=kept, content="changed again")
    ledger = office.container.ledger
    await ledger.prune("default", (await ledger.head("default")).seq, "system", office.clock.now)
    assert (await refused(from_seq=last + 1)).reason == "invalid_from_seq", "bounds come before memory"
    assert (await refused()).reason == "retention_expired"
    assert (await refused(mode="branch", from_seq=0)).reason == "retention_expired"


@requirement("openwop:fork.late")
async def test_a_write_that_is_approved_after_the_end_is_behind_it_and_in_no_branch(office: Office) -> None:
    run = (await office(ops.OPEN_RUN, workflow_id="w")).id
    held = await office(REMEMBER, content="held", run_id=run, approval_required=True)
    await office(ops.END_RUN, run_id=run)
    end = (await office(ops.GET_RUN, run_id=run)).last_sequence
    await office.decide(held.proposal_id)
    log = await rows(office, run)
    assert [event.type for event in log][-2:] == ["run.completed", "memory.written"]
    with pytest.raises(InvalidError):
        await office(ops.FORK_RUN, run_id=run, mode="branch", from_seq=end + 1)
    replay = (await office(ops.FORK_RUN, run_id=run)).run
    assert [event.type for event in await rows(office, replay.id)] == [event.type for event in log]
    await office(FORGET, ids=[log[-1].record_id])
    assert (await office.container.audit.verifier.tenant("default")).faults == ()
