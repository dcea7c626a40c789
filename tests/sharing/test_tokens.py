"""Tokens: everything about one is checked at every request, and a proof of a key is good once. Forged by another library."""

import json
from typing import Any

import httpx
import pytest
from joserfc import jws
from joserfc.jwk import OKPKey

from quipu import jose
from quipu.access.operations import SUSPEND_TENANT
from quipu.ledger.canonical import canonical
from quipu.ledger.ledger import JournalQuery
from quipu.sharing import operations as ops
from quipu.sharing.grants import operations as grant_ops
from tests.requirement import requirement
from tests.sharing.grantee import Grantee, proof, reason
from tests.sharing.network import Host

PATH = "/oap/memory/query"
SOON_S = 100


@pytest.fixture
async def grantee(lender: Host, own: Host) -> Grantee:
    await lender.remember("The website is green.")
    made = Grantee(lender, own)
    await made.given()
    return made


async def forged(grantee: Grantee, header: dict[str, Any], claims: dict[str, Any]) -> str:
    """The token with other members, signed with the key that its header names, or the host's; None takes one away."""
    opened = jose.opened(await grantee.token())
    key = OKPKey.import_key(grantee.lender.sharing.host.keyring._keys(None)[-1].private)
    head = {**opened.header, "alg": "Ed25519", **header}
    body = {**opened.claims, **claims}
    kept = {name: value for name, value in body.items() if value is not None}
    return jws.serialize_compact(head, json.dumps(kept).encode(), key, algorithms=["Ed25519"])


async def shown(
    grantee: Grantee, token: str, *, scheme: str = "DPoP", proven: str | None = None
) -> httpx.Response:
    """A query with this token and, without another, a right proof."""
    url = f"{grantee.lender.url}{PATH}"
    proven = proven or proof(grantee.by, "POST", url, grantee.lender.clock(), token)
    headers = {"Authorization": f"{scheme} {token}", "Content-Type": "application/json"}
    if scheme == "DPoP":
        headers["DPoP"] = proven
    return await grantee.lender.http("POST", url, content=b"{}", headers=headers)


@requirement("oap:token.every-check")
async def test_a_token_made_by_another_library_is_as_good(grantee: Grantee) -> None:
    assert (await shown(grantee, await forged(grantee, {}, {}))).status_code == 200


FORGED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "of another kind": ({"typ": "JWT"}, {}, "bad_token"),
    "by another host": ({}, {"iss": "did:web:other.example"}, "bad_token"),
    "by a key of another host": ({"kid": "did:web:other.example#key-1"}, {}, "bad_token"),
    "by a key that there is not": ({"kid": "did:web:memory.example#key-9"}, {}, "bad_token"),
    "for another host": ({}, {"aud": "did:web:other.example"}, "bad_token"),
    "of somebody else": ({}, {"sub": "did:web:other.example"}, "bad_token"),
    "of another agent": ({}, {"oap_agent": "did:web:other.example"}, "bad_token"),
    "of another scope": ({}, {"oap_scope": "work"}, "bad_token"),
    "of a grant that said something else": ({}, {"grant_hash": "sha256:0"}, "bad_token"),
    "of a grant that there is not": ({}, {"grant_id": "mgr_unknown"}, "grant_unknown"),
    "of an owner that there is not": ({}, {"oap_principal": "did:web:other.example#x"}, "grant_unknown"),
    "that allows more than the grant": ({}, {"scope": "memory.query memory.export"}, "bad_token"),
    "that allows nothing": ({}, {"scope": ""}, "bad_token"),
    "without a name": ({}, {"jti": None}, "bad_token"),
    "without an end": ({}, {"exp": None}, "bad_token"),
    "with an end that is no time": ({}, {"exp": "soon"}, "bad_token"),
    "that is bound to nobody": ({}, {"cnf": None}, "binding_failed"),
    "that is bound to another key": ({}, {"cnf": {"jkt": "x" * 43}}, "binding_failed"),
}


@requirement("oap:token.every-check")
@pytest.mark.parametrize("name", FORGED)
async def test_a_token_that_is_wrong_in_anything_is_refused(grantee: Grantee, name: str) -> None:
    header, claims, why = FORGED[name]
    answer = await shown(grantee, await forged(grantee, header, claims))
    assert reason(answer) == (401, why)
    assert answer.headers["www-authenticate"].startswith("DPoP")
    assert answer.json()["error"]["code"] == "auth_required"


@requirement("oap:token.short")
async def test_a_token_lives_ten_minutes_with_a_minute_for_clocks_and_never_longer_than_its_grant(
    grantee: Grantee,
) -> None:
    claims = jose.opened(await grantee.token()).claims
    assert claims["exp"] - claims["iat"] == 600
    now = grantee.lender.clock() // 1000
    for times, status in (
        ({"iat": now - 600, "nbf": now - 600, "exp": now - 59}, 200),
        ({"iat": now - 600, "nbf": now - 600, "exp": now - 60}, 401),
        ({"iat": now + 60, "nbf": now + 60, "exp": now + 600}, 200),
        ({"iat": now + 62, "nbf": now, "exp": now + 600}, 401),
        ({"iat": now, "nbf": now + 62, "exp": now + 600}, 401),
        ({"iat": now, "nbf": now, "exp": now + 601}, 401),
        ({"iat": now, "nbf": now, "exp": now - 1}, 401),
    ):
        assert (await shown(grantee, await forged(grantee, {}, times))).status_code == status, times
    await grantee.given(expires_at=grantee.lender.clock() + SOON_S * 1000)
    claims = jose.opened(await grantee.token()).claims
    assert claims["exp"] - claims["iat"] == SOON_S


@requirement("oap:token.every-check")
async def test_what_is_no_token_or_comes_without_its_proof_is_refused(grantee: Grantee) -> None:
    token = await grantee.token()
    head, body, signature = token.split(".")
    none = jose.b64(b'{"alg":"none","typ":"oap-memory-grant+jwt"}')
    unsigned = f"{none}.{body}."
    for odd in ("", "x", unsigned, f"{head}.{body}.{signature[::-1]}", f"{head}.{body}"):
        assert reason(await shown(grantee, odd)) == (401, "bad_token"), odd
    assert reason(await shown(grantee, token, scheme="Bearer")) == (401, "binding_failed")


@requirement("oap:token.proof")
@pytest.mark.parametrize(
    "wrong",
    ["method", "address", "token", "old", "to come", "key", "private key", "name", "kind", "nothing"],
)
async def test_a_proof_is_of_this_request_by_this_key_and_fresh(grantee: Grantee, wrong: str) -> None:
    token, url, by, at = (
        await grantee.token(),
        f"{grantee.lender.url}{PATH}",
        grantee.by,
        grantee.lender.clock(),
    )
    made = {
        "method": lambda: proof(by, "GET", url, at, token),
        "address": lambda: proof(by, "POST", f"{url}/x", at, token),
        "token": lambda: proof(by, "POST", url, at, f"{token}x"),
        "old": lambda: proof(by, "POST", url, at - 301_000, token),
        "to come": lambda: proof(by, "POST", url, at + 301_000, token),
        "key": lambda: proof(grantee.lender.sharing.host.keyring.signatory(None), "POST", url, at, token),
        "private key": lambda: jose.token(
            {"typ": "dpop+jwt", "jwk": {**by.jwk, "d": "x"}},
            jose.opened(proof(by, "POST", url, at, token)).claims,
            by,
        ),
        "name": lambda: proof(by, "POST", url, at, token, jti="short"),
        "kind": lambda: jose.token(
            {"typ": "JWT", "jwk": dict(by.jwk)}, jose.opened(proof(by, "POST", url, at, token)).claims, by
        ),
        "nothing": lambda: "none",
    }[wrong]()
    answer = await shown(grantee, token, proven=made)
    assert reason(answer) == (401, "bad_token" if wrong == "nothing" else "binding_failed")


@requirement("oap:token.proof")
async def test_a_proof_is_good_once(grantee: Grantee) -> None:
    token, url = await grantee.token(), f"{grantee.lender.url}{PATH}"
    made = proof(grantee.by, "POST", url, grantee.lender.clock(), token)
    assert (await shown(grantee, token, proven=made)).status_code == 200
    assert reason(await shown(grantee, token, proven=made)) == (401, "binding_failed")
    assert (await grantee.exchange(jti="the-very-same-proof")).status_code == 200
    assert reason(await grantee.exchange(jti="the-very-same-proof")) == (401, "binding_failed")


@requirement("oap:token.proof")
async def test_a_grant_is_traded_for_a_token_by_a_key_of_the_grantee_alone(grantee: Grantee) -> None:
    thief = Grantee(grantee.lender, grantee.lender, grantee.grant_id)
    assert reason(await thief.exchange()) == (401, "binding_failed")
    await grantee.own(ops.ROTATE_KEY, compromised=True)
    grantee.lender.clock.now += 300_000  # the document that was kept is asked for again
    assert (await grantee.exchange()).status_code == 200, "the new key"


@requirement("oap:token.proof")
async def test_a_bearer_token_is_used_by_whoever_holds_it_and_minted_by_the_owner(grantee: Grantee) -> None:
    shared = await grantee.given(bearer=True)
    made = await grantee.lender(grant_ops.MINT_GRANT_TOKEN, id=shared.grant_id)
    assert made.token_type == "Bearer"
    assert (await shown(grantee, made.access_token, scheme="Bearer")).status_code == 200
    assert reason(await shown(grantee, made.access_token)) == (401, "binding_failed"), "bound to no key"


@requirement("oap:grant.one-status")
@pytest.mark.parametrize("status", ["active", "revoked", "expired", "suspended"])
async def test_list_document_token_and_query_say_the_same_of_a_grant(grantee: Grantee, status: str) -> None:
    lender = grantee.lender
    await grantee.given(days=1)
    token = await grantee.token()
    match status:
        case "revoked":
            await lender(grant_ops.REVOKE_GRANT, id=grantee.grant_id)
        case "expired":
            lender.clock.now += 86_400_000
        case "suspended":
            await lender(ops.ROTATE_KEY, compromised=True)
        case _:
            await lender(ops.ROTATE_KEY)  # a key that was retired did sign
    url = f"/.well-known/oap-revocation?grant_id={grantee.grant_id}"
    document = (await lender.http("GET", url)).json()
    signature = document.pop("signature")
    key = lender.sharing.host.keyring.key(None, jose.opened_detached(signature)["kid"])
    assert jose.verify_detached(canonical(document), signature, key.jwk)
    found = (await lender(grant_ops.GET_GRANT, id=grantee.grant_id)).grant
    listed = {one.id: one.status for one in (await lender(grant_ops.LIST_GRANTS)).grants}
    assert {document["status"], found.status, listed[grantee.grant_id]} == {status}
    answers = [await shown(grantee, token), await grantee.exchange()]
    if status == "active":
        assert [one.status_code for one in answers] == [200, 200]
    elif status == "expired":
        assert reason(answers[0])[0] == 401, "the token has ended long before"
        assert reason(answers[1]) == (401, "grant_expired")
    else:
        assert [reason(one) for one in answers] == [(401, f"grant_{status}")] * 2
        denied = await lender.container.ledger.entries("default", JournalQuery(op="deny"))
        assert {one.detail["reason"] for one in denied} == {f"grant_{status}"}, "the owner sees it"


@requirement("oap:grant.one-status")
async def test_nothing_is_shown_of_an_owner_who_is_suspended(grantee: Grantee) -> None:
    token = await grantee.token()
    await grantee.lender(SUSPEND_TENANT, tenant="default")
    assert reason(await shown(grantee, token)) == (401, "grant_suspended")
