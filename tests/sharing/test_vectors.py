"""Every value of the contract's worked vectors, computed again byte for byte."""

import base64
import hashlib
import json
import struct
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from quipu import jose
from quipu.jose import Signatory, b64
from quipu.ledger.canonical import canonical
from quipu.sharing import dids, receipts
from quipu.sharing.model import ItemLogEntry
from quipu.sharing.times import instant
from tests.requirement import requirement
from tests.sharing.grantee import log_faults

VECTORS: dict[str, Any] = json.loads((Path(__file__).parent / "oap-vectors.json").read_text("utf-8"))
#: RFC 8032 section 7.1, TEST 1 and TEST 2.
OWNER = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
HOST = "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"


def signatory(seed: str, did: str) -> Signatory:
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed))
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": b64(key.public_key().public_bytes_raw())}
    return Signatory(f"{did}#key-1", jwk, lambda message: b64(key.sign(message)))


OWNER_KEY = signatory(OWNER, "did:web:user.example")
HOST_KEY = signatory(HOST, "did:web:memory.example")


def jwk(did: str) -> dict[str, Any]:
    return VECTORS["did_documents"][did]["verificationMethod"][0]["publicKeyJwk"]


@requirement("oap:canonical.bytes")
def test_canonical_bytes_are_those_of_rfc_8785() -> None:
    for case in VECTORS["c14n"]:
        assert canonical(case["in"]).decode("utf-8") == case["jcs"]


@requirement("oap:did.document")
def test_did_documents_have_the_shape_that_others_read() -> None:
    for did, wanted in VECTORS["did_documents"].items():
        host = did.removeprefix("did:web:")
        key = wanted["verificationMethod"][0]["publicKeyJwk"]
        made = dids.document(
            did,
            [dids.PublicKey(f"{did}#key-1", {name: key[name] for name in ("kty", "crv", "x")})],
            services={
                "OAPInvocationEndpoint": ("oap-invoke", f"https://{host}/oap/invoke"),
                "OAPRevocationStatus": ("oap-revocation", f"https://{host}/.well-known/oap-revocation"),
                "OAPMemory": ("oap-memory", f"https://{host}/.well-known/oap-memory.json"),
            },
        )
        assert canonical(made) == canonical(wanted)
        assert dids.key_of(wanted, did, f"{did}#key-1") is not None


@requirement("oap:integrity.hashes-and-log")
def test_capture_state_log_and_integrity_block_are_the_worked_ones() -> None:
    item = VECTORS["item"]
    assert receipts.state_hash(item["capture"], item["salt"]) == item["capture_hash"]
    assert receipts.state_hash(item["current"], item["salt2"]) == item["state_hash"]
    dressed = {
        **item["current"],
        "integrity": {},
        "provenance_tags": [],
        "epistemic": "possession",
        "embedding": {**item["current"]["embedding"], "vector_url": "https://x", "digest": "y"},
    }
    assert receipts.state_hash(dressed, item["salt2"]) == item["state_hash"], "what is added is no state"
    previous: ItemLogEntry | None = None
    for entry, digest in zip(item["log"], item["log_hashes"], strict=True):
        previous = receipts.log_entry(
            previous,
            record_id="r",
            item_id=entry["item_id"],
            version=1,
            op=entry["op"],
            at=instant(entry["at"]) or 0,
            actor=entry["actor"],
            state=entry["state"],
            receipt_id=entry["receipt_id"],
        )
        assert previous.entry == entry
        assert previous.hash == digest
    assert log_faults(item["log"]) == []
    assert log_faults([item["log"][0], item["log"][2]]) == [2], "an entry is missing"
    wanted = item["integrity_block_as_returned_after_seq_2"]
    made = receipts.integrity(
        item_id=item["current"]["item_id"],
        capture_hash=item["capture_hash"],
        state=item["state_hash"],
        salt=item["salt2"],
        log_length=2,
        log_head=item["log_hashes"][1],
        redacted=(),
        is_altered=False,
        by=HOST_KEY,
    )
    assert made == wanted
    covered = receipts.integrity_signed({**item["current"], "integrity": made})
    assert covered is not None
    message, signature = covered
    assert jose.verify(canonical(message), signature["value"], jwk("did:web:memory.example"))


@requirement("oap:grant.signature")
def test_a_grant_is_hashed_and_signed_as_worked_out() -> None:
    vector = VECTORS["grant"]
    assert receipts.hashed(receipts.without(vector["signed"], "signature")) == vector["grant_hash"]
    made = receipts.signature(vector["unsigned"], OWNER_KEY)
    assert made == vector["signed"]["signature"]
    key = jwk("did:web:user.example")
    assert jose.verify(canonical(vector["unsigned"]), made["value"], key)
    padded = base64.b64encode(base64.urlsafe_b64decode(made["value"] + "==")).decode()
    assert jose.verify(canonical(vector["unsigned"]), padded, key)
    assert not jose.verify(canonical({**vector["unsigned"], "max_items": 501}), made["value"], key)


@requirement("oap:token.bytes")
def test_the_grant_token_is_the_worked_one() -> None:
    vector = VECTORS["grant"]
    header = {name: value for name, value in vector["jwt_header"].items() if name not in ("alg", "kid")}
    token = jose.token(header, vector["jwt_claims"], OWNER_KEY)
    opened = jose.opened(token)
    assert (opened.header, opened.claims) == (vector["jwt_header"], vector["jwt_claims"])
    assert jose.is_signed(vector["jwt"], jwk("did:web:user.example"))
    assert jose.thumbprint(jwk("did:web:memory.example")) == vector["jwt_claims"]["cnf"]["jkt"]


@requirement("oap:vector.bytes")
def test_a_vector_travels_as_bare_floats_with_its_digest() -> None:
    vector = VECTORS["vector_bin"]
    data = struct.pack(f"<{len(vector['floats'])}f", *vector["floats"])
    assert data.hex() == vector["hex_le_f32"]
    digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
    assert f"sha-256=:{digest}:" == vector["content_digest"]


@requirement("oap:receipt.chain")
def test_a_receipt_and_a_deletion_receipt_are_the_worked_ones() -> None:
    vector = VECTORS["receipts"]
    wanted = vector["query_receipt"]
    names = (
        *("action_id", "action_version", "input_hash", "output_hash", "policy_decisions"),
        "provenance_tags_out",
    )
    made = receipts.receipt(
        None,
        id="01J9V8B7HM3K8E2A0M9R8F0XZP",
        type="invocation",
        at=instant(wanted["timestamp"]) or 0,
        principal=wanted["principal_did"],
        agent=wanted["agent_did"],
        by=HOST_KEY,
        **{name: wanted[name] for name in names},
    )
    assert made.body == wanted
    assert made.hash == vector["query_receipt_chain_hash"]
    deleted = vector["deletion_receipt"]
    assert deleted == receipts.deletion_receipt(
        id="01J9V8B7HM3K8E2A0M9R8F0XZR",
        principal=deleted["principal_did"],
        scope_id="personal",
        requested_at=instant(deleted["request_received_at"]) or 0,
        completed_at=instant(deleted["completed_at"]) or 0,
        digest=receipts.hashed(["mem_01HX2QF8GZRP9V3K5YXJW0AQ7M"]),
        count=1,
        reason="gdpr-art-17",
        grants=["mgr_01HX2QFP4N8R5T6V7W8X9Y0Z1A"],
        told=["did:web:contractor.example"],
        by=HOST_KEY,
    )


@requirement("oap:receipt.chain")
def test_a_receipt_that_was_altered_or_taken_out_breaks_the_chain() -> None:
    def check(message: bytes, kid: str, value: str) -> bool:
        return jose.verify(message, value, HOST_KEY.jwk) and kid == HOST_KEY.kid

    chain = []
    for number in range(3):
        chain.append(
            receipts.receipt(
                chain[-1] if chain else None,
                id=f"01J9V8B7HM3K8E2A0M9R8F0XZ{number}",
                type="consent",
                at=number,
                principal="did:web:user.example",
                agent="did:web:contractor.example",
                by=HOST_KEY,
            )
        )
    bodies = [one.body for one in chain]
    assert receipts.receipt_faults(bodies, check) == []
    assert receipts.receipt_faults([bodies[0], bodies[2]], check) == [(2, "broken_chain")]
    altered = {**bodies[1], "agent_did": "did:web:somebody.example"}
    faults = receipts.receipt_faults([bodies[0], altered, bodies[2]], check)
    assert faults == [(2, "bad_signature"), (3, "broken_chain")]
    assert receipts.receipt_faults([{**bodies[0], "signatures": []}], check) == [(1, "bad_signature")]
