"""What a host says of itself: documents, manifests and keys, to its owner and to anybody."""

import json
from pathlib import Path
from typing import Any

import pytest

from quipu import jose
from quipu.access.operations import CREATE_TENANT
from quipu.errors import ForbiddenError, InvalidError, UnsupportedError
from quipu.ledger.canonical import canonical
from quipu.ledger.ledger import JournalQuery
from quipu.model.principal import Permission, Principal, local
from quipu.sharing import dids
from quipu.sharing import operations as ops
from quipu.sharing.grants import operations as grant_ops
from tests.requirement import requirement
from tests.sharing.network import Host, hosts


async def page(host: Host, path: str) -> Any:
    answer = await host.http("GET", path)
    assert answer.status_code == 200, answer.text
    return answer.json()


@requirement("oap:did.at-its-address")
async def test_a_host_and_its_owner_have_documents_at_their_addresses(host: Host) -> None:
    who = await host(ops.GET_IDENTITY)
    assert (who.host, who.can_share) == ("did:web:memory.example", True)
    assert who.owner.startswith("did:web:memory.example:owners:")
    for did in (who.host, who.owner):
        place, path = dids.place_of(did)
        found = await page(host, path)
        assert (place, found["id"]) == ("memory.example", did)
        (key,) = dids.keys_of(found, did)
        assert key.kid == f"{did}#key-1"


@requirement("oap:did.at-its-address")
async def test_addresses_say_nothing_about_tenants(host: Host) -> None:
    await host(CREATE_TENANT, tenant="acme")
    host.container.sharing.host.keyring.did("acme")
    answers = [
        await host.http("GET", f"/owners/{name}/{document}")
        for name in ("acme", "default", "nobody", "0" * 32, "..")
        for document in ("did.json", "oap-memory.json")
    ]
    assert {one.status_code for one in answers} == {404}
    said = {json.dumps(one.json().get("error")) for one in answers} - {"null"}
    assert len(said) == 1, "a tenant that is here and one that is not answer alike"


@requirement("oap:manifest.memory")
async def test_the_memory_manifest_is_signed_by_the_host(host: Host) -> None:
    await host.remember("Something.")
    who = await host(ops.GET_IDENTITY)
    for path in ("/.well-known/oap-memory.json", dids.place_of(who.owner)[1].replace("did", "oap-memory")):
        found = await page(host, path)
        assert (found["principal"], found["scopes"]) == (who.owner, [])
        assert found["endpoints"]["query"] == "https://memory.example/oap/memory/query"
        assert found["embedding_profiles"][0]["distance"] == "cosine"
        signature = found.pop("signature")
        kid = str(jose.opened_detached(signature)["kid"])
        key = dids.key_of(await page(host, "/.well-known/did.json"), who.host, kid)
        assert key is not None
        assert jose.verify_detached(canonical(found), signature, key.jwk)


@requirement("oap:did.rotation")
async def test_a_key_is_rotated_and_the_old_one_stays_in_the_document(host: Host) -> None:
    who = await host(ops.GET_IDENTITY)
    await page(host, dids.place_of(who.owner)[1])
    assert (await host(ops.ROTATE_KEY)).kid == f"{who.owner}#key-2"
    assert (await host(ops.ROTATE_KEY, compromised=True)).kid == f"{who.owner}#key-3"
    found = await page(host, dids.place_of(who.owner)[1])
    methods = {one["id"].partition("#")[2]: one for one in found["verificationMethod"]}
    assert list(methods) == ["key-3", "key-2", "key-1"], "newest first"
    assert "expires" in methods["key-1"]
    assert "revoked" in methods["key-2"]
    assert f"{who.owner}#key-2" not in found["assertionMethod"]
    entries = await host.container.ledger.entries("default", JournalQuery(op="rotate_key"))
    assert [entry.detail["compromised"] for entry in entries] == [False, True]


async def test_the_key_of_a_server_is_rotated_by_who_runs_it(host: Host) -> None:
    admin = Principal(tenant="default", name="ana", permissions=frozenset(Permission) - {Permission.OPERATE})
    with pytest.raises(ForbiddenError):
        await host(ops.ROTATE_KEY, admin, host=True)
    assert (await host(ops.ROTATE_KEY, local(), host=True)).kid == "did:web:memory.example#key-2"


async def test_without_a_public_address_a_host_is_its_key_and_says_nothing_to_strangers(
    tmp_path: Path,
) -> None:
    async with hosts(tmp_path, "memory.example", public_url=None) as (_, [host]):
        who = await host(ops.GET_IDENTITY)
        assert not who.can_share
        assert dids.is_did(who.owner)
        assert who.owner.startswith("did:key:")
        assert who.owner != who.host
        for path in ("did.json", "oap-memory.json", "oap-tool.json"):
            answer = await host.http("GET", f"/.well-known/{path}")
            assert answer.status_code == 404
            assert answer.json()["error"]["details"]["reason"] == "no_public_url"
        with pytest.raises(UnsupportedError):
            await host(ops.DESCRIBE_SERVICE)
        with pytest.raises(InvalidError) as refused:
            await host(ops.ROTATE_KEY)
        assert refused.value.reason == "bad_did"


@requirement("oap:tls.only")
@pytest.mark.parametrize(
    ("url", "is_shared"),
    [("http://memory.example", False), ("http://127.0.0.1:8321", True), ("http://localhost:8321", True)],
)
async def test_nothing_is_shared_without_tls_but_on_this_machine(
    tmp_path: Path, url: str, is_shared: bool
) -> None:
    async with hosts(tmp_path, "memory.example", public_url=url) as (_, [host]):
        await host.remember("The website is green.")
        answer = await host.http("GET", "/.well-known/oap-memory.json")
        key = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"
        wanted = {"grantee": key, "purpose": "a test", "all": True}
        if is_shared:
            assert answer.status_code == 200
            assert (await host(grant_ops.SHARE, **wanted)).status == "active"
        else:
            assert answer.json()["error"]["details"]["reason"] == "no_tls"
            with pytest.raises(UnsupportedError) as refused:
                await host(grant_ops.SHARE, **wanted)
            assert refused.value.reason == "no_tls"


async def test_keys_stand_beside_the_ledger_and_nowhere_in_it(host: Host, tmp_path: Path) -> None:
    who = await host(ops.GET_IDENTITY)
    await page(host, dids.place_of(who.owner)[1])
    assert files_of(tmp_path / "memory.example.db.identity") == ["key-1.pem", "owner.json"], (
        "the host signed nothing"
    )
    assert not any(has_key(tmp_path / f"memory.example.db{end}") for end in ("", "-wal"))


def files_of(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.rglob("*") if file.is_file())


def has_key(file: Path) -> bool:
    return file.exists() and b"PRIVATE KEY" in file.read_bytes()


async def test_dids_that_owners_bring_along_are_checked_at_the_start(tmp_path: Path) -> None:
    for odd in ("did:web:user.example", "user.example=default", "=default"):
        with pytest.raises(InvalidError) as refused:
            async with hosts(tmp_path, "memory.example", oap_owners=(odd,)):
                pass
        assert refused.value.reason == "bad_value"
