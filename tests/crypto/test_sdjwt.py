"""A statement about an item, from anybody: it holds, or it is told that it does not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from quipu.crypto import sdjwt
from quipu.crypto.jose import JsonWebSignatures
from quipu.errors import TamperedError
from quipu.rules.receipts import Hand, b64

KEY = Ed25519PrivateKey.generate()
JWK = {"kty": "OKP", "crv": "Ed25519", "x": b64(KEY.public_key().public_bytes_raw())}
HAND = Hand("did:web:memory.example#key-1", lambda message: b64(KEY.sign(message)))
ITEM: dict[str, Any] = {"item_id": "mem_1", "kind": "fact", "content": {"text": "tea"}, "provenance": {}}


def signed(**claims: Any) -> str:
    header = {"alg": "EdDSA", "typ": sdjwt.TYPE, "kid": HAND.kid}
    return JsonWebSignatures().token(header, claims, HAND)


def test_a_statement_proves_what_was_handed_over() -> None:
    text = sdjwt.issued(ITEM, {"kind": "fact"}, b"salt", HAND, 1)
    assert sdjwt.disclosed(text, JWK) == {"item_id": "mem_1", "kind": "fact"}


@pytest.mark.parametrize(
    "text",
    [
        signed(_sd=[]) + "~\u00e9~",
        signed(_sd=[]) + "~" + b64(b"[" * 100_000) + "~",
        signed(_sd=[[1], {}], content=7) + "~" + b64(json.dumps(["s", "kind", "fact"]).encode()) + "~",
        signed(_sd=[], content={"_sd": "x"}, provenance=[]) + "~" + b64(b"7") + "~",
        "~",
        "",
    ],
    ids=["no ASCII", "without end", "odd digests", "no disclosure", "nothing signed", "nothing"],
)
def test_a_statement_that_is_none_does_not_hold(text: str) -> None:
    with pytest.raises(TamperedError):
        sdjwt.disclosed(text, JWK)
