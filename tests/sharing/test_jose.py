"""Signatures: made here and read by another library, and the other way round; what is refused."""

import base64
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc import jwk as keys
from joserfc import jws

from quipu import jose
from quipu.errors import UnauthenticatedError
from quipu.jose import Signatory, b64, unb64
from quipu.sharing.identity import Keyring


@pytest.fixture
def by() -> Signatory:
    return Keyring(None, "https://memory.example").signatory(None)


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")  # the name that OAP's own schemas have
def test_a_token_is_read_by_another_library_and_its_tokens_here(by: Signatory) -> None:
    made = jose.token({"typ": "x+jwt"}, {"sub": "somebody"}, by)
    read = jws.deserialize_compact(made, keys.import_key(dict(by.jwk)), algorithms=["EdDSA"])
    assert read.headers() == {"alg": "EdDSA", "kid": "did:web:memory.example#key-1", "typ": "x+jwt"}
    assert json.loads(read.payload) == {"sub": "somebody"}
    assert jose.is_signed(made, by.jwk)
    assert jose.opened(made).claims == {"sub": "somebody"}


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
@pytest.mark.parametrize("algorithm", ["EdDSA", "Ed25519", "ES256"])
def test_each_algorithm_that_is_accepted(algorithm: str) -> None:
    private = (
        keys.ECKey.import_key(generate_private_key(SECP256R1()))
        if algorithm == "ES256"
        else keys.OKPKey.import_key(Ed25519PrivateKey.generate())
    )
    text = jws.serialize_compact({"alg": algorithm}, b'{"a":1}', private, algorithms=[algorithm])
    public = private.as_dict(private=False)
    assert jose.is_signed(text, public)
    head, _, signature = text.split(".")
    changed = f"{head}.{b64(b'{}')}.{signature}"
    assert not jose.is_signed(changed, public)
    assert not jose.is_signed(text, {**public, "x": b64(bytes(reversed(unb64(public["x"]))))})
    assert jose.thumbprint(public) == private.thumbprint()


def _token(header: object, payload: object = {}) -> str:
    return f"{b64(json.dumps(header).encode())}.{b64(json.dumps(payload).encode())}.{b64(b'x' * 64)}"


REFUSED = {
    "none": _token({"alg": "none"}),
    "a shared secret": _token({"alg": "HS256"}),
    "a key to be fetched": _token({"alg": "EdDSA", "jku": "https://e.example"}),
    "a demand that nobody knows": _token({"alg": "EdDSA", "crit": ["exp"], "exp": 1}),
    "no object": _token([]),
    "a name twice": b64(b'{"alg":"EdDSA","alg":"none"}') + ".e30.AA",
    "padded": _token({"alg": "EdDSA"}).replace(".", "=.", 1),
    "another way to write the same": "eyJhbGciOiJFZERTQSJ9.e31.AA",
    "two parts": "e30.e30",
    "nothing": "",
    "too long": "a" * 70_000,
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_token_of_ours_is_refused(text: str) -> None:
    with pytest.raises(UnauthenticatedError):
        jose.opened(text)


def test_a_detached_signature_of_either_form_is_read_and_covers_its_bytes(by: Signatory) -> None:
    made = jose.detached(b"the text", by)
    assert jose.verify_detached(b"the text", made, by.jwk)
    assert not jose.verify_detached(b"another text", made, by.jwk)
    protected = b64(json.dumps({"alg": "EdDSA", "kid": by.kid}).encode())
    signature = by.sign(f"{protected}.{b64(b'the text')}".encode())
    appendix_f = f"{protected}..{signature}"
    assert jose.verify_detached(b"the text", appendix_f, by.jwk)


def test_a_bare_signature_is_read_padded_or_not(by: Signatory) -> None:
    made = by.sign(b"the text")
    padded = base64.b64encode(unb64(made)).decode()
    assert jose.verify(b"the text", made, by.jwk)
    assert jose.verify(b"the text", padded, by.jwk)
    assert not jose.verify(b"the text", "!", by.jwk)


def test_a_key_that_anybody_can_sign_for_signs_nothing() -> None:
    point = bytes([1]) + bytes(31)
    weak = {"kty": "OKP", "crv": "Ed25519", "x": b64(point)}
    assert not jose.verify(b"any", b64(point + bytes(32)), weak)
