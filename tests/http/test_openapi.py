"""The OpenAPI document: whole, valid, and shown by a page that needs nothing from elsewhere."""

import json
import re
from typing import Any

import jsonschema
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31

from quipu.bootstrap import OPERATIONS as ALL
from quipu.errors import ERRORS
from quipu.http.openapi import EXAMPLES, document
from quipu.http.v0 import v0_operations
from quipu.memory.memorywire import v0_schemas
from quipu.schemas import fields
from tests.http.conftest import Server

DOCUMENT = document(ALL)


def items() -> dict[str, tuple[str, str, dict[str, Any]]]:
    return {
        item["operationId"]: (path, method, item)
        for path, methods in DOCUMENT["paths"].items()
        for method, item in methods.items()
    }


def resolved(part: Any) -> Any:
    while isinstance(part, dict) and "$ref" in part:
        found: Any = DOCUMENT
        for word in part["$ref"].removeprefix("#/").split("/"):
            found = found[word]
        part = found
    return part


def test_the_document_is_valid_openapi_and_its_schemas_are_valid() -> None:
    jsonschema.Draft202012Validator(OPENAPI_31).validate(DOCUMENT)
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    assert len(items()) == sum(len(methods) for methods in DOCUMENT["paths"].values()), "ids are unique"


def test_every_reference_leads_somewhere() -> None:
    def walk(part: Any) -> None:
        if isinstance(part, dict):
            if isinstance(part.get("$ref"), str):
                assert resolved(part) is not None
            for value in part.values():
                walk(value)
        elif isinstance(part, list):
            for value in part:
                walk(value)

    walk(DOCUMENT)


@pytest.mark.parametrize("operation", [one for one in ALL if one.http], ids=lambda one: one.name)
def test_every_operation_is_described_with_every_field_and_every_answer(operation: Any) -> None:
    path, method, item = items()[operation.name]
    assert (path, method) == (operation.http.path.replace(":path}", "}"), operation.http.method.lower())
    assert item["summary"]
    assert item["description"].startswith(item["summary"][:20])
    names = {parameter["name"] for parameter in item["parameters"]}
    for parameter in item["parameters"]:
        assert parameter["description"]
        if parameter["in"] == "path":
            assert f"{{{parameter['name']}}}" in path
    assert set(re.findall(r"{(\w+)}", path)) <= names
    for content in item.get("requestBody", {}).get("content", {}).values():
        schema = content["schema"]
        schema = resolved(schema["anyOf"][0] if "anyOf" in schema else schema)
        names |= schema.get("properties", {}).keys()
    assert fields(operation.request).keys() <= names | set(operation.http.headers.values())
    assert set(operation.http.headers) <= names
    answers = item["responses"]
    assert {"200", "400", "429", "500", "503", "504"} <= answers.keys()
    assert operation.http.is_public or {"401", "403"} <= answers.keys()
    assert ("202" in answers) == ("pending_approval" in operation.response.model_fields)
    for answer in answers.values():
        assert resolved(answer)["content"]


def test_every_code_of_an_error_belongs_to_a_status() -> None:
    told = "".join(answer["description"] for answer in DOCUMENT["components"]["responses"].values())
    assert all(code in told for code in ERRORS)
    assert set(DOCUMENT["components"]["schemas"]["Problem"]["properties"]["code"]["enum"]) == set(ERRORS)


def test_every_example_is_a_request_that_is_taken() -> None:
    by_name = {operation.name: operation for operation in ALL}
    for name, example in EXAMPLES.items():
        operation = by_name[name]
        named = re.findall(r"{(\w+)}", operation.http.path if operation.http else "")
        operation.request.parse({**example, **dict.fromkeys(named, "mem_1")})
        shown = items()[name][2]["requestBody"]["content"]["application/json"]["examples"]
        assert shown["example"]["value"] == example


def test_v0_stands_beside_in_its_own_forms() -> None:
    for name, operation in v0_operations(ALL).items():
        path, _, item = items()[f"v0_{operation.name}"]
        assert path == f"/memorywire/v0/{name}"
        if name in ("remember", "recall", "forget", "merge", "expire"):
            answer = resolved(item["responses"]["200"]["content"]["application/json"]["schema"])
            assert answer["additionalProperties"] is False
            wanted = v0_schemas(v0_operations(ALL))[f"{name}.response"]["properties"]
            assert answer["properties"].keys() == {*wanted, "extensions"}


def test_protocols_add_paths_of_their_own() -> None:
    own = {"/oap/v1": {"get": {"operationId": "describe", "responses": {"200": {"description": "x"}}}}}
    assert document(ALL, own)["paths"]["/oap/v1"] == own["/oap/v1"]


async def test_a_problem_is_as_the_document_has_it(server: Server) -> None:
    schema = DOCUMENT["components"]["schemas"]["Problem"]
    for answer in (
        await server.http.get("/nowhere"),
        await server.post("/rig/fail"),
        await server.post("/v1/memories", contnt="x"),
        await server.http.get("/rig/who", headers={"Authorization": "Bearer no"}),
    ):
        jsonschema.Draft202012Validator(schema).validate(answer.json())


async def test_the_page_needs_nothing_from_elsewhere(server: Server) -> None:
    page = await server.http.get("/docs", headers={"Authorization": ""})
    assert page.status_code == 200
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';")
    assert "http" not in policy
    assert "http" not in page.text.replace("http-equiv", "")
    for address in re.findall(r'(?:src|href)="([^"]+)"', page.text):
        found = await server.http.get(address)
        assert found.status_code == 200, address
        assert found.headers["x-content-type-options"] == "nosniff"
    assert "<script>" not in page.text, "no script stands in the page, and its policy lets none run"
    start = await server.http.get("/docs/start.js")
    assert 'url: "/openapi.json"' in start.text
    assert "validatorUrl: null" in start.text
    assert (await server.http.get("/docs/swagger-editor.js")).status_code == 404
    for path in ("/openapi.json", "/v1/openapi.json"):
        answer = await server.http.get(path)
        assert answer.headers["content-encoding"] == "gzip"
        assert json.loads(answer.text)["openapi"] == "3.1.0"
