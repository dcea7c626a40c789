"""JSON Web Signatures: three algorithms and no others (OAP contract 4.5, D3, D23).

1. `EdDSA` is written; `EdDSA`, `Ed25519` and `ES256` are accepted. `none`, and any key shared with others, is refused.
2. A header that names where a key is to be fetched, or that demands something unknown, is refused.
3. Nothing here decides who is believed: a key is handed in by whoever looked it up.
4. What is kept here follows from a text alone (a header read, a key parsed, a thumbprint), so no change of anybody's keys
   makes it wrong. Whether a signature was right is not kept.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePublicNumbers
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from quipu.crypto.canonical import canonical
from quipu.crypto.keys import public_key
from quipu.errors import UnauthenticatedError
from quipu.ports.keys import Opened
from quipu.rules.receipts import Hand, b64

_EDWARDS = ("EdDSA", "Ed25519")
ALGORITHMS = (*_EDWARDS, "ES256")
_FETCHED = ("jku", "x5u", "x5c")
_THUMB: Mapping[str, tuple[str, ...]] = {"OKP": ("crv", "kty", "x"), "EC": ("crv", "kty", "x", "y")}
_PART = re.compile(r"[A-Za-z0-9_-]*")
_LONGEST = 64 << 10
#: So many headers, keys and thumbprints are kept, and headers only up to this length: strangers send them, too.
_KEPT, _SHORT = 1024, 1024


class JsonWebSignatures:
    """Reads, makes and checks them."""

    def opened(self, token: str) -> Opened:
        """Header and claims, before anything of them is believed."""
        parts = token.split(".") if len(token) <= _LONGEST else []
        if len(parts) != 3 or not all(parts):
            raise _refused()
        return Opened(_header(parts[0], may_be_detached=False), _object(parts[1]))

    def is_signed(self, token: str, jwk: Mapping[str, Any]) -> bool:
        message, _, signature = token.rpartition(".")
        if len(token) > _LONGEST or message.count(".") != 1:
            raise _refused()
        header = _header(message.partition(".")[0], may_be_detached=False)
        return _verify(message.encode("ascii"), _bytes(signature), jwk, str(header.get("alg")))

    def token(self, header: Mapping[str, Any], claims: Mapping[str, Any], hand: Hand) -> str:
        message = f"{b64(_compact(header))}.{b64(_compact(claims))}"
        return f"{message}.{hand.sign(message.encode('ascii'))}"

    def verify(self, message: bytes, signature: str, jwk: Mapping[str, Any]) -> bool:
        try:
            raw = _bytes(signature.rstrip("=").replace("+", "-").replace("/", "_"))
        except UnauthenticatedError:
            return False
        return _verify(message, raw, jwk, "EdDSA" if jwk.get("kty") == "OKP" else "ES256")

    def detached(self, message: bytes, header: Mapping[str, Any], hand: Hand) -> str:
        protected = b64(_compact({"alg": "EdDSA", **header, "kid": hand.kid, "b64": False, "crit": ["b64"]}))
        return f"{protected}..{hand.sign(protected.encode('ascii') + b'.' + message)}"

    def opened_detached(self, text: str) -> Mapping[str, Any]:
        protected, _, rest = text.partition("..")
        if not rest or len(text) > _LONGEST:
            raise _refused()
        return _header(protected, may_be_detached=True)

    def verify_detached(self, message: bytes, text: str, jwk: Mapping[str, Any]) -> bool:
        header = self.opened_detached(text)
        protected, _, signature = text.partition("..")
        payload = message if header.get("b64") is False else b64(message).encode("ascii")
        covered = protected.encode("ascii") + b"." + payload
        try:
            return _verify(covered, _bytes(signature), jwk, str(header.get("alg")))
        except UnauthenticatedError:
            return False

    def thumbprint(self, jwk: Mapping[str, Any]) -> str:
        names = _THUMB.get(str(jwk.get("kty")))
        if names is None or not all(isinstance(jwk.get(name), str) for name in names):
            raise _refused()
        return _thumbprint(names, tuple(jwk[name] for name in names))


@lru_cache(maxsize=_KEPT)
def _thumbprint(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    return b64(hashlib.sha256(canonical(dict(zip(names, values, strict=True)))).digest())


@lru_cache(maxsize=_KEPT)
def _edwards(x: str) -> Ed25519PublicKey:
    return public_key(_bytes(x))


def _verify(message: bytes, signature: bytes, jwk: Mapping[str, Any], algorithm: str) -> bool:
    """Right, or not; a key that does not fit the algorithm makes it wrong."""
    kind = (jwk.get("kty"), jwk.get("crv"))
    try:
        if algorithm in _EDWARDS and kind == ("OKP", "Ed25519"):
            _edwards(str(jwk.get("x"))).verify(signature, message)
            return True
        if algorithm == "ES256" and kind == ("EC", "P-256") and len(signature) == 64:
            x, y = (int.from_bytes(_bytes(str(jwk.get(name))), "big") for name in ("x", "y"))
            r, s = (int.from_bytes(half, "big") for half in (signature[:32], signature[32:]))
            key = EllipticCurvePublicNumbers(x, y, SECP256R1()).public_key()
            key.verify(encode_dss_signature(r, s), message, ECDSA(SHA256()))
            return True
    except (InvalidSignature, ValueError, UnauthenticatedError):
        return False
    return False


def _header(text: str, *, may_be_detached: bool) -> Mapping[str, Any]:
    header = _short(text) if len(text) <= _SHORT else _object(text)
    crit = header.get("crit")
    is_odd = crit is not None and not (may_be_detached and crit == ["b64"])
    if header.get("alg") not in ALGORITHMS or is_odd or any(name in header for name in _FETCHED):
        raise _refused()
    if "b64" in header and crit != ["b64"]:
        raise _refused()
    return header


def _object(text: str) -> Mapping[str, Any]:
    try:
        value: object = json.loads(_bytes(text), object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _refused() from error
    if not isinstance(value, dict):
        raise _refused()
    return cast("Mapping[str, Any]", value)


#: Whoever asks again writes the same header again: the algorithm, and their key.
_short = lru_cache(maxsize=_KEPT)(_object)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A name stands once: two readers could otherwise read two things."""
    if len(found := dict(pairs)) != len(pairs):
        raise ValueError
    return found


def _no_constant(_name: str) -> Any:
    raise ValueError


def _bytes(text: str) -> bytes:
    """base64url, unpadded and written in the one right way."""
    if not _PART.fullmatch(text):
        raise _refused()
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise _refused() from error
    if b64(data) != text:
        raise _refused()
    return data


def _compact(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def _refused() -> UnauthenticatedError:
    return UnauthenticatedError(reason="bad_token")
