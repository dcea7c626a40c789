"""Tokens: what is let in, and everything that is not (contract 13.4)."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import jwt as pyjwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from quipu.crypto.jose import JsonWebSignatures
from quipu.rules import grants_tokens as tokens
from quipu.rules.receipts import Hand, b64
from tests.oap.hosts import OWNER, Host, digest, pair
from tests.requirement import requirement

JOSE = JsonWebSignatures()
Change = Callable[[dict[str, Any], dict[str, Any], Host], None]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Host]]:
    with pair(tmp_path_factory.mktemp("tokens")) as both:
        both[0].remember("Anything.", tags=("website_redesign",))
        yield both


@pytest.fixture(scope="module")
def grant_id(hosts: tuple[Host, Host]) -> str:
    return hosts[0].grant(hosts[1].owner, trust_level=4)


def remade(a: Host, token: str, change: Change, hand: Hand | None = None) -> str:
    """A token of A's own making, with something else in it."""
    opened = JOSE.opened(token)
    header, claims = dict(opened.header), dict(opened.claims)
    change(header, claims, a)
    return JOSE.token(header, claims, hand or a.parts.lending.keyring.hand(None))


def claims_(**given: Any) -> Change:
    def change(_header: dict[str, Any], claims: dict[str, Any], _a: Host) -> None:
        claims.update(given)
        for name, value in given.items():
            if value is None:
                del claims[name]

    return change


def header_(**given: Any) -> Change:
    return lambda header, _claims, _a: header.update(given)


def shifted(**seconds: int) -> Change:
    def change(_header: dict[str, Any], claims: dict[str, Any], _a: Host) -> None:
        for name, by in seconds.items():
            claims[name] += by

    return change


REFUSED: dict[str, tuple[Change, str]] = {
    "another type": (header_(typ="JWT"), "bad_token"),
    "no type": (lambda h, c, a: h.pop("typ"), "bad_token"),
    "an unknown demand": (header_(crit=["exp"]), "bad_token"),
    "a key to be fetched": (header_(jku="https://evil.example/keys"), "bad_token"),
    "another audience": (claims_(aud="did:web:evil.example"), "bad_token"),
    "two audiences": (lambda h, c, a: c.update(aud=[c["aud"], "did:web:x.example"]), "bad_token"),
    "a key of another DID": (header_(kid="did:web:evil.example#key-1"), "bad_token"),
    "a key that is not there": (lambda h, c, a: h.update(kid=h["kid"][:-1] + "9"), "bad_token"),
    "a key agreement key": (lambda h, c, a: h.update(kid=h["kid"].replace("key-1", "agreement-1")), "bad_token"),
    "another issuer": (claims_(iss="did:web:evil.example"), "bad_token"),
    "expired": (shifted(iat=-700, nbf=-700, exp=-700), "token_expired"),
    "a minute and a second late": (lambda h, c, a: c.update(exp=c["iat"] - 61, iat=c["iat"] - 600, nbf=c["iat"] - 600), "token_expired"),
    "not yet valid": (shifted(nbf=120), "bad_token"),
    "from the future": (shifted(iat=120, nbf=120, exp=120), "bad_token"),
    "too long a life": (shifted(exp=3600), "bad_token"),
    "no end": (claims_(exp=None), "bad_token"),
    "a number without end": (claims_(iat=10**400), "bad_token"),
    "an end beyond all numbers": (claims_(exp=10**400), "bad_token"),
    "more than any clock shows": (claims_(nbf=float("1e300")), "bad_token"),
    "another grant's hash": (claims_(grant_hash="sha256:" + "0" * 64), "bad_token"),
    "an unknown grant": (claims_(grant_id="mgr_unknown"), "grant_unknown"),
    "an unknown owner": (claims_(oap_principal="did:web:nobody.example"), "grant_unknown"),
    "another grantee": (claims_(sub="did:web:evil.example"), "bad_token"),
    "more than the grant allows": (claims_(scope="memory.query memory.embeddings"), "bad_token"),
    "no scope": (claims_(scope=""), "bad_token"),
    "no id": (claims_(jti=None), "bad_token"),
    "a bearer where a key is due": (claims_(cnf=None), "binding_failed"),
    "bound to another key": (claims_(cnf={"jkt": "x" * 43}), "binding_failed"),
    "an edited grant inside": (lambda h, c, a: c.update(memory_grant={"grant_id": c["grant_id"], "max_items": 9}), "bad_token"),
}  # fmt: skip


@requirement("oap:token.refused")
@pytest.mark.parametrize("name", REFUSED)
def test_a_token_is_refused(hosts: tuple[Host, Host], grant_id: str, name: str) -> None:
    a, b = hosts
    change, reason = REFUSED[name]
    bad = remade(a, b.token(a, grant_id), change)
    answer = b.query(a, bad)
    assert (answer.status_code, answer.json()["error"]["details"]["reason"]) == (401, reason), name
    assert answer.json()["error"]["code"] == "auth_required"


@requirement("oap:token.accepted")
@pytest.mark.parametrize(
    "change",
    [
        lambda h, c, a: None,
        header_(alg="Ed25519"),
        lambda h, c, a: c.update(exp=c["iat"] - 57, iat=c["iat"] - 600, nbf=c["iat"] - 600),
        shifted(nbf=55),
    ],
    ids=["as it was made", "by its newer name", "within a minute after its end", "within a minute before"],
)
def test_a_token_is_accepted(hosts: tuple[Host, Host], grant_id: str, change: Change) -> None:
    a, b = hosts
    assert b.query(a, remade(a, b.token(a, grant_id), change)).status_code == 200


@requirement("oap:token.algorithms")
def test_no_other_algorithm_opens_the_door(hosts: tuple[Host, Host], grant_id: str) -> None:
    a, b = hosts
    good = b.token(a, grant_id)
    opened = JOSE.opened(good)
    header, claims = dict(opened.header), dict(opened.claims)

    def part(value: object) -> str:
        return b64(json.dumps(value).encode())

    unsigned = f"{part({**header, 'alg': 'none'})}.{part(claims)}."
    public = base64.urlsafe_b64decode(a.parts.lending.keyring.jwk(None)["x"] + "=")
    begun = f"{part({**header, 'alg': 'HS256'})}.{part(claims)}"
    shared = f"{begun}.{b64(hmac.digest(public, begun.encode(), 'sha256'))}"
    curve = generate_private_key(SECP256R1())
    other = pyjwt.encode(
        claims, curve, algorithm="ES256", headers={"typ": header["typ"], "kid": header["kid"]}
    )
    forged = remade(a, good, lambda h, c, a: None, Hand("x", _stranger().sign))
    flipped = good[:-10] + ("A" if good[-10] != "A" else "B") + good[-9:]
    for bad in (unsigned, unsigned + "AAAA", shared, other, forged, flipped, "x", "a.b.c", good + ".x"):
        answer = b.query(a, bad)
        assert answer.status_code == 401, bad[:60]


def _stranger() -> Hand:
    key = Ed25519PrivateKey.generate()
    return Hand("did:web:stranger.example#key-1", lambda message: b64(key.sign(message)))


@requirement("oap:token.proof-of-possession")
def test_a_stolen_token_is_worth_nothing_without_its_key(hosts: tuple[Host, Host], grant_id: str) -> None:
    a, b = hosts
    token = b.token(a, grant_id)
    url = f"{a.url}/oap/memory/query"

    def asked(proof: str | None, scheme: str = "DPoP") -> tuple[int, str | None]:
        headers = {"Authorization": f"{scheme} {token}", **({"DPoP": proof} if proof else {})}
        answer = httpx.post(url, json={}, headers=headers)
        return answer.status_code, answer.json().get("error", {}).get("details", {}).get("reason")

    bad = (401, "binding_failed")
    assert asked(None) == bad
    assert asked(None, "Bearer") == bad
    assert asked(b.proof("POST", url, token), "Bearer") == bad
    assert asked(b.proof("GET", url, token)) == bad
    assert asked(b.proof("POST", f"{a.url}/oap/memory/grant", token)) == bad
    assert asked(b.proof("POST", url, token + "x")) == bad
    assert asked(b.proof("POST", url)) == bad
    assert asked(a.proof("POST", url, token)) == bad, "the proof of another key"
    used = b.proof("POST", url, token)
    assert asked(used)[0] == 200
    assert asked(used) == bad, "a proof is good once"
    jwk = dict(b.parts.lending.keyring.jwk("default"))
    claims = {"jti": "a" * 20, "htm": "POST", "htu": url, "ath": digest(token)}
    now = a.parts.clock() // 1000
    hand = b.parts.lending.keyring.hand("default")
    head = {"alg": "EdDSA", "typ": tokens.PROOF_TYPE, "jwk": jwk}
    for odd in (
        JOSE.token(head, {**claims, "iat": now - 400}, hand),
        JOSE.token(head, {**claims, "iat": now + 400}, hand),
        JOSE.token({**head, "typ": "JWT"}, {**claims, "iat": now}, hand),
        JOSE.token({**head, "jwk": {**jwk, "d": "secret"}}, {**claims, "iat": now}, hand),
        JOSE.token(head, {**claims, "iat": now, "jti": "short"}, hand),
    ):
        assert asked(odd) == bad


@requirement("oap:token.bearer")
def test_a_bearer_grant_is_open_to_whoever_holds_its_token(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    grant_id = a.grant(b.owner, binding="bearer", trust_level=4)
    token = b.token(a, grant_id)
    url = f"{a.url}/oap/memory/query"
    assert httpx.post(url, json={}, headers={"Authorization": f"Bearer {token}"}).status_code == 200
    assert b.ask(a, grant_id).items
    longer = remade(a, token, shifted(exp=60))
    assert httpx.post(url, json={}, headers={"Authorization": f"Bearer {longer}"}).status_code == 401


@requirement("oap:token.self-contained")
def test_a_token_that_carries_its_grant_registers_it(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    grant = a.sharing.grants.drafted(
        OWNER, {"grantee": b.owner, "purpose": "x", "filter": {"all": True}, "trust_level": 4}
    )
    keyring = a.parts.lending.keyring
    claims = tokens.claims_for(
        grant,
        issuer=grant.granter,
        audience=a.did,
        jti="tok_self",
        now_s=a.parts.clock() // 1000,
        life_s=600,
        thumbprint=JOSE.thumbprint(b.parts.lending.keyring.jwk("default")),
    )
    claims["memory_grant"] = {name: part for name, part in grant.body.items() if name != "signature"}
    hand = keyring.hand("default")
    header = {"alg": "EdDSA", "typ": tokens.GRANT_TYPE, "kid": hand.kid}
    forged = JOSE.token(
        {**header, "kid": keyring.hand(None).kid}, {**claims, "iss": a.did}, keyring.hand(None)
    )
    assert b.query(a, forged).json()["error"]["details"]["reason"] == "grant_unknown"
    assert b.query(a, JOSE.token(header, claims, hand)).status_code == 200
    a.at.do(a.sharing.grants.revoke(OWNER, grant.id))
    assert b.query(a, JOSE.token(header, claims, hand)).status_code == 401


@requirement("oap:keys.rotation")
def test_keys_rotate_and_a_compromised_one_suspends_what_it_signed(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    grant_id = a.grant(b.owner, trust_level=4)
    token = b.token(a, grant_id)
    assert a.sharing.rotate(OWNER, host=True).endswith("#key-2")
    assert b.query(a, token).status_code == 200, "a token made before the rotation"
    assert b.query(a, b.token(a, grant_id)).status_code == 200
    a.sharing.rotate(OWNER)
    assert b.query(a, b.token(a, grant_id)).status_code == 200, "the old key only stopped signing"
    later = a.grant(b.owner, trust_level=4)
    a.sharing.rotate(OWNER, is_compromised=True)
    url = f"{a.url}/oap/memory/grant/{later}/token"
    answer = httpx.post(url, headers={"DPoP": b.proof("POST", url)})
    assert answer.json()["error"]["details"]["reason"] == "grant_suspended"
    document = httpx.get(f"{a.url}/owners/default/did.json").json()
    assert [method.get("revoked") is not None for method in document["verificationMethod"]] == [
        False,
        True,
        False,
        False,
    ]
    assert a.at.do(a.sharing.grants.verify(OWNER)) == [], "old receipts still verify"


@requirement("oap:keys.rotation")
@pytest.mark.parametrize("form", ["bare", "detached"])
def test_a_signature_that_is_a_text_ends_with_its_key_too(tmp_path: Any, form: str) -> None:
    with pair(tmp_path) as (a, b):
        keyring = a.parts.lending.keyring
        grant = a.sharing.grants.drafted(
            OWNER, {"grantee": b.owner, "purpose": "x", "filter": {"all": True}, "trust_level": 4}
        )
        body = {name: part for name, part in grant.body.items() if name != "signature"}
        hand, message = keyring.hand("default"), a.parts.canonical(body)
        signature = hand.sign(message) if form == "bare" else JOSE.detached(message, {}, hand)
        answer = httpx.post(f"{a.url}/oap/memory/grant", json={**body, "signature": signature})
        assert answer.status_code == 201, answer.text
        token = b.token(a, grant.id)
        a.sharing.rotate(OWNER)
        assert b.query(a, token).status_code == 200, "the old key only stopped signing"
        body["grant_id"] += "2"
        hand, message = keyring.hand("default"), a.parts.canonical(body)
        signature = hand.sign(message) if form == "bare" else JOSE.detached(message, {}, hand)
        assert (
            httpx.post(f"{a.url}/oap/memory/grant", json={**body, "signature": signature}).status_code == 201
        )
        later = b.token(a, body["grant_id"])
        a.sharing.rotate(OWNER, is_compromised=True)
        refused = b.query(a, later)
        assert (refused.status_code, refused.json()["error"]["details"]["reason"]) == (401, "grant_suspended")


@requirement("oap:token.refused")
@pytest.mark.parametrize("iat", [10**400, float("1e300"), -(10**400)], ids=["large", "a fraction", "small"])
def test_a_proof_or_a_signature_of_no_time_is_refused(
    hosts: tuple[Host, Host], grant_id: str, iat: float
) -> None:
    a, b = hosts
    token, url = b.token(a, grant_id), f"{a.url}/oap/memory/query"
    jwk, hand = dict(b.parts.lending.keyring.jwk("default")), b.parts.lending.keyring.hand("default")
    claims = {"jti": "a" * 20, "htm": "POST", "htu": url, "ath": digest(token), "iat": iat}
    proof = JOSE.token({"alg": "EdDSA", "typ": tokens.PROOF_TYPE, "jwk": jwk}, claims, hand)
    assert (
        httpx.post(url, json={}, headers={"Authorization": f"DPoP {token}", "DPoP": proof}).status_code == 401
    )
    signature = JOSE.detached(b"{}", {"iat": iat}, hand)
    assert b.query(a, token, {}, **{"OAP-Signature": signature}).status_code == 401
    forged = JOSE.token({**JOSE.opened(token).header}, {**JOSE.opened(token).claims, "iat": iat}, hand)
    assert b.query(a, forged).status_code == 401, "before its signature is looked at"


@requirement("oap:replay.proof")
def test_a_proof_or_a_signature_may_be_called_what_is_no_unicode(
    hosts: tuple[Host, Host], grant_id: str
) -> None:
    a, b = hosts
    url = f"{a.url}/oap/memory/grant/{grant_id}/token"
    jwk, hand = dict(b.parts.lending.keyring.jwk("default")), b.parts.lending.keyring.hand("default")
    header = {"alg": "EdDSA", "typ": tokens.PROOF_TYPE, "jwk": jwk}
    claims = {"jti": "JTI-that-is-odd", "htm": "POST", "htu": url, "iat": a.parts.clock() // 1000}
    spelt = json.dumps(claims).replace("JTI", "\\ud800")
    message = f"{b64(json.dumps(header).encode())}.{b64(spelt.encode())}"
    shown = {"DPoP": f"{message}.{hand.sign(message.encode())}"}
    assert [httpx.post(url, headers=shown).status_code for _ in range(2)] == [200, 401], "it is good once"
    token = b.token(a, grant_id)
    named = {"alg": "EdDSA", "iat": claims["iat"], "jti": "\ud800-odd", "kid": hand.kid}
    protected = b64(json.dumps({**named, "b64": False, "crit": ["b64"]}).encode())
    signature = f"{protected}..{hand.sign(protected.encode() + b'.{}')}"
    answers = [b.query(a, token, {}, **{"OAP-Signature": signature}).status_code for _ in range(2)]
    assert answers == [200, 401]


@requirement("oap:token.accepted")
def test_keys_of_other_kinds_in_a_document_keep_nobody_out(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = hosts
    documents = a.parts.lending.documents
    document = documents.document

    async def with_more(did: str) -> Any:
        found = await document(did)
        if did != b.owner:
            return found
        more = [
            {"id": f"{did}#{name}", "type": "JsonWebKey2020", "controller": did, "publicKeyJwk": jwk}
            for name, jwk in (("rsa", {"kty": "RSA", "n": "AQAB", "e": "AQAB"}), ("odd", {"kty": 7}))
        ]
        return {
            **found,
            "verificationMethod": [*more, *found["verificationMethod"]],
            "authentication": [f"{did}#rsa", f"{did}#odd", *found["authentication"]],
        }

    monkeypatch.setattr(type(documents), "document", lambda _self, did: with_more(did))
    assert b.token(a, a.grant(b.owner, trust_level=4))


@requirement("oap:token.introspection")
def test_an_owner_may_ask_whether_a_token_counts(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    grant_id = a.grant(b.owner, trust_level=4)
    token = b.token(a, grant_id)
    with a.at.client() as owner:
        told = owner.post("/oap/memory/grant/introspect", data={"token": token}).json()
        assert (told["active"], told["grant_id"]) == (True, grant_id)
        a.at.do(a.sharing.grants.revoke(OWNER, grant_id))
        assert owner.post("/oap/memory/grant/introspect", data={"token": token}).json() == {"active": False}
    assert httpx.post(f"{a.url}/oap/memory/grant/introspect", data={"token": token}).status_code == 401


@requirement("oap:kill-switch")
def test_the_kill_switch_ends_every_grant_with_one_receipt(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    tokens_ = [b.token(a, a.grant(b.owner, trust_level=4)) for _ in range(2)]
    assert a.at.do(a.sharing.grants.kill(OWNER)) >= 2
    assert {b.query(a, token).status_code for token in tokens_} == {401}
    chain = a.at.do(a.sharing.grants.receipts(OWNER))
    assert [one.type for one in chain].count("kill_switch") == 1
    assert a.at.do(a.sharing.grants.verify(OWNER)) == []


@requirement("oap:kill-switch")
def test_the_kill_switch_ends_what_is_lent_while_it_is_pulled(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = hosts
    lending = a.parts.ledger.lending
    first, grants, late = a.grant(b.owner), lending.grants, list[str]()

    async def then_one_more(tenant: str) -> Any:
        found = await grants(tenant)
        if not late:
            late.append("")
            draft = {"grantee": b.owner, "purpose": "Meanwhile.", "filter": {"all": True}}
            late[0] = (await a.sharing.grants.issue(OWNER, draft)).id
        return found

    monkeypatch.setattr(lending, "grants", then_one_more)
    a.at.do(a.sharing.grants.kill(OWNER))
    standing = {one.id: one.status.value for one in a.at.do(grants(OWNER.tenant))}
    assert (standing[first], standing[late[0]]) == ("revoked", "revoked")
    assert a.at.do(a.sharing.grants.verify(OWNER)) == []
