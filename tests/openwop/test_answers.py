"""Every documented answer, asked for by HTTP and held against the OpenAPI document that the host serves."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from tests.openwop.suite import FORMATS, Suite, suite
from tests.requirement import requirement

REF = "answers/notes"
Asked = Callable[[Suite], httpx.Response]


@pytest.fixture(scope="module")
def a() -> Iterator[Suite]:
    with suite() as made:
        yield made


def get(path: str, **query: Any) -> Asked:
    return lambda a: a.client.get(path, params=query)


def post(path: str, **body: Any) -> Asked:
    return lambda a: a.client.post(path, json=body)


def of_run(path: str, *, method: str = "POST", **body: Any) -> Asked:
    """Asked of a run from outside that is at work."""

    def ask(a: Suite) -> httpx.Response:
        given = {"json": body} if method == "POST" else {}
        return a.client.request(method, path.replace("RUN", a.outside()), **given)

    return ask


def of_ended(path: str, method: str = "GET", **body: Any) -> Asked:
    def ask(a: Suite) -> httpx.Response:
        name = a.run("conformance-agent-memory-roundtrip")["runId"]
        return a.client.request(method, path.replace("RUN", name), **({"json": body} if body else {}))

    return ask


def seeded(ask: Asked, ref: str) -> Asked:
    """Asked where there are two entries."""

    def both(a: Suite) -> httpx.Response:
        for name in ("one", "two"):
            a.memory("put", 201, memoryRef=ref, entry={"content": f"The {name} lamp is lit."})
        return ask(a)

    return both


OUTSIDE, ADAPTER = "/v1/x-host-quipu-runs", "/v1/x-host-quipu-memory"
#: Operation and status → requests that are answered so.
ANSWERS: Mapping[tuple[str, str, int], list[Asked]] = {
    ("get", "/.well-known/openwop", 200): [get("/.well-known/openwop")],
    ("get", "/v1/openapi.json", 200): [get("/v1/openapi.json")],
    ("post", "/v1/runs", 201): [post("/v1/runs", workflowId="conformance-noop")],
    ("get", "/v1/runs/{run_id}", 200): [of_ended("/v1/runs/RUN"), of_run("/v1/runs/RUN", method="GET")],
    ("get", "/v1/runs/{run_id}/events", 200): [of_ended("/v1/runs/RUN/events")],
    ("get", "/v1/runs/{run_id}/events/poll", 200): [
        of_ended("/v1/runs/RUN/events/poll"),
        of_run("/v1/runs/RUN/events/poll", method="GET"),
    ],
    ("post", "/v1/runs/{run_id}:fork", 201): [
        of_ended("/v1/runs/RUN:fork", "POST", mode="replay"),
        of_ended("/v1/runs/RUN:fork", "POST", mode="branch", fromSeq=0),
    ],
    ("post", "/v1/runs/{run_id}/cancel", 200): [of_run("/v1/runs/RUN/cancel")],
    ("get", "/v1/workflows/{workflow_id}", 200): [
        get("/v1/workflows/conformance-noop"),
        get("/v1/workflows/conformance-agent-memory-redaction"),
    ],
    ("get", "/v1/agents", 200): [get("/v1/agents")],
    ("get", "/v1/agents/{agent_id}", 200): [
        lambda a: a.client.get(f"/v1/agents/{a.get('/v1/agents')['agents'][0]['agentId']}")
    ],
    ("get", "/v1/memory/{ref}", 200): [
        get("/v1/memory/nobody"),
        seeded(get("/v1/memory/answers%2Fnotes", limit=5), REF),
    ],
    ("post", "/v1/x-host-quipu-memory/{operation}", 200): [
        seeded(post(f"{ADAPTER}/list", memoryRef=REF), REF),
        post(f"{ADAPTER}/get", memoryRef=REF, id="mem_none"),
        lambda a: a.client.post(
            f"{ADAPTER}/get",
            json={"memoryRef": REF, "id": a.memory("list", memoryRef=REF)["entries"][0]["id"]},
        ),
        post(f"{ADAPTER}/delete", memoryRef=REF, id="mem_none"),
        post(f"{ADAPTER}/compact", memoryRef="answers/nothing"),
        seeded(post(f"{ADAPTER}/compact", memoryRef="answers/several"), "answers/several"),
    ],
    ("post", "/v1/x-host-quipu-memory/{operation}", 201): [
        post(f"{ADAPTER}/put", memoryRef=REF, entry={"content": "x", "tags": ["t"]})
    ],
    ("post", "/v1/x-host-quipu-memory-refs", 201): [post("/v1/x-host-quipu-memory-refs", agentId="ana")],
    ("get", "/v1/x-host-quipu-runs", 200): [get(OUTSIDE), get(OUTSIDE, workflowId="w", limit=1)],
    ("post", "/v1/x-host-quipu-runs/{run_id}/expire", 200): [of_ended(f"{OUTSIDE}/RUN/expire", "POST")],
    ("post", "/v1/x-host-quipu-runs", 201): [post(OUTSIDE, workflowId="w")],
    ("post", "/v1/x-host-quipu-runs/{run_id}/nodes", 200): [
        of_run(f"{OUTSIDE}/RUN/nodes", nodeId="n", status="started"),
        of_run(
            f"{OUTSIDE}/RUN/nodes",
            nodeId="n",
            status="failed",
            error={"code": "broken", "message": "It broke."},
        ),
    ],
    ("post", "/v1/x-host-quipu-runs/{run_id}/complete", 200): [
        of_run(f"{OUTSIDE}/RUN/complete", variables={"v": 1})
    ],
    ("post", "/v1/x-host-quipu-runs/{run_id}/fail", 200): [
        of_run(f"{OUTSIDE}/RUN/fail", error={"code": "broken", "message": "It broke."})
    ],
    ("get", "/v1/x-host-quipu-runs/{run_id}/notes/{backend}", 200): [
        of_run(f"{OUTSIDE}/RUN/notes/scratchpad", method="GET")
    ],
    ("post", "/v1/x-host-quipu-runs/{run_id}/notes/{backend}", 200): [
        of_run(f"{OUTSIDE}/RUN/notes/conversation", content="noted")
    ],
    ("delete", "/v1/x-host-quipu-runs/{run_id}/notes/{backend}", 200): [
        of_run(f"{OUTSIDE}/RUN/notes/scratchpad", method="DELETE")
    ],
    ("post", "/v1/test/memory/seed", 201): [
        post("/v1/test/memory/seed", memoryRef="answers/seed", entries=[{"id": "s", "content": "x"}])
    ],
    ("post", "/v1/test/memory/compact", 200): [
        seeded(post("/v1/test/memory/compact", memoryRef="answers/compact"), "answers/compact")
    ],
    ("post", "/v1/test/memory/compact", 204): [post("/v1/test/memory/compact", memoryRef="answers/empty")],
    ("post", "/v1/host/sample/memory/distill", 200): [
        post("/v1/host/sample/memory/distill", memoryRef="answers/distill", indexEmitted=True),
        post("/v1/host/sample/memory/distill", memoryRef="answers/distill", sources=["A lamp is lit."]),
    ],
    ("post", "/v1/host/sample/memory/consolidate", 200): [
        post("/v1/host/sample/memory/consolidate", memoryRef="answers/same", includeSecretCanary=True)
    ],
    ("post", "/v1/host/sample/commitment/fire", 200): [
        post("/v1/host/sample/commitment/fire", memoryRef="answers/due", condition=condition)
        for condition in ("time", "predicate")
    ],
}


def validator(document: Any, reference: str) -> Draft202012Validator:
    """Of a schema inside the document."""
    whole = Resource.from_contents({**document, "$schema": document["jsonSchemaDialect"]})
    registry: Registry[Any] = Registry().with_resource("urn:document", whole)
    return Draft202012Validator(
        {"$ref": f"urn:document{reference}"}, registry=registry, format_checker=FORMATS
    )


@requirement("openwop:server.answers")
def test_every_documented_answer_is_given_and_is_what_its_schema_says(a: Suite) -> None:
    document = a.get("/v1/openapi.json")
    documented = {
        (method, path, int(status))
        for path, item in document["paths"].items()
        for method, operation in item.items()
        for status in operation["responses"]
        if status != "default"
    }
    assert documented == set(ANSWERS)
    for (method, path, status), requests in ANSWERS.items():
        described = document["paths"][path][method]["responses"][str(status)]
        for ask in requests:
            told = ask(a)
            assert told.status_code == status, (method, path, told.text)
            if "content" not in described:
                assert not told.content
                continue
            assert told.headers["content-type"].startswith("application/json")
            schema = described["content"]["application/json"]["schema"]
            validator(document, schema["$ref"]).validate(told.json())


@requirement("openwop:server.answers")
def test_without_a_credential_every_other_operation_answers_with_the_envelope(a: Suite) -> None:
    document = a.get("/v1/openapi.json")
    stranger = a.with_token("")
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if operation.get("security") == []:
                continue
            told = stranger.request(method, path.replace("{", "").replace("}", ""))
            assert told.status_code == 401, (method, path)
            validator(document, "#/components/schemas/error-envelope").validate(told.json())


@requirement("openwop:server.answers")
def test_a_schema_that_is_not_met_is_noticed(a: Suite) -> None:
    document = a.get("/v1/openapi.json")
    for name, bad in (
        ("run-state", {"runId": "r", "status": "asleep"}),
        ("memory-answer", {"entry": {"id": "x"}}),
        ("notes", {"notes": [1]}),
        ("agent", {"agentId": "x"}),
        ("compacted", {"type": "memory.compacted", "payload": {}, "outputContent": ""}),
    ):
        assert list(validator(document, f"#/components/schemas/{name}").iter_errors(bad)), name
