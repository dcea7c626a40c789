"""What is good once: proofs, ids of requests, signatures, assertions (contract D23, 5.4, 12)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from quipu.crypto.canonical import canonical
from quipu.crypto.jose import JsonWebSignatures
from quipu.rules import grants_tokens as tokens
from quipu.rules.receipts import Hand
from quipu.testing.builders import FixedClock
from tests.oap.hosts import OWNER, Host, embedder, pair
from tests.requirement import requirement

JOSE = JsonWebSignatures()
ONE, TWO = "01J9V8B7HM3K8E2A0M9R8F0XZ1", "01J9V8B7HM3K8E2A0M9R8F0XZ2"
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Host]]:
    with pair(tmp_path_factory.mktemp("once"), embedder=embedder()) as both:
        both[0].remember("Anything.", tags=("website_redesign",))
        yield both


def reason(answer: httpx.Response) -> tuple[int, str | None]:
    body = answer.json() if answer.headers["content-type"].endswith("json") else {}
    return answer.status_code, body.get("error", {}).get("details", {}).get("reason")


def hand_of(host: Host) -> Hand:
    return host.parts.lending.keyring.hand(OWNER.tenant)


@requirement("oap:replay.proof")
def test_a_proof_is_good_once_wherever_it_is_shown(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    scopes = ["memory.query", "memory.embeddings", "memory.export"]
    grant_id = a.grant(b.owner, trust_level=4, scopes=scopes)
    token = b.token(a, grant_id)
    (item,) = b.query(a, token).json()["output"]["items"]
    places = [
        ("POST", "/oap/memory/query"),
        ("POST", "/oap/memory/export"),
        ("POST", "/oap/incident"),
        ("GET", f"/oap/memory/item/{item['item_id']}/log"),
        ("GET", f"/oap/memory/vec/{item['item_id']}.bin"),
        ("GET", f"/oap/memory/grant/{grant_id}"),
        ("GET", "/oap/audit"),
    ]
    for method, path in places:
        url = f"{a.url}{path}"
        headers = {"Authorization": f"DPoP {token}", "DPoP": b.proof(method, url, token)}
        body = {"json": {}} if method == "POST" else {}
        first = httpx.request(method, url, headers=headers, **body)
        assert first.status_code in (200, 202), (path, first.text)
        again = httpx.request(method, url, headers=headers, **body)
        assert reason(again) == (401, "binding_failed"), path


@requirement("oap:replay.request-id")
@pytest.mark.parametrize("binding", ["dpop", "bearer"])
def test_a_request_of_the_same_id_is_answered_once(hosts: tuple[Host, Host], binding: str) -> None:
    a, b = hosts
    token = b.token(a, a.grant(b.owner, trust_level=4, binding=binding))
    other = b.token(a, a.grant(b.owner, trust_level=4, binding=binding))

    def asked(token: str, name: str) -> httpx.Response:
        headers = {"OAP-Request-Id": name}
        if binding == "bearer":
            headers |= {"Authorization": f"Bearer {token}", "DPoP": ""}
        return b.query(a, token, {}, **headers)

    first = asked(token, ONE)
    assert (first.status_code, first.json()["request_id"]) == (200, ONE)
    again = asked(token, ONE)
    assert reason(again) == (409, "request_replayed")
    assert again.json()["request_id"] == ONE
    assert asked(token, TWO).status_code == 200
    assert asked(other, ONE).status_code == 200, "names are the caller's own"
    for _ in range(2):
        assert asked(token, "no id").status_code == 200, "what is no id names nothing"
    url = f"{a.url}/oap/audit"
    headers = {
        "Authorization": f"{'Bearer' if binding == 'bearer' else 'DPoP'} {token}",
        "OAP-Request-Id": TWO,
    }
    if binding == "dpop":
        headers["DPoP"] = b.proof("GET", url, token)
    assert reason(httpx.get(url, headers=headers)) == (409, "request_replayed")


@requirement("oap:replay.request-id")
def test_a_request_that_was_refused_may_be_sent_again(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    token = b.token(a, a.grant(b.owner, trust_level=4))
    assert b.query(a, token, {"max_results": 0}, **{"OAP-Request-Id": ONE}).status_code == 400
    assert b.query(a, token, {}, **{"OAP-Request-Id": ONE}).status_code == 200


@requirement("oap:replay.request-id")
def test_ids_are_remembered_for_ten_minutes(tmp_path: Any) -> None:
    clock = FixedClock(int(time.time() * 1000))
    with pair(tmp_path, clock=clock, at_b={"clock": clock}) as (a, b):
        a.remember("Anything.", tags=("website_redesign",))
        grant_id = a.grant(b.owner, trust_level=4)
        headers = {"OAP-Request-Id": ONE}
        assert b.query(a, b.token(a, grant_id), {}, **headers).status_code == 200
        clock.now += 599_000
        assert b.query(a, b.token(a, grant_id), {}, **headers).status_code == 409
        clock.now += 1_000
        assert b.query(a, b.token(a, grant_id), {}, **headers).status_code == 200


@requirement("oap:signature.request")
def test_a_signature_over_the_body_is_the_grantee_s_fresh_and_good_once(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    token = b.token(a, a.grant(b.owner, trust_level=4))
    body, now = {"query": "anything"}, int(time.time())

    def signed(of: Any = body, hand: Hand | None = None, **header: Any) -> str:
        return JOSE.detached(canonical(of), {"iat": now, "jti": "sig_0001", **header}, hand or hand_of(b))

    good = signed()
    assert b.query(a, token, body, **{"OAP-Signature": good}).status_code == 200
    assert reason(b.query(a, token, body, **{"OAP-Signature": good})) == (401, "binding_failed")
    bad = {
        "another body": signed({"query": "something"}, jti="sig_0002"),
        "another's": signed(hand=hand_of(a), jti="sig_0003"),
        "old": signed(jti="sig_0004", iat=now - 301),
        "without a time": signed(jti="sig_0005", iat=None),
        "cut": signed(jti="sig_0006")[:-2],
        "nothing": "x..y",
    }
    for name, signature in bad.items():
        assert b.query(a, token, body, **{"OAP-Signature": signature}).status_code == 401, name


def assertion(b: Host, a: Host, *, hand: Hand | None = None, **changed: Any) -> str:
    now, hand = int(time.time()), hand or hand_of(b)
    claims: dict[str, Any] = {"iss": b.owner, "sub": b.owner, "aud": a.did, "iat": now, "exp": now + 60}
    claims |= {"jti": f"assertion-{time.perf_counter_ns()}", **changed}
    return JOSE.token({"alg": "EdDSA", "kid": hand.kid}, claims, hand)


def minted(a: Host, grant_id: str, said: str, kind: str = ASSERTION) -> httpx.Response:
    form = {"client_assertion_type": kind, "client_assertion": said}
    return httpx.post(f"{a.url}/oap/memory/grant/{grant_id}/token", data=form)


@requirement("oap:token.assertion")
def test_a_client_says_who_it_is_with_a_signed_assertion(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    open_, bound = a.grant(b.owner, trust_level=4, binding="bearer"), a.grant(b.owner, trust_level=4)
    told = minted(a, open_, assertion(b, a)).json()
    assert told["token_type"] == "Bearer"  # noqa: S105  a scheme, not a password
    headers = {"Authorization": f"Bearer {told['access_token']}", "DPoP": ""}
    assert b.query(a, told["access_token"], {}, **headers).status_code == 200
    place = f"{a.url}/oap/memory/grant/{bound}/token"
    told = minted(a, bound, assertion(b, a, aud=place)).json()
    assert told["token_type"] == "DPoP"  # noqa: S105  a scheme, not a password
    assert b.query(a, told["access_token"], {}).status_code == 200, "bound to the key that signed"
    headers = {"Authorization": f"Bearer {told['access_token']}", "DPoP": ""}
    assert b.query(a, told["access_token"], {}, **headers).status_code == 401


@requirement("oap:token.assertion")
def test_no_other_assertion_opens_the_door(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    grant_id, now = a.grant(b.owner, binding="bearer"), int(time.time())
    used = assertion(b, a)
    assert minted(a, grant_id, used).status_code == 200
    bad = {
        "used": used,
        "another's key": assertion(b, a, hand=hand_of(a)),
        "for another host": assertion(b, a, aud=b.did),
        "of somebody else": assertion(b, a, iss=a.owner, sub=a.owner),
        "about somebody else": assertion(b, a, sub=a.owner),
        "over": assertion(b, a, iat=now - 200, exp=now - 61),
        "not begun": assertion(b, a, iat=now + 120, exp=now + 180),
        "too long": assertion(b, a, exp=now + tokens.PROOF_S + 30),
        "without a name": assertion(b, a, jti=None),
        "no assertion": "x.y.z",
    }
    for name, said in bad.items():
        assert minted(a, grant_id, said).status_code == 401, name
    assert minted(a, grant_id, assertion(b, a), "urn:other").status_code == 400


@requirement("oap:token.delegation")
def test_a_delegation_token_is_no_grant_s(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    grant_id = a.grant(b.owner, binding="bearer")
    now, hand = int(time.time()), hand_of(b)
    claims = {"iss": b.owner, "sub": "did:web:sub.example", "aud": a.did, "iat": now, "exp": now + 60}
    claims |= {"jti": "del_1", "delegation_depth": 1, "consumed_grant_id": grant_id, "grant_id": grant_id}
    for kind in ("oap-delegation+jwt", "JWT", tokens.GRANT_TYPE):
        told = JOSE.token({"alg": "EdDSA", "typ": kind, "kid": hand.kid}, claims, hand)
        for scheme in ("Bearer", "DPoP"):
            headers = {"Authorization": f"{scheme} {told}"}
            assert httpx.post(f"{a.url}/oap/memory/query", json={}, headers=headers).status_code == 401
