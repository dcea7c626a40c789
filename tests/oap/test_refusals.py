"""What is refused: grants that say too much, DIDs that lead astray, addresses inside somebody's network."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from quipu.crypto.canonical import canonical
from quipu.crypto.dids_peers import GuardedPeers
from quipu.errors import BackendUnavailableError, InvalidError, QuipuError
from quipu.model.access import Role
from quipu.rules import dids, receipts
from quipu.rules.exposure import is_public
from quipu.rules.grants_times import rfc3339
from tests.oap.hosts import OWNER, Host, free_port, pair
from tests.requirement import requirement


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Host]]:
    with pair(tmp_path_factory.mktemp("refusals")) as both:
        yield both


def signed(a: Host, b: Host, **members: Any) -> dict[str, Any]:
    """A grant as an owner with a key of their own would send it; None leaves a member out."""
    keyring = a.parts.lending.keyring
    body: dict[str, Any] = {
        "grant_id": a.parts.mint_id("mgr"),
        "granter": f"{a.owner}#personal",
        "grantee": b.owner,
        "purpose": "To try.",
        "filter": {"all": True},
        "max_items": 5,
        "expires_at": rfc3339(a.parts.clock() // 1000 * 1000 + 3_600_000),
        "revocable": True,
        "redaction_profile": "oap.profile.projection.contact.v1",
        **members,
    }
    body = {name: value for name, value in body.items() if value is not None}
    return {**body, "signature": receipts.signature(body, keyring.hand("default"), canonical)}


def sent(a: Host, body: dict[str, Any]) -> tuple[int, str, str]:
    answer = httpx.post(f"{a.url}/oap/memory/grant", json=body)
    error = answer.json().get("error", {})
    return answer.status_code, error.get("code", ""), error.get("details", {}).get("reason", "")


@requirement("oap:grant.register")
def test_a_signed_grant_is_registered_once_whoever_sends_it(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    body = signed(a, b)
    assert sent(a, body)[0] == 201
    assert sent(a, body)[0] == 201, "the same again"
    other = signed(a, b, grant_id=body["grant_id"], max_items=6)
    assert sent(a, other) == (409, "conflict", "grant_taken")
    bare = signed(a, b)
    bare["signature"] = bare["signature"]["value"]
    assert sent(a, bare)[0] == 201, "a bare signature"
    detached = signed(a, b)
    unsigned = receipts.without(detached, "signature")
    keyring, jose = a.parts.lending.keyring, a.parts.lending.jose
    detached["signature"] = jose.detached(canonical(unsigned), {}, keyring.hand("default"))
    assert sent(a, detached)[0] == 201, "a detached signature"
    kinds = [one.body["action_id"] for one in a.at.do(a.sharing.grants.receipts(OWNER))]
    assert kinds == ["memory_grant_create"] * 3


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown member": ({"share_everything": True}, "unknown_member"),
    "no purpose": ({"purpose": None}, "required"),
    "not revocable": ({"revocable": False}, "bad_value"),
    "an empty filter": ({"filter": {}}, "required"),
    "an unknown filter key": ({"filter": {"authors": ["x"]}}, "unknown_member"),
    "too many labels": ({"filter": {"labels_any": [str(n) for n in range(1001)]}}, "bad_value"),
    "another scope": ({"filter": {"scope_ids": ["work"]}}, "bad_value"),
    "too many items": ({"max_items": 10_001}, "cap_reached"),
    "a time that is none": ({"issued_at": {"at": 1}}, "bad_value"),
    "given in the future": ({"issued_at": "2999-01-01T00:00:00Z"}, "bad_value"),
    "a code that is none": ({"purpose_code": ["x"]}, "bad_value"),
    "no items": ({"max_items": 0}, "bad_value"),
    "too long": ({"expires_at": "2099-01-01T00:00:00Z"}, "bad_value"),
    "over": ({"expires_at": "2020-01-01T00:00:00Z"}, "grant_expired"),
    "an unknown profile": ({"redaction_profile": "oap.profile.projection.everything.v9"}, "profile_unsupported"),
    "no profile at all": ({"redaction_profile": "everything"}, "bad_value"),
    "a level too high": ({"trust_level": 5}, "bad_value"),
    "an unknown basis": ({"lawful_basis": "curiosity"}, "bad_value"),
    "an unknown scope": ({"scopes": ["memory.write"]}, "bad_value"),
    "an unknown binding": ({"binding": "cookie"}, "bad_value"),
    "no DID": ({"grantee": "somebody"}, "bad_did"),
    "a method that is not known": ({"grantee": "did:ethr:0x1"}, "bad_did"),
    "a key of another kind": ({"grantee": "did:key:zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme"}, "bad_did"),
    "a path that climbs": ({"grantee": "did:web:memory.example:..:x"}, "bad_did"),
    "a loopback host": ({"grantee": "did:web:127.0.0.1%3A1"}, "address_refused"),
    "localhost": ({"grantee": "did:web:localhost"}, "address_refused"),
    "a private network": ({"grantee": "did:web:10.0.0.1"}, "address_refused"),
    "the cloud's metadata": ({"grantee": "did:web:169.254.169.254"}, "address_refused"),
    "a decimal address": ({"grantee": "did:web:2130706433"}, "address_refused"),
    "somebody who is not there": ({"grantee": "did:web:nowhere.invalid"}, "peer_unreachable"),
}  # fmt: skip


@requirement("oap:grant.refused")
@pytest.mark.parametrize("name", REFUSED)
def test_a_grant_is_refused(hosts: tuple[Host, Host], name: str) -> None:
    a, b = hosts
    members, reason = REFUSED[name]
    assert sent(a, signed(a, b, **members)) == (400, "invalid_input", reason)


@requirement("oap:grant.fragments")
def test_a_scope_is_never_a_key_and_a_key_never_a_scope(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    for fragment in ("key-1", "oap-invoke", "agreement-1"):
        assert sent(a, signed(a, b, granter=f"{a.owner}#{fragment}"))[2] == "bad_value"
    assert sent(a, signed(a, b, granter=a.owner))[2] == "bad_value"
    assert sent(a, signed(a, b, granter=f"{a.owner}#medical"))[2] == "bad_value"


@requirement("oap:grant.unsigned")
def test_only_the_owner_s_key_signs(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    good = signed(a, b)
    keyring = b.parts.lending.keyring
    for bad in (
        {**good, "max_items": 4},
        {**good, "signature": "AAAA"},
        {**good, "signature": {**good["signature"], "kid": f"{a.owner}#personal"}},
        {**good, "signature": {**good["signature"], "kid": f"{a.did}#key-1"}},
        {
            **good,
            "signature": receipts.signature(
                receipts.without(good, "signature"), keyring.hand("default"), canonical
            ),
        },
        {**good, "granter": f"{b.owner}#personal"},
        {**good, "granter": "did:web:stranger.example#personal"},
    ):
        assert sent(a, bad)[:2] == (403, "policy_block")


@requirement("oap:isolation.bound-principals")
def test_nobody_bound_to_a_user_or_an_agent_lends_the_whole_memory(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    for number, limits in enumerate(
        (
            {"roles": (Role.ADMIN,), "user_id": "u1"},
            {"roles": (Role.ADMIN,), "agents": ("assistant",)},
            {"roles": (Role.AGENT,)},
        )
    ):
        made = a.at.do(a.at.service.tokens.issue(OWNER, name=f"bound-{number}", **limits))
        with a.at.client(made.text) as bound:
            draft = {"grantee": b.owner, "purpose": "x", "filter": {"all": True}}
            assert bound.post("/oap/memory/grant", json=draft).status_code == 403
            assert bound.get("/oap/memory/grant").status_code == 403
            assert bound.get("/oap/audit").status_code == 403
            assert bound.post("/oap/data/delete", json={"principal_did": a.owner}).status_code == 403


# -- the guard ----------------------------------------------------------------------------------------------------


@requirement("oap:ssrf.addresses")
@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1",  # noqa: S104  an address to refuse
        "255.255.255.255", "::1", "fe80::1", "fc00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::",
        "2002:7f00:1::", "64:ff9b::7f00:1", "nonsense",
    ],
)  # fmt: skip
def test_an_inner_address_is_not_public(address: str) -> None:
    assert not is_public(address)


def test_an_outer_address_is_public() -> None:
    assert is_public("93.184.215.14")
    assert is_public("2606:2800:21f:cb07:6820:80da:af6b:8b2c")


async def asked(peers: GuardedPeers, url: str) -> str:
    try:
        await peers.get(url)
    except QuipuError as error:
        return error.reason or error.code
    finally:
        await peers.close()
    return "answered"


@requirement("oap:ssrf.guard")
@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/", "https://127.0.0.1/", "https://localhost/", "https://[::1]/", "https://[::ffff:127.0.0.1]/",
        "https://2130706433/", "https://0x7f000001/", "https://127.1/", "https://user@10.0.0.1/", "ftp://example.com/",
        "file:///etc/passwd", "https://", "https://[", "//example.com", "https://169.254.169.254/latest/meta-data/",
    ],
)  # fmt: skip
async def test_the_guard_refuses(url: str) -> None:
    assert await asked(GuardedPeers(), url) == "address_refused"


@requirement("oap:ssrf.guard")
@pytest.mark.parametrize("path", ["/\x01", "/\x00", "/" + "x" * 70_000])
async def test_an_address_that_no_request_can_have_is_refused(path: str) -> None:
    origin = f"http://127.0.0.1:{free_port()}"
    assert await asked(GuardedPeers(frozenset({origin})), origin + path) == "address_refused"


class _Odd(BaseHTTPRequestHandler):
    """A host that redirects, talks without end, or says what is no JSON."""

    def do_GET(self) -> None:
        if self.path == "/redirect":
            self.send_response(302)
            self.send_header("Location", "http://169.254.169.254/")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(b"[" + b"1," * (300 << 10) if self.path == "/large" else b"nonsense")

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def odd() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Odd)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


async def test_the_guard_follows_nobody_and_reads_no_more_than_a_document(odd: str) -> None:
    peers = GuardedPeers(frozenset({odd}))
    try:
        assert (await peers.get(f"{odd}/redirect")).status == 302
        for path in ("/large", "/other"):
            with pytest.raises(BackendUnavailableError):
                await peers.get(f"{odd}{path}")
        with pytest.raises(InvalidError):
            await peers.get(f"http://127.0.0.1:{free_port()}/")
    finally:
        await peers.close()


@pytest.mark.parametrize(
    "origin", ["http://example.com", "https://", "http://127.0.0.1:1/path", "ftp://127.0.0.1"]
)
def test_an_exception_to_the_guard_is_an_origin_on_this_machine_or_https(origin: str) -> None:
    with pytest.raises(InvalidError):
        GuardedPeers(frozenset({origin}))


@requirement("oap:did.foreign-document")
def test_a_document_that_is_somebody_else_s_is_not_believed() -> None:
    did = "did:web:user.example"
    key = dids.PublicKey(f"{did}#key-1", {"kty": "OKP", "crv": "Ed25519", "x": "AA"})
    document = dids.document(did, [key])
    assert dids.key_of(document, did, "key-1") is not None
    assert dids.key_of(document, "did:web:other.example", f"{did}#key-1") is None
    assert dids.key_of(document, did, "did:web:other.example#key-1") is None
    # A document that names another as the controller of its key, or itself in circles, proves nothing.
    circular = json.loads(json.dumps(document))
    circular["verificationMethod"][0]["controller"] = "did:web:other.example"
    assert dids.key_of(circular, did, "key-1") is None
    listed = {**document, "assertionMethod": [f"{did}#key-9", {"id": f"{did}#key-9"}, 7]}
    assert dids.key_of(listed, did, "key-1") is None
    assert dids.keys_of(listed, did) == []
    unlisted = {**document, "assertionMethod": []}
    assert dids.key_of(unlisted, did, "key-1") is None


@requirement("oap:did.web-places")
def test_a_did_names_one_place() -> None:
    assert dids.place("did:web:memory.example") == ("memory.example", "/.well-known/did.json")
    assert dids.place("did:web:memory.example%3A8443") == ("memory.example:8443", "/.well-known/did.json")
    assert dids.place("did:web:memory.example:owners:mara") == ("memory.example", "/owners/mara/did.json")
    assert dids.web_of("https://memory.example:8443/x") == "did:web:memory.example%3A8443"


@requirement("oap:did.key")
def test_a_did_key_is_its_key() -> None:
    raw = bytes(range(32))
    did = dids.key_did(raw)
    document = dids.key_document(did, receipts.b64)
    (key,) = dids.keys_of(document, did)
    assert key.jwk["x"] == receipts.b64(raw)
    assert dids.checked(did) == did


def test_documents_are_asked_for_once_in_five_minutes(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    documents = a.parts.lending.documents
    a.at.do(documents.document(b.owner))
    kept = dict(documents._kept)
    a.at.do(documents.document(b.owner))
    assert documents._kept == kept


@requirement("oap:canonical.jcs")
@pytest.mark.parametrize("number", [2**53, -(2**53), 10**30])
def test_a_number_that_nobody_can_sign_is_refused_where_it_stands(
    hosts: tuple[Host, Host], number: int
) -> None:
    a, b = hosts
    odd = {"grantee": b.owner, "purpose": "x", "filter": {"all": True}, "a/b": [{"n": number}]}
    with a.at.client() as owner:
        for path in ("/oap/memory/grant", "/oap/memory/grant/preview", "/oap/incident", "/oap/data/delete"):
            answer = owner.post(path, json=odd)
            told = answer.json()["error"]["details"]
            assert (answer.status_code, told["reason"], told["pointer"]) == (400, "bad_value", "/a~1b/0/n")
        assert owner.post("/oap/incident", json={"n": 2**53 - 1}).status_code == 202
