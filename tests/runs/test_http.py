"""OpenWOP's addresses: what is asked and answered there, in its words, and by whom."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quipu.bootstrap import http_app
from quipu.runs import operations as ops
from tests.audit.tampering import Owner
from tests.governance.office import HOLD_ALL, Office
from tests.requirement import requirement
from tests.runs.host import MEMORY, OWN, Client, Host, told

CLOSED_ENTRY = {"id", "content", "tags", "createdAt"}


# -- discovery --------------------------------------------------------------------------------------------------------


@requirement("openwop:discovery.document")
async def test_anybody_is_told_what_the_host_can_do_and_nothing_more(host: Host) -> None:
    anybody = Client(host, "")
    answer = await anybody("GET", "/.well-known/openwop")
    said = told(answer, 200)
    assert {"protocolVersion", "supportedEnvelopes", "schemaVersions", "limits"} <= said.keys()
    assert said["memory"]["attribution"] == {"supported": True, "emitsWriteEvents": True}
    assert said["capabilities"]["memory"]["maxEntrySizeBytes"] == 65_536
    assert said["capabilities"]["agents"]["memoryBackends"] == ["scratchpad", "conversation", "longTerm"]
    # Nothing that is not there: no workflows, no agents that are dispatched, no secrets of a user or a run.
    assert "fixtures" not in said
    assert said["agents"] == {"supported": True, "memoryBackends": ["long-term"]}
    assert said["secrets"]["scopes"] == ["tenant"]
    assert answer.headers["cache-control"].startswith("public")
    again = await anybody("GET", "/.well-known/openwop", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@requirement("openwop:discovery.document")
async def test_anybody_is_given_the_openapi_document_with_openwops_addresses(host: Host) -> None:
    anybody = Client(host, "")
    answer = await anybody("GET", "/v1/openapi.json")
    document = told(answer, 200)
    assert document["openapi"].startswith("3.1")
    assert {path for _, path in host.app.addresses} <= document["paths"].keys()
    again = await anybody("GET", "/v1/openapi.json", headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304


@requirement("openwop:discovery.fixtures")
async def test_fixtures_are_there_in_the_conformance_mode_only(host: Host, conformance: Host) -> None:
    said = await Client(conformance, "").get("/.well-known/openwop")
    assert "conformance-noop" in said["fixtures"]
    tester = await conformance.client("tester")
    workflow = await tester.get("/v1/workflows/conformance-noop")
    assert [node["typeId"] for node in workflow["nodes"]] == ["core.noop"]
    admin = await host.client("admin")
    for path in ("/v1/workflows/conformance-noop", "/v1/workflows/a%2Fb"):
        assert (await admin.get(path, 404))["error"] == "not_found"
    refused = await admin.post("/v1/runs", {"workflowId": "conformance-noop"}, 404)
    assert "noop" not in str(refused)


# -- credentials ------------------------------------------------------------------------------------------------------


@requirement("openwop:auth.everywhere")
async def test_every_address_but_discovery_wants_a_good_credential(host: Host) -> None:
    assert host.app.addresses
    for method, path in host.app.addresses:
        if path.startswith("/.well-known"):
            continue
        place = path.replace("{run_id}", "run_x:fork").replace("{backend}", "scratchpad")
        answer = await Client(host, "")(method, place, {} if method == "POST" else None)
        assert told(answer, 401)["error"] == "unauthenticated"
        assert "www-authenticate" in answer.headers
    for path in ("/v1/runs/run_x", "/v1/runs/run_x/events", OWN):
        answer = await Client(host, "qp_canary_0123456789")("GET", path)
        assert told(answer, 401)["error"] == "unauthenticated"
        assert "canary" not in answer.text


@requirement("openwop:auth.everywhere")
async def test_a_missing_scope_is_named_and_an_ended_key_says_so(host: Host) -> None:
    reader = await host.client("reader", "reviewer")
    said = await reader.post(OWN, {"workflowId": "orders"}, 403)
    assert said == {
        "error": "forbidden",
        "message": said["message"],
        "details": {"scopeRequired": "runs:create"},
    }
    short = await host.client("short", expires_at=host.office.clock.now + 60_000)
    await short.get(OWN)
    host.office.clock.now += 120_000
    assert (await short.get(OWN, 401))["error"] == "key_expired"


@requirement("openwop:auth.tenant")
async def test_the_credential_says_which_tenant_and_a_body_cannot(host: Host, admin: Client) -> None:
    await admin.post(OWN, {"workflowId": "w", "tenantId": "default"}, 201)
    assert (await admin.post(OWN, {"workflowId": "w", "tenantId": "other"}, 403))["error"] == "forbidden"
    other = await host.client("other", tenant="other")
    run = await admin.run()
    for path in (f"/v1/runs/{run}", f"/v1/runs/{run}/events", f"/v1/runs/{run}/events/poll"):
        foreign, unknown = await other("GET", path), await other("GET", path.replace(run[-6:], "000000"))
        assert (foreign.status_code, foreign.content) == (404, unknown.content)
    assert (await other.get(OWN))["runs"] == []


@requirement("openwop:auth.owner")
async def test_a_run_belongs_to_the_agent_and_user_it_was_opened_for(host: Host, admin: Client) -> None:
    shop = await host.client("shop", "agent", agents=["shop"])
    ana = await host.client("ana", "agent", agents=["shop"], user_id="ana")
    bo = await host.client("bo", "agent", agents=["shop"], user_id="bo")
    till = await host.client("till", "agent", agents=["till"])
    run = await ana.run()
    await ana.end(run)
    seen = [run_id["runId"] for run_id in (await shop.get(OWN))["runs"]]
    assert seen == [run]
    assert (await ana.get(f"/v1/runs/{run}"))["status"] == "completed"
    for stranger in (bo, till):
        assert (await stranger.get(OWN))["runs"] == []
        attempts: list[tuple[str, str, Any]] = [
            ("GET", f"/v1/runs/{run}", None),
            ("GET", f"/v1/runs/{run}/events", None),
            ("GET", f"/v1/runs/{run}/events/poll", None),
            ("POST", f"/v1/runs/{run}/cancel", {}),
            ("POST", f"/v1/runs/{run}:fork", {"mode": "replay"}),
            ("POST", f"/v1/runs/{run}:fork", {"mode": "branch", "fromSeq": 900}),
            ("POST", f"{OWN}/{run}/nodes", {"nodeId": "n", "status": "started"}),
            ("POST", f"{OWN}/{run}/end", {}),
            ("GET", f"{OWN}/{run}/notes/scratchpad", None),
            ("POST", f"{OWN}/{run}/notes/scratchpad", {"content": "x"}),
            ("POST", f"{MEMORY}/list", {"memoryRef": "till", "runId": run}),
            ("POST", f"{MEMORY}/put", {"memoryRef": "till", "entry": {"content": "x"}, "runId": run}),
            ("POST", "/v1/recall", {"query": "x", "as_of": run}),
        ]
        for method, path, body in attempts:
            real = await stranger(method, path, body)
            assert real.status_code == 404, (path, real.text)
            if path.startswith(("/v1/runs", "/v1/x-host")):
                assert real.json()["error"] == "not_found"
        call = stranger.stream(run)
        await call.done()
        assert (call.status, b"not_found" in call.body) == (404, True)
    # A fork keeps the owner of its source, whoever made it.
    fork = (await admin.post(f"/v1/runs/{run}:fork", {"mode": "replay"}, 201))["runId"]
    assert (await ana.get(f"/v1/runs/{fork}"))["status"] == "completed"
    await bo.get(f"/v1/runs/{fork}", 404)


# -- envelopes --------------------------------------------------------------------------------------------------------


@requirement("openwop:error.envelope")
async def test_what_is_wrong_is_said_by_its_place_in_the_callers_words(admin: Client) -> None:
    run = f"{OWN}/{await admin.run()}"
    wrong: list[tuple[str, dict[str, Any], str]] = [
        (f"{MEMORY}/list", {"memoryRef": "m", "options": {"limit": -1}}, "/options/limit"),
        (f"{MEMORY}/list", {"memoryRef": "m", "options": []}, "/options"),
        (f"{MEMORY}/list", {"memoryRef": "m", "options": {"rank": "relevance"}}, "/options/rank"),
        (f"{MEMORY}/list", {"memoryRef": "m", "options": {"lmit": 1}}, "/options/lmit"),
        (f"{MEMORY}/put", {"memoryRef": "m", "entry": {"content": 5}}, "/entry/content"),
        (
            f"{MEMORY}/put",
            {"memoryRef": "m", "entry": {"content": "x", "tags": ["x" * 257]}},
            "/entry/tags/0",
        ),
        (f"{MEMORY}/put", {"memoryRef": "m", "entry": {"content": "x", "id": "mem_1"}}, "/entry/id"),
        (
            f"{MEMORY}/put",
            {"memoryRef": "m", "entry": {"content": "x", "expiresAt": "2020-01-01T00:00:00Z"}},
            "/entry/expiresAt",
        ),
        (f"{MEMORY}/put", {"memoryRef": "a..b", "entry": {"content": "x"}}, "/memoryRef"),
        (f"{MEMORY}/put", {"memoryRef": "m", "entry": {"content": "x"}, "runid": "run_x"}, "/runid"),
        (f"{run}/nodes", {"nodeId": "n", "status": "asleep"}, "/status"),
        (f"{run}/nodes", {"nodeId": "", "status": "started"}, "/nodeId"),
        (f"{run}/nodes", {"nodeId": "n", "status": "failed", "error": {"message": "m"}}, "/error/code"),
        (OWN, {"workflowId": 7}, "/workflowId"),
        (OWN, {"workflowId": "w", "inputs": "x"}, "/inputs"),
        (OWN, {"workflowId": "w", "scopeId": 7}, "/scopeId"),
        (
            OWN,
            {"workflowId": "w", "agent": {"agentId": "agent", "modelClass": "oracle"}},
            "/agent/modelClass",
        ),
        (OWN, {"workflowId": "w", "agent": {"agentId": "agent", "color": "red"}}, "/agent/color"),
        (
            OWN,
            {"workflowId": "w", "agent": {"agentId": "a", "version": "1", "channel": "b"}},
            "/agent/channel",
        ),
    ]
    for path, body, pointer in wrong:
        said = await admin.post(path, body, 400)
        assert said["error"] == "validation_error", said
        assert said["details"]["faults"][0]["pointer"] == pointer, said
    too_large = {"memoryRef": "m", "entry": {"content": "ä" * 32_769}}
    assert (await admin.post(f"{MEMORY}/put", too_large, 400))["error"] == "validation_error"
    await admin.put("m", "ä" * 32_768)


@requirement("openwop:error.envelope")
async def test_other_errors_have_the_envelope_too(host: Host, admin: Client) -> None:
    bad = await admin("POST", OWN, headers={"Content-Type": "application/json"}, body=None)
    assert told(bad, 400)["error"] == "validation_error"
    called_back = await Client(host, admin.token).post(
        "/v1/runs", {"workflowId": "w", "callbackUrl": "https://example.org"}, 400
    )
    assert called_back["error"] == "capability_not_provided"
    wrong = await admin("POST", f"/v1/runs/{await admin.run()}", {})
    assert (told(wrong, 405)["error"], wrong.headers["allow"]) == ("validation_error", "GET, HEAD")
    # Elsewhere nothing changes.
    assert (await admin("GET", "/v1/nowhere")).json()["code"] == "not_found"


@requirement("openwop:error.envelope")
async def test_what_is_over_says_how_it_ended(admin: Client) -> None:
    run = await admin.run()
    await admin.end(run, status="failed", error={"code": "out_of_stock"})
    attempts = [
        (f"{OWN}/{run}/nodes", {"nodeId": "n", "status": "started"}),
        (f"{OWN}/{run}/end", {}),
        (f"/v1/runs/{run}/cancel", {}),
        (f"{MEMORY}/put", {"memoryRef": "agent", "entry": {"content": "x"}, "runId": run}),
        (f"{MEMORY}/delete", {"memoryRef": "agent", "id": "x", "runId": run}),
    ]
    for path, body in attempts:
        said = await admin.post(path, body, 400)
        assert (said["error"], said["details"]) == ("validation_error", {"status": "failed"}), path
    shown = await admin.get(f"/v1/runs/{run}")
    assert shown["error"] == {"code": "out_of_stock", "message": "out_of_stock"}


# -- the same request again -------------------------------------------------------------------------------------------


@requirement("openwop:idempotency.once")
async def test_a_repeated_request_is_answered_as_the_first_was_whatever_became_of_the_run(
    host: Host, admin: Client
) -> None:
    other, run = await admin.run(), await admin.run()
    kept = await admin.put("agent", "Soon gone.")
    attempts: list[tuple[str, dict[str, Any]]] = [
        (OWN, {"workflowId": "orders", "inputs": {"n": 1}}),
        (f"{OWN}/{run}/nodes", {"nodeId": "n", "status": "started"}),
        (f"{OWN}/{run}/notes/scratchpad", {"content": "The pump is oiled."}),
        (f"{MEMORY}/put", {"memoryRef": "agent", "entry": {"content": "Ana has a cat."}, "runId": run}),
        (f"{MEMORY}/delete", {"memoryRef": "agent", "id": kept["entry"]["id"]}),
        (f"{MEMORY}/refs", {"agentId": "ana"}),
        (f"/v1/runs/{run}:fork", {"mode": "branch", "fromSeq": 1}),
        (f"{OWN}/{run}/end", {"variables": {"n": 1}}),
        (f"/v1/runs/{other}/cancel", {}),
        (f"/v1/runs/{run}:fork", {"mode": "replay"}),
    ]
    firsts: list[Any] = []
    for number, (path, body) in enumerate(attempts):
        first = await admin("POST", path, body, headers={"Idempotency-Key": f"k{number}"})
        assert first.is_success, (path, first.text)
        assert "openwop-idempotent-replay" not in first.headers
        firsts.append(first)
    for opened in (firsts[0], firsts[6]):
        await admin.end(opened.json()["runId"])
    for number, (path, body) in enumerate(attempts):
        again = await admin("POST", path, body, headers={"Idempotency-Key": f"k{number}"})
        assert (again.status_code, again.content) == (firsts[number].status_code, firsts[number].content), (
            path
        )
        assert again.headers["openwop-idempotent-replay"] == "true", path
    assert (await admin.post(OWN, {"workflowId": "w"}, 400, key="x" * 129))["error"] == "validation_error"
    for number, other in ((1, {"nodeId": "m", "status": "started"}), (5, {"agentId": "bo"})):
        said = await admin.post(attempts[number][0], other, 409, key=f"k{number}")
        assert said["error"] == "idempotency_key_mismatch"
    kinds = [event["type"] for event in await admin.events(run)]
    assert kinds.count("node.started") == 1
    assert len(await admin.list("agent")) == 1
    host.office.clock.now += 2
    assert await replace(host.office.container.runs, history_ms=1).drop_histories(host.office.context())
    again = await admin("POST", attempts[-1][0], attempts[-1][1], headers={"Idempotency-Key": "k9"})
    assert again.content == firsts[-1].content, "though it could be forked no longer"


@requirement("openwop:idempotency.once")
async def test_a_key_may_be_used_again_at_another_address(admin: Client) -> None:
    one, other = await admin.run(), await admin.run()
    for run in (one, other):
        await admin.post(f"{OWN}/{run}/nodes", {"nodeId": "n", "status": "started"}, key="same")
        await admin.post(f"{OWN}/{run}/end", {}, key="same")
        assert (await admin.get(f"/v1/runs/{run}"))["nodeStates"] == {"n": "running"}


# -- runs -------------------------------------------------------------------------------------------------------------


@requirement("openwop:run.driven")
async def test_a_run_is_driven_from_outside_and_its_notes_end_with_it(admin: Client) -> None:
    opened = await admin.post(
        OWN,
        {
            "workflowId": "orders",
            "inputs": {"order_number": 7},
            "tags": ["shop"],
            "metadata": {"snake_case": 1},
            "agent": {"agentId": "agent", "modelClass": "chat", "memoryRef": "agent"},
            "whatever": True,
        },
        201,
    )
    run = opened["runId"]
    assert opened == {
        "runId": run,
        "status": "running",
        "eventsUrl": f"/v1/runs/{run}/events",
        "statusUrl": f"/v1/runs/{run}",
    }
    await admin.post(f"{OWN}/{run}/nodes", {"nodeId": "look", "status": "started"})
    await admin.post(f"{OWN}/{run}/notes/conversation", {"content": "hello"}, 201)
    await admin.post(f"{OWN}/{run}/notes/scratchpad", {"content": "look again"}, 201)
    (note,) = (await admin.get(f"{OWN}/{run}/notes/scratchpad"))["notes"]
    assert note["text"] == "look again"
    assert told(await admin("DELETE", f"{OWN}/{run}/notes/scratchpad"), 200) == {"cleared": True}
    assert (await admin.get(f"{OWN}/{run}/notes/scratchpad"))["notes"] == []
    body = {"nodeId": "look", "status": "completed", "variables": {"how_many": {"a_b": 3}}}
    assert await admin.post(f"{OWN}/{run}/nodes", body) == {"runId": run, "status": "running"}
    assert (await admin.end(run))["status"] == "completed"
    shown = await admin.get(f"/v1/runs/{run}")
    assert (shown["variables"], shown["nodeStates"]) == ({"how_many": {"a_b": 3}}, {"look": "completed"})
    assert (shown["tags"], shown["metadata"]) == (["shop"], {"snake_case": 1})
    assert shown["agent"] == {"agentId": "agent", "modelClass": "chat", "memoryRef": "agent"}
    assert shown["owner"] == {"tenant": "default", "principal": "admin"}
    assert shown["vendor.quipu"]["driver"] == "external"
    assert (await admin.get(f"{OWN}/{run}/notes/conversation"))["notes"] == []
    encoded = run.replace("_", "%5F")
    assert (await admin.get(f"/v1/runs/{encoded}"))["runId"] == run
    fork = await admin.post(f"/v1/runs/{encoded}%3Afork", {"mode": "replay"}, 201)
    assert (fork["sourceRunId"], fork["mode"], fork["fromSeq"]) == (run, "replay", 0)


@requirement("openwop:run.driven")
async def test_runs_are_listed_page_by_page_and_by_what_is_asked_for(admin: Client) -> None:
    runs = [await admin.run(workflowId=f"w{n % 2}", agentId=f"a{n}") for n in range(5)]
    await admin.end(runs[0])
    first = await admin.get(f"{OWN}?limit=3")
    rest = await admin.get(f"{OWN}?limit=3&cursor={first['nextCursor']}")
    assert [run["runId"] for run in (*first["runs"], *rest["runs"])] == runs[::-1]
    assert rest["nextCursor"] is None
    ended = await admin.get(f"{OWN}?status=completed&workflowId=w0&agentId=a0")
    assert [run["runId"] for run in ended["runs"]] == runs[:1]
    said = await admin.get(f"{OWN}?lmit=3", 400)
    assert said["error"] == "validation_error"


# -- entries ----------------------------------------------------------------------------------------------------------


@requirement("openwop:adapter.round-trip")
async def test_entries_are_put_read_listed_and_deleted(admin: Client) -> None:
    kept = (await admin.put("team/ana", "Ana has a cat.", entry={"tags": ["pets", ""]}))["entry"]
    assert kept.keys() == CLOSED_ENTRY
    assert kept["tags"] == ["pets"]
    later = (await admin.put("team/ana", "Soon gone.", entry={"expiresAt": "2999-01-01T00:00:00Z"}))["entry"]
    assert later["expiresAt"] == "2999-01-01T00:00:00.000Z"
    assert await admin.list("team/ana") == [later, kept]
    assert await admin.list("team/ana", options={"tag": "pets", "query": "x", "tokenBudget": 5}) == [kept]
    assert await admin.list("team/bo") == []
    ask = {"memoryRef": "team/ana", "id": kept["id"]}
    assert await admin.post(f"{MEMORY}/get", ask) == {"entry": kept}
    assert await admin.post(f"{MEMORY}/get", {**ask, "memoryRef": "team/bo"}) == {"entry": None}
    assert await admin.post(f"{MEMORY}/delete", ask) == {"deleted": True}
    assert await admin.post(f"{MEMORY}/delete", ask) == {"deleted": False}
    assert await admin.post(f"{MEMORY}/get", ask) == {"entry": None}


@requirement("openwop:adapter.malformed-ref")
async def test_a_ref_that_is_none_names_nothing(admin: Client) -> None:
    for ref in ("", "a..b", "a\0b", "x" * 257):
        assert await admin.list(ref) == []
        assert await admin.post(f"{MEMORY}/get", {"memoryRef": ref, "id": "x"}) == {"entry": None}
        assert await admin.post(f"{MEMORY}/delete", {"memoryRef": ref, "id": "x"}) == {"deleted": False}
        assert (await admin.put(ref, "x", 400))["error"] == "validation_error"


@requirement("openwop:adapter.refs")
async def test_names_of_every_shape_are_refs_and_only_given_ones_are_opaque(
    host: Host, admin: Client
) -> None:
    for ref in ("mem_tenant:default_agent", "urn:openwop:memory:x/y", "a:b/c d", "mem_0123"):
        kept = (await admin.put(ref, f"An entry of {ref}."))["entry"]
        assert await admin.list(ref) == [kept]
    minted, again = [
        (await admin.post(f"{MEMORY}/refs", {"agentId": "a:b/c d"}, 201))["memoryRef"] for _ in range(2)
    ]
    assert minted == again
    assert [entry["content"] for entry in await admin.list(minted)] == ["An entry of a:b/c d."]
    invented = "mem_" + "0" * 26
    other = await host.client("other", tenant="other")
    for path, body in (
        ("list", {}),
        ("get", {"id": "x"}),
        ("put", {"entry": {"content": "x"}}),
        ("delete", {"id": "x"}),
    ):
        answers = [
            await other("POST", f"{MEMORY}/{path}", {"memoryRef": ref, **body}) for ref in (minted, invented)
        ]
        assert {answer.status_code for answer in answers} == {403}
        assert answers[0].content == answers[1].content
        assert answers[0].json()["error"] == "forbidden"


@requirement("openwop:adapter.pages")
async def test_there_is_a_way_past_five_hundred_entries(admin: Client) -> None:
    for start in range(0, 520, 40):
        lines = [{"content": f"entry {n}", "agent_id": "many"} for n in range(start, start + 40)]
        told(await admin("POST", "/v1/memories/batch", {"items": lines}), 200)
    seen: list[str] = []
    cursor: dict[str, str] = {}
    for expected in (500, 20):
        page = await admin.post(f"{MEMORY}/list", {"memoryRef": "many", "options": {"limit": 9999}, **cursor})
        assert len(page["entries"]) == expected
        seen += [entry["content"] for entry in page["entries"]]
        cursor = {"cursor": page.get("nextCursor", "")}
    assert "nextCursor" not in page
    assert sorted(seen) == sorted(f"entry {n}" for n in range(520))
    assert len(await admin.list("many")) == 100


@requirement("openwop:held.put")
async def test_a_held_put_answers_202_and_its_event_comes_with_the_approval(host: Host) -> None:
    writer = await host.client("writer", "agent")
    run = await writer.run()
    kept = (await writer.put("agent", "Ana has a dog."))["entry"]
    await host.office.rules(HOLD_ALL)
    said = await writer.put("agent", "Ana has a cat.", 202, runId=run, nodeId="n")
    assert said["entry"] is None
    assert said["held"].keys() == {"proposalId", "approvalUrl"}
    body = {"memoryRef": "agent", "id": kept["id"], "runId": run}
    deleted = await writer.post(f"{MEMORY}/delete", body, 202)
    assert deleted["deleted"] is False
    assert [event["type"] for event in await writer.events(run)] == ["run.started"]
    await writer.end(run)
    before = [event["type"] for event in await writer.events(run)]
    await host.office.decide(said["held"]["proposalId"])
    (*_, last) = await writer.events(run)
    assert [event["type"] for event in await writer.events(run)] == [*before, "memory.written"]
    (entry,) = [one for one in await host.office.entries("remember") if one.run == run]
    assert "run_event" in [table for table, *_ in entry.detail["side"]]  # pyright: ignore
    found = await writer.post(f"{MEMORY}/get", {"memoryRef": "agent", "id": last["payload"]["memoryId"]})
    assert found["entry"]["content"] == "Ana has a cat."


def test_an_app_that_serves_mcp_alone_has_none_of_it(host: Host) -> None:
    assert http_app(host.office.container, only="mcp").addresses == ()


@pytest.mark.parametrize("content", ["", None, {"a": 1}])
async def test_no_note_without_words(admin: Client, content: Any) -> None:
    run = await admin.run()
    said = await admin.post(f"{OWN}/{run}/notes/scratchpad", {"content": content}, 400)
    assert said["error"] == "validation_error"


@requirement("openwop:idempotency.once")
async def test_what_is_kept_to_answer_a_repeated_request_holds_nobodys_words(
    filed: Office, tmp_path: Path
) -> None:
    key, said = {"idempotency_key": "k"}, "words of somebody"
    run = (await filed(ops.OPEN_RUN, workflow_id="w", inputs={"a": said}, **key)).id
    place = {"run_id": run, **key}
    await filed(ops.PUT_ENTRY, memory_ref="agent", entry={"content": said, "tags": [said]}, **place)
    await filed(ops.RUN_NOTES, backend="scratchpad", action="add", content=said, **place)
    await filed(ops.RECORD_NODE, node_id="n", status="completed", variables={"v": said}, **place)
    owner = Owner(tmp_path / "memory.db")
    kept = owner("SELECT * FROM answer")
    owner.close()
    assert len(kept) == 4
    assert "words" not in repr(kept)
