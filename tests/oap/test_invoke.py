"""`POST /oap/invoke`: every action of the manifest, through the same gates as its route (5.7, 4.8)."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from quipu.model.moving import FileExport
from quipu.rules import receipts
from quipu.rules.grants_times import rfc3339
from tests.oap.hosts import BRIEFING, OWNER, Host, embedder, pair
from tests.requirement import requirement

CONTEXT = {"locale": "en", "currency": "EUR", "jurisdiction_user": "DE", "jurisdiction_agent": "DE"}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Host]]:
    with pair(tmp_path_factory.mktemp("invoke"), embedder=embedder()) as both:
        yield both


def envelope(a: Host, b: Host, action: str, given: Any, **changes: Any) -> dict[str, Any]:
    """A request of B's owner to A, signed."""
    own = b.parts.lending
    body = {
        "oap_version": "1.0",
        "request_id": b.sharing.mint(),
        "timestamp": rfc3339(b.parts.clock()),
        "principal_did": a.owner,
        "agent_did": b.owner,
        "action": action,
        "input": given,
        "context": CONTEXT,
        **changes,
    }
    signature = receipts.signature(body, own.keyring.hand(OWNER.tenant), b.parts.canonical)
    return {**body, "signature": signature}


def invoked(a: Host, b: Host, body: dict[str, Any], token: str | None = None) -> httpx.Response:
    url = f"{a.url}/oap/invoke"
    headers = {}
    if token is not None:
        headers = {"Authorization": f"DPoP {token}", "DPoP": b.proof("POST", url, token)}
    else:
        headers = {
            "Authorization": "DPoP x"
        }  # nobody: the host of these tests takes whoever shows nothing for its owner
    return httpx.post(url, json=body, headers=headers, timeout=20)


def by_owner(a: Host, b: Host, action: str, given: Any, **changes: Any) -> httpx.Response:
    with a.at.client() as owner:
        return owner.post("/oap/invoke", json=envelope(a, b, action, given, **changes))


@requirement("oap:invoke.grantee")
def test_a_query_by_invoke_is_the_query(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    name = a.remember("Meet on Tuesdays.", tags=("by_invoke",), structured={"day": "tue"})
    grant = {"filter": {"labels_any": ["by_invoke"]}, "scopes": ["memory.query", "memory.embeddings"]}
    token = b.token(a, a.grant(b.owner, **grant))
    asked = envelope(a, b, "memory_query", {"query": "tue", "include_embeddings": True})
    answer = invoked(a, b, asked, token)
    assert answer.status_code == 200, answer.text
    there = answer.json()
    assert there["request_id"] == asked["request_id"]
    route = b.query(a, token, {"query": "tue"}).json()
    assert [one["item_id"] for one in there["output"]["items"]] == [
        one["item_id"] for one in route["output"]["items"]
    ]
    receipt = there["receipt"]
    hashed = receipts.hashed({"input": asked["input"], "salt": receipt["input_salt"]}, a.parts.canonical)
    with a.at.client() as owner:
        chain = owner.get("/oap/audit").json()["output"]["receipts"]
    kept = next(one for one in chain if one["receipt_id"] == receipt["id"])
    assert (kept["action_id"], kept["input_hash"]) == ("memory_query", hashed)
    item_id = there["output"]["items"][0]["item_id"]
    vector = invoked(a, b, envelope(a, b, "memory_vector_read", {"item_id": item_id}), token)
    data = base64.b64decode(vector.json()["output"]["vector"])
    digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
    assert vector.json()["output"]["content_digest"] == f"sha-256=:{digest}:"
    assert name in item_id


@requirement("oap:invoke.one-gate")
def test_an_envelope_opens_nothing_that_a_route_does_not(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    name = a.remember("Not for them.", tags=("hidden",))
    grant_id = a.grant(b.owner)
    token = b.token(a, grant_id)
    for action, given, status in (
        ("memory_export", {}, 403),
        ("memory_vector_read", {"item_id": name}, 403),
        ("memory_query", {"include_embeddings": True}, 403),
        ("memory_query", {"oddity": 1}, 400),
        ("memory_import", {"agent_id": "x", "file": "eA=="}, 401),
        ("memory_delete", {"principal_did": a.owner}, 401),
        ("memory_grant_create", {"grantee": b.owner, "purpose": "x", "filter": BRIEFING}, 400),
        ("memory_grant_revoke", {"grant_id": "mgr_other"}, 404),
    ):
        assert invoked(a, b, envelope(a, b, action, given), token).status_code == status, action
    for action in ("memory_query", "memory_export", "memory_delete", "memory_import", "memory_grant_revoke"):
        given = (
            {"grant_id": grant_id} if action == "memory_grant_revoke" else {"agent_id": "x", "file": "eA=="}
        )
        given = given if action in ("memory_grant_revoke", "memory_import") else {}
        assert invoked(a, b, envelope(a, b, action, given)).status_code == 401, action
    assert httpx.post(f"{a.url}/oap/invoke", json={"action": "delegate"}).status_code == 404
    with a.at.client() as owner:
        blocked = owner.get("/oap/audit?decisions=true").json()["output"]["decisions"]
        assert owner.get(f"/oap/memory/item/{name}/log").status_code == 404, "it was never shown"
    told = [one["explanation"] for one in blocked if one["outcome"] == "block"]
    assert any(text.startswith("memory_export for") for text in told)


@requirement("oap:invoke.envelope")
@pytest.mark.parametrize(
    ("status", "change"),
    [
        (400, {"request_id": "x"}),
        (400, {"timestamp": "now"}),
        (400, {"oap_version": "2.0"}),
        (400, {"more": 1}),
        (400, {"context": {}}),
        (400, {"input": []}),
        (400, {"principal_did": "somebody"}),
        (400, {"policy_assertions": {"confidentiality_class": "secret"}}),
        (401, {"timestamp": "2020-01-01T00:00:00Z"}),
        (401, {"timestamp": "2999-01-01T00:00:00Z"}),
        (401, {"agent_did": "A"}),
        (401, {"principal_did": "B"}),
        (401, {"scope_id": "work"}),
        (200, {"scope_id": "personal"}),
        (200, {"policy_assertions": {"confidentiality_class": "internal", "provenance_tags": []}}),
    ],
)
def test_an_envelope_is_closed_fresh_and_its_signers(
    hosts: tuple[Host, Host], status: int, change: dict[str, Any]
) -> None:
    a, b = hosts
    names = {"A": a.owner, "B": b.owner}
    change = {name: names.get(part, part) if isinstance(part, str) else part for name, part in change.items()}
    token = b.token(a, a.grant(b.owner))
    answer = invoked(a, b, envelope(a, b, "memory_query", {}, **change), token)
    assert answer.status_code == status, answer.text


@requirement("oap:invoke.envelope")
def test_a_changed_or_repeated_envelope_is_refused(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    token = b.token(a, a.grant(b.owner))
    good = envelope(a, b, "memory_query", {"query": "x"})
    changed = json.loads(json.dumps(good).replace('"x"', '"y"'))
    assert invoked(a, b, changed, token).status_code == 401
    assert invoked(a, b, good, token).status_code == 200
    assert invoked(a, b, good, token).status_code == 409
    mine = envelope(a, b, "memory_grant_revoke", {"grant_id": a.grant(b.owner)})
    with a.at.client() as owner:
        assert owner.post("/oap/invoke", json=mine).status_code == 200
        assert owner.post("/oap/invoke", json=mine).status_code == 409


async def signed_bundle(host: Host) -> bytes:
    """All that a host keeps, in a file that it signs."""
    made = await host.at.service.exporting.made(OWNER, FileExport())
    try:
        return made.file.read()
    finally:
        made.close()


@requirement("oap:invoke.owner")
def test_an_owner_lends_exports_imports_and_erases_by_invoke(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    name = a.remember("To be moved.", tags=("moved",))
    draft = {"grantee": b.owner, "purpose": "By invoke.", "filter": BRIEFING}
    made = by_owner(a, b, "memory_grant_create", draft, idempotency_key="k1")
    assert made.status_code == 201, made.text
    again = by_owner(a, b, "memory_grant_create", draft, idempotency_key="k1")
    assert again.json()["output"] == made.json()["output"]
    grant_id = made.json()["output"]["grant"]["grant_id"]
    assert (
        by_owner(a, b, "memory_grant_revoke", {"grant_id": grant_id}).json()["output"]["status"] == "revoked"
    )
    file = by_owner(a, b, "memory_export", {})
    assert file.status_code == 200
    assert file.headers["OAP-Version"] == "1.0"
    sent = {"agent_id": "assistant", "file": base64.b64encode(b"- likes tea\n- likes ink\n").decode()}
    tried = by_owner(a, b, "memory_import", {**sent, "format": "text"})
    assert tried.status_code == 200, tried.text
    import_id = tried.json()["output"]["import_id"]
    done = by_owner(a, b, "memory_import", {"import_id": import_id, "step": "commit"})
    assert done.status_code == 200, done.text
    undone = by_owner(a, b, "memory_import", {"import_id": import_id, "step": "rollback"})
    assert undone.status_code == 200, undone.text
    assert by_owner(a, b, "memory_import", {"import_id": import_id, "step": "repeat"}).status_code == 400
    theirs = b.at.do(signed_bundle(b))
    foreign = {"agent_id": "assistant", "file": base64.b64encode(theirs).decode()}
    refused = by_owner(a, b, "memory_import", foreign)
    assert refused.json()["error"]["details"]["reason"] == "unknown_key"
    taken = by_owner(a, b, "memory_import", {**foreign, "foreign_owner": True})
    assert taken.json()["output"]["signature"] == "foreign"
    gone = by_owner(a, b, "memory_delete", {"principal_did": a.owner, "item_ids": [name]})
    assert gone.json()["output"]["receipt"]["scope"]["items_deleted"] == 1
    assert by_owner(a, b, "memory_delete", {}, principal_did=b.owner).status_code == 401


@requirement("oap:token.trust")
def test_an_agent_with_a_trust_token_acts_for_the_owner(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    url = f"{a.url}/oap/memory/grant"
    draft = {"grantee": b.did, "purpose": "By an agent.", "filter": BRIEFING}

    def given(*actions: str) -> str:
        return a.at.do(a.sharing.agents.token(OWNER, b.owner, list(actions)))["access_token"]

    def sent(token: str, method: str = "POST", url: str = url, **more: Any) -> httpx.Response:
        headers = {"Authorization": f"DPoP {token}", "DPoP": b.proof(method, url, token)}
        return httpx.request(method, url, headers=headers, **more)

    token = given("memory_grant_create")
    made = sent(token, json=draft)
    assert made.status_code == 201, made.text
    grant_id = made.json()["output"]["grant"]["grant_id"]
    refused = sent(token, "DELETE", f"{url}/{grant_id}")
    assert (refused.status_code, refused.json()["error"]["details"]["reason"]) == (403, "scope_missing")
    assert sent(token, url=f"{a.url}/oap/data/delete", json={"principal_did": a.owner}).status_code == 403
    assert sent(token, "GET", f"{a.url}/oap/audit").status_code == 403
    assert sent(given("memory_grant_revoke"), "DELETE", f"{url}/{grant_id}").status_code == 200
    by_envelope = envelope(a, b, "memory_grant_create", draft)
    assert invoked(a, b, by_envelope, given("memory_grant_create")).status_code == 201
    assert invoked(a, b, envelope(a, b, "memory_delete", {}), token).status_code == 403


@requirement("oap:token.trust")
@pytest.mark.parametrize(
    ("claim", "value"),
    [
        ("aud", "did:web:elsewhere.example"),
        ("exp", 1),
        ("exp", 9_999_999_999),
        ("iat", 9_999_999_000),
        ("cnf", None),
        ("cnf", {"jkt": "another"}),
        ("nonce", "x"),
        ("scope", ""),
        ("scope", "everything"),
        ("agent", None),
        ("iss", "B"),
        ("oap_principal", "B"),
    ],
)
def test_a_trust_token_that_is_not_right_opens_nothing(
    hosts: tuple[Host, Host], claim: str, value: Any
) -> None:
    a, b = hosts
    own, url = a.parts.lending, f"{a.url}/oap/memory/grant"
    good = a.at.do(a.sharing.agents.token(OWNER, b.owner, ["memory_grant_create"]))["access_token"]
    opened = own.jose.opened(good)
    claims = {**opened.claims, claim: b.owner if value == "B" else value}
    for token, status in (
        (good, 200),
        (own.jose.token(opened.header, claims, own.keyring.hand(OWNER.tenant)), 401),
    ):
        headers = {"Authorization": f"DPoP {token}", "DPoP": b.proof("GET", url, token)}
        assert httpx.get(url, headers=headers).status_code == status


@requirement("oap:token.trust")
def test_a_trust_token_of_another_signer_or_without_a_proof_opens_nothing(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    own, url = a.parts.lending, f"{a.url}/oap/memory/grant"
    good = a.at.do(a.sharing.agents.token(OWNER, b.owner, ["memory_grant_create"]))["access_token"]
    opened = own.jose.opened(good)
    bearer = httpx.get(url, headers={"Authorization": f"Bearer {good}"})
    assert bearer.status_code == 401, "a token that is bound to a key comes with a proof"
    stranger = own.jose.token(opened.header, opened.claims, b.parts.lending.keyring.hand(OWNER.tenant))
    headers = {"Authorization": f"DPoP {stranger}", "DPoP": b.proof("GET", url, stranger)}
    assert httpx.get(url, headers=headers).status_code == 401, "signed by somebody else"
