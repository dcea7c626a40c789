"""Clauses of the contract that hold on every way in: whose a run is, what its log names, what is kept out, what is refused."""

from typing import Any

import pytest

from quipu.access.operations import REVOKE_TOKEN
from quipu.config import Settings
from quipu.errors import ConflictError
from quipu.governance.operations import LIST_REVIEWS
from quipu.runs.model import EVENTS
from quipu.secrets.operations import ADD_SECRET
from tests.governance.office import HOLD_ALL, open_office
from tests.requirement import requirement
from tests.runs.host import MEMORY, OWN, Client, Host, told

SECRET = "hunter2-nobody-may-see-this"
MACHINE = {
    "name": "door",
    "initial": "shut",
    "states": ["shut", "open"],
    "transitions": [{"trigger": "push", "source": "shut", "dest": "open"}],
}
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
_MCP = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/call",
    "Mcp-Name": "remember",
}


async def written(client: Client, run: str) -> list[str]:
    return [
        event["payload"]["memoryId"]
        for event in await client.events(run)
        if event["type"] == "memory.written"
    ]


async def ways_to_write(client: Client, run: str) -> list[tuple[str, str, Any, dict[str, str]]]:
    """Every address that writes to memory and takes the name of a run; what each changes was there before."""

    async def kept(content: Any, **fields: Any) -> str:
        body = {"content": content, **fields}
        return (told(await client("POST", "/v1/memories", body), 200))["id"]

    door = await kept(MACHINE, type="procedural")
    one, two, three = [await kept(f"thing {number}") for number in range(3)]
    called = {"name": "remember", "arguments": {"content": "by mcp", "type": "semantic", "run_id": run}}
    mcp = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**called, "_meta": _META}}
    v0 = {"agent_id": "agent", "type": "semantic", "content": "by v0", "run_id": run}
    entry = {"content": "by the adapter"}
    return [
        ("POST", "/v1/memories", {"content": "by itself", "run_id": run}, {}),
        ("POST", "/v1/memories/batch", {"items": [{"content": "by many", "run_id": run}]}, {}),
        ("PATCH", f"/v1/memories/{one}", {"tags": ["seen"], "run_id": run}, {}),
        (
            "POST",
            "/v1/memories/merge",
            {"canonical": two, "duplicates": [three], "strategy": "merge_content", "run_id": run},
            {},
        ),
        ("POST", f"/v1/memories/{door}/step", {"trigger": "push", "run_id": run}, {}),
        ("POST", f"{MEMORY}/put", {"memoryRef": "agent", "entry": entry, "runId": run}, {}),
        ("POST", "/v1/memory-entries/put", {"memory_ref": "agent", "entry": entry, "run_id": run}, {}),
        ("POST", "/memorywire/v0/remember", v0, {}),
        ("POST", "/mcp", mcp, _MCP),
    ]


@requirement("openwop:attribution.every-way")
async def test_every_way_of_writing_is_named_in_the_log_of_the_run_and_a_refused_one_is_not(
    host: Host, admin: Client
) -> None:
    office, run = host.office, await admin.run()
    for method, path, body, headers in await ways_to_write(admin, run):
        before = await written(admin, run)
        answer = await admin(method, path, body, headers=headers)
        assert answer.is_success, (path, answer.text)
        new = (await written(admin, run))[len(before) :]
        assert new, (path, answer.text)
        assert len({*new}) == len(new), "one event for each memory"
    rows = await office.container.ledger.page(EVENTS, "default", {"run_id": run}, limit=500)
    assert {row.position for row in rows if row.type == "memory.written"} == {
        entry.seq for entry in await office.entries() if entry.run == run and entry.op != "open_run"
    }, "an event is in the commit of its write"
    await office.rules({"id": "no", "effect": "deny", "when": {"content_any": ["passport"]}})
    for content in ("a passport", ""):
        answer = await admin("POST", "/v1/memories", {"content": content, "run_id": run})
        assert answer.status_code in (400, 403)
    assert len(await office.container.ledger.page(EVENTS, "default", {"run_id": run}, limit=500)) == len(rows)


@requirement("openwop:auth.owner")
@pytest.mark.parametrize("is_held", [False, True])
async def test_nobody_writes_in_the_name_of_somebody_elses_run(
    host: Host, admin: Client, is_held: bool
) -> None:
    ana = await host.client("ana", "agent", agents=["agent"], user_id="ana")
    run = await ana.run()
    stranger = await host.client("bo", "agent", agents=["agent"], user_id="bo")
    ways = await ways_to_write(stranger, run)
    if is_held:
        await host.office.rules(HOLD_ALL)
    for method, path, body, headers in ways:
        answer = await stranger(method, path, body, headers=headers)
        assert answer.status_code == 404 or '"not_found"' in answer.text, (path, answer.text)
    assert await written(admin, run) == []
    assert (await host.office(LIST_REVIEWS)).reviews == ()


@requirement("openwop:redaction.entries")
@pytest.mark.parametrize("policy", ["rewrite", "reject"])
async def test_no_secret_is_in_an_entry_or_its_tags_under_either_policy(policy: Any) -> None:
    office = await open_office(settings=Settings(secrets=policy))
    host = Host(office)
    admin = await host.client("admin")
    await office(ADD_SECRET, label="db", value=SECRET)
    run = await admin.run()
    entries = [{"content": f"The key is {SECRET}."}, {"content": "plain", "tags": ["a", SECRET]}]
    for entry in entries:
        body = {"memoryRef": "agent", "entry": entry, "runId": run}
        answer = await admin("POST", f"{MEMORY}/put", body)
        assert SECRET not in answer.text
        if policy == "reject":
            assert told(answer, 422)["error"] == "secret_leakage"
        else:
            assert "<REDACTED:db>" in str(told(answer, 201)["entry"])
    assert SECRET not in str(await admin.list("agent")) + str(await admin.events(run))
    assert len(await admin.list("agent")) == (0 if policy == "reject" else len(entries))
    await host.http.aclose()
    await office.container.close()


@requirement("openwop:redaction.names")
async def test_a_name_that_holds_a_secret_is_refused_and_nothing_of_it_is_kept(
    host: Host, admin: Client
) -> None:
    """Names of workflows, nodes and results, and codes, cannot be rewritten without meaning something else."""
    await host.office(ADD_SECRET, label="db", value=SECRET)
    run = await admin.run()
    node, end, broken = f"{OWN}/{run}/nodes", f"{OWN}/{run}/end", {"code": SECRET, "message": "It broke."}
    before = await admin.get(f"/v1/runs/{run}"), await admin.events(run)
    for path, body in (
        (OWN, {"workflowId": f"w {SECRET}"}),
        (OWN, {"workflowId": "w", "agentId": SECRET}),
        (node, {"nodeId": SECRET, "status": "started"}),
        (node, {"nodeId": "n", "status": "failed", "error": broken}),
        (node, {"nodeId": "n", "status": "completed", "variables": {SECRET: 1}}),
        (end, {"status": "failed", "error": broken}),
        (end, {"variables": {SECRET: 1}}),
        (f"{MEMORY}/put", {"memoryRef": SECRET, "entry": {"content": "x"}}),
    ):
        said = await admin.post(path, body, 422)
        assert said["error"] == "secret_leakage", (path, said)
        assert SECRET not in str(said)
    assert (await admin.get(f"/v1/runs/{run}"), await admin.events(run)) == before
    assert len((await admin.get(OWN))["runs"]) == 1


@requirement("openwop:held.put")
async def test_an_entry_that_ended_while_it_waited_is_not_written_when_it_is_approved(host: Host) -> None:
    writer = await host.client("writer", "agent")
    await host.office.rules(HOLD_ALL)
    run = await writer.run()
    entry = {"expiresAt": "2025-06-15T15:06:50Z"}
    held = await writer.put("agent", "soon over", 202, entry=entry, runId=run)
    host.office.clock.now += 3_600_000
    with pytest.raises(ConflictError) as refused:
        await host.office.decide(held["held"]["proposalId"])
    assert refused.value.reason == "expired"
    assert await writer.list("agent") == []
    assert await written(writer, run) == []


@requirement("openwop:error.codes")
async def test_each_refusal_has_the_code_and_the_status_of_the_contract(
    host: Host, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = await host.client("ended")
    await host.office(REVOKE_TOKEN, id=ended.id)
    assert (await ended.get(OWN, 401))["error"] == "key_revoked"
    hasty = await host.client("hasty", rate=1)
    answers = [await hasty("GET", OWN) for _ in range(4)]
    limited = next(answer for answer in answers if answer.status_code == 429)
    assert told(limited, 429)["error"] == "rate_limited"
    assert int(limited.headers["retry-after"]) > 0

    async def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("words of somebody")

    monkeypatch.setattr(host.office.container.ledger, "page", broken)
    said = await admin.get(OWN, 500)
    assert (said["error"], list(said["details"])) == ("internal_error", ["correlationId"])
    assert "words" not in str(said)
