"""JSON Web Signatures over joserfc: few algorithms, strict headers, keys that were looked up by whoever asks.

1. `EdDSA` is written; `EdDSA`, `Ed25519` and `ES256` are accepted. `none`, and keys that both sides share, are refused.
2. A header that names where a key is to be fetched, or that demands something unknown, is refused.
3. Nothing here decides who is believed: the key is handed in.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from quipu.errors import UnauthenticatedError
from quipu.model.value import strict_json

_EDWARDS = ("EdDSA", "Ed25519")
ALGORITHMS = (*_EDWARDS, "ES256")
_FETCHED = ("jku", "x5u", "x5c")
_PART = re.compile(r"[A-Za-z0-9_-]*")
_LONGEST = 64 << 10
#: Points of small order, without the sign: under such a key one signature fits every text, or many.
WEAK_POINTS = frozenset(
    bytes.fromhex(point)
    for point in (
        "00" * 32,
        "01" + "00" * 31,
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ec" + "ff" * 30 + "7f",
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
    )
)


@dataclass(frozen=True, slots=True)
class Signatory:
    """Somebody who signs: their key's full name, its public part, and the signing itself, bytes to base64url."""

    kid: str
    jwk: Mapping[str, str]
    sign: Callable[[bytes], str]

    @property
    def did(self) -> str:
        return self.kid.partition("#")[0]


@dataclass(frozen=True, slots=True)
class Opened:
    """A signed token before anything of it is believed."""

    header: Mapping[str, Any]
    claims: Mapping[str, Any]


# -- tokens -----------------------------------------------------------------------------------------------------------


def opened(token: str) -> Opened:
    """Header and claims of a token; or UnauthenticatedError for what is none."""
    parts = token.split(".") if len(token) <= _LONGEST else []
    if len(parts) != 3 or not all(parts):
        raise _refused()
    return Opened(_header(parts[0], may_be_detached=False), _object(parts[1]))


def is_signed(token: str, jwk: Mapping[str, Any]) -> bool:
    """Whether the key made this token, by one of the accepted algorithms."""
    message, _, signature = token.rpartition(".")
    if len(token) > _LONGEST or message.count(".") != 1:
        raise _refused()
    header = _header(message.partition(".")[0], may_be_detached=False)
    return _is_right(message.encode("ascii"), _decoded(signature), jwk, str(header["alg"]))


def token(header: Mapping[str, Any], claims: Mapping[str, Any], by: Signatory) -> str:
    """A token. The header says by whose key."""
    message = f"{b64(_compact({'alg': 'EdDSA', 'kid': by.kid, **header}))}.{b64(_compact(claims))}"
    return f"{message}.{by.sign(message.encode('ascii'))}"


# -- signatures over bytes that travel apart --------------------------------------------------------------------------


def verify(message: bytes, signature: str, jwk: Mapping[str, Any]) -> bool:
    """A bare signature, base64url or base64, padded or not."""
    try:
        raw = _decoded(signature.rstrip("=").replace("+", "-").replace("/", "_"))
    except UnauthenticatedError:
        return False
    return _is_right(message, raw, jwk, "EdDSA" if jwk.get("kty") == "OKP" else "ES256")


def detached(message: bytes, by: Signatory, header: Mapping[str, Any] | None = None) -> str:
    """A detached signature over bytes as they are (RFC 7797)."""
    full = {"alg": "EdDSA", **(header or {}), "kid": by.kid, "b64": False, "crit": ["b64"]}
    protected = b64(_compact(full))
    return f"{protected}..{by.sign(protected.encode('ascii') + b'.' + message)}"


def opened_detached(text: str) -> Mapping[str, Any]:
    """The header of a detached signature; or UnauthenticatedError."""
    protected, _, rest = text.partition("..")
    if not rest or len(text) > _LONGEST:
        raise _refused()
    return _header(protected, may_be_detached=True)


def verify_detached(message: bytes, text: str, jwk: Mapping[str, Any]) -> bool:
    """Whether a detached signature is over these bytes and by this key; of either form, RFC 7515 F or RFC 7797."""
    header = opened_detached(text)
    protected, _, signature = text.partition("..")
    payload = message if header.get("b64") is False else b64(message).encode("ascii")
    try:
        raw = _decoded(signature)
    except UnauthenticatedError:
        return False
    return _is_right(protected.encode("ascii") + b"." + payload, raw, jwk, str(header["alg"]))


# -- keys -------------------------------------------------------------------------------------------------------------


def thumbprint(jwk: Mapping[str, Any]) -> str:
    """RFC 7638."""
    key = _key(_members(jwk))
    if key is None:
        raise _refused()
    return key.thumbprint()


def b64(data: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def unb64(text: str) -> bytes:
    """The bytes of base64url; ValueError where it is none, or could be written in another way too."""
    if not _PART.fullmatch(text):
        raise ValueError("no base64url")
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if b64(data) != text:
        raise ValueError("base64url that could be written otherwise")
    return data


def _is_right(message: bytes, signature: bytes, jwk: Mapping[str, Any], algorithm: str) -> bool:
    """A key that does not fit the algorithm makes a signature wrong."""
    kind = (jwk.get("kty"), jwk.get("crv"))
    if not (algorithm in _EDWARDS and kind == ("OKP", "Ed25519")) and (
        algorithm != "ES256" or kind != ("EC", "P-256")
    ):
        return False
    key = _key(_members(jwk))
    if key is None:
        return False
    from joserfc import jws

    name = "Ed25519" if algorithm in _EDWARDS else algorithm  # for this curve, two names of one algorithm
    try:
        made_by = jws.JWSRegistry(algorithms=[name]).get_alg(name)
        return made_by.verify(message, signature, key)
    except ValueError:  # as a text of the wrong length is for some kinds of keys
        return False


def _members(jwk: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """What a public key consists of, and nothing that is said about it."""
    wanted = ("kty", "crv", "x", "y") if jwk.get("kty") == "EC" else ("kty", "crv", "x")
    return tuple((name, str(jwk.get(name))) for name in wanted)


@lru_cache(maxsize=1024)
def _key(members: tuple[tuple[str, str], ...]) -> Any:
    """The public key; None where it is none, or one that anybody can sign for."""
    from joserfc import jwk
    from joserfc.errors import JoseError

    found: dict[str, Any] = dict(members)
    try:
        raw = unb64(found["x"])
        if found["kty"] == "OKP" and raw[:31] + bytes([raw[31] & 0x7F]) in WEAK_POINTS:
            return None
        return jwk.import_key({**found})
    except (JoseError, ValueError, TypeError, KeyError, IndexError):
        return None


# -- parts ------------------------------------------------------------------------------------------------------------


def _header(text: str, *, may_be_detached: bool) -> Mapping[str, Any]:
    header = _object(text)
    crit = header.get("crit")
    is_odd = crit is not None and not (may_be_detached and crit == ["b64"])
    if header.get("alg") not in ALGORITHMS or is_odd or any(name in header for name in _FETCHED):
        raise _refused()
    if "b64" in header and crit != ["b64"]:
        raise _refused()
    return header


def _object(text: str) -> Mapping[str, Any]:
    try:
        value: object = strict_json(_decoded(text).decode())
    except ValueError as error:
        raise _refused() from error
    if not isinstance(value, dict):
        raise _refused()
    return cast("Mapping[str, Any]", value)


def _decoded(text: str) -> bytes:
    try:
        return unb64(text)
    except (binascii.Error, ValueError) as error:
        raise _refused() from error


def _compact(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _refused() -> UnauthenticatedError:
    return UnauthenticatedError("This is no signed token.", reason="bad_token")
