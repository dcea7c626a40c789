"""Looking back over HTTP: who may see what, in which form, and a head that can be checked."""

from __future__ import annotations

import csv
import hashlib
import io
from typing import Any

import pytest
import rfc8785

from quipu.crypto.keys import verify
from quipu.faces.memorywire.audits import safe_cell
from quipu.testing.builders import FixedClock
from tests.faces.memorywire.shapes import problems
from tests.faces.memorywire.test_rest_operations import TEA
from tests.faces.memorywire.wired import DELETE, READ, REVIEW, WRITE, Caller, Wired, is_problem, lines_of
from tests.requirement import requirement


@requirement("memorywire:rest.audit")
async def test_entries_are_told_whole_so_that_their_chain_can_be_checked(server: Wired, ada: Caller) -> None:
    await ada.kept("tea")
    await ada.recalled("tea")
    answer = await ada.get("/audit")
    body = answer.json()
    assert problems("audit", body) == []
    assert [entry["op"] for entry in body["entries"]][-2:] == ["remember", "recall"]
    previous = "0" * 64
    for entry in body["entries"]:
        hashed = {name: value for name, value in entry.items() if name != "hash"}
        assert entry["prev"] == previous
        assert hashlib.sha256(rfc8785.dumps(hashed)).hexdigest() == entry["hash"]
        previous = entry["hash"]
    assert body["head"]["hash"] == previous
    assert "tea" not in answer.text


@requirement("memorywire:rest.audit")
async def test_the_head_is_signed(server: Wired, ada: Caller) -> None:
    head = (await ada.get("/audit")).json()["head"]
    signed = rfc8785.dumps({name: head[name] for name in ("tenant", "seq", "hash", "at")})
    keys = server.running.parts.signer.known_keys
    assert verify(signed, head["key_id"], head["signature"], keys)
    assert not verify(signed + b" ", head["key_id"], head["signature"], keys)


@requirement("memorywire:rest.audit")
async def test_the_journal_is_paged_without_gaps(ada: Caller) -> None:
    for number in range(7):
        await ada.kept(f"n {number}")
    seen: list[int] = []
    address = "/audit?limit=3"
    while True:
        answer = await ada.get(address)
        seen += [entry["seq"] for entry in answer.json()["entries"]]
        if answer.json()["next_cursor"] is None:
            break
        following = answer.headers["link"]
        assert following.endswith('>; rel="next"')
        address = following[1:].partition(">")[0].removeprefix("/memorywire/v0")
    assert seen == list(range(1, seen[-1] + 1))
    assert "link" not in answer.headers


@requirement("memorywire:rest.audit")
async def test_entries_are_narrowed_by_operation_agent_user_and_time(
    server: Wired, ada: Caller, clock: FixedClock
) -> None:
    await ada.kept("tea", user_id="mara")
    clock.move(1_000)
    middle = clock()
    await ada.kept("coffee", user_id="bo", agent_id="bo")
    clock.move(1_000)
    await ada.recalled("tea")

    async def ops(**asked: Any) -> list[tuple[str, str | None]]:
        answer = await ada.get("/audit", params=asked)
        assert answer.status_code == 200, answer.text
        return [(entry["op"], entry["agent"]) for entry in answer.json()["entries"]]

    assert await ops(operation="remember") == [("remember", "ana"), ("remember", "bo")]
    assert await ops(agent_id="bo") == [("remember", "bo")]
    assert await ops(user_id="mara") == [("remember", "ana"), ("recall", "ana")]
    assert await ops(since=middle, operation="remember") == [("remember", "bo")]
    assert await ops(until=middle - 1, operation="remember") == [("remember", "ana")]
    assert await ops(since=middle, until=middle, operation="remember") == [("remember", "bo")]
    assert await ops(since="2030-01-01T00:00:00Z") == []
    assert ("remember", "ana") in await ops(until="2030-01-01T00:00:00+02:00")


@requirement("memorywire:rest.audit")
@pytest.mark.parametrize(
    "query",
    [
        "operation=eat",
        "since=soon",
        "until=2026-01-01",
        "limit=0",
        "cursor=x",
        "format=xml",
        "colour=1",
        "since=run_1",
    ],
)
async def test_odd_questions_are_refused(ada: Caller, query: str) -> None:
    is_problem(await ada.get(f"/audit?{query}"), 400, "validation_error")


@requirement("memorywire:rest.audit")
async def test_a_reviewer_sees_the_agents_in_reach(server: Wired, ada: Caller) -> None:
    await ada.kept("tea")
    shop = await server.caller("shop", WRITE, READ, DELETE, agents=("shop",))
    await shop.post("/remember", TEA | {"agent_id": "shop"})
    keeper = await server.caller("keeper", REVIEW, agents=("shop",))
    entries = (await keeper.get("/audit")).json()["entries"]
    assert {entry["agent"] for entry in entries} == {"shop"}
    is_problem(await keeper.get("/audit?agent_id=ana"), 403, "forbidden", "agent_not_allowed")
    bound = await server.caller("bound", REVIEW, user_id="mara")
    assert (await bound.get("/audit")).json()["entries"] == []
    await ada.kept("hers", user_id="mara")
    assert [entry["op"] for entry in (await bound.get("/audit")).json()["entries"]] == ["remember"]


@requirement("memorywire:rest.audit")
async def test_tenants_do_not_meet(server: Wired, ada: Caller) -> None:
    await ada.kept("tea")
    await server.running.parts.ledger.open("other")
    other = await server.caller("eve", tenant="other")
    entries = (await other.get("/audit")).json()["entries"]
    assert {entry["tenant"] for entry in entries} == {"other"}
    assert {entry["op"] for entry in entries} == {"genesis", "issue_token"}


@requirement("memorywire:rest.audit")
async def test_the_journal_comes_as_lines_too(ada: Caller) -> None:
    await ada.kept("tea")
    answer = await ada.get("/audit?format=ndjson&limit=2")
    assert answer.headers["content-type"] == "application/x-ndjson"
    *entries, last = lines_of(answer)
    assert [entry["seq"] for entry in entries] == [1, 2]
    assert (last["next_cursor"], set(last)) == ("2", {"head", "next_cursor"})


@requirement("memorywire:rest.audit-csv")
async def test_no_cell_of_a_table_can_be_taken_for_a_formula(server: Wired, ada: Caller) -> None:
    evil = await server.caller("evil")
    await evil.post("/remember", TEA | {"agent_id": "@SUM(1+1)"})
    await evil.post("/remember", TEA | {"agent_id": '  +1,"2'})
    answer = await ada.get("/audit?format=csv")
    assert answer.headers["content-type"].startswith("text/csv")
    assert "signature=" in answer.headers["quipu-audit-head"]
    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    cells = [cell for row in rows for cell in row.values()]
    assert not [cell for cell in cells if cell.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert {"evil", "local", "system"} <= {row["actor"] for row in rows}
    assert "'@SUM(1+1)" in {row["agent"] for row in rows}
    assert "'  +1,\"2" in {row["agent"] for row in rows}


@requirement("memorywire:rest.audit-csv")
@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\tx", "\rx", "\nx", "  =1"])
def test_a_cell_that_would_calculate_is_shown(text: str) -> None:
    assert safe_cell(text) == f"'{text}"
    assert safe_cell(f"x{text}") == f"x{text}"
