"""Runs that are driven from outside: opened, recorded, ended, cancelled, listed."""

import asyncio

import pytest

from quipu.audit.operations import UNDO, VERIFY
from quipu.errors import ConflictError, ForbiddenError, NotFoundError
from quipu.memory.operations import FORGET, GET, RECALL, REMEMBER, REMEMBER_MANY, UPDATE
from quipu.runs import operations as ops
from tests.governance.office import Office
from tests.requirement import requirement


async def opened(office: Office, **fields: object) -> str:
    return (await office(ops.OPEN_RUN, workflow_id="orders", **fields)).id


async def events(office: Office, run_id: str, kind: str | None = None) -> list[tuple[str, dict[str, object]]]:
    found = await office(ops.LIST_RUN_EVENTS, run_id=run_id)
    return [(one.type, one.payload) for one in found.events if kind in (None, one.type)]


async def test_what_a_run_wrote_is_named_in_its_log_in_the_commit_of_the_write(office: Office) -> None:
    run = await opened(office)
    kept = await office(REMEMBER, content="Ana has a cat", tags=["pets"], run_id=run, node_id="n1")
    assert await events(office, run, "memory.written") == [
        (
            "memory.written",
            {"memoryRef": "agent", "memoryId": kept.id, "nodeId": "n1", "agentId": "agent", "tags": ["pets"]},
        )
    ]
    (entry,) = await office.entries("remember")
    written = [table for table, *_ in entry.detail["side"]]  # pyright: ignore
    assert sorted(written) == ["run", "run_event"]
    await office(UPDATE, id=kept.id, content="Ana has two cats", run_id=run)
    await office(REMEMBER_MANY, items=[{"content": f"thing {n}", "run_id": run} for n in range(3)])
    assert len(await events(office, run, "memory.written")) == 5
    report = await office(VERIFY)
    assert report.verified, report


async def test_many_writers_of_one_run_leave_one_event_each_without_gaps(any_office: Office) -> None:
    office = any_office
    run = await opened(office)
    await asyncio.gather(
        *(office(REMEMBER, content=f"fact number {n}", run_id=run, node_id=f"n{n}") for n in range(8))
    )
    log = await office(ops.LIST_RUN_EVENTS, run_id=run)
    assert [one.sequence for one in log.events] == list(range(9))
    assert {one.node_id for one in log.events[1:]} == {f"n{n}" for n in range(8)}


async def test_a_recall_as_of_a_run_sees_what_the_run_saw(office: Office) -> None:
    await office(REMEMBER, content="Ana lives in Lisbon")
    run = await opened(office)
    await office(REMEMBER, content="Ana lives in Porto", run_id=run)
    kept = (await office(RECALL, query="Ana", min_relevance="off", as_of=run)).results
    assert [hit.content for hit in kept] == ["Ana lives in Lisbon"]
    with pytest.raises(NotFoundError):
        await office(RECALL, query="Ana", as_of="run_00000000000000000000000000")


@requirement("openwop:summary.reserved")
async def test_a_summary_is_remembered_once_and_nobody_else_writes_where_it_is(office: Office) -> None:
    run = await opened(office)
    await office(ops.END_RUN, run_id=run)
    listed = await office(ops.LIST_ENTRIES, memory_ref="quipu/run-summaries")
    assert [entry.tags for entry in listed.entries] == [("source:run-summary",)]
    assert run in listed.entries[0].content
    kept = listed.entries[0].id
    ((_, named),) = await events(office, run, "memory.written")
    assert (named["memoryRef"], named["memoryId"]) == ("quipu/run-summaries", kept)
    here, at = {"agent_id": "quipu/run-summaries"}, {"memory_ref": "quipu/run-summaries"}
    for operation, fields in (
        (REMEMBER, {"content": "mine", **here}),
        (FORGET, {"ids": [kept], **here}),
        (UPDATE, {"id": kept, "content": "other", **here}),
        (ops.PUT_ENTRY, {"entry": {"content": "mine"}, **at}),
        (ops.DELETE_ENTRY, {"id": kept, **at}),
    ):
        with pytest.raises(ForbiddenError) as refused:
            await office(operation, **fields)
        assert refused.value.reason == "reserved"
    with pytest.raises(Exception, match="own"):
        await office(ops.OPEN_RUN, workflow_id="w", agent_id="quipu/run-summaries")


async def test_of_a_cancel_and_an_end_at_once_one_is_left_and_the_summary_tells_it(
    any_office: Office,
) -> None:
    office = any_office
    for _ in range(5):
        run = await opened(office)
        done = await asyncio.gather(
            office(ops.END_RUN, run_id=run), office(ops.CANCEL_RUN, run_id=run), return_exceptions=True
        )
        view = await office(ops.GET_RUN, run_id=run)
        assert view.status in ("completed", "cancelled")
        assert any(not isinstance(one, Exception) for one in done)
        ends = [
            kind for kind, _ in await events(office, run) if kind.startswith("run.") and kind != "run.started"
        ]
        assert ends == [f"run.{view.status}"]
        newest = (await office(ops.LIST_ENTRIES, memory_ref="quipu/run-summaries")).entries
        (said,) = [entry.content for entry in newest if run in entry.content]
        assert view.status in said


@requirement("openwop:idempotency.once")
async def test_ten_equal_requests_make_one_run(any_office: Office) -> None:
    office = any_office
    runs = await asyncio.gather(
        *(office(ops.OPEN_RUN, workflow_id="orders", idempotency_key="k") for _ in range(10))
    )
    assert len({run.id for run in runs}) == 1
    assert sum(run.replayed for run in runs) == 9
    with pytest.raises(ConflictError) as refused:
        await office(ops.OPEN_RUN, workflow_id="others", idempotency_key="k")
    assert refused.value.reason == "idempotency_key_mismatch"
    assert len((await office(ops.LIST_RUNS)).runs) == 1


async def test_a_run_can_be_undone_as_a_cause(office: Office) -> None:
    run = await opened(office)
    kept = await office(REMEMBER, content="Ana has a cat", run_id=run)
    await office(ops.PUT_ENTRY, memory_ref="agent", entry={"content": "Ana has a dog"}, run_id=run)
    found = await office(UNDO, run_id=run, dry_run=False)
    assert sorted(one.outcome for one in found.findings) == ["done", "done"]
    with pytest.raises(NotFoundError):
        await office(GET, id=kept.id)
