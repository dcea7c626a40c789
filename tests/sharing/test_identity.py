"""DIDs, the keys behind them in files, and the documents of others."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from quipu import jose
from quipu.errors import InvalidError, UnverifiableError
from quipu.outbound import Answer
from quipu.sharing import dids
from quipu.sharing.identity import Documents, Keyring
from tests.fixtures.memories import Clock

URL = "https://memory.example"


@dataclass
class Web:
    """Other hosts: address → what stands there."""

    pages: dict[str, object] = field(default_factory=dict[str, object])
    asked: list[str] = field(default_factory=list[str])

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        most_bytes: int = 0,
    ) -> Answer:
        self.asked.append(url)
        if url not in self.pages:
            return Answer(404)
        return Answer(200, {}, json.dumps(self.pages[url]).encode())


@pytest.mark.parametrize(
    "text",
    [
        "did:web:user.example",
        "did:web:user.example:a:b",
        "did:web:127.0.0.1%3A8321",
        dids.key_did(bytes(range(32))),
    ],
)
def test_dids_that_are_known(text: str) -> None:
    assert dids.checked(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "did:web:",
        "did:web:user.example#a",
        "did:web:a/b",
        "did:web:a:..",
        "did:ion:x",
        "did:key:zabc",
        "",
        7,
        "did:web:" + "a" * 600,
    ],
)
def test_dids_that_are_refused(text: object) -> None:
    with pytest.raises(InvalidError):
        dids.checked(text)


def test_where_a_document_is() -> None:
    assert dids.place_of("did:web:user.example") == ("user.example", "/.well-known/did.json")
    assert dids.place_of("did:web:127.0.0.1%3A8321:owners:x") == ("127.0.0.1:8321", "/owners/x/did.json")


def test_a_did_key_is_its_own_document() -> None:
    did = dids.key_did(bytes(range(32)))
    (key,) = dids.keys_of(dids.key_document(did), did)
    assert key.jwk["x"] == jose.b64(bytes(range(32)))


def test_addresses_of_owners_say_nothing_about_tenants() -> None:
    ring = Keyring(None, URL)
    paths = {tenant: ring.path_of(tenant) for tenant in ("acme", "bolt")}
    assert all(tenant not in path for tenant, path in paths.items())
    assert ring.did("acme") == f"did:web:memory.example:owners:{paths['acme']}"
    assert ring.tenant_of(ring.did("acme")) == "acme"
    assert ring.tenant_of("did:web:memory.example:owners:acme") is None
    assert ring.tenant_at(paths["bolt"]) == "bolt"


def test_keys_and_names_survive_a_restart_and_are_shared_by_processes(tmp_path: Path) -> None:
    one, two = Keyring(tmp_path / "keys", URL), Keyring(tmp_path / "keys", URL)
    did, kid = one.did("acme"), one.signatory("acme").kid
    assert (two.did("acme"), two.signatory("acme").kid) == (did, kid)
    assert two.tenant_of(did) == "acme"
    assert Keyring(tmp_path / "keys", URL).tenant_of(did) == "acme"
    one.rotate("acme", 5, is_compromised=False)
    assert two.signatory("acme").kid == f"{did}#key-2"
    assert all(file.stat().st_mode & 0o077 == 0 for file in (tmp_path / "keys").rglob("*.pem"))


def test_a_stranger_makes_no_key(tmp_path: Path) -> None:
    ring = Keyring(tmp_path / "keys", URL)
    assert ring.tenant_of("did:web:memory.example:owners:somebody") is None
    assert ring.tenant_at("../host") is None
    assert not (tmp_path / "keys").exists()


def test_a_retired_key_still_proves_what_it_signed_and_a_compromised_one_nothing() -> None:
    ring = Keyring(None, URL)
    first = ring.signatory("acme").kid
    ring.rotate("acme", 1000, is_compromised=False)
    second = ring.signatory("acme").kid
    ring.rotate("acme", 2000, is_compromised=True)
    document, did = ring.document("acme"), ring.did("acme")
    retired, compromised = (dids.key_of(document, did, kid) for kid in (first, second))
    assert retired is not None
    assert compromised is not None
    assert retired.may_sign_at(500, 3000)
    assert not retired.may_sign_at(1500, 3000)
    assert not compromised.may_sign_at(500, 3000)
    assert document["authentication"] == [f"{did}#key-3", first]
    assert document["verificationMethod"][0]["id"] == f"{did}#key-3"


def test_whoever_rotated_and_was_stopped_is_helped_on(tmp_path: Path) -> None:
    ring = Keyring(tmp_path, URL)
    ring.signatory(None)
    (tmp_path / "host" / "key-1.retired").write_text(json.dumps({"expires": 5, "revoked": None}))
    assert Keyring(tmp_path, URL).signatory(None).kid == "did:web:memory.example#key-2"


def test_without_an_address_a_host_is_its_key() -> None:
    ring = Keyring(None)
    assert ring.did(None).startswith("did:key:z")
    assert dids.key_of(ring.document(None), ring.did(None), ring.signatory(None).kid) is not None
    assert ring.tenant_of(ring.did("acme")) == "acme"
    with pytest.raises(InvalidError):
        ring.rotate("acme", 1, is_compromised=False)


def test_what_was_taken_back_is_noted_outside_the_ledger(tmp_path: Path) -> None:
    Keyring(tmp_path, URL).note_revoked("acme", "mgr_1")
    again = Keyring(tmp_path, URL)
    assert again.is_revoked("acme", "mgr_1")
    assert not again.is_revoked("acme", "MGR_1")
    assert not again.is_revoked("bolt", "mgr_1")


# -- documents of others ------------------------------------------------------------------------------------------


def _others(web: Web, clock: Clock) -> tuple[Documents, Keyring]:
    other = Keyring(None, "https://other.example")
    web.pages["https://other.example/.well-known/did.json"] = other.document(None)
    return Documents(Keyring(None, URL), web, clock), other


async def test_a_document_is_fetched_once_for_a_while() -> None:
    web, clock = Web(), Clock()
    documents, other = _others(web, clock)
    for _ in range(2):
        key = await documents.key(other.signatory(None).kid)
        assert key is not None
    assert len(web.asked) == 1
    clock.now += 300_000
    await documents.document("did:web:other.example")
    assert len(web.asked) == 2


async def test_a_clock_that_jumped_back_keeps_no_document() -> None:
    web, clock = Web(), Clock()
    documents, _ = _others(web, clock)
    await documents.document("did:web:other.example")
    clock.now -= 10_000_000
    await documents.document("did:web:other.example")
    assert len(web.asked) == 2


async def test_our_own_documents_are_not_asked_for() -> None:
    web, ring = Web(), Keyring(None, URL)
    documents = Documents(ring, web, Clock())
    assert (await documents.document(ring.did(None)))["id"] == "did:web:memory.example"
    assert (await documents.document(ring.did("acme")))["id"] == ring.did("acme")
    assert (await documents.document(dids.key_did(bytes(range(32)))))["id"].startswith("did:key:")
    assert web.asked == []


@pytest.mark.parametrize("page", [None, [], "x", {"id": "did:web:else.example"}, {}])
async def test_a_document_of_somebody_else_is_none(page: object) -> None:
    web = Web({"https://other.example/.well-known/did.json": page})
    with pytest.raises(UnverifiableError) as refused:
        await Documents(Keyring(None, URL), web, Clock()).document("did:web:other.example")
    assert refused.value.reason == "did_unresolved"


async def test_a_key_of_another_controller_is_no_key() -> None:
    web, clock = Web(), Clock()
    documents, other = _others(web, clock)
    document = other.document(None)
    document["verificationMethod"][0]["controller"] = "did:web:evil.example"
    web.pages["https://other.example/.well-known/did.json"] = document
    assert await documents.key("did:web:other.example#key-1") is None


async def test_only_named_origins_are_asked_without_tls() -> None:
    documents = Documents(Keyring(None, URL), Web(), Clock(), frozenset({"http://127.0.0.1:8321"}))
    assert documents.url("127.0.0.1:8321", "/x") == "http://127.0.0.1:8321/x"
    assert documents.url("127.0.0.1:9999", "/x") == "https://127.0.0.1:9999/x"
