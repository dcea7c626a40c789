"""What the published conformance suite does with a host, asked as it asks: over HTTP, in the conformance mode.

Each test is a scenario of the suite, named by its file; the requirements name those that do not apply to this host.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from tests.requirement import requirement
from tests.runs.host import Client, Host, frames

MARKED = re.compile(r"\[REDACTED:[^\]]+\]")
CANARY = "CANARY-openwop-CONFORMANCE-NEVER-SECRET"


@pytest.fixture
async def a(conformance: Host) -> AsyncIterator[Client]:
    """The suite's first credential; fixtures that are at work come to their end."""
    yield await conformance.client("suite")
    await conformance.office.container.runs.player.close()


async def noop(one: Client) -> tuple[str, list[Any]]:
    """As the suite opens it: with a tenant that nobody has. The credential decides."""
    run = await one.played("conformance-noop", inputs={}, tenantId="mem-attr")
    assert (run["status"], run["owner"]["tenant"]) == ("completed", "default")
    return run["runId"], await one.events(run["runId"])


def written(events: list[Any]) -> list[Any]:
    return [event for event in events if event["type"] == "memory.written"]


# -- discovery ------------------------------------------------------------------------------------------------------------


@requirement("openwop:scenario.discovery")
async def test_discovery(conformance: Host) -> None:
    nobody = Client(conformance, "")
    told = await nobody("GET", "/.well-known/openwop")
    assert told.status_code == 200
    assert "cache-control" in told.headers
    tag = {"If-None-Match": told.headers["etag"]}
    assert (await nobody("GET", "/.well-known/openwop", headers=tag)).status_code == 304
    body = told.json()
    assert body["protocolVersion"] == "1.0"
    assert {"supportedEnvelopes", "schemaVersions", "limits"} <= body.keys()
    assert re.match(r"3\.[1-9]", (await nobody.get("/v1/openapi.json"))["openapi"])


#: What the suite asks only of hosts that say they have it, and where such a thing would be said.
INAPPLICABLE = {
    "agent-manifest-runtime": ("agents", "manifestRuntime"),
    "memory-degraded-projection": ("agents", "manifestRuntime"),
    "memory-compaction-*": ("memory", "compaction"),
    "memory-distillation-*": ("memory", "distillation"),
    "memory-consolidation-*": ("agents", "memoryConsolidation"),
    "commitment-*": ("agents", "commitments"),
    "memory-injection-budget": ("memory", "injectionBudget"),
    "replay-side-effects": ("replay", "sideEffectSuppression"),
    "discovery, auth-scoped": ("discovery", "authScoped"),
}


@requirement("openwop:scenario.discovery")
@pytest.mark.parametrize("scenario", INAPPLICABLE)
async def test_what_the_suite_cannot_ask_here_is_not_claimed(a: Client, scenario: str) -> None:
    body = await a.get("/.well-known/openwop")
    family, name = INAPPLICABLE[scenario]
    for claims in (body, body["capabilities"]):
        assert name not in claims.get(family, {})


@requirement("openwop:scenario.attribution")
async def test_memory_attribution_shape(a: Client) -> None:
    body = await a.get("/.well-known/openwop")
    for memory in (body["memory"], body["capabilities"]["memory"]):
        assert memory["attribution"] == {"supported": True, "emitsWriteEvents": True}


# -- agent memory ---------------------------------------------------------------------------------------------------------


@requirement("openwop:scenario.agent-memory")
async def test_agent_memory_round_trip(a: Client) -> None:
    run = await a.played("conformance-agent-memory-roundtrip")
    assert run["status"] == "completed"
    entry = run["variables"]["memoryReadback"]
    assert entry["id"]
    assert entry["content"]
    assert isinstance(entry["tags"], list)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", entry["createdAt"])


@requirement("openwop:scenario.agent-memory")
async def test_agent_memory_redaction_contract(a: Client) -> None:
    run = await a.played("conformance-agent-memory-redaction")
    assert run["status"] == "completed"
    content = run["variables"]["memoryReadback"]["content"]
    assert MARKED.search(content)
    assert "[REDACTED:conformance-test-secret]" in content
    assert "7f3a91" not in str(run) + str(await a.events(run["runId"]))


@requirement("openwop:scenario.agent-memory")
async def test_agent_memory_ttl_expiry(conformance: Host, a: Client) -> None:
    clock, player = conformance.office.clock, conformance.office.container.runs.player

    async def sleep(seconds: float) -> None:
        clock.now += round(seconds * 1000)

    player.sleep = sleep
    variables = (await a.played("conformance-agent-memory-ttl"))["variables"]
    ids = [entry["id"] for entry in variables["memoryList"]]
    assert variables["freshId"] in ids
    assert variables["expiredId"]
    assert variables["expiredId"] not in ids


@requirement("openwop:scenario.agent-memory")
async def test_agent_memory_cross_tenant_isolation(conformance: Host, a: Client) -> None:
    seen: list[tuple[str, set[str]]] = []
    for one in (a, await conformance.client("other", tenant="tenant-b")):
        variables = (await one.played("conformance-agent-memory-cross-tenant"))["variables"]
        ids = {entry["id"] for entry in variables["ownerProbe"]}
        assert variables["ownerEntryId"] in ids
        assert variables["crossTenantProbe"] in ([], None)
        seen.append((variables["ownerEntryId"], ids))
    assert seen[0][0] != seen[1][0]
    assert not seen[0][1] & seen[1][1], "two tenants with the same ref share nothing"


# -- attribution ----------------------------------------------------------------------------------------------------------


@requirement("openwop:scenario.attribution")
async def test_memory_attribution_emits_on_write_without_content(a: Client) -> None:
    run_id, events = await noop(a)
    (one,) = written(events)
    assert isinstance(one["payload"]["memoryRef"], str)
    assert one["payload"]["memoryId"]
    assert one["runId"] == run_id
    assert [event["type"] for event in events][-2:] == ["memory.written", "run.completed"]
    for event in events:
        assert "content" not in event["payload"]


@requirement("openwop:scenario.attribution")
async def test_memory_attribution_tenant_scoped(conformance: Host, a: Client) -> None:
    run_id, events = await noop(a)
    assert {event["runId"] for event in events} == {run_id}
    other = await conformance.client("other", tenant="tenant-b")
    await other.get(f"/v1/runs/{run_id}/events", 404)
    await other.post(f"/v1/runs/{run_id}:fork", {"mode": "replay"}, 404)


@requirement("openwop:scenario.attribution")
async def test_memory_attribution_replay_stable(a: Client) -> None:
    run = await a.played("conformance-agent-memory-roundtrip")
    source = await a.events(run["runId"])
    fork = await a.post(f"/v1/runs/{run['runId']}:fork", {"fromSeq": 0, "mode": "replay"}, 201)
    copy = await a.events(fork["runId"])
    ids = [[event["payload"]["memoryId"] for event in written(events)] for events in (source, copy)]
    assert len(ids[0]) == 2
    assert ids[0] == ids[1]
    ended = await a.get(f"/v1/runs/{fork['runId']}")
    assert (ended["variables"], ended["status"]) == (run["variables"], run["status"])


# -- forks ----------------------------------------------------------------------------------------------------------------


@requirement("openwop:scenario.replay-fork")
async def test_replay_fork_and_replay_determinism(a: Client) -> None:
    run_id, events = await noop(a)
    place = f"/v1/runs/{run_id}:fork"
    copies: list[Any] = []
    for _ in range(2):
        fork = await a.post(place, {"mode": "replay", "fromSeq": 0}, 201)
        assert (fork["sourceRunId"], fork["mode"], fork["runId"] == run_id) == (run_id, "replay", False)
        page = await a.get(f"/v1/runs/{fork['runId']}/events/poll")
        assert page["isComplete"]
        copies.append([(one["type"], one.get("nodeId"), one["payload"]) for one in page["events"]])
    assert copies[0] == copies[1] == [(one["type"], one.get("nodeId"), one["payload"]) for one in events]
    fork = await a.post(place, {"mode": "branch", "fromSeq": 0, "runOptionsOverlay": {}}, 201)
    assert (await a.ended(fork["runId"]))["status"] == "completed"
    for body, status, code in (
        ({"mode": "replay", "fromSeq": -1}, 400, "validation_error"),
        ({"mode": "branch"}, 400, "validation_error"),
        ({"mode": "again"}, 400, "validation_error"),
        ({"mode": "replay", "runOptionsOverlay": {"inputs": {}}}, 400, "validation_error"),
        ({"mode": "replay", "fromSeq": 99999}, 422, "invalid_from_seq"),
        ({"mode": "replay", "fromSeq": len(events)}, 422, "invalid_from_seq"),
    ):
        assert (await a.post(place, body, status))["error"] == code, body
    unknown = await a.post("/v1/runs/run_nowhere:fork", {"mode": "replay"}, 404)
    assert unknown["error"] == "not_found"


@requirement("openwop:scenario.replay-fork")
async def test_a_fork_of_what_is_gone_is_refused_with_its_reason(conformance: Host, a: Client) -> None:
    run_id, events = await noop(a)
    runs = replace(conformance.office.container.runs, history_ms=1)
    conformance.office.clock.now += 1
    assert await runs.drop_histories(conformance.office.context()) == 1
    for body in ({"mode": "replay", "fromSeq": 0}, {"mode": "branch", "fromSeq": 1}):
        refused = await a.post(f"/v1/runs/{run_id}:fork", body, 422)
        assert refused["error"] == "replay_memory_snapshot_unavailable"
        details = {"fromSeq": body["fromSeq"], "sourceRunId": run_id, "reason": "event_log_unavailable"}
        assert refused["details"] == details
    beyond = await a.post(f"/v1/runs/{run_id}:fork", {"mode": "replay", "fromSeq": len(events)}, 422)
    assert beyond["error"] == "invalid_from_seq", "bounds come first"
    shown = await a.get(f"/v1/runs/{run_id}")
    assert (shown["status"], shown["vendor.quipu"]["historyExpired"]) == ("completed", True)


# -- streams --------------------------------------------------------------------------------------------------------------


@requirement("openwop:scenario.streams")
async def test_stream_modes_buffer_and_mixed(a: Client) -> None:
    opened = await a.post("/v1/runs", {"workflowId": "conformance-delay", "inputs": {"delayMs": 30}}, 201)
    run = opened["runId"]
    calls = {
        query: a.stream(run, query)
        for query in (
            *("", "?streamMode=updates", "?streamMode=values", "?streamMode=debug", "?streamMode=messages"),
            *("?streamMode=updates,messages", "?streamMode=debug&bufferMs=50"),
        )
    }
    shown = {query: frames(await _whole(call)) for query, call in calls.items()}
    kinds = {query: [name for _, name, _ in some] for query, some in shown.items()}
    updates = ["run.started", "node.completed", "memory.written", "run.completed"]
    assert kinds[""] == kinds["?streamMode=updates"] == kinds["?streamMode=updates,messages"] == updates
    assert kinds["?streamMode=debug"] == ["run.started", "node.started", *updates[1:]]
    assert set(kinds["?streamMode=values"]) == {"state.snapshot"}
    assert shown["?streamMode=values"][-1][2]["status"] == "completed"
    assert kinds["?streamMode=messages"] == []
    gathered = [
        one for _, name, some in shown["?streamMode=debug&bufferMs=50"] for one in some if name == "batch"
    ]
    assert [one["type"] for one in gathered] == kinds["?streamMode=debug"]
    for query, code in (
        ("?streamMode=nonsense", "unsupported_stream_mode"),
        ("?streamMode=values,updates", "unsupported_stream_mode"),
        ("?bufferMs=99999", "validation_error"),
    ):
        refused = await a.get(f"/v1/runs/{run}/events{query}", 400)
        assert refused["error"] == code
        if code == "unsupported_stream_mode":
            assert isinstance(refused["details"]["supported"], list)
    calls = a.stream(run, "?bufferMs=0")
    assert [name for _, name, _ in frames(await _whole(calls))] == updates, "no batches"


async def _whole(call: Any) -> bytes:
    await call.done()
    return call.body


# -- secrets --------------------------------------------------------------------------------------------------------------


@requirement("openwop:scenario.secrets")
async def test_byok_roundtrip(a: Client) -> None:
    run = await a.played("openwop-smoke-byok-roundtrip")
    assert run["status"] == "completed"
    told = run["variables"]["resolve-secret"]
    assert re.fullmatch(r"[0-9a-f]{64}", told["secretSha256"])
    assert told["secretLength"] > 0
    events = await a.events(run["runId"])
    assert sum(one["type"] == "node.completed" and one["nodeId"] == "resolve-secret" for one in events) == 1
    assert CANARY not in str(events) + str(run)


@requirement("openwop:scenario.secrets")
@pytest.mark.parametrize("bearer", ["eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl", "cred_4711", CANARY])
async def test_redaction_of_credentials(conformance: Host, a: Client, bearer: str) -> None:
    answer = await Client(conformance, bearer)("POST", "/v1/runs", {"workflowId": "conformance-noop"})
    assert answer.status_code == 401
    assert answer.json()["error"] == "unauthenticated"
    assert bearer not in answer.text
    ref = "secret://tenant/openai-key"
    body = {"workflowId": "conformance-noop", "configurable": {"ai": {"credentialRef": ref}}}
    run = await a.post("/v1/runs", body, 201)
    page = await a("GET", f"/v1/runs/{run['runId']}/events/poll?lastSequence=0&timeout=5")
    assert ref not in page.text


@requirement("openwop:scenario.secrets")
async def test_redaction_adversarial(a: Client) -> None:
    values = [f"sk-{CANARY}-0123456789abcdef", f"sk-ant-{CANARY}-0123456789"]
    run = await a.played("conformance-noop", inputs={"a": values[0], "nested": {"b": values[1]}})
    log = str(await a.events(run["runId"]))
    assert not any(value in log for value in values)
    name = f"eyJhbGciOi.eyJzdWIiOi.{CANARY}"
    answer = await a("POST", "/v1/runs", {"workflowId": name})
    assert answer.status_code == 404
    assert name not in answer.text


# -- requests -------------------------------------------------------------------------------------------------------------


@requirement("openwop:scenario.requests")
async def test_idempotency(a: Client) -> None:
    body = {"workflowId": "conformance-idempotent", "inputs": {"nonce": "abc"}}
    first, again = [await a("POST", "/v1/runs", body, headers={"Idempotency-Key": "k-1"}) for _ in range(2)]
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["runId"] == again.json()["runId"]
    assert "openwop-idempotent-replay" not in first.headers
    assert again.headers["openwop-idempotent-replay"] == "true"
    different = {**body, "inputs": {"nonce": "other"}}
    other = await a.post("/v1/runs", different, 409, key="k-1")
    assert other["error"] == "idempotency_key_mismatch"
    assert "runId" not in other


@requirement("openwop:scenario.requests")
async def test_auth(conformance: Host) -> None:
    for token in ("", "wrong"):
        answer = await Client(conformance, token)("POST", "/v1/runs", {"workflowId": "conformance-noop"})
        assert (answer.status_code, answer.json()["error"]) == (401, "unauthenticated")


@requirement("openwop:scenario.requests")
async def test_workflows_are_shown_and_unknown_nodes_fail_with_a_code(
    a: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from quipu.runs import conformance

    assert (await a.get("/v1/workflows/conformance-noop"))["id"] == "conformance-noop"
    noop_fixture: Any = conformance.FIXTURES["conformance-noop"]
    for changed, code in (
        ({"typeId": "core.nonsense"}, "unknown_node_type"),
        ({"typeId": "core.identity", "config": {"memoryAction": "dance"}}, "unknown_memory_action"),
    ):
        workflow = {**noop_fixture, "nodes": [{**noop_fixture["nodes"][0], **changed}]}
        monkeypatch.setattr(conformance, "FIXTURES", {"conformance-noop": workflow})
        run = await a.played("conformance-noop")
        assert (run["status"], run["error"]["code"]) == ("failed", code)
