"""No secret stays in what a run leaves: not in its results, not after a restart, not when it was registered just now."""

from pathlib import Path
from typing import Any

import pytest

from quipu.config import Settings
from quipu.errors import InvalidError
from quipu.memory.operations import GET, LIST, REMEMBER
from quipu.runs import operations as ops
from quipu.runs.conformance import TEST_SECRETS
from quipu.secrets.operations import ADD_SECRET, REMOVE_SECRET
from tests.governance.office import Office, open_office
from tests.requirement import requirement

VALUE = "hunter2-nobody-may-see-this"
LABEL, TEST_VALUE = next(iter(TEST_SECRETS.items()))


async def opened(office: Office, **fields: Any) -> str:
    return (await office(ops.OPEN_RUN, workflow_id="w", **fields)).id


async def left(office: Office, run: str) -> str:
    """Everything that there is to see of a run."""
    log = await office(ops.LIST_RUN_EVENTS, run_id=run)
    return str((await office(ops.GET_RUN, run_id=run)).to_dict()) + str(log.to_dict())


@requirement("openwop:redaction.results")
async def test_what_a_run_is_opened_with_and_what_it_results_in_is_rewritten_also_where_it_is_cut_in_two(
    office: Office,
) -> None:
    await office(ADD_SECRET, label="db", value=VALUE)
    one, two = VALUE[:14], VALUE[14:]
    run = await opened(
        office, tags=[one, two], metadata={"a": one, "b": two, "c": "plain"}, inputs={"in": VALUE}
    )
    await office(
        ops.RECORD_NODE, run_id=run, node_id="n", status="completed", variables={"one": one, "two": two}
    )
    error = {"code": "broken", "message": f"It was {VALUE}."}
    await office(ops.RECORD_NODE, run_id=run, node_id="m", status="failed", error=error)
    await office(ops.END_RUN, run_id=run, status="failed", error=error, variables={"key": f"is {VALUE}"})
    shown = await left(office, run)
    for part in (VALUE, one, two):
        assert part not in shown
    assert "plain" in shown
    assert "<REDACTED:db>" in shown


@requirement("openwop:redaction.race")
@pytest.mark.parametrize("way", ["open", "node", "end", "note", "branch"])
async def test_a_secret_that_another_process_registers_meanwhile_stays_out(
    filed: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """It is registered after the texts were checked, and before they are committed."""
    other = await open_office(str(tmp_path / "memory.db"))
    run = await opened(filed)
    ledger, registered = filed.container.ledger, list[bool]()
    real = ledger.commit

    async def late(*commits: Any, **given: Any) -> Any:
        if VALUE in repr(commits) and not registered:
            registered.append(True)
            await other(ADD_SECRET, label="db", value=VALUE)
        return await real(*commits, **given)

    monkeypatch.setattr(ledger, "commit", late)
    variables = {"result": f"it is {VALUE}"}
    match way:
        case "open":
            run = await opened(filed, metadata={"a": VALUE})
        case "node":
            await filed(ops.RECORD_NODE, run_id=run, node_id="n", status="completed", variables=variables)
        case "end":
            await filed(ops.END_RUN, run_id=run, variables=variables)
        case "note":
            note = {"run_id": run, "backend": "scratchpad"}
            await filed(ops.RUN_NOTES, **note, action="add", content=VALUE)
            assert VALUE not in str((await filed(ops.RUN_NOTES, **note)).to_dict())
        case _:
            overlay = {"configurable": {"a": VALUE}}
            made = await filed(ops.FORK_RUN, run_id=run, mode="branch", from_seq=0, overlay=overlay)
            run = made.run.id
    assert registered
    assert VALUE not in await left(filed, run)
    await other.container.close()


@requirement("openwop:redaction.review")
async def test_what_is_edited_at_review_is_checked_with_the_secrets_of_the_run_that_wrote(
    office: Office,
) -> None:
    run, other = await opened(office), await opened(office)
    await office(ADD_SECRET, label="db", value=VALUE, run_id=run)
    kept: list[tuple[str, tuple[str, ...]]] = []
    seen: set[str] = set()
    for where in ({"run_id": run}, {"run_id": other}, {}):
        held = await office(REMEMBER, content="wait", approval_required=True, **where)
        edit = {"content": f"it is {VALUE}", "tags": [f"t {VALUE}"]}
        await office.decide(held.proposal_id, edit=edit)
        (record,) = [one for one in (await office(LIST)).records if one.id not in seen]
        seen.add(record.id)
        kept.append((record.content, record.tags))
    plain = (f"it is {VALUE}", (f"t {VALUE}",))
    assert kept == [("it is <REDACTED:db>", ("t <REDACTED:db>",)), plain, plain]


async def interrupted(place: str) -> str:
    """A run that has resolved a secret, and whose server has gone."""
    office = await open_office(place, settings=Settings(openwop_conformance=True))
    player = office.container.runs.player
    run = await office(ops.OPEN_RUN, workflow_id="conformance-delay", inputs={"delayMs": 30_000})
    await player._resolved(office.context(), run.id, LABEL)
    await office.container.close()
    return run.id


@requirement("openwop:redaction.restart")
async def test_what_was_resolved_before_a_restart_stays_out_of_every_write_after_it(tmp_path: Path) -> None:
    place = str(tmp_path / "memory.db")
    run = await interrupted(place)
    office = await open_office(place, settings=Settings(openwop_conformance=True))
    kept = await office(REMEMBER, content=f"the key is {TEST_VALUE}", run_id=run)
    assert (await office(GET, id=kept.id)).content == f"the key is <REDACTED:{LABEL}>"
    variables = {"v": TEST_VALUE}
    await office(ops.RECORD_NODE, run_id=run, node_id="n", status="completed", variables=variables)
    branch = (await office(ops.FORK_RUN, run_id=run, mode="branch", from_seq=1)).run.id
    kept = await office(REMEMBER, content=f"the key is {TEST_VALUE}", run_id=branch)
    assert (await office(GET, id=kept.id)).content == f"the key is <REDACTED:{LABEL}>", "a branch has it too"
    assert TEST_VALUE not in await left(office, run)
    plain = await office(REMEMBER, content=f"the key is {TEST_VALUE}", run_id=await opened(office))
    assert (await office(GET, id=plain.id)).content == f"the key is {TEST_VALUE}", (
        "another run does not know it"
    )
    assert TEST_VALUE.encode() not in _without(Path(place), plain.id)
    await office.container.close()


def _without(place: Path, record_id: str) -> bytes:
    """What is kept on disk of runs."""
    import apsw

    rows: list[Any] = []
    with apsw.Connection(str(place), flags=apsw.SQLITE_OPEN_READONLY) as connection:
        for table in ("run", "run_event", "run_variable", "run_note", "journal"):
            rows += connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608  names of our tables
        rows += connection.execute("SELECT * FROM record WHERE id <> ?", (record_id,)).fetchall()
    return repr(rows).encode()


@requirement("openwop:redaction.restart")
async def test_a_write_is_refused_while_the_secret_of_its_run_cannot_be_resolved(tmp_path: Path) -> None:
    place = str(tmp_path / "memory.db")
    run = await interrupted(place)
    office = await open_office(place)  # not in the conformance mode: nobody knows the value
    for operation, body in (
        (REMEMBER, {"content": "anything", "run_id": run}),
        (ops.RECORD_NODE, {"run_id": run, "node_id": "n", "status": "completed"}),
    ):
        with pytest.raises(InvalidError) as refused:
            await office(operation, **body)
        assert refused.value.reason == "credential_unavailable"
    kept = await office(ADD_SECRET, label=LABEL, value="another-value-of-that-label")
    await office(REMEMBER, content="anything", run_id=run)
    await office(REMOVE_SECRET, id=kept.id)
    await office.container.close()


@requirement("openwop:run.lost")
async def test_a_fixture_run_whose_server_has_gone_fails_after_a_minute(tmp_path: Path) -> None:
    place = str(tmp_path / "memory.db")
    run = await interrupted(place)
    office = await open_office(place, settings=Settings(openwop_conformance=True))
    runs = office.container.runs
    office.clock.now += 59_999
    await runs.work("default", office.container.context)
    assert (await office(ops.GET_RUN, run_id=run)).status in ("pending", "running"), "not before"
    office.clock.now += 1
    await runs.work("default", office.container.context)
    view = await office(ops.GET_RUN, run_id=run)
    assert (view.status, view.error.code) == ("failed", "host_lost")
    own = await opened(office)
    office.clock.now += 10**9
    await runs.work("default", office.container.context)
    assert (await office(ops.GET_RUN, run_id=own)).status == "running", "whoever drives a run may take long"
    await office.container.close()


@requirement("openwop:run.end")
async def test_a_summary_that_cannot_be_kept_changes_nothing_about_the_end(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await opened(office)
    ledger = office.container.ledger
    real = ledger.commit

    async def failing(*commits: Any, **given: Any) -> Any:
        if any(commit.draft.op == "remember" for commit in commits):
            raise InvalidError("no room", reason="full")
        return await real(*commits, **given)

    monkeypatch.setattr(ledger, "commit", failing)
    assert (await office(ops.END_RUN, run_id=run)).status == "completed"
    kinds = [one.type for one in (await office(ops.LIST_RUN_EVENTS, run_id=run)).events]
    assert kinds == ["run.started", "run.completed"]


@requirement("openwop:run.end")
async def test_an_end_that_was_decided_and_never_said_is_said_by_whoever_comes_next(
    filed: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies after the decision, with its summary kept or not."""
    runs: dict[str, str] = {}
    for name in ("decided", "summarised"):
        runs[name] = await opened(filed)
        with monkeypatch.context() as patch:
            real = filed.container.ledger.commit

            async def dying(*commits: Any, name: str = name, real: Any = real, **given: Any) -> Any:
                at = "remember" if name == "decided" else "finish_run"
                if any(commit.draft.op == at for commit in commits):
                    raise KeyboardInterrupt
                return await real(*commits, **given)

            patch.setattr(filed.container.ledger, "commit", dying)
            with pytest.raises(KeyboardInterrupt):
                await filed(ops.END_RUN, run_id=runs[name])
    other = await open_office(str(tmp_path / "memory.db"))
    other.clock.now = filed.clock.now + 60_001
    await other.container.runs.work("default", other.container.context)
    for run in runs.values():
        kinds = [one.type for one in (await other(ops.LIST_RUN_EVENTS, run_id=run)).events]
        assert kinds == ["run.started", "memory.written", "run.completed"], (
            "one summary, whenever it was kept"
        )
    await other.container.close()
