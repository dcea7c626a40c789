"""Every row of "what an outside conformance run will observe", over HTTP, with the assertions that it makes."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.openwop.suite import Suite, payload_checked, suite
from tests.requirement import requirement

MARKED = re.compile(r"\[REDACTED:[^\]]+\]")
CANARY = "CANARY-openwop-CONFORMANCE-NEVER-SECRET"


@pytest.fixture(scope="module")
def a() -> Iterator[Suite]:
    with suite() as made:
        yield made


@pytest.fixture(scope="module")
def b(a: Suite) -> Suite:
    return a.tenant_named("tenant-b")


@requirement("openwop:scenario.discovery")
def test_discovery_is_public_cacheable_and_valid(a: Suite) -> None:
    told = a.with_token("").get("/.well-known/openwop")
    assert told.status_code == 200
    assert "Cache-Control" in told.headers
    again = a.with_token("").get("/.well-known/openwop", headers={"If-None-Match": told.headers["ETag"]})
    assert again.status_code == 304
    body = a.get("/.well-known/openwop", "capabilities")
    assert body["protocolVersion"] == "1.0"
    assert len(set(body["fixtures"])) == len(body["fixtures"]) > 0
    assert re.match(r"^3\.[1-9]", a.with_token("").get("/v1/openapi.json").json()["openapi"])


@requirement("openwop:scenario.profiles")
def test_the_profiles_follow_from_the_discovery_document(a: Suite) -> None:
    body = a.get("/.well-known/openwop")
    assert body["memory"]["supported"] is True
    assert body["memory"]["writable"] is not False
    assert "long-term" in body["agents"]["memoryBackends"]
    assert "user" in body["secrets"]["scopes"]
    assert body["replay"]["modes"] == ["replay", "branch"]
    assert "clarification.request" not in body["supportedEnvelopes"]
    mirror = body["capabilities"]
    assert mirror["agents"]["memoryBackends"] == ["scratchpad", "conversation", "longTerm"]
    for name, value in mirror["memory"].items():
        assert body["memory"][name] == value


@requirement("openwop:scenario.round-trip")
def test_agent_memory_round_trip(a: Suite) -> None:
    run = a.run("conformance-agent-memory-roundtrip")
    assert run["status"] == "completed"
    entry = run["variables"]["memoryReadback"]
    assert entry["id"]
    assert entry["content"]
    assert isinstance(entry["tags"], list)
    assert isinstance(entry["createdAt"], str)


@requirement("openwop:scenario.redaction-contract")
def test_agent_memory_redaction_contract(a: Suite) -> None:
    run = a.run("conformance-agent-memory-redaction")
    assert run["status"] == "completed"
    content = run["variables"]["memoryReadback"]["content"]
    assert MARKED.search(content)
    assert "[REDACTED:conformance-test-secret]" in content
    assert "7f3a91" not in str(run)


@requirement("openwop:scenario.ttl")
def test_agent_memory_ttl_expiry(a: Suite) -> None:
    run = a.run("conformance-agent-memory-ttl")
    assert run["status"] == "completed"
    variables = run["variables"]
    ids = [entry["id"] for entry in variables["memoryList"]]
    assert variables["freshId"] in ids
    assert variables["expiredId"]
    assert variables["expiredId"] not in ids
    assert all(entry.get("expiresAt", "9") > run["startedAt"] for entry in variables["memoryList"])


@requirement("openwop:scenario.cross-tenant")
def test_agent_memory_cross_tenant_isolation(a: Suite) -> None:
    variables = a.run("conformance-agent-memory-cross-tenant")["variables"]
    assert variables["ownerEntryId"] in [entry["id"] for entry in variables["ownerProbe"]]
    assert variables["crossTenantProbe"] in ([], None)


@requirement("openwop:scenario.cross-tenant-two-keys")
def test_two_tenants_with_the_same_ref_share_nothing(a: Suite, b: Suite) -> None:
    seen = []
    for one in (a, b):
        variables = one.run("conformance-agent-memory-cross-tenant")["variables"]
        ids = {entry["id"] for entry in variables["ownerProbe"]}
        assert variables["ownerEntryId"] in ids
        assert variables["crossTenantProbe"] in ([], None)
        seen.append((variables["ownerEntryId"], ids))
    assert seen[0][0] != seen[1][0]
    assert not seen[0][1] & seen[1][1]


def noop(one: Suite) -> tuple[str, list[Any]]:
    run = one.run("conformance-noop", inputs={})
    assert run["status"] == "completed"
    return run["runId"], one.events(run["runId"])


@requirement("openwop:scenario.attribution-shape")
def test_attribution_is_advertised_as_it_is_served(a: Suite) -> None:
    assert a.get("/.well-known/openwop")["memory"]["attribution"] == {
        "supported": True,
        "emitsWriteEvents": True,
    }


@requirement("openwop:scenario.attribution-emits")
def test_a_plain_run_tells_of_its_summary(a: Suite) -> None:
    run_id, events = noop(a)
    (written,) = [event for event in events if event["type"] == "memory.written"]
    assert written["payload"]["memoryId"]
    assert written["runId"] == run_id
    assert "nodeId" not in written["payload"]
    assert [event["type"] for event in events][-2:] == ["memory.written", "run.completed"]


@requirement("openwop:scenario.attribution-no-content")
def test_events_hold_no_content(a: Suite) -> None:
    _, events = noop(a)
    for event in events:
        assert "content" not in event["payload"]
        if event["type"] == "memory.written":
            assert isinstance(event["payload"]["memoryRef"], str)
            assert isinstance(event["payload"]["memoryId"], str)


@requirement("openwop:scenario.attribution-tenant-scoped")
def test_events_are_of_their_own_run_and_nobody_elses(a: Suite, b: Suite) -> None:
    run_id, events = noop(a)
    assert {event["runId"] for event in events} == {run_id}
    b.get(f"/v1/runs/{run_id}/events", status=404)


@requirement("openwop:scenario.attribution-replay-stable")
def test_a_replay_repeats_each_memory_written_and_tells_of_no_other(a: Suite) -> None:
    run = a.run("conformance-agent-memory-roundtrip")
    source = a.events(run["runId"])
    fork = a.post(f"/v1/runs/{run['runId']}:fork", {"fromSeq": 0, "mode": "replay"}, "run-created", 201)
    ended = a.ended(fork["runId"])
    told = a.events(fork["runId"])

    def ids(events: list[Any]) -> list[str]:
        return [event["payload"]["memoryId"] for event in events if event["type"] == "memory.written"]

    assert len(ids(source)) == 2
    assert ids(told) == ids(source)
    assert ended["variables"] == run["variables"]
    assert ended["status"] == run["status"]


@requirement("openwop:scenario.compaction-event")
def test_compaction_tells_what_it_did(a: Suite) -> None:
    assert a.client.post("/v1/test/memory/compact", json={}).status_code == 400
    ref = "mem_tenant:default_agent:x_longTerm"
    entries = [{"id": f"e{n}", "content": f"Fact {n}.", "tags": ["t"]} for n in range(3)]
    a.post("/v1/test/memory/seed", {"memoryRef": ref, "entries": entries}, status=201)
    told = a.post("/v1/test/memory/compact", {"memoryRef": ref})
    assert told["type"] == "memory.compacted"
    payload = payload_checked("memory.compacted", told["payload"])
    assert payload["sourceCount"] == 3
    assert payload["sourceIds"] == ["e0", "e1", "e2"]
    assert payload["trigger"] == "host-managed"
    assert payload["byteSize"] == len(told["outputContent"].encode())
    assert a.client.post("/v1/test/memory/compact", json={"memoryRef": ref}).status_code == 204


@requirement("openwop:scenario.compaction-redaction")
def test_compaction_carries_redaction_forward(a: Suite) -> None:
    texts = ["Use [BYOK:hk_live_canary_42] here.", "Given <REDACTED:db-prod-creds> once.", "Tea at noon."]
    entries = [{"id": f"s{n}", "content": text} for n, text in enumerate(texts)]
    ref = "conformance/compaction-redaction"
    a.post("/v1/test/memory/seed", {"memoryRef": ref, "entries": entries}, status=201)
    assert {entry["content"] for entry in a.get(f"/v1/memory/{ref}", "entries")["entries"]} == set(texts)
    content = a.post("/v1/test/memory/compact", {"memoryRef": ref})["outputContent"]
    assert "hk_live_canary_42" not in content
    assert "[BYOK:" not in content
    assert "<REDACTED:" not in content
    assert MARKED.search(content)
    assert "[REDACTED:db-prod-creds]" in content


@requirement("openwop:scenario.compaction-provenance")
def test_a_compacted_entry_says_what_it_came_from(a: Suite) -> None:
    ref = "conformance/compaction:provenance"
    entries = [{"id": f"p{n}", "content": f"Part {n}."} for n in range(2)]
    a.post("/v1/test/memory/seed", {"memoryRef": ref, "entries": entries}, status=201)
    output = a.post("/v1/test/memory/compact", {"memoryRef": ref})["payload"]["outputId"]
    (entry,) = a.get(f"/v1/memory/{ref.replace('/', '%2F')}?limit=50", "entries")["entries"]
    assert entry["id"] == output
    tags = [tag for tag in entry["tags"] if tag.startswith("compacted-from:")]
    assert tags == ["compacted-from:p0", "compacted-from:p1"]
    assert all(re.fullmatch(r"compacted-from:[^\s:][^\s]*", tag) for tag in tags)


@requirement("openwop:scenario.capability-model")
def test_the_memory_capability_has_every_key_of_the_model(a: Suite) -> None:
    memory = a.get("/.well-known/openwop", "capabilities")["memory"]
    older = {"supported", "maxEntrySizeBytes", "ttlSupported", "attribution", "compaction"}
    assert older | {"writable", "search", "retention"} <= memory.keys()


@requirement("openwop:scenario.degraded-projection")
def test_agents_are_listed_and_none_is_degraded_while_everything_is_on(a: Suite) -> None:
    told = a.get("/v1/agents", "agent-inventory-response")
    assert told["total"] == len(told["agents"]) >= 1
    for agent in told["agents"]:
        assert ("memoryDegraded" in agent) == ("degradedMemoryDimensions" in agent)
        assert "memoryDegraded" not in agent
        assert a.get(f"/v1/agents/{agent['agentId']}") == agent


@requirement("openwop:scenario.injection-budget")
def test_injection_budget(a: Suite) -> None:
    run = a.run("conformance-agent-memory-injection-budget")
    assert run["status"] == "completed"
    told = run["variables"]
    assert told["budgetedTokenTotal"] <= told["tokenBudget"] == 800
    assert told["overBudgetEntryOmitted"] is True
    assert told["overBudgetEntryId"] not in [entry["id"] for entry in told["budgetedEntries"]]
    assert len(told["budgetedEntries"]) == 3
    assert MARKED.search(told["redactedContentSample"])
    assert told["crossTenantBudgetedProbe"] in ([], None)


@requirement("openwop:scenario.injection-budget-ranks")
def test_recency_and_relevance_are_two_orders(a: Suite) -> None:
    told = a.run("conformance-agent-memory-injection-budget")["variables"]
    assert sorted(told["recencyOrder"]) != told["recencyOrder"]
    assert told["relevanceOrder"]
    assert told["recencyOrder"] != told["relevanceOrder"]
    assert told["relevanceOrder"][0] == told["recencyOrder"][2]


@requirement("openwop:scenario.lifecycle-expired")
def test_a_fork_of_an_expired_run_is_refused_with_its_reason(a: Suite) -> None:
    run_id, _ = noop(a)
    a.at.do(a.at.service.runs.expire(a.principal, run_id))
    told = a.post(f"/v1/runs/{run_id}:fork", {"mode": "replay", "fromSeq": 0}, status=422)
    assert told["error"] == "replay_memory_snapshot_unavailable"
    assert told["details"] == {"fromSeq": 0, "sourceRunId": run_id, "reason": "event_log_unavailable"}


@requirement("openwop:scenario.consolidation-shape")
def test_consolidation_and_commitments_are_declared(a: Suite) -> None:
    agents = a.get("/.well-known/openwop", "capabilities")["agents"]
    assert agents["memoryConsolidation"]["supported"] is True
    assert agents["commitments"]["supported"] is True


@requirement("openwop:scenario.consolidation-idempotent")
def test_consolidation_never_grows_and_settles(a: Suite) -> None:
    path, ref = "/v1/host/sample/memory/consolidate", "mem://conformance/consolidation"
    for _ in range(2):
        first = a.post(path, {"memoryRef": ref, "includeSecretCanary": True})
    event = payload_checked("agent.memory.consolidated", first["event"])
    assert first["secretLeaked"] is False
    assert event["outputCount"] < event["inputCount"]
    second = a.post(path, {"memoryRef": ref})["event"]
    assert second["inputCount"] == second["outputCount"] == event["outputCount"]


DISTILL = "/v1/host/sample/memory/distill"


@requirement("openwop:scenario.distillation-shape")
def test_distillation_is_declared(a: Suite) -> None:
    told = a.get("/.well-known/openwop", "capabilities")["memory"]["distillation"]
    assert told["supported"] is True
    assert told["maxTokenBudget"] >= 1


@requirement("openwop:scenario.distillation-budget")
def test_distillation_keeps_its_budget_or_does_nothing(a: Suite) -> None:
    told = a.post(DISTILL, {"memoryRef": "conformance-distill", "tokenBudget": 8000})
    event = told["event"]["distillation"]
    assert event["tokensUsed"] <= event["tokenBudget"] == 8000
    before = a.get("/v1/memory/conformance-distill")
    refused = a.post(DISTILL, {"memoryRef": "conformance-distill", "tokenBudget": 1}, status=422)
    assert refused["error"] == "token_budget_exceeded"
    assert "archiveChecksum" not in refused
    assert a.get("/v1/memory/conformance-distill") == before


@requirement("openwop:scenario.distillation-archive")
def test_equal_sources_and_budget_give_an_equal_archive(a: Suite) -> None:
    body = {
        "memoryRef": "conformance-distill-2",
        "sources": ["s1", "s2", {"content": "s3"}],
        "tokenBudget": 8000,
    }
    first, second = a.post(DISTILL, body), a.post(DISTILL, body)
    assert first["archiveChecksum"] == second["archiveChecksum"] != ""


@requirement("openwop:scenario.distillation-index")
def test_distillation_gives_an_index(a: Suite) -> None:
    told = a.post(DISTILL, {"memoryRef": "conformance-distill-3", "sources": ["s1"], "indexEmitted": True})
    assert told["indexUpdated"] is True
    assert told["indexFile"]


@requirement("openwop:scenario.distillation-secret")
def test_a_secret_in_a_source_is_nowhere_in_the_answer(a: Suite) -> None:
    value = f"sk-canary-{CANARY}"
    body = {"memoryRef": "conformance-distill-4", "sources": [f"Key {value}."], "includeSecretCanary": True}
    response = a.client.post(DISTILL, json=body)
    assert response.status_code == 200
    assert value not in response.text


@requirement("openwop:scenario.commitment-fired")
def test_a_commitment_fires_once_and_tells_no_intention(a: Suite) -> None:
    for condition in ("predicate", "time"):
        body = {
            "memoryRef": "mem://conformance/commitments",
            "condition": condition,
            "includeIntentionCanary": True,
        }
        told = a.post("/v1/host/sample/commitment/fire", body)
        event = payload_checked("commitment.fired", told["event"])
        assert event["condition"] == condition
        assert told["intentionCanary"] not in str(event)
        assert told["fireCount"] == 1


@requirement("openwop:scenario.redaction")
@pytest.mark.parametrize("bearer", ["eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl", "cred_4711", CANARY])
def test_no_credential_is_repeated(a: Suite, bearer: str) -> None:
    response = a.with_token(bearer).post("/v1/runs", json={"workflowId": "conformance-noop"})
    assert response.status_code == 401
    assert response.json()["error"] == "unauthenticated"
    assert bearer not in response.text
    ref = "secret://tenant/openai-key"
    body = {"workflowId": "conformance-noop", "configurable": {"ai": {"credentialRef": ref}}}
    run = a.post("/v1/runs", body, status=201)
    told = a.client.get(f"/v1/runs/{run['runId']}/events/poll?lastSequence=0&timeout=5")
    assert ref not in told.text


@requirement("openwop:scenario.redaction-adversarial")
def test_inputs_reach_no_event_and_unknown_workflows_are_not_repeated(a: Suite) -> None:
    values = [f"sk-{CANARY}-0123456789abcdef", f"sk-ant-{CANARY}-0123456789"]
    run = a.run("conformance-noop", inputs={"a": values[0], "nested": {"b": values[1]}})
    log = str(a.events(run["runId"]))
    assert not any(value in log for value in values)
    name = f"eyJhbGciOi.eyJzdWIiOi.{CANARY}"
    response = a.client.post("/v1/runs", json={"workflowId": name})
    assert response.status_code in (400, 404)
    assert name not in response.text


@requirement("openwop:scenario.byok")
def test_byok_round_trip(a: Suite) -> None:
    run = a.run("openwop-smoke-byok-roundtrip")
    assert run["status"] == "completed"
    told = run["variables"]["resolve-secret"]
    assert re.fullmatch(r"[0-9a-f]{64}", told["secretSha256"])
    assert told["secretLength"] > 0
    events = a.events(run["runId"])
    assert sum(e["type"] == "node.completed" and e["nodeId"] == "resolve-secret" for e in events) == 1
    assert CANARY not in str(events) + str(run)


@requirement("openwop:scenario.identity")
def test_identity_echoes_its_payload(a: Suite) -> None:
    run = a.run("conformance-identity", inputs={"payload": {"a": [1, "ö"]}})
    assert run["variables"]["payload"] == {"a": [1, "ö"]}


@requirement("openwop:scenario.replay-fork")
def test_forks_and_their_refusals(a: Suite) -> None:
    run_id, events = noop(a)
    place = f"/v1/runs/{run_id}:fork"
    for body in ({"mode": "replay", "fromSeq": 0}, {"mode": "branch", "fromSeq": 0, "runOptionsOverlay": {}}):
        fork = a.post(place, body, "run-created", 201)
        assert fork["runId"] != run_id
        assert (fork["sourceRunId"], fork["mode"]) == (run_id, body["mode"])
        assert a.ended(fork["runId"])["status"] == "completed"
    bad: list[tuple[Any, int, str]] = [
        ({"mode": "replay", "fromSeq": -1}, 400, "validation_error"),
        ({"mode": "branch"}, 400, "validation_error"),
        ({"mode": "again"}, 400, "validation_error"),
        ({"mode": "replay", "runOptionsOverlay": {"inputs": {}}}, 400, "validation_error"),
        ({"mode": "replay", "fromSeq": 99999}, 422, "invalid_from_seq"),
        ({"mode": "replay", "fromSeq": len(events)}, 422, "invalid_from_seq"),
    ]
    for body, status, code in bad:
        assert a.post(place, body, status=status)["error"] == code
    assert a.post("/v1/runs/run_nowhere:fork", {"mode": "replay"}, status=404)["error"] == "not_found"
