"""Two runs side by side: where their events part, what each wrote, what each sees, and which variables differ."""

from pathlib import Path
from typing import Any

import pytest

from quipu import sync
from quipu.errors import NotFoundError
from quipu.memory.operations import FORGET, REMEMBER, UPDATE
from quipu.model.principal import Principal
from quipu.runs import operations as ops
from tests.cli.conftest import Cli, cli, home
from tests.governance.office import Office
from tests.runs.host import Client, Host

__all__ = ["cli", "home"]


async def paid(office: Office, **fields: Any) -> str:
    """A run whose first node looks and whose second one pays, or fails to."""
    run = (await office(ops.OPEN_RUN, workflow_id="orders", **fields)).id
    await office(
        ops.RECORD_NODE, run_id=run, node_id="look", status="completed", variables={"found": 3, "of": "shoes"}
    )
    return run


async def compared(
    office: Office, run: str, other: str, who: Principal | None = None, **fields: Any
) -> tuple[Any, dict[str, list[Any]]]:
    found = await office(ops.COMPARE_RUNS, who, run_id=run, other_id=other, **fields)
    by_kind: dict[str, list[Any]] = {}
    for one in found.differences:
        by_kind.setdefault(one.kind, []).append((one.name, one.run, one.other))
    return found, by_kind


async def test_runs_are_told_apart_by_their_events_variables_and_what_they_wrote(any_office: Office) -> None:
    office = any_office
    run, other = await paid(office), await paid(office)
    mine = (await office(REMEMBER, content="paid by card", run_id=run, node_id="pay")).id
    await office(ops.RECORD_NODE, run_id=run, node_id="pay", status="completed", variables={"paid": True})
    theirs = (await office(REMEMBER, content="paid by invoice", run_id=other, node_id="pay")).id
    broken = {"code": "sold_out"}
    await office(ops.RECORD_NODE, run_id=other, node_id="pay", status="failed", error=broken)
    await office(
        ops.RECORD_NODE,
        run_id=other,
        node_id="look",
        status="completed",
        variables={"found": None, "of": "hats"},
    )
    found, by_kind = await compared(office, run, other)
    assert (found.run.id, found.other.id) == (run, other)
    assert found.parts_at == 5, "ids of memories make no difference"
    assert by_kind["event"][:2] == [
        ("5", "variable.changed pay: paid", "node.failed pay: sold_out"),
        ("6", "node.completed pay", "variable.changed look: found"),
    ]
    assert by_kind["variable"] == [("found", 3, None), ("of", "shoes", "hats"), ("paid", True, None)]
    assert by_kind["wrote"] == [(mine, "agent", None), (theirs, None, "agent")]
    cut, _ = await compared(office, run, other, limit=1)
    assert cut.is_cut
    assert not found.is_cut
    assert [len([one for one in cut.differences if one.kind == kind]) for kind in ("event", "wrote")] == [
        1,
        1,
    ]


async def test_what_two_runs_see_is_what_changed_between_their_beginnings(any_office: Office) -> None:
    office = any_office
    stays, changes, goes, ends = [
        (await office(REMEMBER, content=content, **fields)).id
        for content, fields in (
            ("stays", {}),
            ("lives in Lisbon", {}),
            ("goes", {}),
            ("ends", {"expires_at": office.clock.now + 10}),
        )
    ]
    run = await paid(office)
    await office(UPDATE, id=changes, content="lives in Porto")
    await office(FORGET, ids=[goes])
    comes = (await office(REMEMBER, content="comes")).id
    await office(REMEMBER, content="of somebody else", agent_id="other")
    await office(REMEMBER, content="comes and ends", expires_at=office.clock.now + 10)
    secret = {"privacy_intent": {"sensitivity": "secret"}}
    await office(REMEMBER, content="for admins", **secret)
    other = await paid(office)
    await office(UPDATE, id=stays, content="after both began")
    office.clock.now += 10
    found, by_kind = await compared(office, run, other, who=await office.token("reader"))
    seen = {name: (one, two) for name, one, two in by_kind["sees"]}
    assert seen == {
        changes: ("lives in Lisbon", "lives in Porto"),
        goes: ("goes", None),
        comes: (None, "comes"),
    }
    assert ends not in seen, "from its end on nobody sees it"
    assert found.not_compared is None
    _, back = await compared(office, other, run, who=await office.token("another"))
    assert {name: (two, one) for name, one, two in back["sees"]} == seen
    cut, by_kind = await compared(office, run, other, limit=1)
    assert (cut.is_cut, len(by_kind["sees"])) == (True, 1)
    await office.container.memory.read_log.flush()
    *_, read = await office.entries("read")
    assert [one.id for one in read.records] == [by_kind["sees"][0][0]], "what is not shown is not read"
    short = await office.token("short", recall_budget=3)
    cut, by_kind = await compared(office, run, other, who=short)
    assert (cut.is_cut, len(by_kind["sees"])) == (True, 1), "as much as the budget of recalls has left"
    await office(FORGET, ids=[changes, comes], hard_delete=True)
    _, by_kind = await compared(office, run, other)
    assert [one for _, *one in by_kind["sees"]] == [[None, "for admins"], ["goes", None]], "nothing erased"


async def test_a_fork_differs_from_its_source_in_what_came_after_it(office: Office) -> None:
    run = await paid(office)
    kept = (await office(REMEMBER, content="of the source", run_id=run, node_id="pay")).id
    await office(ops.END_RUN, run_id=run)
    replay = (await office(ops.FORK_RUN, run_id=run)).run.id
    found, by_kind = await compared(office, run, replay)
    assert (found.parts_at, by_kind) == (None, {})
    branch = (await office(ops.FORK_RUN, run_id=run, mode="branch", from_seq=2)).run.id
    found, by_kind = await compared(office, run, branch)
    assert found.parts_at == 2
    assert by_kind["variable"] == [("of", "shoes", None)]
    assert (kept, "agent", None) in by_kind["wrote"]
    assert "sees" not in by_kind, "it sees what its source saw"
    assert ("status", "completed", "running") in by_kind["fact"]


async def test_why_what_runs_see_is_not_compared_is_said(office: Office) -> None:
    run, other = await paid(office), await paid(office, agent_id="other")
    found, by_kind = await compared(office, run, other)
    assert "different agents" in found.not_compared
    assert ("agent_id", "agent", "other") in by_kind["fact"]
    await office(REMEMBER, content="between")
    later, ledger = await paid(office), office.container.ledger
    await ledger.prune("default", (await ledger.head("default")).seq, "system", office.clock.now)
    found, by_kind = await compared(office, run, later)
    assert "snapshot is gone" in found.not_compared
    assert "sees" not in by_kind


async def test_who_may_not_see_one_of_them_compares_neither(host: Host, admin: Client) -> None:
    ana = await host.client("ana", "agent", agents=["shop"], user_id="ana")
    bo = await host.client("bo", "agent", agents=["shop"], user_id="bo")
    mine, theirs = await ana.run(), await bo.run()
    for run, other in ((mine, theirs), (theirs, mine), (mine, "run_none")):
        answer = await ana("GET", f"/v1/workflow-runs/{run}/compare/{other}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), (run, other)
    office = host.office
    with pytest.raises(NotFoundError):
        await office(ops.COMPARE_RUNS, await office.token("c", agents=["till"]), run_id=mine, other_id=mine)
    assert (await admin("GET", f"/v1/workflow-runs/{mine}/compare/{theirs}")).status_code == 200


def test_the_command_prints_what_differs(cli: Cli, home: Path) -> None:
    with sync.Memory("agent", stores=home / "memory.db", embedder="none") as memory:
        run = memory.call("open_run", workflow_id="orders").id
        memory.remember("paid by invoice")
        other = memory.call("open_run", workflow_id="orders").id
        memory.call("record_node", run_id=other, node_id="pay", status="failed", error={"code": "sold_out"})
    at = ("--store-url", f"sqlite:///{home}/memory.db")
    shown = cli("run", "compare", run, other, *at)
    assert shown.code == 0, shown.err
    for words in ("node.failed pay: sold_out", "paid by invoice"):
        assert words in shown.out
    assert '"parts_at":1' in cli("run", "compare", run, other, *at, "--json").out
    assert cli("run", "compare", run, "run_none", *at).code == 1
