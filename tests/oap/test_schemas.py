"""Every document that a host emits has the shape that the contract gives it (13.2)."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from quipu.model.moving_formats import WRITTEN
from tests.oap.hosts import OWNER, Host, embedder, pair
from tests.oap.schemas import SCHEMAS, check, check_envelope, faults
from tests.requirement import requirement

ACTIONS = [
    "describe_service",
    "memory_query",
    "memory_grant_create",
    "memory_grant_revoke",
    "memory_vector_read",
    "memory_export",
    "memory_import",
    "memory_delete",
]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Host]]:
    with pair(tmp_path_factory.mktemp("schemas"), embedder=embedder()) as both:
        yield both


def test_the_schemas_are_schemas() -> None:
    Draft202012Validator.check_schema(SCHEMAS)


@requirement("oap:schema.manifests")
def test_what_is_told_to_strangers_has_its_shape(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    a.remember("Anything.")
    for path, name in (
        ("/.well-known/did.json", "did_document"),
        ("/owners/default/did.json", "did_document"),
        ("/.well-known/oap-tool.json", "tool_manifest"),
        ("/.well-known/oap-memory.json", "memory_manifest"),
        ("/owners/default/oap-memory.json", "memory_manifest"),
        ("/.well-known/oap-scopes.json", "scope_manifest"),
        (f"/.well-known/oap-revocation?grant_id={a.grant(b.owner)}", "grant_status"),
    ):
        check(name, httpx.get(f"{a.url}{path}").json())


@requirement("oap:manifest.honest")
def test_a_manifest_names_what_is_there_and_nothing_else(hosts: tuple[Host, Host]) -> None:
    a, _ = hosts
    tool = httpx.get(f"{a.url}/.well-known/oap-tool.json").json()
    memory = httpx.get(f"{a.url}/.well-known/oap-memory.json").json()
    assert [action["id"] for action in tool["actions"]] == ACTIONS
    assert memory["export_formats"] == [one.value for one in WRITTEN]
    assert "conformance" not in tool, "no level is claimed (D28)"
    assert {"stream", "subscribe", "billing"}.isdisjoint(tool["endpoints"])
    for url in (*tool["endpoints"].values(), *memory["endpoints"].values()):
        assert httpx.post(url, json={}).status_code in (400, 401, 403, 404, 405)
        assert {httpx.get(url).status_code, httpx.post(url, json={}).status_code} != {404}, url
    for action in (*ACTIONS[1:], "delegate"):
        refused = httpx.post(f"{a.url}/oap/invoke", json={"action": action})
        expected = (404, "not_found") if action == "delegate" else (400, "invalid_input")
        assert (refused.status_code, refused.json()["error"]["code"]) == expected, action
    for action in tool["actions"]:
        for example in action["examples"]:
            Draft202012Validator(action["input_schema"]).validate(example["input"])
    assert httpx.post(f"{a.url}/oap/invoke", json={"action": "describe_service"}).status_code == 200


@requirement("oap:schema.answers")
@pytest.mark.parametrize("level", range(5))
def test_answers_under_a_grant_have_their_shape(hosts: tuple[Host, Host], level: int) -> None:
    a, b = hosts
    label = f"level{level}"
    structure = {"day": "tue", "count": 3, "note": "in words", "ratio": 0.5}
    a.remember("Meet on Tuesdays.", tags=(label, "other"), structured=structure, confidence=0.4)
    a.remember("Bare.", tags=(label,), expires_at=a.parts.clock() + 10**9, subject_entity_id="ent_1")
    scopes = ["memory.query", "memory.embeddings"]
    grant_id = a.grant(b.owner, filter={"labels_any": [label]}, trust_level=level, scopes=scopes)
    url = f"{a.url}/oap/memory/grant/{grant_id}/token"
    token = httpx.post(url, headers={"DPoP": b.proof("POST", url)}).json()
    check("token", token)
    token = token["access_token"]

    def got(path: str) -> Any:
        where = f"{a.url}{path}"
        headers = {"Authorization": f"DPoP {token}", "DPoP": b.proof("GET", where, token)}
        return httpx.get(where, headers=headers).json()

    body = {"include_embeddings": True, "include_proofs": True}
    envelope = b.query(a, token, body).json()
    check_envelope(envelope)
    assert len(envelope["output"]["items"]) == 2
    check_envelope(b.query(a, token, {**body, "query": "tue fact", "max_results": 1}).json())
    for item in envelope["output"]["items"]:
        for entry in got(f"/oap/memory/item/{item['item_id']}/log")["output"]["log"]:
            check("log_entry" if level >= 3 else "brief_log_entry", entry)
    check("grant", got(f"/oap/memory/grant/{grant_id}")["output"]["grant"])
    for receipt in got("/oap/audit")["output"]["receipts"]:
        check("receipt", receipt)
    refused = b.query(a, token, {"oddity": 1}).json()
    check_envelope(refused)
    assert refused["status"] == "error"
    with a.at.client() as owner:
        check("introspection", owner.post("/oap/memory/grant/introspect", data={"token": token}).json())


@requirement("oap:schema.answers")
def test_receipts_and_reports_have_their_shape(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    name = a.remember("Gone soon.", tags=("gone",), structured={"a": 1})
    grant_id = a.grant(b.owner, filter={"labels_any": ["gone"]})
    b.ask(a, grant_id)
    with a.at.client() as owner:
        log = owner.get(f"/oap/memory/item/{name}/log").json()["output"]
        body = {"principal_did": a.owner, "item_ids": [name]}
        erased = owner.post("/oap/data/delete", json=body).json()["output"]
        owner.post("/oap/incident", json={"what": "x"})
        owner.post("/oap/memory/export", json={})
        a.at.do(a.sharing.grants.kill(OWNER))
        chain = owner.get("/oap/audit").json()["output"]["receipts"]
    for entry in (*log["state"], *log["disclosed"]):
        check("log_entry", entry)
    check("deletion_receipt", erased["receipt"])
    check("cascade_report", erased["report"])
    assert {one["type"] for one in chain} >= {"consent", "invocation", "deletion", "incident", "kill_switch"}
    for one in chain:
        check("receipt", one)


def test_the_schemas_find_what_is_wrong(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    a.remember("Shape.", tags=("shape",), structured={"a": 1})
    token = b.token(a, a.grant(b.owner, filter={"labels_any": ["shape"]}))
    good = b.query(a, token).json()
    item = good["output"]["items"][0]
    for change in (
        lambda one: one["output"]["items"][0].pop("integrity"),
        lambda one: one["output"]["items"][0].update(more=1),
        lambda one: one["output"]["items"][0]["provenance"].pop("confidence"),
        lambda one: one["output"]["items"][0]["integrity"].update(salt="x"),
        lambda one: one["output"].update(total=7),
        lambda one: one["output"].update(ranking=[{"item_id": "x", "score": 0.123}]),
        lambda one: one.update(receipt_id="x"),
        lambda one: one.pop("signature"),
    ):
        bad = copy.deepcopy(good)
        change(bad)
        with pytest.raises(AssertionError):
            check_envelope(bad)
    assert not faults("item", item)
