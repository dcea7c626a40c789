"""The headers of memory exchange: checked, repeated, and a key that makes a change happen once (5.1, D23)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.oap.hosts import BRIEFING, Host, pair
from tests.requirement import requirement

ONE = "01J9V8B7HM3K8E2A0M9R8F0XZT"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Host]]:
    with pair(tmp_path_factory.mktemp("headers")) as both:
        yield both


def said(answer: httpx.Response) -> Any:
    return answer.json()["error"]["details"].get("reason")


@requirement("oap:headers.every-answer")
def test_every_answer_says_version_and_id_and_repeats_the_trace(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    grant_id = a.grant(b.owner)
    token, where = b.token(a, grant_id), f"{a.url}/oap/memory/grant/{grant_id}/token"
    told = {"OAP-Version": "1.0", "OAP-Request-Id": ONE, "OAP-Trace": TRACE}
    with a.at.client() as owner:
        answers = [
            owner.get("/.well-known/did.json", headers=told),
            owner.get("/.well-known/oap-memory.json", headers=told),
            owner.get(f"/.well-known/oap-revocation?grant_id={grant_id}", headers=told),
            owner.get("/oap/memory/grant", headers=told),
            owner.post("/oap/memory/export", json={}, headers=told),
            owner.get("/oap/memory/grant/mgr_none", headers=told),
            owner.post(where, headers={**told, "DPoP": b.proof("POST", where)}),
            b.query(a, token, {}, **told),
        ]
    for answer in answers:
        shown = {name: answer.headers.get(name) for name in told}
        assert shown == told, (answer.url, answer.text[:200])
    bare = httpx.get(f"{a.url}/oap/tasks/none", headers={"OAP-Trace": "no trace"})
    assert bare.status_code in (401, 404)
    assert bare.headers["OAP-Request-Id"] == bare.json()["request_id"]
    assert "OAP-Trace" not in bare.headers, "what is no trace is not repeated"


@requirement("oap:headers.version")
@pytest.mark.parametrize(
    ("version", "status"), [("1.0", 200), ("1.1", 200), ("2.0", 400), ("x", 400), ("", 400)]
)
def test_another_version_is_refused(hosts: tuple[Host, Host], version: str, status: int) -> None:
    a, _ = hosts
    for path in ("/.well-known/oap-tool.json", "/oap/memory/grant"):
        with a.at.client() as owner:
            answer = owner.get(path, headers={"OAP-Version": version})
        assert answer.status_code == status, path


@requirement("oap:headers.idempotency")
def test_a_grant_under_a_key_is_given_once(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    draft = {"grantee": b.owner, "purpose": "Once.", "filter": BRIEFING}
    key = {"OAP-Idempotency-Key": "grant-1"}
    with a.at.client() as owner:

        def granted(body: dict[str, Any], **headers: str) -> httpx.Response:
            return owner.post("/oap/memory/grant", json=body, headers=headers)

        first, again = granted(draft, **key), granted(draft, **key)
        assert (first.status_code, again.status_code) == (201, 201)
        assert again.json()["output"] == first.json()["output"]
        assert "OAP-Idempotency-Replayed" not in first.headers
        assert again.headers["OAP-Idempotency-Replayed"] == "true"
        other = granted({**draft, "purpose": "Other."}, **key)
        assert (other.status_code, other.json()["error"]["code"]) == (409, "conflict")
        assert said(other) == "idempotency_key_mismatch"
        assert (
            granted(draft).json()["output"]["grant"]["grant_id"]
            != first.json()["output"]["grant"]["grant_id"]
        )
        for key in ("", "k" * 129):
            assert granted(draft, **{"OAP-Idempotency-Key": key}).status_code == 400, key
        # What was refused under a key may be put right and sent again under it.
        wrong = {"OAP-Idempotency-Key": "grant-2"}
        assert granted({**draft, "max_items": 0}, **wrong).status_code == 400
        assert granted(draft, **wrong).status_code == 201


@requirement("oap:headers.idempotency")
def test_a_signed_grant_a_revocation_an_erasure_and_a_report_are_answered_again(
    hosts: tuple[Host, Host],
) -> None:
    a, b = hosts
    name = a.remember("To be gone.", tags=("once",))
    with a.at.client() as owner:
        signed = owner.get(f"/oap/memory/grant/{a.grant(b.owner)}").json()["output"]["grant"]
        grant_id = signed["grant_id"]
        for method, path, body in (
            ("POST", "/oap/memory/grant", signed),
            ("DELETE", f"/oap/memory/grant/{grant_id}", None),
            ("POST", "/oap/data/delete", {"principal_did": a.owner, "item_ids": [name]}),
            ("POST", "/oap/incident", {"what": "x"}),
            ("DELETE", "/oap/memory/grant", None),
        ):
            headers = {"OAP-Idempotency-Key": f"{method} {path}"}
            more = {} if body is None else {"json": body}
            first = owner.request(method, path, headers=headers, **more)
            again = owner.request(method, path, headers=headers, **more)
            assert first.is_success, (path, first.text)
            assert (again.status_code, again.json()["output"]) == (
                first.status_code,
                first.json()["output"],
            ), path
            if body is not None:
                other = owner.request(method, path, headers=headers, json={**body, "purpose": "x"})
                assert said(other) == "idempotency_key_mismatch", path
        chain = owner.get("/oap/audit").json()["output"]["receipts"]
    assert sum(one["type"] == "incident" for one in chain) == 1
    assert sum(one["type"] == "kill_switch" for one in chain) == 1
    assert sum(one["type"] == "deletion" for one in chain) == 1


@requirement("oap:headers.idempotency")
def test_a_stranger_takes_no_key_in_anybody_s_name(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = hosts
    with a.at.client() as owner:
        signed = owner.get(f"/oap/memory/grant/{a.grant(b.owner)}").json()["output"]["grant"]
    written: list[str] = []
    decide = a.parts.ledger.lending.decide

    async def noted(tenant: str, *given: Any) -> Any:
        written.append(tenant)
        return await decide(tenant, *given)

    monkeypatch.setattr(a.parts.ledger.lending, "decide", noted)
    for granter in (a.owner, a.owner.replace("default", "nobody")):
        body = {**signed, "granter": f"{granter}#personal", "purpose": "Another."}
        for headers in ({}, {"OAP-Idempotency-Key": "taken"}):
            answer = httpx.post(f"{a.url}/oap/memory/grant", json=body, headers=headers)
            assert (answer.status_code, said(answer)) == (403, "bad_signature"), (granter, headers)
    assert written == [], "whoever there is"
    headers = {"OAP-Idempotency-Key": "taken"}
    answers = [httpx.post(f"{a.url}/oap/memory/grant", json=signed, headers=headers) for _ in range(2)]
    assert [one.status_code for one in answers] == [201, 201], "the grantee may bring what the owner signed"
    assert answers[1].headers["OAP-Idempotency-Replayed"] == "true"


@requirement("oap:headers.idempotency")
def test_equal_requests_at_once_make_one_grant(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    draft = {"grantee": b.owner, "purpose": "At once.", "filter": BRIEFING}

    def granted(_: int) -> httpx.Response:
        with a.at.client() as owner:
            return owner.post("/oap/memory/grant", json=draft, headers={"OAP-Idempotency-Key": "at once"})

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(granted, range(4)))
    assert {one.status_code for one in answers} <= {201, 409}
    assert all(said(one) == "idempotency_key_busy" for one in answers if one.status_code == 409)
    names = {one.json()["output"]["grant"]["grant_id"] for one in answers if one.status_code == 201}
    assert len(names) == 1
    with a.at.client() as owner:
        grants = owner.get("/oap/memory/grant").json()["output"]["grants"]
    assert sum(one["grant"]["purpose"] == "At once." for one in grants) == 1


@requirement("oap:headers.idempotency")
def test_a_key_is_its_callers_own(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    key = {"OAP-Idempotency-Key": "shared"}
    with a.at.client() as owner:
        first = owner.post("/oap/incident", json={"what": "ours"}, headers=key)
    token, url = b.token(a, a.grant(b.owner)), f"{a.url}/oap/incident"

    def reported(what: str) -> httpx.Response:
        proof = {"Authorization": f"DPoP {token}", "DPoP": b.proof("POST", url, token)}
        return httpx.post(url, json={"what": what}, headers={**proof, **key})

    theirs = reported("theirs")
    assert theirs.status_code == 202
    assert theirs.json()["output"] != first.json()["output"]
    assert reported("theirs").json()["output"] == theirs.json()["output"]
    assert said(reported("another")) == "idempotency_key_mismatch"
    assert httpx.post(url, json={"what": "theirs"}, headers=key).status_code in (401, 202), (
        "no key opens a door"
    )
