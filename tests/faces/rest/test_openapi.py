"""This API's description: valid, true to the routes, and true to what is really answered."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from schemathesis.specs.openapi.definitions import OPENAPI_31
from starlette.routing import Route

from quipu.faces.http.openapi import document
from quipu.faces.memorywire import openapi as memorywire
from quipu.faces.rest import openapi
from quipu.faces.rest.routes import routes
from tests.faces.rest.test_routes import ROUTES, WRITE, asked, kept, token
from tests.faces.serving import Served, served


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(rate_per_minute=0) as running:
        yield running


@pytest.fixture
def api(server: Served) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


@pytest.fixture(scope="module")
def whole() -> dict[str, Any]:
    return document([memorywire.described(), openapi.described()], "1.2.3")


def test_the_document_is_valid_and_its_references_lead_somewhere(whole: dict[str, Any]) -> None:
    assert [error.json_path for error in Draft202012Validator(OPENAPI_31).iter_errors(whole)] == []
    text = json.dumps(whole)
    for reference in set(re.findall(r'"\$ref": "#/components/(\w+)/([^"/]+)', text)):
        assert reference[1] in whole["components"][reference[0]], reference
    ids = re.findall(r'"operationId": "([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_every_route_is_described_and_every_description_is_a_route(server: Served) -> None:
    real = {
        (route.path.replace(":path", ""), method.lower())
        for route in routes(server.service)
        if isinstance(route, Route)
        for method in route.methods or ()
        if method != "HEAD"
    }
    told = {(path, method) for path, item in openapi.described().paths.items() for method in item}
    assert told == real


def test_the_document_is_served(api: httpx.Client) -> None:
    assert set(openapi.described().paths) <= set(api.get("/openapi.json").json()["paths"])


def test_every_description_says_what_it_needs() -> None:
    for path, item in openapi.described().paths.items():
        for method, node in item.items():
            assert re.search(r"Needs (a credential|`\w+:\w+`)", node["description"]), (path, method)
            assert {"401", "403", "429", "500", "503"} <= set(node["responses"])


def _schema(whole: dict[str, Any], line: str, status: int) -> tuple[str, dict[str, Any]]:
    method, _, path = line.partition(" ")
    template = next(
        found
        for found in sorted(openapi.described().paths, key=lambda found: found.count("{"))
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", found), "/quipu/v1" + path.partition("?")[0])
        and method.lower() in openapi.described().paths[found]
    )
    content = whole["paths"][template][method.lower()]["responses"][str(status)]["content"]
    ((media_type, told),) = content.items()
    return media_type, {**told["schema"], "components": whole["components"]}


def _checked(whole: dict[str, Any], line: str, answer: httpx.Response) -> None:
    media_type, schema = _schema(whole, line, answer.status_code)
    assert answer.headers["content-type"] == media_type
    for text in [answer.text] if media_type == "application/json" else answer.text.splitlines():
        if text.strip():
            Draft202012Validator(schema).validate(json.loads(text))


def test_what_is_answered_is_what_is_described(whole: dict[str, Any], api: httpx.Client) -> None:
    name = kept(api, "tea", tags=["t"], metadata={"a": {"b": None}}, privacy_intent={"retain": "30d"})
    kept(api, "tea at noon", id=name)
    api.post(
        "/memorywire/v0/remember",
        json={"agent_id": "ana", "type": "semantic", "content": "held", "approval_required": True},
    )
    made = asked(api, "POST /tokens", {"name": "x", "roles": ["agent"]}).json()["token"]["id"]
    lines = [
        *(
            line
            for line, (_, body) in ROUTES.items()
            if body is None and "_no" not in line and "nobody" not in line
        ),
        *(f"GET /records/{name}", f"GET /records/{name}/history", f"DELETE /tokens/{made}"),
    ]
    for line in lines:
        answer = asked(api, line)
        if answer.status_code == 200 and answer.headers["content-type"] != "application/octet-stream":
            _checked(whole, line, answer)
    for line, body in (
        ("POST /stores", {"name": "cellar", "scope": "team"}),
        ("POST /records/query", {"agent_id": "ana", "states": ["live", "archived"]}),
        ("POST /export", {"agent_id": "ana"}),
        (
            "POST /tokens",
            {"name": "y", "roles": ["admin"], "agents": ["a*"], "expires_at": 9_999_999_999_999},
        ),
        ("POST /tenants", {"tenant": "acme"}),
        ("POST /secrets", {"label": "key", "value": "correct horse battery"}),
    ):
        answer = asked(api, line, body)
        assert answer.status_code in (200, 201), answer.text
        _checked(whole, line, answer)


def test_a_batch_that_is_let_through_is_described_too(
    whole: dict[str, Any], api: httpx.Client, server: Served
) -> None:
    item = {"agent_id": "ana", "type": "semantic", "content": "held together"}
    body = {"items": [item, {**item, "content": "with this", "approval_required": True}], "atomic": True}
    with server.client(token(server, WRITE)) as writer:
        held = writer.post("/memorywire/v0/remember/batch", json=body)
    name = held.json()["results"][0]["response"]["approval_url"].rpartition("/")[2]
    line = f"POST /proposals/{name}/decision"
    answer = asked(api, line, {"approved": True})
    assert (answer.status_code, answer.json()["operation"]) == (200, "batch"), answer.text
    _checked(whole, line, answer)


def test_a_word_that_nobody_knows_is_foreseen_everywhere(whole: dict[str, Any]) -> None:
    for path in openapi.described().paths:
        for method, node in whole["paths"][path].items():
            assert "400" in node["responses"], (method, path)


def test_a_file_is_described_as_it_comes_and_a_cause_that_is_not_there_is_foreseen(
    whole: dict[str, Any], api: httpx.Client
) -> None:
    kept(api, "tea")
    exported = asked(api, "POST /exports", {"agent_id": "ana"})
    assert exported.status_code == 200
    told = whole["paths"]["/quipu/v1/exports"]["post"]["responses"]["200"]["content"]
    assert {exported.headers["content-type"].partition(";")[0], "*/*"} & set(told)
    missing = asked(api, "POST /recover", {"agent_id": "ana", "proposal_id": "prp_no"})
    assert str(missing.status_code) in whole["paths"]["/quipu/v1/recover"]["post"]["responses"], missing.text
