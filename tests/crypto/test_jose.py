"""What is kept of keys and headers follows from them alone: another key, another text or another fate is another answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from quipu.crypto.dids import FileKeyring
from quipu.crypto.jose import JsonWebSignatures
from quipu.errors import UnauthenticatedError
from quipu.rules import dids
from quipu.rules.receipts import Hand, b64

JOSE = JsonWebSignatures()
HOST = "https://memory.example"


def somebody(kid: str = "did:web:a.example#key-1") -> tuple[Hand, dict[str, Any]]:
    key = Ed25519PrivateKey.generate()
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": b64(key.public_key().public_bytes_raw())}
    return Hand(kid, lambda message: b64(key.sign(message))), jwk


def header(**more: Any) -> dict[str, Any]:
    return {"alg": "EdDSA", "typ": "dpop+jwt", **more}


def test_the_same_header_again_makes_no_other_token_right() -> None:
    hand, jwk = somebody()
    _, foreign = somebody()
    one, other = (JOSE.token(header(jwk=jwk), {"jti": name}, hand) for name in ("one", "other"))
    assert [JOSE.opened(token).claims["jti"] for token in (one, other)] == ["one", "other"]
    assert JOSE.is_signed(one, jwk)
    assert JOSE.is_signed(other, jwk)
    assert not JOSE.is_signed(one, foreign)
    mixed = one.rpartition(".")[0] + "." + other.rpartition(".")[2]
    assert not JOSE.is_signed(mixed, jwk)
    assert JOSE.thumbprint(jwk) != JOSE.thumbprint(foreign)
    assert JOSE.thumbprint({**jwk, "use": "sig"}) == JOSE.thumbprint(jwk)


@pytest.mark.parametrize("size", [1, 5_000])
def test_a_header_of_any_length_is_read_and_a_bad_one_refused_each_time(size: int) -> None:
    hand, jwk = somebody()
    good = JOSE.token(header(note="n" * size), {}, hand)
    bad = JOSE.token({**header(note="n" * size), "alg": "none"}, {}, hand)
    for _ in range(2):
        assert JOSE.is_signed(good, jwk)
        for use in (JOSE.opened, lambda token: JOSE.is_signed(token, jwk)):
            with pytest.raises(UnauthenticatedError):
                use(bad)


@pytest.mark.parametrize("text", ["", "a.b", "a.b.c.d", "..", "é.é.é", "a" * 100_000 + ".b.c"])
def test_what_is_no_token_has_no_signature(text: str) -> None:
    with pytest.raises(UnauthenticatedError):
        JOSE.is_signed(text, somebody()[1])


@pytest.mark.parametrize("is_kept", [True, False], ids=["in a folder", "in memory"])
@pytest.mark.parametrize("is_compromised", [False, True])
def test_a_document_shows_a_new_key_and_the_fate_of_the_old_one_at_once(
    tmp_path: Path, is_kept: bool, is_compromised: bool
) -> None:
    keyring = FileKeyring(tmp_path if is_kept else None, HOST)
    others = FileKeyring(tmp_path, HOST) if is_kept else keyring
    did = keyring.did("ana")
    before = others.document("ana")
    assert others.document("ana") == before
    (old,) = before["authentication"]
    new = keyring.rotate("ana", 1_700_000_000_000, is_compromised=is_compromised)
    for one in (keyring, others):
        after = one.document("ana")
        key = dids.key_of(after, did, old)
        assert key is not None
        assert (key.revoked is not None, key.expires is not None) == (is_compromised, not is_compromised)
        assert new in after["authentication"]
        assert one.hand("ana").kid == new
        assert one.document("ben") != after
    assert json.loads(json.dumps(before))["authentication"] == [old], "what was handed out does not change"


@pytest.mark.parametrize("is_compromised", [False, True])
def test_a_rotation_that_was_cut_off_is_finished_by_whoever_signs_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_compromised: bool
) -> None:
    """Nobody signs with a key that its own document says is retired."""
    keyring = FileKeyring(tmp_path, HOST)
    old = keyring.hand("ana").kid
    with monkeypatch.context() as cut:

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        cut.setattr(FileKeyring, "_made", killed)
        with pytest.raises(KeyboardInterrupt):
            keyring.rotate("ana", 1_700_000_000_000, is_compromised=is_compromised)
    for one in (FileKeyring(tmp_path, HOST), keyring):
        kid = one.hand("ana").kid
        assert kid != old
        assert kid in one.document("ana")["authentication"]
        retired = dids.key_of(one.document("ana"), one.did("ana"), old)
        assert retired is not None
        assert (retired.revoked is not None) is is_compromised
    assert keyring.rotate("ana", 1_700_000_000_001, is_compromised=False).endswith("#key-3")
