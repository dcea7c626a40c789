"""What is kept of runs can be verified, and goes when its time is over."""

from dataclasses import replace
from pathlib import Path

import pytest

from quipu.audit.operations import UNDO, VERIFY
from quipu.bootstrap import background_jobs
from quipu.config import Settings
from quipu.errors import InvalidError, NotFoundError
from quipu.memory.operations import FORGET, RECALL, REMEMBER
from quipu.model.principal import local
from quipu.runs import operations as ops
from quipu.runs.model import TABLES
from tests.audit.tampering import Owner, others
from tests.governance.office import Office, open_office
from tests.requirement import requirement

T, DAY = "default", 86_400_000


async def lived(office: Office) -> dict[str, str]:
    """Runs of every end, forked in both ways; one whose variable was emptied, and one that goes on."""
    runs: dict[str, str] = {}
    for name in ("done", "failed", "cancelled", "running"):
        run = await office(
            ops.OPEN_RUN, workflow_id="orders", user_id="mara", inputs={"of": name}, tags=["t"]
        )
        runs[name] = run.id
        kept = await office(REMEMBER, content=f"for {name}", user_id="mara", run_id=run.id, node_id="n")
        await office(
            ops.RECORD_NODE,
            run_id=run.id,
            node_id="n",
            status="completed",
            variables={"v": 1, "kept": kept.id},
        )
        note = {"run_id": run.id, "backend": "scratchpad", "action": "add", "content": "a note"}
        await office(ops.RUN_NOTES, **note)
        if name == "done":
            await office(FORGET, ids=[kept.id], hard_delete=True)
    await office(ops.END_RUN, run_id=runs["done"], variables={"last": "x"})
    await office(ops.END_RUN, run_id=runs["failed"], status="failed", error={"code": "no", "message": "why"})
    await office(ops.CANCEL_RUN, run_id=runs["cancelled"])
    runs["replay"] = (await office(ops.FORK_RUN, run_id=runs["done"])).run.id
    runs["branch"] = (await office(ops.FORK_RUN, run_id=runs["done"], mode="branch", from_seq=3)).run.id
    await office(ops.MINT_MEMORY_REF)
    return runs


async def faults(office: Office) -> set[str]:
    found = await office.container.audit.verifier.tenant(T)
    return {fault.kind for fault in found.faults}


@requirement("openwop:integrity")
@pytest.mark.timeout(120)
async def test_every_column_of_every_table_of_runs_that_is_altered_is_told(
    filed: Office, tmp_path: Path
) -> None:
    await lived(filed)
    owner, silent, tried = Owner(tmp_path / "memory.db"), list[tuple[str, str]](), 0
    assert await faults(filed) == set()
    for table in TABLES:
        key = ("tenant", *table.key)
        rows = owner.rows(table.name, key)
        assert rows, f"there is no row of {table.name} to alter"
        for row in rows if len(rows) < 4 else rows[:: len(rows) // 3]:
            for column in row:
                for value in others(row[column]):
                    with owner.altered(table.name, row, key, column, value) as was_let:
                        if was_let:
                            tried += 1
                            if not await faults(filed):
                                silent.append((table.name, column))
    assert tried > 300
    assert silent == []
    assert await faults(filed) == set(), "mended again"
    owner.close()


@requirement("openwop:integrity")
@pytest.mark.parametrize("table", [table.name for table in TABLES])
async def test_rows_of_runs_that_are_taken_away_or_slipped_in_are_told(
    filed: Office, tmp_path: Path, table: str
) -> None:
    await lived(filed)
    owner = Owner(tmp_path / "memory.db")
    (kept,) = [one for one in TABLES if one.name == table]
    row = owner.rows(table, ("tenant", *kept.key))[0]
    at = " AND ".join(f"{name} = ?" for name in ("tenant", *kept.key))
    owner(f"DELETE FROM {table} WHERE {at}", *(row[name] for name in ("tenant", *kept.key)))  # noqa: S608  names of our tables
    assert "missing_row" in await faults(filed)
    other = {**row, kept.key[-1]: 700 if isinstance(row[kept.key[-1]], int) else "another"}
    for one in (row, other):
        marks = ", ".join("?" for _ in one)
        owner(f"INSERT INTO {table} ({', '.join(one)}) VALUES ({marks})", *one.values())  # noqa: S608  names of our tables
    assert await faults(filed) == {"unjournaled_row"}
    owner.close()


@requirement("openwop:retention")
async def test_the_history_of_an_ended_run_goes_when_its_time_is_over(tmp_path: Path) -> None:
    office = await open_office(str(tmp_path / "memory.db"), settings=Settings(run_history_days=30))
    runs = await lived(office)
    (job,) = [one for one in background_jobs(office.container) if one.name == "runs"]
    await job.work()
    ended = ("done", "failed", "cancelled", "replay")
    for name in ended:
        assert not (await office(ops.GET_RUN, run_id=runs[name])).history_expired, "not before its time"
    office.clock.now += 30 * DAY
    await job.work()
    for name, run in runs.items():
        view = await office(ops.GET_RUN, run_id=run)
        events = (await office(ops.LIST_RUN_EVENTS, run_id=run)).events
        assert view.history_expired == (name in ended), name
        assert bool(events) == bool(view.variables) == (name not in ended), name
        assert view.tags == ("t",)
    for mode in ({"mode": "replay"}, {"mode": "branch", "from_seq": 1}):
        with pytest.raises(InvalidError) as refused:
            await office(ops.FORK_RUN, run_id=runs["done"], **mode)
        assert refused.value.reason == "event_log_unavailable"
    assert await faults(office) == set()
    owner = Owner(tmp_path / "memory.db")
    assert owner("SELECT count(*) FROM run_event WHERE run_id = ?", runs["done"]) == [(0,)]
    owner.close()
    entries = len(await office.entries())
    await job.work()
    assert len(await office.entries()) == entries, "it is dropped once"
    # What it wrote is memory as any other, and is still undone by the run's name.
    found = await office(UNDO, run_id=runs["failed"])
    assert [one.content for one in found.findings if one.content == "for failed"] == ["for failed"]
    await office.container.close()


@requirement("openwop:retention")
async def test_what_a_run_saw_is_served_after_its_history_is_gone_and_refused_after_the_memory_is(
    any_office: Office,
) -> None:
    office = any_office
    kept = await office(REMEMBER, content="seen before")
    run = await office(ops.OPEN_RUN, workflow_id="orders")
    await office(ops.END_RUN, run_id=run.id)
    runs = replace(office.container.runs, history_ms=1)
    office.clock.now += 2
    assert await runs.drop_histories(office.context(local())) == 1
    assert [hit.content for hit in await office(RECALL, query="seen", as_of=run.id)] == ["seen before"]
    await office(FORGET, ids=[kept.id])
    ledger = office.container.ledger
    await ledger.prune(T, (await ledger.head(T)).seq, "system", office.clock.now)
    for operation, body in (
        (RECALL, {"query": "seen", "as_of": run.id}),
        (ops.LIST_ENTRIES, {"memory_ref": "agent", "run_id": run.id}),
        (ops.GET_ENTRY, {"memory_ref": "agent", "id": "mem_x", "run_id": run.id}),
    ):
        with pytest.raises(NotFoundError, match="snapshot is gone"):
            await office(operation, **body)


@requirement("openwop:retention")
async def test_without_a_setting_histories_are_kept_for_good(any_office: Office) -> None:
    office = any_office
    run = await office(ops.OPEN_RUN, workflow_id="orders")
    await office(ops.END_RUN, run_id=run.id)
    office.clock.now += 10_000 * DAY
    await office.container.runs.work(T, office.container.context)
    assert not (await office(ops.GET_RUN, run_id=run.id)).history_expired
    assert (await office(VERIFY)).verified
