"""Every value of the worked vectors, computed again byte for byte."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import jwt as pyjwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc import jws as joserfc_jws
from joserfc.jwk import OKPKey

from quipu.crypto.canonical import canonical
from quipu.crypto.jose import JsonWebSignatures
from quipu.errors import QuipuError
from quipu.model.disclosure import ChainEnd, LogKind, LogLine
from quipu.rules import dids, grants, projection, projection_profiles, receipts
from quipu.rules.grants_times import instant
from quipu.rules.receipts import Hand, b64
from tests.requirement import requirement

VECTORS: dict[str, Any] = json.loads((Path(__file__).parent / "vectors.json").read_text("utf-8"))
#: IETF RFC 8032 section 7.1, TEST 1 and TEST 2.
OWNER = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
TOOL = "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"
JOSE = JsonWebSignatures()


def hand(seed: str, did: str) -> Hand:
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed))
    return Hand(f"{did}#key-1", lambda message: b64(key.sign(message)))


OWNER_HAND, TOOL_HAND = hand(OWNER, "did:web:user.example"), hand(TOOL, "did:web:memory.example")


def jwk(did: str) -> dict[str, Any]:
    return VECTORS["did_documents"][did]["verificationMethod"][0]["publicKeyJwk"]


@requirement("oap:canonical.jcs")
def test_canonical_bytes_are_those_of_rfc_8785() -> None:
    for case in VECTORS["c14n"]:
        assert canonical(case["in"]).decode("utf-8") == case["jcs"]
    for refused in (2**53, float("nan"), float("inf")):
        with pytest.raises(Exception):  # noqa: B017, PT011  whatever the library calls it
            canonical({"x": refused})


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
    assert receipts.state_hash(item["capture"], item["salt"], canonical) == item["capture_hash"]
    assert receipts.state_hash(item["current"], item["salt2"], canonical) == item["state_hash"]
    # What is added on the way out is no part of the state (F2).
    dressed = {
        **item["current"],
        "integrity": {},
        "provenance_tags": [],
        "epistemic": "possession",
        "embedding": {**item["current"]["embedding"], "vector_url": "https://x", "digest": "y"},
    }
    assert receipts.state_hash(dressed, item["salt2"], canonical) == item["state_hash"]
    previous: LogLine | None = None
    for entry, digest in zip(item["log"], item["log_hashes"], strict=True):
        previous = receipts.log_line(
            previous,
            record_id="r",
            item_id=entry["item_id"],
            log=LogKind.STATE,
            version=1,
            op=entry["op"],
            at=instant(entry["at"]) or 0,
            actor=entry["actor"],
            state=entry["state"],
            receipt_id=entry["receipt_id"],
            canonical=canonical,
        )
        assert previous.entry == entry
        assert previous.hash == digest
    assert receipts.log_faults(item["log"], canonical) == []
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
        hand=TOOL_HAND,
        canonical=canonical,
    )
    assert made == wanted


@requirement("oap:grant.signature")
def test_a_grant_is_hashed_and_signed_as_worked_out() -> None:
    vector = VECTORS["grant"]
    assert grants.grant_hash(vector["signed"], canonical) == vector["grant_hash"]
    made = receipts.signature(vector["unsigned"], OWNER_HAND, canonical)
    assert made == vector["signed"]["signature"]
    key = jwk("did:web:user.example")
    assert JOSE.verify(canonical(vector["unsigned"]), made["value"], key)
    padded = base64.b64encode(base64.urlsafe_b64decode(made["value"] + "==")).decode()
    assert JOSE.verify(canonical(vector["unsigned"]), padded, key)
    assert not JOSE.verify(canonical({**vector["unsigned"], "max_items": 501}), made["value"], key)


@requirement("oap:token.matrix-libraries")
def test_the_grant_token_is_the_same_for_three_libraries() -> None:
    vector = VECTORS["grant"]
    token = JOSE.token(vector["jwt_header"], vector["jwt_claims"], OWNER_HAND)
    assert token == vector["jwt"]
    key = jwk("did:web:user.example")
    assert JOSE.is_signed(token, key)
    opened = JOSE.opened(token)
    assert (opened.header, opened.claims) == (vector["jwt_header"], vector["jwt_claims"])
    theirs = pyjwt.PyJWK({**key, "alg": "EdDSA"})
    read = pyjwt.decode(
        token, theirs, algorithms=["EdDSA"], audience="did:web:memory.example", options={"verify_exp": False}
    )
    assert read == vector["jwt_claims"]
    # And what the others write is read here.
    raw = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(OWNER))
    by_pyjwt = pyjwt.encode(vector["jwt_claims"], raw, algorithm="EdDSA", headers=vector["jwt_header"])
    assert JOSE.is_signed(by_pyjwt, key)
    private = OKPKey.import_key({**{n: key[n] for n in ("kty", "crv", "x")}, "d": b64(bytes.fromhex(OWNER))})
    header = {**vector["jwt_header"], "alg": "Ed25519"}
    by_joserfc = joserfc_jws.serialize_compact(
        header, json.dumps(vector["jwt_claims"]), private, algorithms=["Ed25519"]
    )
    assert JOSE.is_signed(by_joserfc, key)
    assert not JOSE.is_signed(by_joserfc, jwk("did:web:memory.example"))


def test_a_thumbprint_is_that_of_rfc_7638() -> None:
    assert JOSE.thumbprint(jwk("did:web:memory.example")) == VECTORS["grant"]["jwt_claims"]["cnf"]["jkt"]


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
        "action_id",
        "action_version",
        "input_hash",
        "output_hash",
        "policy_decisions",
        "provenance_tags_out",
    )
    made = receipts.receipt(
        ChainEnd(),
        id="01J9V8B7HM3K8E2A0M9R8F0XZP",
        type="invocation",
        at=instant(wanted["timestamp"]) or 0,
        principal=wanted["principal_did"],
        agent=wanted["agent_did"],
        hand=TOOL_HAND,
        canonical=canonical,
        **{name: wanted[name] for name in names},
    )
    assert made.body == wanted
    assert made.hash == vector["query_receipt_chain_hash"]
    assert wanted["input_hash"] == receipts.hashed(vector["query_request"], canonical)
    assert wanted["output_hash"] == receipts.hashed(vector["query_output"], canonical)
    deleted = vector["deletion_receipt"]
    assert deleted == receipts.deletion_receipt(
        id="01J9V8B7HM3K8E2A0M9R8F0XZR",
        principal=deleted["principal_did"],
        scope_id="personal",
        requested_at=instant(deleted["request_received_at"]) or 0,
        completed_at=instant(deleted["completed_at"]) or 0,
        item_ids=["mem_01HX2QF8GZRP9V3K5YXJW0AQ7M"],
        reason="gdpr-art-17",
        grants=["mgr_01HX2QFP4N8R5T6V7W8X9Y0Z1A"],
        told=["did:web:contractor.example"],
        hand=TOOL_HAND,
        canonical=canonical,
    )


@requirement("oap:projection.contact-table")
def test_the_contact_table_shows_the_worked_levels() -> None:
    vector = VECTORS["projection_contact_v1"]
    profile = "oap.profile.projection.contact.v1"
    visible = []
    for level in range(5):
        shown = projection_profiles.entity(vector["entity"], profile, level)
        assert shown == vector["levels"][str(level)]
        visible.append(len(list(projection.leaves(shown))))
    assert visible == [5, 7, 12, 19, 29]


def test_the_worked_grant_says_what_it_says() -> None:
    grant = grants.parsed(VECTORS["grant"]["signed"], canonical)
    assert (grant.granter, grant.scope_id) == ("did:web:user.example", "personal")
    assert grant.hash == VECTORS["grant"]["grant_hash"]
    with pytest.raises(QuipuError, match="member"):
        grants.parsed({**VECTORS["grant"]["signed"], "surprise": 1}, canonical)
