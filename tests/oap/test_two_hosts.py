"""The scenarios of RFC 0010 between two real hosts: a briefing, a successor, a chain of tools."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from quipu.crypto.canonical import canonical
from quipu.crypto.jose import JsonWebSignatures
from quipu.errors import InvalidError, UnauthenticatedError
from quipu.model.moving import FileExport, FileImport
from quipu.rules import dids, receipts
from quipu.testing.embedders import WordEmbedder
from tests.oap.hosts import OWNER, Host, embedder, pair
from tests.requirement import requirement

JOSE = JsonWebSignatures()
MEETINGS = {
    "preference_kind": "scheduling",
    "value": {"preferred_days": ["tue", "thu"], "time_of_day": "morning"},
}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Host]]:
    with pair(tmp_path_factory.mktemp("two"), embedder=embedder()) as both:
        yield both


def texts(borrowed: Any) -> list[str]:
    return [item["content"].get("text", "") for item in borrowed.items]


@requirement("oap:journey.delegated-briefing")
def test_a_delegate_is_briefed_on_one_project_and_sees_nothing_else(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    wanted = a.remember(
        "Dana likes meetings on Tuesday and Thursday mornings, call her at +49 30 1234567.",
        tags=("website_redesign",),
        structured=MEETINGS,
        oap_kind="preference",
    )
    a.remember("The redesign costs 90000 euros, signed by Dana.", tags=("website_redesign",))
    a.remember("Dana has an appointment with her cardiologist.", tags=("health",))
    grant_id = a.grant(b.owner)
    told = b.ask(a, grant_id, "preferred meeting days")
    assert [item["item_id"] for item in told.items] == [wanted]
    (item,) = told.items
    assert item["content"]["structured"] == MEETINGS
    assert item["content"]["derived"] is True
    assert item["content"]["text"] == (
        "preference_kind: scheduling; value.preferred_days: tue, thu; value.time_of_day: morning"
    )
    assert item["kind"] == "preference"
    assert item["labels"] == ["website_redesign"]
    assert item["provenance"]["confidence"] == 1.0
    assert item["provenance_tags"][0]["received_under"] == f"grant:{grant_id}"
    assert "trust_level_defaulted" in told.warnings
    everything = b.ask(a, grant_id)
    assert len(everything.items) == 2
    assert not any(word in str(everything) for word in ("cardiologist", "90000", "1234567"))
    held = b.at.do(b.sharing.borrowing.held(OWNER))
    assert {one.item_id for one in held} == {item["item_id"] for item in everything.items}


@requirement("oap:journey.team-continuity")
def test_a_successor_gets_what_was_known_page_by_page_at_full_trust(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    known = {
        a.remember(f"Handover note {n}: the build server is number {n}.", tags=("handover",))
        for n in range(25)
    }
    grant_id = a.grant(b.owner, filter={"labels_any": ["handover"]}, trust_level=4)
    seen: list[str] = []
    cursor = None
    while True:
        page = b.ask(a, grant_id, "build server", max_results=10, cursor=cursor)
        seen += [item["item_id"] for item in page.items]
        assert all(item["integrity"]["altered_by_projection"] is False for item in page.items)
        assert all(item["integrity"]["salt"] for item in page.items)
        cursor = page.next_cursor
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) == 25
    assert set(seen) == known


@requirement("oap:journey.cross-tool")
def test_two_tools_share_context_each_under_its_own_grant(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    ours = a.remember("Deploys happen on Fridays.", tags=("release",))
    theirs = b.remember("The pager is with Kim.", tags=("release",))
    there = a.grant(b.owner, filter={"labels_any": ["release"]}, trust_level=4)
    back = b.grant(a.owner, filter={"labels_any": ["release"]}, trust_level=4)
    assert [item["item_id"] for item in b.ask(a, there, "deploys").items] == [ours]
    assert [item["item_id"] for item in a.ask(b, back, "pager").items] == [theirs]
    assert a.at.do(a.sharing.grants.verify(OWNER)) == []
    assert b.at.do(b.sharing.grants.verify(OWNER)) == []


@requirement("oap:revocation.next-request")
def test_a_revocation_counts_from_the_next_request_on(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    a.remember("Something to take back.", tags=("temporary",))
    grant_id = a.grant(b.owner, filter={"labels_any": ["temporary"]}, trust_level=4)
    token = b.token(a, grant_id)
    assert b.query(a, token).status_code == 200
    a.at.do(a.sharing.grants.revoke(OWNER, grant_id))
    refused = b.query(a, token)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == 'DPoP error="invalid_token"'
    assert refused.json()["error"]["details"]["reason"] == "grant_revoked"
    status = httpx.get(f"{a.url}/.well-known/oap-revocation?grant_id={grant_id}").json()
    assert status["status"] == "revoked"
    with pytest.raises(UnauthenticatedError):
        b.ask(a, grant_id)


@requirement("oap:embeddings.own-scope")
def test_vectors_need_a_scope_of_their_own_and_are_of_the_text_as_shown(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    a.remember("Vectors tell secrets 4242.", tags=("vectors",), structured={"topic": "vectors"})
    plain = a.grant(b.owner, filter={"labels_any": ["vectors"]})
    token = b.token(a, plain)
    refused = b.query(a, token, {"include_embeddings": True})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "policy_block")
    scoped = a.grant(
        b.owner, filter={"labels_any": ["vectors"]}, scopes=["memory.query", "memory.embeddings"]
    )
    (item,) = b.ask(a, scoped, include_embeddings=True).items
    url = item["embedding"]["vector_url"]
    data = b.at.do(b.sharing.borrowing.vector(OWNER, a.url, scoped, url))
    assert data == a.at.do(a.parts.embedder.embed([item["content"]["text"]]))[0]
    assert "model" not in item["embedding"]
    other = b.token(a, plain)
    proof = b.proof("GET", url, other)
    stolen = httpx.get(url, headers={"Authorization": f"DPoP {other}", "DPoP": proof})
    assert stolen.status_code == 403


@requirement("oap:embeddings.own-model")
def test_no_vector_of_another_model_is_lent(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = hosts
    a.remember("Of another model.", tags=("models",), structured={"topic": "models"})
    scopes = ["memory.query", "memory.embeddings"]
    grant = a.grant(b.owner, filter={"labels_any": ["models"]}, scopes=scopes)
    (item,) = b.ask(a, grant, include_embeddings=True).items
    url = item["embedding"]["vector_url"]
    other = WordEmbedder()
    other.model = "another"
    monkeypatch.setattr(a.sharing.disclosing, "_parts", replace(a.parts, embedder=other))
    (item,) = b.ask(a, grant, include_embeddings=True).items
    assert "embedding" not in item
    with pytest.raises(InvalidError, match="404"):
        b.at.do(b.sharing.borrowing.vector(OWNER, a.url, grant, url))
    odd = httpx.get(
        f"{url}?format=npy",
        headers={"Authorization": f"DPoP {(token := b.token(a, grant))}", "DPoP": b.proof("GET", url, token)},
    )
    assert odd.status_code == 400, "only bare floats are offered"


@requirement("oap:probe.possession")
def test_every_item_is_tied_to_a_grant_a_receipt_and_a_chain(hosts: tuple[Host, Host]) -> None:
    """OAP's possession probe (RFC 0010 appendix A): grant, receipt, log, for each item that a grantee holds."""
    a, b = hosts
    item_id = a.remember("Provable, 1.", tags=("provable",), confidence=0.4)
    grant_id = a.grant(b.owner, filter={"labels_any": ["provable"]}, trust_level=3)
    token = b.token(a, grant_id)
    body = {"query": "", "max_results": 5}
    envelope = b.query(a, token, body).json()
    document = httpx.get(f"{a.url}/.well-known/did.json").json()

    def check(message: bytes, kid: str, value: str) -> bool:
        key = dids.key_of(document, a.did, kid)
        return key is not None and JOSE.verify(message, value, key.jwk)

    signature = envelope["signature"]
    assert check(canonical(receipts.without(envelope, "signature")), signature["kid"], signature["value"])
    (item,) = envelope["output"]["items"]
    assert item["item_id"] == item_id
    assert item["epistemic"] == "possession"
    assert item["provenance"]["confidence"] == 0.4
    # The grant: signed by the owner, for this grantee.
    url = f"{a.url}/oap/memory/grant/{grant_id}"
    shown = httpx.get(
        url, headers={"Authorization": f"DPoP {token}", "DPoP": b.proof("GET", url, token)}
    ).json()
    grant = shown["output"]["grant"]
    owner = httpx.get(f"{a.url}/owners/default/did.json").json()
    key = dids.key_of(owner, grant["granter"].partition("#")[0], grant["signature"]["kid"])
    assert key is not None
    assert JOSE.verify(canonical(receipts.without(grant, "signature")), grant["signature"]["value"], key.jwk)
    assert grant["grantee"] == b.owner
    # The receipt: signed by the host, names the grantee, covers exactly this answer.
    url = f"{a.url}/oap/audit"
    audit = httpx.get(
        url, headers={"Authorization": f"DPoP {token}", "DPoP": b.proof("GET", url, token)}
    ).json()
    mine = {one["receipt_id"]: one for one in audit["output"]["receipts"]}
    receipt = mine[envelope["receipt"]["receipt_id"]]
    assert receipts.receipt_is_signed(receipt, check, canonical)
    assert receipt["agent_did"] == b.owner
    assert {one["agent_did"] for one in mine.values()} == {b.owner}
    salts = envelope["receipt"]
    assert receipt["input_hash"] == receipts.hashed({"input": body, "salt": salts["input_salt"]}, canonical)
    covered = {"output": envelope["output"], "salt": salts["output_salt"]}
    assert receipt["output_hash"] == receipts.hashed(covered, canonical)
    # The log: back to the capture.
    url = f"{a.url}/oap/memory/item/{item_id}/log"
    answer = httpx.get(url, headers={"Authorization": f"DPoP {token}", "DPoP": b.proof("GET", url, token)})
    log = answer.json()["output"]["log"]
    assert receipts.log_faults(log, canonical) == []
    block = item["integrity"]
    assert (log[0]["op"], log[0]["state"]) == ("captured", block["capture_hash"])
    assert receipts.hashed(log[-1], canonical) == block["log_head"]
    assert len(log) == block["log_length"]
    found = receipts.integrity_signed(item)
    assert found is not None
    assert check(canonical(found[0]), block["signature"]["kid"], block["signature"]["value"])
    # And the whole chain, for the owner.
    assert a.at.do(a.sharing.grants.verify(OWNER)) == []


@requirement("oap:sd-jwt.partial")
def test_a_redacted_item_is_proven_field_by_field(hosts: tuple[Host, Host]) -> None:
    from quipu.crypto import sdjwt
    from quipu.errors import TamperedError

    a, b = hosts
    a.remember("Hidden words.", tags=("sd",), structured={"colour": "blue"})
    grant_id = a.grant(b.owner, filter={"labels_any": ["sd"]})
    (item,) = b.ask(a, grant_id, include_proofs=True).items
    jwk = httpx.get(f"{a.url}/.well-known/did.json").json()["verificationMethod"][0]["publicKeyJwk"]
    text = item["integrity"]["sd_jwt"]
    proven = sdjwt.disclosed(text, jwk)
    assert proven["content"] == {"structured": {"colour": "blue"}}
    assert proven["kind"] == "fact"
    assert proven["labels"] == ["sd"]
    token, *handed = text.split("~")
    for bad in (
        "~".join([token, handed[0][:-2] + ("AA" if handed[0][-2:] != "AA" else "BB"), *handed[1:]]),
        "~".join([token[:-4] + "AAAA", *handed]),
        "~".join([token, *handed[:-1]]),
    ):
        with pytest.raises(TamperedError):
            sdjwt.disclosed(bad, jwk)


@requirement("oap:journey.vendor-migration")
def test_a_memory_moves_to_another_host_and_is_lent_from_there(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    item_id = a.remember("Moves along.", tags=("moving",), structured={"n": 1})

    async def exported() -> bytes:
        made = await a.at.service.exporting.made(OWNER, FileExport(owner=a.owner, filter={"tags": "moving"}))
        try:
            return made.file.read()
        finally:
            made.close()

    data = a.at.do(exported())
    keys = dict(a.at.do(a.at.service.audit.keys(OWNER)))

    async def imported() -> Any:
        async def pieces() -> AsyncIterator[bytes]:
            yield data

        importing = b.at.service.importing
        report = await importing.tried(OWNER, pieces(), FileImport(agent_id="assistant", keys=keys))
        assert report.signature == "valid"
        return await importing.committed(OWNER, report.import_id)

    report = b.at.do(imported())
    assert (report.accepted, report.refused) == (1, 0), report
    back = b.grant(a.owner, filter={"labels_any": ["moving"]}, trust_level=4)
    (item,) = a.ask(b, back).items
    assert item["item_id"] == item_id
    assert item["content"] == {"text": "Moves along.", "structured": {"n": 1}}
    with b.at.client() as owner:
        log = owner.get(f"/oap/memory/item/{item_id}/log").json()["output"]["state"]
    assert [entry["op"] for entry in log] == ["imported"]
