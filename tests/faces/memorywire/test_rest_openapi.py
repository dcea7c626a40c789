"""The OpenAPI document and its page: whole, valid, true to the routes, and safe to look at."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from schemathesis.specs.openapi.definitions import OPENAPI_31
from starlette.routing import Route

from quipu.bootstrap.serving import WebApp, web_app
from quipu.config import Config
from quipu.faces.http.openapi import document
from quipu.faces.http.openapi_page import rendered, said
from quipu.faces.memorywire import openapi, paths, routes
from quipu.faces.memorywire.openapi_examples import EXAMPLES
from quipu.faces.memorywire.schemas import names
from quipu.testing.embedders import WordEmbedder
from tests.faces.memorywire.shapes import problems
from tests.requirement import requirement


@pytest.fixture(scope="module")
def whole() -> dict[str, Any]:
    return document([openapi.described()], "1.2.3")


@pytest.fixture
async def made() -> AsyncIterator[WebApp]:
    """The whole application, as it is served."""
    app = await web_app(Config(store_url="sqlite://:memory:"), is_open=True, embedder=WordEmbedder())
    await app.running.parts.ledger.open("default")
    app.lifecycle.ready()
    yield app
    await app.running.close()


@pytest.fixture
async def site(made: WebApp) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(made.asgi)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


def nodes(node: object) -> Iterator[dict[str, Any]]:
    """Every object inside a document."""
    if isinstance(node, dict):
        yield node
    for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from nodes(item)


@requirement("memorywire:rest.openapi")
def test_the_document_is_valid_openapi_3_1(whole: dict[str, Any]) -> None:
    assert [error.json_path for error in Draft202012Validator(OPENAPI_31).iter_errors(whole)] == []
    for schema in whole["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(whole)) == whole


@requirement("memorywire:rest.openapi")
def test_every_reference_leads_somewhere(whole: dict[str, Any]) -> None:
    references = [node["$ref"] for node in nodes(whole) if isinstance(node.get("$ref"), str)]
    assert len(references) > 300
    for reference in references:
        target: Any = whole
        for step in reference.removeprefix("#/").split("/"):
            target = target[step.replace("~1", "/").replace("~0", "~")]
        assert isinstance(target, dict)


@requirement("memorywire:rest.openapi")
def test_every_route_is_described_and_every_description_is_a_route(whole: dict[str, Any]) -> None:
    service: Any = object()
    served = {
        (route.path.replace(":path}", "}"), method)
        for route in routes.routes(service)
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    described = {(path, method.upper()) for path, item in whole["paths"].items() for method in item}
    assert described == served
    assert all(path.startswith(paths.PREFIX) for path, _ in described)


@requirement("memorywire:rest.openapi")
def test_every_published_schema_is_a_component_and_means_the_same(whole: dict[str, Any]) -> None:
    assert set(whole["components"]["schemas"]) == {name.replace("/", ".") for name in names()}
    answers = {"id": "m", "stored_at": 1, "stores": [], "pending_approval": False, "approval_url": None}
    batch = {"results": [{"index": 0, "response": answers}]}
    inside = {
        "$ref": "#/components/schemas/operations.remember_batch.response",
        "components": whole["components"],
    }
    judge = Draft202012Validator(inside)
    assert judge.is_valid(batch)
    assert not judge.is_valid({"results": [{"index": 0, "response": answers | {"x": 1}}]})


@requirement("memorywire:rest.openapi")
def test_every_operation_says_what_it_needs_and_what_may_go_wrong(whole: dict[str, Any]) -> None:
    ids: list[str] = []
    for item in whole["paths"].values():
        for operation in item.values():
            ids.append(operation["operationId"])
            assert re.search(r"Needs |For who wrote it", operation["description"]), operation["operationId"]
            assert {"401", "403", "429", "500", "503", "504"} <= set(operation["responses"])
            assert operation["tags"][0] in {tag["name"] for tag in whole["tags"]}
            for parameter in operation.get("parameters", ()):
                assert parameter["description"]
    assert len(ids) == len(set(ids))


@requirement("memorywire:rest.openapi")
def test_the_examples_are_valid(whole: dict[str, Any]) -> None:
    for name in ("remember", "recall", "forget", "merge", "expire"):
        assert problems(f"operations/{name}", EXAMPLES[name]) == []
    assert problems("operations/remember_batch", EXAMPLES["batch"]) == []
    assert problems("governance/decision", EXAMPLES["decision"]) == []


@requirement("memorywire:rest.openapi")
def test_faces_are_put_together_into_one_document() -> None:
    from quipu.faces.http.openapi import Described

    path = f"{paths.PREFIX}/remember"
    other = Described(
        paths={"/x": {"get": {}}, path: {"put": {}}}, schemas={"x": {"type": "object"}}, tags={"x": "More."}
    )
    joined = document([openapi.described(), other], "1")
    assert set(joined["paths"][path]) == {"post", "put"}
    assert {"/x"} < set(joined["paths"])
    assert "x" in joined["components"]["schemas"]
    assert [tag["name"] for tag in joined["tags"]][-1] == "x"


@requirement("memorywire:rest.openapi")
async def test_the_document_of_the_whole_server_describes_every_route_of_its_interfaces(
    made: WebApp, site: httpx.AsyncClient
) -> None:
    served = (await site.get("/openapi.json")).json()
    assert [error.json_path for error in Draft202012Validator(OPENAPI_31).iter_errors(served)] == []
    interfaces = (paths.PREFIX, "/quipu/v1")
    routed = {
        (route.path.replace(":path}", "}"), method)
        for route in made.asgi.routes
        if isinstance(route, Route) and route.path.startswith(interfaces)
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert {(path, method.upper()) for path, item in served["paths"].items() for method in item} == routed
    ids = [operation["operationId"] for item in served["paths"].values() for operation in item.values()]
    assert len(ids) == len(set(ids))


# -- as it is served --------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """What a page holds: its ids, its links, and everything that could load or run something."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("id"):
            self.ids.append(str(given["id"]))
        if tag == "a":
            self.links.append(str(given.get("href")))
        outside = [
            f"{tag} {name}" for name in given if name in ("src", "srcset", "style") or name.startswith("on")
        ]
        self.loads += outside + (
            [tag] if tag in ("script", "link", "iframe", "img", "object", "form") else []
        )


@requirement("memorywire:rest.docs")
async def test_the_document_is_served_to_everybody(site: httpx.AsyncClient, whole: dict[str, Any]) -> None:
    answer = await site.get("/openapi.json")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    served = answer.json()
    assert set(whole["paths"]) <= set(served["paths"])
    assert served["info"]["version"] == (await site.get("/memorywire/v0/health")).json()["version"]


@requirement("memorywire:rest.docs")
async def test_the_page_runs_nothing_and_loads_nothing(site: httpx.AsyncClient) -> None:
    answer = await site.get("/docs")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    page = Page()
    page.feed(answer.text)
    assert page.loads == []
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    style = re.search(r"<style>(.*?)</style>", answer.text, re.S)
    assert style is not None
    import base64
    import hashlib

    digest = base64.b64encode(hashlib.sha256(style.group(1).encode()).digest()).decode()
    assert f"'sha256-{digest}'" in policy


@requirement("memorywire:rest.docs")
def test_every_operation_and_schema_is_on_the_page_and_every_link_leads_there(whole: dict[str, Any]) -> None:
    page = Page()
    text = rendered(whole)
    page.feed(text)
    assert len(page.ids) == len(set(page.ids))
    for item in whole["paths"].values():
        for operation in item.values():
            assert f"operation-{operation['operationId']}" in page.ids
    assert {f"schema-{name}" for name in whole["components"]["schemas"]} <= set(page.ids)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert "curl -X POST &#34;$QUIPU/memorywire/v0/remember&#34;" in text


@requirement("memorywire:rest.docs")
def test_what_a_description_says_cannot_become_markup() -> None:
    assert str(said("<b> `x` & `<script>`")) == "&lt;b&gt; <code>x</code> &amp; <code>&lt;script&gt;</code>"
    sly = document([openapi.described()], "<script>alert(1)</script>")
    assert "<script>" not in rendered(sly)
