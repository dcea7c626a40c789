"""Runs as pages: what happened in one, what it sees, its notes, its ends and its forks."""

import re
from typing import Any

import pytest

from quipu.memory.operations import REMEMBER, UPDATE
from quipu.operation import AnyOperation
from quipu.runs import operations as ops
from tests.web.conftest import House, open_house
from tests.web.person import Person


async def opened(house: House, **fields: Any) -> str:
    return (await house(ops.OPEN_RUN, **{"workflow_id": "orders", **fields})).id


async def happens(house: House, operation: AnyOperation, run: str, **fields: Any) -> Any:
    return await house(operation, run_id=run, **fields)


def fork_of(path: str) -> str:
    return path.removeprefix("/runs/")


async def test_a_run_shows_what_happened_and_what_it_saw(house: House) -> None:
    before = await house.remember("Ana lives in Lisbon")
    run = await opened(house, tags=["shop"])
    await house(UPDATE, id=before, content="Ana lives in Porto")
    kept = await house(REMEMBER, content="Ana ordered shoes", tags=["order"], run_id=run, node_id="write")
    await happens(house, ops.RECORD_NODE, run, node_id="write", status="completed", variables={"size": 43})
    person = await house.person("ana", "admin")
    seen = await person.get(f"/runs/{run}")
    assert seen.status == 200
    assert f"/memories/{kept.id}" in seen.html.links
    for text in ("memory.written", "node.completed", "order", "size", "43", "Ana lives in Lisbon", "shop"):
        assert text in seen.text
    assert "Ana lives in Porto" not in seen.text, "it sees memory as it was when it began"
    assert "Ana ordered shoes" not in seen.text, "it does not see what it writes itself"
    assert f"/runs/{run}" in (await person.get("/runs")).html.links
    assert f"/runs/{run}" in (await person.get("/journal")).html.links


async def test_two_runs_are_compared_event_by_event(house: House) -> None:
    here, there = [await opened(house) for _ in range(2)]
    for run, size in ((here, 43), (there, 44)):
        await house(REMEMBER, content="Ana ordered shoes", run_id=run)  # its id alone is no difference
        await happens(
            house, ops.RECORD_NODE, run, node_id="fit", status="completed", variables={"size": size}
        )
    await happens(house, ops.RECORD_NODE, there, node_id="pay", status="completed")
    person = await house.person("ana", "admin")
    seen = " ".join((await person.get(f"/runs/{here}?with={there}")).text.split())
    assert "43 here, 44 there" in seen
    assert "2 of 5 events differ" in seen, "the size, and the payment that only one has"
    assert "pay" in seen
    same = " ".join((await person.get(f"/runs/{here}?with={here}")).text.split())
    assert "Nothing differs in" in same
    assert "There is no such run" in (await person.get(f"/runs/{here}?with=run_none")).text


async def test_an_end_is_said_with_its_reason(house: House) -> None:
    person = await house.person("ana", "admin")
    failed = await opened(house)
    await happens(
        house, ops.END_RUN, failed, status="failed", error={"code": "sold_out", "message": "None left"}
    )
    seen = await person.get(f"/runs/{failed}")
    assert "It failed: sold_out None left" in seen.text
    assert not seen.html.has_form("cancel")
    running = await opened(house)
    page = await person.get(f"/runs/{running}")
    assert not page.html.has_form("replay"), "only what is over is replayed"
    seen = await person.send(page, "cancel")
    assert "It was cancelled" in seen.text
    assert (await happens(house, ops.GET_RUN, running)).status == "cancelled"
    listed = await person.get("/runs?status=cancelled")
    assert f"/runs/{running}" in listed.html.links
    assert f"/runs/{failed}" not in listed.html.links
    assert "No run passes these filters" in (await person.get("/runs?agent=nobody")).text


async def test_notes_are_shown_to_who_may_write_while_it_goes_on(house: House) -> None:
    run = await opened(house)
    await happens(house, ops.RUN_NOTES, run, backend="scratchpad", action="add", content="half of it is done")
    person, reader = (
        await house.person("ana", "admin"),
        await house.person("leo", permissions=("memory:read",)),
    )
    assert "half of it is done" in (await person.get(f"/runs/{run}")).text
    shown = await reader.get(f"/runs/{run}")
    assert shown.status == 200
    assert "half of it is done" not in shown.text
    assert not (shown.html.has_form("cancel"))
    assert not (shown.html.has_form("branch"))
    await happens(house, ops.END_RUN, run)
    assert "half of it is done" not in (await person.get(f"/runs/{run}")).text


async def test_a_run_is_replayed_and_branched(house: House) -> None:
    run = await opened(house)
    kept = await house(REMEMBER, content="Ana ordered shoes", run_id=run, node_id="write")
    await happens(house, ops.RECORD_NODE, run, node_id="write", status="completed")
    await happens(house, ops.END_RUN, run)
    writes = len(await house.entries("remember"))
    person = await house.person("ana", "admin")
    page = await person.get(f"/runs/{run}")
    replay = await person.send(page, "replay")
    assert "nothing was written" in replay.text
    assert f"/memories/{kept.id}" in replay.html.links
    assert f"/runs/{run}" in replay.html.links
    assert (await person.send(page, "replay")).path == replay.path, "the same form again is the same fork"
    branch = await person.send(await person.get(f"/runs/{run}"), "branch", from_seq="1")
    made = await happens(house, ops.GET_RUN, fork_of(branch.path))
    assert (made.status, made.mode, made.last_sequence) == ("running", "branch", 0)
    assert len(await house.entries("remember")) == writes
    forks = (await person.get(f"/runs/{run}")).html.links
    assert {replay.path, branch.path} <= set(forks)
    refused = await person.send(page, "branch", from_seq="99")
    assert refused.status == 400
    assert ("from_seq", "99") in refused.html.form("branch").fields, "what was typed stays"


async def test_a_long_log_is_read_page_by_page(house: House) -> None:
    run = await opened(house)
    for number in range(120):
        variables = {f"v{number}": number}
        await happens(house, ops.RECORD_NODE, run, node_id="n", status="completed", variables=variables)
    person, numbers = await house.person("ana", "admin"), list[int]()
    path: str | None = f"/runs/{run}"
    while path is not None:
        seen = await person.get(path)
        numbers += map(int, re.findall(r"<tr><td>(\d+)</td>", seen.html.source))
        path = next((link for link in seen.html.links if "after=" in link), None)
    assert numbers == list(range(241))


async def test_runs_are_listed_page_by_page(house: House) -> None:
    runs = {await opened(house) for _ in range(60)}
    person = await house.person("ana", "admin")
    first = await person.get("/runs")
    older = next(link for link in first.html.links if "cursor=" in link)
    second = await person.get(older)
    shown = [re.findall(r'row-link" href="/runs/(run_\w+)"', page.html.source) for page in (first, second)]
    assert [len(page) for page in shown] == [50, 10]
    assert {*shown[0], *shown[1]} == runs


@pytest.mark.parametrize(
    "limits", [{"agents": ("shop",)}, {"agents": ("agent",), "user_id": "mara"}], ids=["agent", "user"]
)
async def test_a_run_of_somebody_else_is_as_if_it_were_not_there(
    house: House, limits: dict[str, Any]
) -> None:
    run = await opened(house, user_id="tomas")
    await happens(house, ops.END_RUN, run)
    page = await (await house.person("ana", "admin")).get(f"/runs/{run}")
    person = await house.person("limited", "agent", **limits)
    nothing = await person.get("/runs/run_none")
    seen = await person.get(f"/runs/{run}")
    assert (seen.status, _without_request(seen.text)) == (404, _without_request(nothing.text))
    assert run not in (await person.get("/runs")).html.source
    csrf = next(
        value
        for form in (await person.get("/memories")).html.forms
        for name, value in form.fields
        if name == "csrf"
    )
    for action in ("cancel", "replay", "branch"):
        answer = await _sent(person, run, [("csrf", csrf), ("action", action), ("from_seq", "0")])
        assert answer == 404
    assert page.status == 200
    assert len((await house(ops.LIST_RUNS)).runs) == 1


def _without_request(text: str) -> str:
    return re.sub(r"req_\w+", "", text)


async def _sent(person: Person, run: str, fields: list[tuple[str, str]]) -> int:
    return (await person.post(f"/runs/{run}", fields)).status


async def test_what_retention_dropped_is_said() -> None:
    house = await open_house(run_history_days=1)
    run = await opened(house)
    await happens(house, ops.END_RUN, run)
    house.clock.now += 2 * 86_400_000
    await house.container.runs.upkeep.work("default", house.container.context)
    seen = await (await house.person("ana", "admin")).get(f"/runs/{run}")
    assert seen.status == 200
    assert "Its history was dropped" in seen.text
    assert not (seen.html.has_form("branch"))
    assert not (seen.html.has_form("replay"))
    await house.close()
