"""Every operation over HTTP: what is accepted, what is answered, what is refused."""

import json
from typing import Any

import pytest
from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse
from starlette.responses import Response as HttpResponse
from starlette.routing import Route

from quipu.client.remote import segment
from quipu.errors import ERRORS, NotFoundError
from quipu.http.authentication import Authentication
from quipu.http.exchange import Exchanges
from quipu.http.limits import Limits
from quipu.http.problems import STATUS
from quipu.http.routes import Addresses, Endpoint
from quipu.memory.pipeline import Verdict
from quipu.model.principal import Principal
from tests.http.conftest import OPERATIONS, Server
from tests.http.rig import Told


async def test_a_memory_goes_in_and_comes_out(server: Server) -> None:
    kept = await server.post("/v1/memories", content="Ana lives in Lisbon", tags=["home"])
    assert kept.status_code == 200
    assert (kept.headers["etag"], kept.headers["quipu-seq"]) == ('"1"', "2")
    name = kept.json()["id"]
    found = await server.post("/v1/memories/recall", query="Ana", min_relevance="off")
    assert [hit["id"] for hit in found.json()["results"]] == [name]
    shown = await server.http.get(f"/v1/memories/{name}")
    assert shown.json()["content"] == "Ana lives in Lisbon"
    changed = await server.http.patch(
        f"/v1/memories/{name}", json={"content": "Ana lives in Porto"}, headers={"If-Match": '"1"'}
    )
    assert changed.json()["version"] == 2
    late = await server.http.patch(f"/v1/memories/{name}", json={"content": "x"}, headers={"If-Match": '"1"'})
    assert (late.status_code, late.json()["code"], late.json()["reason"]) == (
        409,
        "conflict",
        "version_mismatch",
    )
    listed = await server.http.get(
        "/v1/memories", params={"limit": 1, "filter": json.dumps({"tags": "home"})}
    )
    assert [record["id"] for record in listed.json()["records"]] == [name]
    history = await server.http.get(f"/v1/memories/{name}/history")
    assert len(history.json()["versions"]) == 2
    gone = await server.post("/v1/memories/forget", ids=[name])
    assert gone.json()["forgotten_ids"] == [name]
    back = await server.http.post(f"/v1/memories/{name}/restore")
    assert back.status_code == 200


async def test_a_key_in_the_header_makes_a_write_happen_once(server: Server) -> None:
    answers = [
        await server.http.post("/v1/memories", json={"content": "x"}, headers={"Idempotency-Key": "k"})
        for _ in range(2)
    ]
    assert answers[0].json()["id"] == answers[1].json()["id"]
    assert "idempotency-replayed" not in answers[0].headers
    assert answers[1].headers["idempotency-replayed"] == "true"


async def test_nobody_comes_in_without_a_credential(server: Server) -> None:
    for headers in ({"Authorization": ""}, {"Authorization": "Basic good"}):
        for operation in OPERATIONS:
            assert operation.http is not None
            path = operation.http.path.replace("{id}", "mem_1").replace("{name}", "main")
            answer = await server.http.request(operation.http.method, path, headers=headers)
            assert answer.status_code == 401, (operation.name, headers)
            assert answer.json()["code"] == "unauthenticated"
            assert "www-authenticate" in answer.headers


async def test_every_error_has_a_status_and_says_what_to_do(server: Server) -> None:
    assert set(STATUS) == set(ERRORS)
    answer = await server.http.get("/v1/memories/mem_nowhere")
    body = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert (body["status"], body["code"], body["reason"]) == (404, "not_found", "record")
    assert body["request_id"] == answer.headers["quipu-request-id"]
    assert (await server.http.get("/nowhere")).json()["code"] == NotFoundError.code
    wrong = await server.http.delete("/v1/memories/recall")
    assert (wrong.status_code, wrong.json()["code"]) == (405, "validation_error")


async def test_bad_bodies_are_refused_before_anything_is_done(server: Server) -> None:
    bodies: list[tuple[bytes, int, str]] = [
        (b'{"content": "a", "content": "b"}', 400, "bad_json"),
        (b'{"content": NaN}', 400, "bad_json"),
        (b'{"content": "a", "metadata": {"x": Infinity}}', 400, "bad_json"),
        (b"[1]", 400, "bad_json"),
        (b"{", 400, "bad_json"),
        (b"\xff", 400, "bad_json"),
        (b"[" * 100_000, 400, "bad_json"),
        (b'{"content": "\\u0000"}', 400, "bad_value"),
        (b'{"content": "\\ud800"}', 400, "bad_value"),
        (b'{"content": "a", "metadata": {"x": 99999999999999999999}}', 400, "bad_value"),
        (b'{"content": "a", "contnt": 1}', 400, "unknown_field"),
        (b'{"content": "' + b"a" * 2_000_000 + b'"}', 413, "too_large"),
        (b'{"content": "' + b"a" * 5_000_000 + b'"}', 413, "too_large"),
    ]
    for body, status, reason in bodies:
        answer = await server.http.post(
            "/v1/memories", content=body, headers={"Content-Type": "application/json"}
        )
        assert (answer.status_code, answer.json()["reason"]) == (status, reason), body[:60]
    plain = await server.http.post("/v1/memories", content=b"{}", headers={"Content-Type": "text/plain"})
    assert plain.status_code == 415
    assert (await server.memory.ledger.head("default")).seq == 0


async def test_a_misspelt_word_in_a_query_is_refused(server: Server) -> None:
    answer = await server.http.get("/v1/memories", params={"limt": 1})
    assert answer.json()["errors"][0]["pointer"] == "/limt"
    assert "limit" in answer.json()["errors"][0]["accepted"]
    for path in ("/v1/memories", "/memorywire/v0/remember"):
        body = {"agent_id": "a", "type": "semantic", "content": "x"}
        write = await server.http.post(f"{path}?dry_rn=true", json=body)
        assert (write.status_code, write.json()["reason"]) == (400, "unknown_field")
    assert (await server.memory.ledger.head("default")).seq == 0
    twice = await server.http.post("/v1/memories?content=a", json={"content": "b"})
    assert twice.status_code == 400


async def test_health_is_told_without_detail_to_anybody_and_whole_to_callers(server: Server) -> None:
    for path in ("/healthz", "/readyz"):
        answer = await server.http.get(path, headers={"Authorization": ""})
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    whole = (await server.http.get("/v1/health")).json()
    assert (whole["status"], whole["ledger"]["kind"], whole["embedder"]) == ("ok", "sqlite", "words")
    can = (await server.http.get("/v1/capabilities")).json()
    assert {"remember", "recall"} <= set(can["operations"])


async def test_a_held_write_is_answered_with_202_and_waits_for_a_decision_if_that_is_preferred(
    server: Server,
) -> None:
    server.memory.rules.verdict = Verdict(effect="hold", rules=("careful",))
    held = await server.post("/v1/memories", content="x")
    assert (held.status_code, held.json()["pending_approval"]) == (202, True)
    assert server.deciders.waited == []
    server.rig.holds = True
    server.deciders.answer = Told(type="approved")
    for preferred, waited in (("wait=7", 7.0), ("respond-async, wait=900", 60.0), ("wait=0", 0.0)):
        done = await server.http.post("/rig/echo", json={}, headers={"Prefer": preferred})
        assert (done.status_code, done.json()["type"]) == (200, "approved")
        assert done.headers["preference-applied"] == f"wait={waited:g}"
        assert server.deciders.waited.pop() == waited
    for preferred in ("wait=soon", "wait=-1", "wait=", "wait=\u00b2".encode()):
        refused = await server.http.post("/rig/echo", json={}, headers={"Prefer": preferred})
        assert refused.status_code == 400
    passed_over = await server.http.post("/rig/echo", json={}, headers={"Prefer": "return=minimal"})
    assert passed_over.status_code == 202


async def test_fields_that_are_not_known_are_left_out_and_named_where_that_is_preferred(
    server: Server,
) -> None:
    refused = await server.post("/v1/memories", content="x", mood="good")
    assert refused.json()["reason"] == "unknown_field"
    lenient = await server.http.post(
        "/v1/memories",
        json={"content": "x", "mood": "good", "b\r\nad": 1},
        headers={"Prefer": "handling=lenient"},
    )
    assert lenient.status_code == 200
    assert lenient.headers["quipu-ignored-fields"] == "mood, b%0D%0Aad"


@pytest.mark.parametrize(
    "odd", ["a/b", "..", "../../etc", "a b", "%", "a%2Fb", "ü", "x?y#z", "a\nb", "deep", "*"]
)
async def test_a_name_in_a_path_may_hold_anything(server: Server, odd: str) -> None:
    sent = segment(odd)
    assert (await server.http.get(f"/rig/items/{sent}")).json()["id"] == odd
    found = (await server.http.get(f"/rig/items/{sent}/deep")).json()
    assert (found["id"], found["type"]) == (odd, "deep")


async def test_a_name_at_the_end_may_be_all_that_follows(server: Server) -> None:
    for path, name in (("a", "a"), ("a/b/c", "a/b/c"), ("a%2Fb/c%20d", "a/b/c d")):
        assert (await server.http.get(f"/rig/rest/{path}")).json()["id"] == name
    assert (await server.http.get("/rig/rest/")).status_code == 404


async def test_routes_of_protocols_stand_beside_operations_at_the_same_address(server: Server) -> None:
    async def own(http: HttpRequest) -> HttpResponse:
        return PlainTextResponse(f"own {http.path_params['name']}")

    addresses = Addresses(
        [("GET", "/both/{id}", operation_endpoint(server))],
        [Route("/both/{name}", own, methods=["PUT"]), Route("/own/{name}", own)],
    )
    outermost = server.app.asgi
    assert isinstance(outermost, Exchanges)
    limits = outermost._app
    assert isinstance(limits, Limits)
    limits._app = addresses
    assert (await server.http.get("/both/x")).json()["id"] == "x"
    assert (await server.http.put("/both/x")).text == "own x"
    assert (await server.http.get("/own/x")).text == "own x"
    wrong = await server.http.delete("/both/x")
    assert (wrong.status_code, wrong.json()["reason"]) == (405, "bad_method")
    assert (await server.http.get("/neither")).json()["reason"] == "address"


def operation_endpoint(server: Server) -> Endpoint:
    """The one that answers with what it was given."""
    (found,) = [one for one in server.rig.operations if one.name == "rig_item"]
    tokens = server.tokens

    class Tokens:
        async def principal(self, text: str) -> Principal:
            return tokens[text]

    authentication = Authentication(Tokens(), lambda principal: server.memory.context(principal))
    return Endpoint(operation=found, authentication=authentication)


async def test_a_web_socket_is_shut_at_once(server: Server) -> None:
    said: list[Any] = []

    async def send(message: Any) -> None:
        said.append(message["type"])

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    await server.app({"type": "websocket", "path": "/own", "headers": []}, receive, send)
    assert said == ["websocket.close"]


async def test_a_fixed_word_and_a_name_may_stand_in_the_same_place(server: Server) -> None:
    answer = await server.http.get("/v1/memories/recall")
    assert (answer.status_code, answer.json()["reason"]) == (404, "record")
    wrong = await server.http.put("/v1/memories/recall")
    assert (wrong.status_code, wrong.json()["reason"]) == (405, "bad_method")
    assert {"GET", "HEAD", "PATCH", "POST"} == set(wrong.headers["allow"].split(", "))
    assert (await server.http.request("OPTIONS", "/rig/echo")).headers["allow"] == "POST"


@pytest.mark.parametrize(
    "path", ["/", "/nowhere", "/rig", "/rig/items/", "/rig/echo/", "/%00", "/v1/memories//", "//"]
)
async def test_an_unknown_address_is_not_found(server: Server, path: str) -> None:
    for headers in ({}, {"Authorization": ""}):
        answer = await server.http.get(f"http://127.0.0.1{path}", headers=headers)
        assert (answer.status_code, answer.json()["reason"]) == (404, "address"), path


async def test_head_is_get(server: Server) -> None:
    assert (await server.http.head("/rig/large")).headers["content-type"] == "application/json"
    assert (await server.http.head("/nowhere")).status_code == 404


async def test_every_answer_carries_the_headers_that_keep_it_safe(server: Server) -> None:
    seen = set[str]()
    for path in ("/rig/public", "/nowhere", "/healthz", "/readyz", "/rig/who"):
        answer = await server.http.get(path, headers={"Quipu-Request-Id": "req_mine"})
        # The document says the same to everybody.
        kept = "public, max-age=60" if path == "/openapi.json" else "no-store"
        assert answer.headers["cache-control"] == kept
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert "strict-transport-security" not in answer.headers
        seen.add(answer.headers["quipu-request-id"])
    assert len(seen) == 5
    assert all(name.startswith("req_") and name != "req_mine" for name in seen)


async def test_large_answers_are_packed_where_that_is_asked_for_and_safe(server: Server) -> None:
    large = await server.http.get("/rig/large")
    assert (large.headers["content-encoding"], large.headers["vary"]) == ("gzip", "Accept-Encoding")
    assert len(large.json()["value"]["text"]) == 100_000
    plain = await server.http.get("/rig/large", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    for path in ("/rig/who", "/docs"):  # too small; a page
        assert "content-encoding" not in (await server.http.get(path)).headers


async def test_what_is_public_needs_no_credential_but_no_bad_one_either(server: Server) -> None:
    nobody = await server.http.get("/rig/public", headers={"Authorization": ""})
    assert nobody.status_code == 401
    del server.http.headers["Authorization"]
    refused = await server.http.get("/rig/public")
    assert refused.status_code == 403, "anybody has no permission, and this operation needs one"
    assert (await server.http.get("/rig/who")).status_code == 401
