"""Every decision about memory exchange is on record: what was allowed, on which terms, and what was refused (4.8)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from quipu.rules import grants_decisions
from tests.oap.hosts import OWNER, Host, pair
from tests.oap.schemas import check
from tests.requirement import requirement


@pytest.fixture
def hosts(tmp_path: Any) -> Iterator[tuple[Host, Host]]:
    with pair(tmp_path) as both:
        yield both


def told(host: Host) -> list[dict[str, Any]]:
    with host.at.client() as owner:
        found = owner.get("/oap/audit?decisions=true").json()["output"]
    for one in found["decisions"]:
        check("decision_record", one)
    return found["decisions"]


@requirement("oap:decision.every-use")
def test_every_query_export_vector_and_deletion_has_a_record(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    name = a.remember("Meet.", tags=("website_redesign",), structured={"day": "tue"})
    grant_id = a.grant(b.owner, scopes=["memory.query", "memory.export"], trust_level=2)
    token, url = b.token(a, grant_id), f"{a.url}/oap/memory/export"
    assert b.query(a, token, {"query": "Meet"}).status_code == 200
    proof = {"Authorization": f"DPoP {token}", "DPoP": b.proof("POST", url, token)}
    assert httpx.post(url, json={}, headers=proof).status_code == 200
    with a.at.client() as owner:
        assert owner.post("/oap/memory/export", json={}).status_code == 200
        assert owner.post("/oap/data/delete", json={"principal_did": a.owner, "item_ids": [name]}).is_success
        assert owner.delete("/oap/memory/grant").status_code == 200
        chain = owner.get("/oap/audit").json()["output"]["receipts"]
    records = told(a)
    assert [one["decision_id"] for one in records] == [
        one["policy_decisions"][0]["id"] for one in chain if "policy_decisions" in one
    ]
    assert {one["action_id"] for one in chain if "action_id" in one} == {
        "memory_grant_create",
        "memory_query",
        "memory_export",
        "memory_delete",
    }
    assert all("policy_decisions" in one for one in chain), "nothing is done without a decision"
    query = records[1]
    assert query["outcome"] == "allow_with_conditions"
    assert {"memory.grant.valid", "owner.never_share", "projection.applied"} <= set(query["applied_rules"])
    assert query["layers_evaluated"] == ["L3", "L4"]
    assert {"trust_level=2", "free_text=omit", f"consumed_grant_id={grant_id}"} <= set(query["conditions"])
    assert a.at.do(a.sharing.grants.verify(OWNER)) == []


@requirement("oap:decision.refusals")
def test_what_is_refused_to_a_grantee_is_on_record(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    a.remember("Meet.", tags=("website_redesign",))
    grant_id = a.grant(b.owner)
    token, url = b.token(a, grant_id), f"{a.url}/oap/memory/export"
    assert b.query(a, token, {"include_embeddings": True}).status_code == 403
    proof = {"Authorization": f"DPoP {token}", "DPoP": b.proof("POST", url, token)}
    assert httpx.post(url, json={}, headers=proof).status_code == 403
    a.at.do(a.sharing.grants.revoke(OWNER, grant_id))
    assert b.query(a, token).status_code == 401
    assert b.query(a, token[:-6] + "AAAAAA").status_code == 401, "whose token it is nobody knows"
    blocked = [one for one in told(a) if one["outcome"] == "block"]
    assert [one["applied_rules"] for one in blocked] == [
        ["refused.scope_missing"],
        ["refused.scope_missing"],
        ["refused.grant_revoked"],
    ]
    assert "memory_query" in blocked[0]["explanation"]
    assert b.owner in blocked[0]["explanation"]
    assert "memory_export" in blocked[1]["explanation"]
    assert a.at.do(a.sharing.grants.verify(OWNER)) == []


@requirement("oap:decision.refusals")
def test_whoever_is_refused_cannot_fill_the_chain(tmp_path: Any) -> None:
    with pair(tmp_path, oap_queries_per_minute=3) as (a, b):
        grant_id = a.grant(b.owner)
        token = b.token(a, grant_id)
        a.at.do(a.sharing.grants.revoke(OWNER, grant_id))
        for _ in range(8):
            assert b.query(a, token).status_code == 401
        assert 1 <= sum(one["outcome"] == "block" for one in told(a)) <= 4


@requirement("oap:decision.owner-only")
def test_records_are_the_owners(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    token, url = b.token(a, a.grant(b.owner)), f"{a.url}/oap/audit?decisions=true"
    proof = {"Authorization": f"DPoP {token}", "DPoP": b.proof("GET", f"{a.url}/oap/audit", token)}
    answer = httpx.get(url, headers=proof)
    assert "decisions" not in answer.json()["output"]


def test_a_receipt_without_a_decision_has_no_record() -> None:
    assert grants_decisions.record({"type": "incident"}) is None
    assert grants_decisions.record({"policy_decisions": []}) is None
