"""The HTTP face: idempotency, streams, polling, envelopes, seams, tenants, and a server that is killed."""

import json
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from quipu.faces.openwop.openapi import document
from quipu.faces.openwop.routes import routes
from quipu.model.access import Role
from quipu.model.principal import Permission, local
from tests.faces.serving import Program
from tests.openwop.suite import Suite, checked, suite
from tests.requirement import requirement

SEAMS = (
    "/v1/test/memory/seed",
    "/v1/test/memory/compact",
    "/v1/host/sample/memory/distill",
    "/v1/host/sample/memory/consolidate",
    "/v1/host/sample/commitment/fire",
)


@pytest.fixture(scope="module")
def a() -> Iterator[Suite]:
    with suite() as made:
        yield made


@pytest.fixture(scope="module")
def b(a: Suite) -> Suite:
    return a.tenant_named("tenant-b")


@requirement("openwop:server.idempotency")
def test_ten_equal_requests_at_once_make_one_run(a: Suite) -> None:
    def ask(_: int) -> httpx.Response:
        return httpx.post(
            f"{a.at.url}/v1/runs",
            json={"workflowId": "conformance-noop", "metadata": {"n": 1}},
            headers={**a.at.headers(), "Idempotency-Key": "ten"},
            timeout=30,
        )

    with ThreadPoolExecutor(10) as pool:
        told = list(pool.map(ask, range(10)))
    assert {response.status_code for response in told} == {201}
    assert len({response.json()["runId"] for response in told}) == 1
    assert sum("openwop-Idempotent-Replay" not in response.headers for response in told) == 1
    said = {"workflowId": "conformance-noop", "metadata": {"n": 1}}
    for otherwise in (
        {"workflowId": "conformance-noop"},
        {**said, "callbackUrl": "https://example.org/done"},
        {**said, "x-host-quipu": 1},
    ):
        other = a.client.post("/v1/runs", json=otherwise, headers={"Idempotency-Key": "ten"})
        assert other.status_code == 409
        assert checked("error-envelope", other.json())["error"] == "idempotency_key_mismatch"


@requirement("openwop:server.idempotent-fork")
def test_a_fork_is_made_once_for_each_key(a: Suite) -> None:
    run = a.run("conformance-noop")
    place, key = f"/v1/runs/{run['runId']}:fork", {"Idempotency-Key": "fork"}
    told = [a.client.post(place, json={"mode": "replay"}, headers=key).json()["runId"] for _ in range(2)]
    assert told[0] == told[1]


@requirement("openwop:server.idempotency")
@requirement("openwop:server.idempotent-fork")
def test_a_repeated_request_is_answered_as_the_first_was_whatever_became_of_the_run(a: Suite) -> None:
    source = a.run("conformance-noop")["runId"]
    asked = {
        "/v1/runs": {"workflowId": "conformance-noop"},
        "/v1/x-host-quipu-runs": {"workflowId": "driven"},
        f"/v1/runs/{source}:fork": {"mode": "branch", "fromSeq": 0},
    }
    for place, body in asked.items():
        key = {"Idempotency-Key": f"later {place}"}
        first = a.client.post(place, json=body, headers=key)
        run_id = first.json()["runId"]
        if "x-host" in place:
            a.client.post(f"/v1/x-host-quipu-runs/{run_id}/complete", json={}).raise_for_status()
        assert a.ended(run_id)["status"] == "completed"
        again = a.client.post(place, json=body, headers=key)
        assert again.headers["openwop-Idempotent-Replay"] == "true"
        assert (again.status_code, again.content) == (first.status_code, first.content), place


@requirement("openwop:server.errors")
def test_what_is_wrong_inside_a_member_is_told_by_its_place(a: Suite) -> None:
    run = f"/v1/x-host-quipu-runs/{a.outside()}"
    wrong: dict[str, tuple[str, dict[str, Any]]] = {
        "/options/limit": ("/v1/x-host-quipu-memory/list", {"options": {"limit": -1}}),
        "/options": ("/v1/x-host-quipu-memory/list", {"options": []}),
        "/entry/content": ("/v1/x-host-quipu-memory/put", {"entry": {"content": 5}}),
        "/entry/tags/0": ("/v1/x-host-quipu-memory/put", {"entry": {"content": "x", "tags": ["x" * 257]}}),
        "/error/code": (f"{run}/fail", {"error": {"message": "m"}}),
        "/error/message": (f"{run}/nodes", {"nodeId": "n", "status": "failed", "error": {"code": "c"}}),
        "/variables/name": (f"{run}/complete", {"variables": {"": 1}}),
    }
    for pointer, (place, body) in wrong.items():
        told = a.post(place, {"memoryRef": "m/a", **body}, "error-envelope", 400)
        assert told["details"]["faults"][0]["pointer"] == pointer


@requirement("openwop:server.idempotency")
def test_every_step_of_a_driven_run_is_taken_once_for_each_key(a: Suite) -> None:
    place = f"/v1/x-host-quipu-runs/{a.outside()}"

    def told(path: str, body: dict[str, Any], key: str) -> httpx.Response:
        return a.client.post(place + path, json=body, headers={"Idempotency-Key": key})

    steps: dict[str, dict[str, Any]] = {
        "/nodes": {"nodeId": "n", "status": "started"},
        "/notes/scratchpad": {"content": "The pump is oiled."},
        "/complete": {"variables": {"n": 1}},
    }
    for path, body in steps.items():
        first, again = told(path, body, "step"), told(path, body, "step")
        assert first.status_code == 200, first.text
        assert "openwop-Idempotent-Replay" not in first.headers
        if path.startswith("/notes"):
            assert again.json() == {"notes": ["The pump is oiled."]}
        assert (again.status_code, again.content) == (200, first.content)
        assert again.headers["openwop-Idempotent-Replay"] == "true"
        other = told(path, {**body, "x-host-quipu": 1}, "step") if path != "/complete" else None
        if other is not None:
            assert other.status_code == 409
            assert checked("error-envelope", other.json())["error"] == "idempotency_key_mismatch"
    assert told("/complete", {}, "x" * 200).status_code == 400
    kinds = [event["type"] for event in a.events(place.rpartition("/")[2])]
    assert kinds.count("node.started") == 1
    # What was refused keeps no key.
    assert told("/nodes", {"nodeId": "", "status": "started"}, "free").status_code == 400


@requirement("openwop:server.idempotency")
def test_ten_equal_notes_at_once_are_one(a: Suite) -> None:
    run = a.outside()
    place = f"{a.at.url}/v1/x-host-quipu-runs/{run}/notes/conversation"

    def ask(_: int) -> httpx.Response:
        headers = {**a.at.headers(), "Idempotency-Key": "note"}
        return httpx.post(place, json={"content": "Once."}, headers=headers, timeout=30)

    with ThreadPoolExecutor(10) as pool:
        told = list(pool.map(ask, range(10)))
    assert {(one.status_code, one.content) for one in told} == {(200, b'{"notes":["Once."]}')}
    assert sum("openwop-Idempotent-Replay" not in one.headers for one in told) == 1


@requirement("openwop:server.idempotency")
def test_a_ref_a_cancelling_and_a_deletion_happen_once_for_each_key(a: Suite) -> None:
    run = a.outside()
    entry = a.memory("put", 201, memoryRef="once/gone", entry={"content": "Soon gone."})["entry"]["id"]
    for place, body in (
        ("/v1/x-host-quipu-memory-refs", {"agentId": "ana"}),
        (f"/v1/runs/{run}/cancel", {}),
        ("/v1/x-host-quipu-memory/delete", {"memoryRef": "once/gone", "id": entry}),
    ):
        asked = [a.client.post(place, json=body, headers={"Idempotency-Key": "k"}) for _ in range(2)]
        assert asked[0].is_success, asked[0].text
        assert (asked[1].status_code, asked[1].content) == (asked[0].status_code, asked[0].content)
        assert asked[1].headers["openwop-Idempotent-Replay"] == "true"


@requirement("openwop:server.errors")
@pytest.mark.parametrize("status", [{"a": 1}, ["started"], None, 7, "asleep"], ids=str)
def test_a_status_that_is_none_is_refused(a: Suite, status: object) -> None:
    run = a.outside()
    body = {"nodeId": "n", "status": status}
    told = a.post(f"/v1/x-host-quipu-runs/{run}/nodes", body, "error-envelope", 400)
    assert told["details"]["faults"][0]["pointer"] == "/status"


@requirement("openwop:server.idempotency")
def test_an_entry_is_put_once_for_each_key(a: Suite) -> None:
    place, key = "/v1/x-host-quipu-memory/put", {"Idempotency-Key": "entry"}
    body = {"memoryRef": "put/once", "entry": {"content": "The pump is oiled.", "tags": ["pump"]}}

    def ask(_: int) -> httpx.Response:
        return httpx.post(f"{a.at.url}{place}", json=body, headers={**a.at.headers(), **key}, timeout=30)

    with ThreadPoolExecutor(10) as pool:
        told = list(pool.map(ask, range(10)))
    assert {(one.status_code, one.content) for one in told} == {(201, told[0].content)}
    assert sum("openwop-Idempotent-Replay" not in one.headers for one in told) == 1
    entry = told[0].json()["entry"]
    assert a.memory("list", memoryRef="put/once")["entries"] == [entry]

    for otherwise in ({**body, "memoryRef": "put/other"}, {**body, "entry": {"content": "Not oiled."}}):
        other = a.client.post(place, json=otherwise, headers=key)
        assert other.status_code == 409
        assert checked("error-envelope", other.json())["error"] == "idempotency_key_mismatch"

    assert a.memory("delete", memoryRef="put/once", id=entry["id"]) == {"deleted": True}
    again = a.client.post(place, json=body, headers=key)
    assert (again.status_code, again.content) == (201, told[0].content)
    assert a.memory("list", memoryRef="put/once")["entries"] == []
    assert a.client.post(place, json=body, headers={"Idempotency-Key": "x" * 200}).status_code == 400


def frames(response: httpx.Response) -> list[dict[str, str]]:
    found = []
    for block in response.text.split("\n\n"):
        lines = [line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            found.append({line[0]: line[1] for line in lines})
    return found


@requirement("openwop:stream.sse")
def test_a_stream_tells_the_log_ends_after_the_last_event_and_goes_on_where_a_reader_left(a: Suite) -> None:
    run = a.run("conformance-agent-memory-roundtrip")
    log = a.events(run["runId"])
    place, accept = f"/v1/runs/{run['runId']}/events", {"Accept": "text/event-stream"}
    told = a.client.get(place, headers=accept)
    assert told.headers["content-type"].startswith("text/event-stream")
    assert [json.loads(frame["data"]) for frame in frames(told)] == log
    assert [frame["id"] for frame in frames(told)] == [str(event["sequence"]) for event in log]
    assert [frame["event"] for frame in frames(told)] == [event["type"] for event in log]
    again = a.client.get(place, headers={**accept, "Last-Event-ID": "2"})
    assert [json.loads(frame["data"]) for frame in frames(again)] == log[3:]
    assert a.client.get(place, headers={**accept, "Last-Event-ID": "x"}).status_code == 400


@requirement("openwop:stream.live")
def test_a_stream_tells_what_happens_while_it_is_open(a: Suite) -> None:
    run_id = a.outside()
    with a.client.stream("GET", f"/v1/runs/{run_id}/events", headers={"Accept": "text/event-stream"}) as told:
        lines = told.iter_lines()
        assert next(lines) == ": open"
        a.memory("put", 201, runId=run_id, nodeId="n", memoryRef="live", entry={"content": "now"})
        a.post(f"/v1/x-host-quipu-runs/{run_id}/complete", {})
        types = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    assert types == ["run.started", "memory.written", "memory.written", "run.completed"]


@requirement("openwop:stream.live")
def test_a_stream_ends_with_the_credential_that_opened_it(a: Suite) -> None:
    issued = a.at.do(a.at.service.tokens.issue(local(), name="for-a-while", roles=(Role.ADMIN,)))
    run_id = a.outside()
    place, accept = f"/v1/runs/{run_id}/events", {"Accept": "text/event-stream"}
    with a.at.client(issued.text) as client, client.stream("GET", place, headers=accept) as told:
        lines = told.iter_lines()
        first = [next(lines) for _ in range(4)]
        assert first[0] == ": open"
        a.at.do(a.at.service.tokens.revoke(local(), issued.token.id))
        a.memory("put", 201, runId=run_id, nodeId="n", memoryRef="live", entry={"content": "now"})
        a.post(f"/v1/x-host-quipu-runs/{run_id}/complete", {})
        assert "event: " not in "".join(lines)


@requirement("openwop:stream.modes")
def test_modes_choose_and_wrong_ones_are_named(a: Suite) -> None:
    run_id = a.run("conformance-agent-memory-roundtrip")["runId"]

    def types(mode: str) -> set[str]:
        return {event["type"] for event in a.events(run_id, streamMode=mode)}

    for mode in ("updates", "debug", "messages,updates"):
        assert "memory.written" in types(mode)
    assert types("values") == {"run.started", "variable.changed", "run.completed"}
    assert "memory.written" not in types("messages")
    for accept in ("application/json", "text/event-stream"):
        for query in ({"streamMode": "everything"}, {"streamMode": "values,updates"}):
            told = a.client.get(f"/v1/runs/{run_id}/events", params=query, headers={"Accept": accept})
            assert told.status_code == 400
            assert checked("error-envelope", told.json())["error"] == "unsupported_stream_mode"
            assert told.json()["details"]["supported"] == ["values", "updates", "messages", "debug"]
        for buffer in ("-1", "5001", "x"):
            told = a.client.get(
                f"/v1/runs/{run_id}/events", params={"bufferMs": buffer}, headers={"Accept": accept}
            )
            assert told.status_code == 400
    assert a.events(run_id, bufferMs="5000")


@requirement("openwop:poll.cursor")
def test_polling_goes_behind_its_cursor_and_waits_only_for_runs_at_work(a: Suite) -> None:
    run_id = a.run("conformance-noop")["runId"]
    log = a.events(run_id)
    place = f"/v1/runs/{run_id}/events/poll"
    for query, events in (({}, log), ({"lastSequence": "-1"}, log), ({"lastSequence": "1"}, log[2:])):
        told = a.get(place, "events", params=query)
        assert (told["events"], told["isComplete"]) == (events, True)
    past = a.get(place, "events", params={"lastSequence": "999", "timeout": "20"})
    assert (past["events"], past["isComplete"]) == ([], True)
    for cursor in ("x", "1_0", "+1", "٣", "", "1.0"):
        assert a.client.get(place, params={"lastSequence": cursor}).status_code == 400
    at_work = a.outside()
    waiting = a.get(f"/v1/runs/{at_work}/events/poll", "events", params={"lastSequence": "0", "timeout": "1"})
    assert (waiting["events"], waiting["isComplete"]) == ([], False)


@requirement("openwop:server.seams-off")
def test_seams_are_absent_while_they_are_off_and_need_a_credential_while_on(a: Suite) -> None:
    for path in SEAMS:
        told = a.with_token("").post(path, json={"memoryRef": "x"})
        assert told.status_code == 401
        assert checked("error-envelope", told.json())["error"] == "unauthenticated"
    with suite(openwop_seams=False) as off:
        for path in SEAMS:
            assert off.post(path, {"memoryRef": "x"}, status=404)["error"] == "not_found"
        assert "fixtures" not in off.get("/.well-known/openwop", "capabilities")
        off.post("/v1/runs", {"workflowId": "conformance-noop"}, status=404)


@requirement("openwop:server.advertises-what-is-on")
def test_nothing_is_advertised_that_is_switched_off(tmp_path: Path) -> None:
    agents = tmp_path / "agents.json"
    manifest = {
        "agentId": "vendor.acme.support",
        "persona": "Helps.",
        "modelClass": "general",
        "systemPrompt": "Never shown.",
        "memoryShape": {"longTerm": True},
        "requiresCapabilities": ["memory.search", "telepathy"],
    }
    agents.write_text(json.dumps([manifest]), "utf-8")
    settings = {"openwop_attribution": False, "openwop_backends": "scratchpad", "openwop_agents": str(agents)}
    with suite(**settings) as off:
        told = off.get("/.well-known/openwop", "capabilities")
        assert "attribution" not in told["memory"]
        assert "attribution" not in told["capabilities"]["memory"]
        assert told["memory"]["supported"] is False
        assert told["agents"]["memoryBackends"] == []
        assert told["capabilities"]["agents"]["memoryBackends"] == ["scratchpad"]
        listed = off.get("/v1/agents", "agent-inventory-response")["agents"]
        (support,) = [agent for agent in listed if agent["agentId"] == "vendor.acme.support"]
        assert support["degraded"] == ["telepathy"]
        assert support["memoryDegraded"] is True
        assert support["degradedMemoryDimensions"] == ["long-term-durability", "attribution"]
        assert "Never shown" not in str(listed)


@requirement("openwop:server.tenants")
def test_another_tenants_run_is_the_same_as_none(a: Suite, b: Suite) -> None:
    run_id = a.run("conformance-noop")["runId"]
    outside = a.outside()
    for one, name in ((b, run_id), (a, "run_nowhere")):
        for path in ("", "/events", "/events/poll"):
            assert one.get(f"/v1/runs/{name}{path}", status=404)["error"] == "not_found"
        one.post(f"/v1/runs/{name}:fork", {"mode": "replay"}, status=404)
        one.post(f"/v1/runs/{name}/cancel", {}, status=404)
    for path in ("nodes", "complete", "fail"):
        body = {"nodeId": "n", "status": "started", "error": {"code": "x", "message": "y"}}
        b.post(f"/v1/x-host-quipu-runs/{outside}/{path}", body, status=404)
    b.get(f"/v1/x-host-quipu-runs/{outside}/notes/scratchpad", status=404)
    b.memory("list", 404, runId=outside, memoryRef="x")
    told = a.post("/v1/runs", {"workflowId": "conformance-noop", "tenantId": "tenant-b"}, status=403)
    assert told["error"] == "forbidden"
    a.post("/v1/runs", {"workflowId": "conformance-noop", "tenantId": "default"}, status=201)


@requirement("openwop:server.foreign-ref")
def test_a_foreign_ref_and_an_invented_one_get_the_same_answer(a: Suite, b: Suite) -> None:
    mine = a.post("/v1/x-host-quipu-memory-refs", {"agentId": "ana"}, status=201)["memoryRef"]
    kept = a.memory("put", 201, memoryRef=mine, entry={"content": "of ana"})["entry"]
    assert a.get(f"/v1/memory/{mine}", "entries")["entries"] == [kept]
    bodies = set()
    for ref in (mine, "mem_" + "7" * 26):
        told = b.client.get(f"/v1/memory/{ref}")
        assert told.status_code == 403
        bodies.add(told.text)
        for operation in ("list", "get", "put", "delete"):
            body = {"memoryRef": ref, "id": kept["id"], "entry": {"content": "x"}}
            told = b.client.post(f"/v1/x-host-quipu-memory/{operation}", json=body)
            assert told.status_code == 403
            bodies.add(told.text)
        told = b.client.post("/v1/test/memory/compact", json={"memoryRef": ref})
        bodies.add(told.text)
    assert len(bodies) == 1
    assert checked("error-envelope", json.loads(bodies.pop())) == {
        "error": "forbidden",
        "message": "This memory is not yours.",
    }


@requirement("openwop:server.scopes")
def test_a_missing_scope_is_named_in_the_details(a: Suite) -> None:
    reader = a.tenant_named("default", name="reader", roles=(), permissions=(Permission.READ,))
    told = reader.post("/v1/runs", {"workflowId": "conformance-noop"}, status=403)
    assert told["details"] == {"scopeRequired": "runs:create"}
    writer = a.tenant_named("default", name="writer", roles=(), permissions=(Permission.WRITE,))
    told = writer.get("/v1/agents", status=403)
    assert told["details"] == {"scopeRequired": "runs:read"}


@requirement("openwop:server.errors")
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("{", 400),
        ("[]", 400),
        ('{"workflowId": 7}', 400),
        ('{"workflowId": "conformance-noop", "inputs": []}', 400),
        ('{"workflowId": "conformance-noop", "tags": "x"}', 400),
        ('{"workflowId": "nowhere"}', 404),
        ('{"inputs": {}}', 400),
    ],
)
def test_a_bad_body_gets_the_closed_envelope(a: Suite, body: str, status: int) -> None:
    told = a.client.post("/v1/runs", content=body, headers={"Content-Type": "application/json"})
    assert told.status_code == status
    assert checked("error-envelope", told.json())["error"] in ("validation_error", "not_found")
    checked("error-envelope", a.get("/v1/nowhere", status=404))
    checked("error-envelope", a.client.request("PUT", "/v1/runs").json())


@requirement("openwop:server.errors")
@pytest.mark.parametrize(
    "agent",
    [
        {},
        {"agentId": "xy"},
        {"agentId": 7},
        {"agentId": "vendor.acme.a", "colour": "red"},
        {"agentId": "vendor.acme.a", "modelClass": "psychic"},
        {"agentId": "vendor.acme.a", "version": "1", "channel": "beta"},
        {"agentId": "vendor.acme.a", "memoryRef": ""},
    ],
)
def test_an_agent_that_could_not_be_shown_again_is_refused(a: Suite, agent: dict[str, Any]) -> None:
    given = {"workflowId": "outside", "agent": agent}
    told = a.post("/v1/x-host-quipu-runs", given, status=400)
    assert told["details"]["faults"][0]["pointer"].startswith("/agent")
    good = {"agentId": "vendor.acme.a", "modelClass": "chat", "memoryRef": "r", "version": "1"}
    run_id = a.post("/v1/x-host-quipu-runs", {**given, "agent": good}, status=201)["runId"]
    assert a.get(f"/v1/runs/{run_id}", "run-snapshot")["agent"] == good


@requirement("openwop:server.secret-leakage")
def test_a_write_that_is_refused_for_its_secret_says_so_and_not_which() -> None:
    value = "quiet lantern over seven wells"
    with suite(secrets_policy="reject") as a:
        told = a.post("/quipu/v1/secrets", {"label": "db", "value": value}, status=201)
        response = a.client.post(
            "/v1/x-host-quipu-memory/put", json={"memoryRef": "r", "entry": {"content": f"key {value}"}}
        )
        assert response.status_code == 422
        assert checked("error-envelope", response.json())["error"] == "secret_leakage"
        assert value not in response.text + str(told)
        assert a.get("/v1/memory/r") == {"entries": []}


@requirement("openwop:fork.refused")
def test_a_fork_behind_the_horizon_is_refused_over_http_and_bounds_come_first() -> None:
    with suite() as a:
        entry = a.memory("put", 201, memoryRef="r", entry={"content": "soon gone"})["entry"]
        run_id = a.run("conformance-noop")["runId"]
        a.memory("delete", memoryRef="r", id=entry["id"])
        ledger = a.at.web.running.parts.ledger
        a.at.do(ledger.prune("default", a.at.do(ledger.head("default")).seq))
        for mode in ("replay", "branch"):
            told = a.post(f"/v1/runs/{run_id}:fork", {"mode": mode, "fromSeq": 1}, status=422)
            assert told["error"] == "replay_memory_snapshot_unavailable"
            assert told["details"] == {"fromSeq": 1, "sourceRunId": run_id, "reason": "retention_expired"}
            beyond = a.post(f"/v1/runs/{run_id}:fork", {"mode": mode, "fromSeq": 99}, status=422)
            assert beyond["error"] == "invalid_from_seq"


@requirement("openwop:server.finished-run")
def test_an_operation_on_a_finished_run_says_how_it_ended(a: Suite) -> None:
    run_id = a.outside()
    a.post(f"/v1/x-host-quipu-runs/{run_id}/fail", {"error": {"code": "broken", "message": "It broke."}})
    found = a.get(f"/v1/runs/{run_id}", "run-snapshot")
    assert found["error"] == {"code": "broken", "message": "It broke."}
    for told in (
        a.post(f"/v1/x-host-quipu-runs/{run_id}/complete", {}, status=400),
        a.memory("put", 400, runId=run_id, memoryRef="x", entry={"content": "late"}),
        a.memory("delete", 400, runId=run_id, memoryRef="x", id="y"),
        a.post(f"/v1/runs/{run_id}/cancel", {}, status=400),
    ):
        assert (told["error"], told["details"]) == ("validation_error", {"status": "failed"})
    # What a finished run saw can still be looked at.
    assert a.memory("list", runId=run_id, memoryRef="x") == {"entries": []}


@requirement("openwop:server.run-bound")
def test_a_read_that_names_a_run_is_bound_to_it(a: Suite) -> None:
    ref = "bound/reads"
    before = a.memory("put", 201, memoryRef=ref, entry={"content": "before", "tags": ["t"]})["entry"]
    run_id = a.outside()
    after = a.memory("put", 201, runId=run_id, nodeId="n", memoryRef=ref, entry={"content": "after"})["entry"]
    assert a.memory("list", runId=run_id, memoryRef=ref)["entries"] == [before]
    assert a.memory("get", runId=run_id, memoryRef=ref, id=after["id"]) == {"entry": None}
    assert a.memory("list", memoryRef=ref, options={"limit": 1})["entries"] == [after]
    assert a.memory("delete", runId=run_id, memoryRef=ref, id=before["id"]) == {"deleted": True}
    assert a.memory("list", runId=run_id, memoryRef=ref, options={"tag": "t"})["entries"] == [before]
    a.memory("list", 400, memoryRef=ref, options={"rank": "relevance"})
    a.memory("dance", 404, memoryRef=ref)
    a.memory("put", 400, memoryRef=ref, entry={"content": "x", "expiresAt": "2001-01-01T00:00:00Z"})


@requirement("openwop:server.notes")
def test_notes_of_a_run_over_http(a: Suite) -> None:
    run_id = a.outside()
    place = f"/v1/x-host-quipu-runs/{run_id}/notes"
    assert a.post(f"{place}/scratchpad", {"content": "first"}) == {"notes": ["first"]}
    assert a.get(f"{place}/conversation") == {"notes": []}
    assert a.client.delete(f"{place}/scratchpad").json() == {"notes": []}
    a.get(f"{place}/diary", status=404)


@requirement("openwop:server.workflows")
def test_workflows_are_shown(a: Suite) -> None:
    told = a.get("/v1/workflows/conformance-noop")
    assert told["nodes"][0]["typeId"] == "core.noop"
    assert told["triggers"] == [{"id": "manual", "type": "manual", "enabled": True}]
    a.get("/v1/workflows/nowhere", status=404)
    for name in a.get("/.well-known/openwop")["fixtures"]:
        node = a.get(f"/v1/workflows/{name}")["nodes"][0]
        if "agent" in node:
            checked("agent-ref", node["agent"])


@requirement("openwop:server.openapi")
def test_every_route_is_described(a: Suite) -> None:
    parts = a.at.web.running
    known = {
        (method.lower(), getattr(route, "path", "").replace(":path", ""))
        for route in routes(parts.service, parts.parts.host, parts.parts.clock, "0")
        for method in getattr(route, "methods", ())
        if method != "HEAD"
    }
    described = {(method, path) for path, item in document("0")["paths"].items() for method in item}
    assert described == known


@requirement("openwop:durability.kill")
def test_a_server_that_is_killed_leaves_whole_logs_and_its_runs_go_on(tmp_path: Path) -> None:
    store = tmp_path / "memory.db"
    settings = {"QUIPU_OPENWOP_SEAMS": "true", "QUIPU_RATE": "0", "QUIPU_OPENWOP_LEASE_S": "6"}
    with Program(store, **settings) as program:
        token = program.token
        with httpx.Client(base_url=program.url, headers=_bearer(token), timeout=30) as client:
            names = [
                client.post("/v1/runs", json={"workflowId": name}).json()["runId"]
                for _ in range(6)
                for name in ("conformance-agent-memory-roundtrip", "conformance-agent-memory-ttl")
            ]
        program.stop(signal.SIGKILL)
    with (
        Program(store, **settings) as program,
        httpx.Client(base_url=program.url, headers=_bearer(token), timeout=60) as client,
    ):
        told: dict[str, list[str]] = {}
        for name in names:
            seen: list[Any] = []
            is_complete = False
            while not is_complete:
                after = seen[-1]["sequence"] if seen else -1
                page = client.get(
                    f"/v1/runs/{name}/events/poll", params={"lastSequence": after, "timeout": 25}
                ).json()
                seen += page["events"]
                is_complete = page["isComplete"]
            assert [event["sequence"] for event in seen] == list(range(len(seen)))
            assert seen[-1]["type"] == "run.completed"
            ids = [event["payload"]["memoryId"] for event in seen if event["type"] == "memory.written"]
            assert len(ids) == len(set(ids)) == (2 if len(ids) == 2 else 3)
            told.setdefault(name, []).extend(ids)
        for workflow in ("roundtrip", "ttl"):
            # Neither an entry without its event nor an event without its entry, whenever it was killed.
            found = client.get(f"/v1/memory/conformance%2Fagent-memory-{workflow}?limit=500").json()
            kept = {entry["id"] for entry in found["entries"]}
            assert len(kept) == 6
            assert kept <= {one for ids in told.values() for one in ids}
        assert program.stop() == 0


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@requirement("openwop:backends.crash")
@pytest.mark.parametrize("ledger", ["sqlite", "postgres"])
def test_a_server_that_is_killed_takes_the_notes_of_its_open_runs_with_it(
    ledger: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = tmp_path / "memory.db"
    settings = {"QUIPU_RATE": "0", "QUIPU_OPENWOP_LEASE_S": "3"}
    if ledger == "postgres":
        settings["QUIPU_STORE"] = request.getfixturevalue("postgres_url")
    texts = {"scratchpad": ["a thought"], "conversation": ["a word"]}

    def noted(client: httpx.Client) -> dict[str, Any]:
        return {name: client.get(f"{place}/notes/{name}").json()["notes"] for name in texts}

    with Program(store, **settings) as first:
        token = first.token
        with httpx.Client(base_url=first.url, headers=_bearer(token), timeout=30) as client:
            run_id = client.post("/v1/x-host-quipu-runs", json={"workflowId": "outside"}).json()["runId"]
            place = f"/v1/x-host-quipu-runs/{run_id}"
            for name, (text,) in texts.items():
                client.post(f"{place}/notes/{name}", json={"content": text})
            assert noted(client) == texts
        assert first.stop(signal.SIGTERM) == 0
    with Program(store, **settings) as second:
        with httpx.Client(base_url=second.url, headers=_bearer(token), timeout=30) as client:
            time.sleep(4)  # it finds what was let go of, and goes on holding it
            assert noted(client) == texts
        second.stop(signal.SIGKILL)
    with (
        Program(store, **settings) as third,
        httpx.Client(base_url=third.url, headers=_bearer(token), timeout=30) as client,
    ):
        until = time.monotonic() + 25
        while any(noted(client).values()):
            assert time.monotonic() < until, "the notes outlive their server"
            time.sleep(0.5)
        assert client.get(f"/v1/runs/{run_id}").json()["status"] == "running"
        written = client.post(f"{place}/complete", json={})
        assert written.json()["status"] == "completed"
        assert third.stop() == 0


@requirement("openwop:stream.keepalive")
def test_a_silent_stream_is_kept_alive_by_comments(a: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    from quipu.faces.openwop import runs

    assert runs._KEEPALIVE_S <= 30
    monkeypatch.setattr(runs, "_KEEPALIVE_S", 0.05)
    run_id = a.outside()
    with a.client.stream("GET", f"/v1/runs/{run_id}/events", headers={"Accept": "text/event-stream"}) as told:
        lines = (line for line in told.iter_lines() if line)
        assert next(lines) == ": open"
        first = [next(lines) for _ in range(6)]
        assert first[1] == "event: run.started"
        assert first[3:] == [": still here"] * 3  # nothing happened three times over
        a.post(f"/v1/x-host-quipu-runs/{run_id}/complete", {})
        assert "event: run.completed" in list(lines)
