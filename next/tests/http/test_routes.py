"""Every operation over HTTP: what is accepted, what is answered, what is refused."""

import json
from typing import Any

from quipu.errors import ERRORS, NotFoundError
from quipu.http.problems import STATUS
from quipu.operation import AnyOperation
from quipu.schemas import fields
from tests.http.conftest import OPERATIONS, Server


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
    for headers in (
        {"Authorization": ""},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic good"},
    ):
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
    twice = await server.http.post("/v1/memories?content=a", json={"content": "b"})
    assert twice.status_code == 400


async def test_every_operation_refuses_bad_values_alike_and_never_fails(server: Server) -> None:
    """Each field of each operation, with values of every wrong kind: a problem with a stable code, never a 500."""
    wrong: list[Any] = [True, -1, 10**30, "x" * 70_000, "\ud800", [], {}, {"$bad": 1}, [None], [[1]], "\0"]
    failed: list[str] = []
    for operation in OPERATIONS:
        if operation.is_stream:
            continue
        for name in fields(operation.request):
            for value in wrong:
                answer = await _sent(server, operation, name, value)
                if answer.status_code >= 500:
                    failed.append(f"{operation.name}.{name}={str(value)[:20]!r}: {answer.status_code}")
                elif answer.status_code >= 400 and "code" not in answer.json():
                    failed.append(f"{operation.name}.{name}: no code")
    assert not failed


async def _sent(server: Server, operation: AnyOperation, name: str, value: Any) -> Any:
    route = operation.http
    assert route is not None
    path = route.path.replace("{id}", "mem_1").replace("{name}", "main")
    if route.method in ("GET", "DELETE"):
        text = json.dumps(value)[:60_000]
        return await server.http.request(route.method, path, params={name: text})
    body = json.dumps({name: value}).encode()
    return await server.http.request(
        route.method, path, content=body, headers={"Content-Type": "application/json"}
    )


async def test_the_document_describes_every_route_with_every_field(server: Server) -> None:
    document = (await server.http.get("/openapi.json")).json()
    assert document["openapi"] == "3.1.0"
    described = {
        item["operationId"]: (path, method, item)
        for path, methods in document["paths"].items()
        for method, item in methods.items()
    }
    for operation in OPERATIONS:
        assert operation.http is not None
        path, method, item = described[operation.name]
        assert (path, method) == (operation.http.path, operation.http.method.lower())
        names = {parameter["name"] for parameter in item["parameters"]}
        if "requestBody" in item:
            reference = item["requestBody"]["content"]["application/json"]["schema"]["$ref"]
            names |= document["components"]["schemas"][reference.rpartition("/")[2]]["properties"].keys()
        assert fields(operation.request).keys() <= names, operation.name
    references = set(_references(document))
    assert references <= {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [found for item in value.values() for found in _references(item)]
    return [found for item in value for found in _references(item)] if isinstance(value, list) else []


async def test_the_page_of_the_api_needs_nothing_from_elsewhere(server: Server) -> None:
    page = await server.http.get("/docs", headers={"Authorization": ""})
    assert page.status_code == 200
    assert "http" not in page.text.replace("http-equiv", "")
    for name in ("swagger-ui.css", "swagger-ui-bundle.js", "start.js"):
        assert (await server.http.get(f"/docs/{name}")).status_code == 200
    assert (await server.http.get("/docs/swagger-editor.js")).status_code == 404


async def test_a_foreign_name_or_origin_is_refused(server: Server) -> None:
    for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
        answer = await server.http.post("/v1/memories", json={"content": "x"}, headers=headers)
        assert (answer.status_code, answer.json()["reason"]) == (403, "unknown_host")
    good = await server.http.get("/v1/health", headers={"Origin": "http://localhost:3000"})
    assert good.status_code == 200


async def test_health_is_told_without_detail_to_strangers_and_whole_to_callers(server: Server) -> None:
    for path in ("/healthz", "/readyz"):
        answer = await server.http.get(path, headers={"Authorization": ""})
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    whole = (await server.http.get("/v1/health")).json()
    assert (whole["status"], whole["ledger"]["kind"], whole["embedder"]) == ("ok", "sqlite", "words")
    can = (await server.http.get("/v1/capabilities")).json()
    assert {"remember", "recall"} <= set(can["operations"])


async def test_a_held_write_is_answered_with_202(server: Server) -> None:
    from quipu.memory.pipeline import Verdict

    server.memory.rules.verdict = Verdict(effect="hold", rules=("careful",))
    held = await server.post("/v1/memories", content="x")
    assert (held.status_code, held.json()["pending_approval"]) == (202, True)
